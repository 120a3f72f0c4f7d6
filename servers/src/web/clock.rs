//! The time of day, as sessions need it.

use rustix::time::{ClockId, clock_gettime};
use sinew_http_protocol::date;

/// Seconds since 1970.
#[inline]
pub fn now() -> i64 {
    clock_gettime(ClockId::RealtimeCoarse).tv_sec
}

/// The date of answers. Each session has its own: it is formatted once a second by those
/// that answer, and nothing is shared.
pub struct Calendar {
    second: i64,
    text: [u8; date::LENGTH],
}

impl Calendar {
    /// One that has not looked at the clock.
    pub fn new() -> Calendar {
        Calendar { second: -1, text: [0; date::LENGTH] }
    }

    /// Now.
    #[inline]
    pub fn date(&mut self) -> &[u8; date::LENGTH] {
        let second = now();
        if second != self.second {
            self.second = second;
            self.text = date::format(second);
        }
        &self.text
    }
}
