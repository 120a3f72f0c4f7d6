//! Dates as HTTP has them.

/// Bytes of a date.
pub const LENGTH: usize = 29;

const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// Days from the first of March of a year to the first of a month, March being 0, is
/// `(153 * month + 2) / 5`; an era has 400 years.
const DAYS_OF_ERA: i64 = 146_097;

/// Days from the first of March of the year 0 to the first of January 1970.
const EPOCH: i64 = 719_468;

/// The last second of the year 9999.
const LAST: i64 = 253_402_300_799;

/// Year, month from 1, day from 1, of so many days since 1970.
pub fn civil(days: i64) -> (i64, usize, u32) {
    let days = days + EPOCH;
    let era = days.div_euclid(DAYS_OF_ERA);
    let day_of_era = days.rem_euclid(DAYS_OF_ERA);
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month as usize, day as u32)
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * DAYS_OF_ERA + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - EPOCH
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, of so many seconds since 1970. What is beyond the years
/// that can be written is the nearest that can.
pub fn format(seconds: i64) -> [u8; LENGTH] {
    let seconds = seconds.clamp(0, LAST);
    let (days, second) = (seconds / 86_400, (seconds % 86_400) as u32);
    let (year, month, day) = civil(days);
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    let mut put = |at: usize, value: u32| {
        text[at] = b'0' + (value / 10) as u8;
        text[at + 1] = b'0' + (value % 10) as u8;
    };
    put(5, day);
    put(12, (year / 100) as u32);
    put(14, (year % 100) as u32);
    put(17, second / 3600);
    put(20, second / 60 % 60);
    put(23, second % 60);
    text[..3].copy_from_slice(DAYS[(days % 7) as usize]);
    text[8..11].copy_from_slice(MONTHS[month - 1]);
    text
}

/// Seconds since 1970 of a date in one of the three forms that HTTP knows: the one above,
/// `Sunday, 06-Nov-94 08:49:37 GMT` and `Sun Nov  6 08:49:37 1994`.
pub fn parse(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let words: Vec<&str> = text.split([' ', '-']).filter(|word| !word.is_empty()).collect();
    let (day, month, year, time) = match *words.as_slice() {
        [_, day, month, year, time, "GMT"] => (day, month, year, time),
        [_, month, day, time, year] => (day, month, year, time),
        _ => return None,
    };
    let number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit()).then(|| word.parse::<i64>().ok())?;
    let month = MONTHS.iter().position(|name| name[..] == *month.as_bytes())? as i64 + 1;
    let (day, year) = (number(day)?, year_of(number(year)?, year.len())?);
    let mut time = time.split(':').map(number);
    let (Some(Some(hour)), Some(Some(minute)), Some(Some(second)), None) =
        (time.next(), time.next(), time.next(), time.next())
    else {
        return None;
    };
    let is_date = (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    is_date.then(|| days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Two digits are of the hundred years that end in 2069, as POSIX has it: the clock is not
/// asked.
fn year_of(number: i64, digits: usize) -> Option<i64> {
    match (digits, number) {
        (4, year) => Some(year),
        (2, 70..) => Some(1900 + number),
        (2, _) => Some(2000 + number),
        _ => None,
    }
}
