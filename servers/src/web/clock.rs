//! The time of day, as sessions need it.

use httpdate::HttpDate;
use rustix::time::{ClockId, clock_gettime};
use std::io::Write;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The length of an HTTP date in bytes.
const LENGTH: usize = 29;

/// The last second of the year 9999.
const LAST: i64 = 253_402_300_799;

/// Returns the seconds since 1970.
#[inline]
pub fn now() -> i64 {
    clock_gettime(ClockId::RealtimeCoarse).tv_sec
}

/// Returns a number of seconds since 1970 as `Sun, 06 Nov 1994 08:49:37 GMT`. A time before 1970
/// becomes the first second of 1970, a time after 9999 the last second of 9999.
pub fn http_date(seconds: i64) -> [u8; LENGTH] {
    let since_1970 = Duration::from_secs(seconds.clamp(0, LAST).cast_unsigned());
    let mut text = [0; LENGTH];
    write!(&mut text[..], "{}", HttpDate::from(UNIX_EPOCH + since_1970)).expect("29 bytes hold a date");
    text
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_have_the_form_of_http_and_stay_within_its_years() {
        assert_eq!(&http_date(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&http_date(951_782_400), b"Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(&http_date(-1), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(&http_date(i64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
