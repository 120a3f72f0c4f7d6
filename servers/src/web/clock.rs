//! The time of day, as sessions need it.

use crate::dates::{LENGTH, http_date};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Returns the seconds since 1970.
#[inline]
pub fn now() -> i64 {
    clock_gettime(ClockId::RealtimeCoarse).tv_sec
}

/// The `Date` of answers, and the current second as an `Instant`. Each session has its own
/// calendar, so nothing is shared. A session that answers reads the precise clock once a second.
pub struct Calendar {
    second: i64,
    text: [u8; LENGTH],
    begin: Instant,
}

impl Calendar {
    /// Returns a calendar that has not read the clock.
    pub fn new() -> Calendar {
        Calendar { second: -1, text: [0; LENGTH], begin: Instant::now() }
    }

    /// Returns the current date.
    #[inline]
    pub fn date(&mut self) -> &[u8; LENGTH] {
        let second = now();
        if second != self.second {
            self.turn(second);
        }
        &self.text
    }

    /// Returns the end of this second, or a moment less than a second after it.
    #[inline]
    pub fn end_of_second(&mut self) -> Instant {
        self.date();
        self.begin + Duration::from_secs(1)
    }

    #[cold]
    fn turn(&mut self, second: i64) {
        (self.second, self.text, self.begin) = (second, http_date(second), Instant::now());
    }
}
