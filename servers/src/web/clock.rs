//! The time of day, as sessions need it.

use rustix::time::{ClockId, clock_gettime};
use sinew_http_protocol::date;
use std::time::{Duration, Instant};

/// Seconds since 1970.
#[inline]
pub fn now() -> i64 {
    clock_gettime(ClockId::RealtimeCoarse).tv_sec
}

/// The date of answers, and the time that they took place, to the second. Each session has
/// its own: it looks closely once a second if it answers, and nothing is shared.
pub struct Calendar {
    second: i64,
    text: [u8; date::LENGTH],
    begin: Instant,
}

impl Calendar {
    /// One that has not looked at the clock.
    pub fn new() -> Calendar {
        Calendar { second: -1, text: [0; date::LENGTH], begin: Instant::now() }
    }

    /// Now.
    #[inline]
    pub fn date(&mut self) -> &[u8; date::LENGTH] {
        let second = now();
        if second != self.second {
            self.turn(second);
        }
        &self.text
    }

    /// The end of this second, or later by less than one.
    #[inline]
    pub fn end_of_second(&mut self) -> Instant {
        self.date();
        self.begin + Duration::from_secs(1)
    }

    #[cold]
    fn turn(&mut self, second: i64) {
        (self.second, self.text, self.begin) = (second, date::format(second), Instant::now());
    }
}
