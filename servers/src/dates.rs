//! Dates in text.

use httpdate::HttpDate;
use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

/// The length of an HTTP date in bytes.
pub const LENGTH: usize = 29;

/// The last second of the year 9999.
const LAST: i64 = 253_402_300_799;

/// The names of the months, as HTTP dates have them.
const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";

/// Returns a number of seconds since 1970 as `Sun, 06 Nov 1994 08:49:37 GMT`. A time before 1970
/// becomes the first second of 1970, a time after 9999 the last second of 9999.
pub fn http_date(seconds: i64) -> [u8; LENGTH] {
    let since_1970 = Duration::from_secs(seconds.clamp(0, LAST).cast_unsigned());
    let mut text = [0; LENGTH];
    write!(&mut text[..], "{}", HttpDate::from(UNIX_EPOCH + since_1970)).expect("29 bytes hold a date");
    text
}

/// Returns a time as `1994-11-06 08:49`.
pub fn minute(seconds: i64) -> String {
    let date = http_date(seconds);
    let date = String::from_utf8_lossy(&date);
    let month = MONTHS.find(&date[8..11]).map_or(0, |at| at / 3 + 1);
    format!("{}-{month:02}-{} {}", &date[12..16], &date[5..7], &date[17..22])
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
        assert_eq!(minute(784_111_777), "1994-11-06 08:49");
    }
}
