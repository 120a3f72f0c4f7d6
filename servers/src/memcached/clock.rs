//! Time in seconds, as memcached counts it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::store::{Fresh, Moment};

/// The first second of the clock. It is above 1, so that 1 is always in the past.
const START: u32 = 2;

/// An item with this expiry has expired.
const PAST: u32 = 1;

/// The longest duration in seconds. A client's number above it is a date.
const LONGEST_DURATION: i64 = 60 * 60 * 24 * 30;

/// The time since the server started, and what was flushed when.
pub struct Clock {
    began: Instant,
    /// The date at which this clock would have shown 0.
    zero: i64,
    /// Items with a unique number up to this one are flushed.
    flushed: AtomicU64,
    /// When this second begins, all items that exist then or are stored in it are flushed; 0 is no
    /// such second.
    flush_at: AtomicU32,
    /// The second of the last flush, for `stats settings`.
    flush_shown: AtomicU32,
    /// Whether a flush removes exactly the items that were stored before it. Without unique numbers
    /// memcached also removes items that are stored in the same second.
    is_exact: bool,
}

impl Clock {
    /// Returns a clock that starts now.
    pub fn start(is_exact: bool) -> Clock {
        let date = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |date| date.as_secs());
        Clock {
            began: Instant::now(),
            zero: date.cast_signed() - i64::from(START),
            flushed: AtomicU64::new(0),
            flush_at: AtomicU32::new(0),
            flush_shown: AtomicU32::new(0),
            is_exact,
        }
    }

    /// Returns the current second of this clock.
    #[inline]
    pub fn now(&self) -> u32 {
        self.at(Instant::now())
    }

    #[inline]
    fn at(&self, instant: Instant) -> u32 {
        START + instant.saturating_duration_since(self.began).as_secs() as u32
    }

    /// Returns the current date.
    pub fn date(&self) -> i64 {
        self.zero + i64::from(self.now())
    }

    /// Returns the number of seconds that the server has been running.
    pub fn uptime(&self) -> u32 {
        self.now() - START
    }

    /// Returns the date at which this clock shows `second`.
    pub fn date_of(&self, second: u32) -> i64 {
        self.zero + i64::from(second)
    }

    /// Returns the second of the last flush.
    pub fn oldest(&self) -> u32 {
        self.flush_shown.load(Relaxed)
    }

    /// Returns the moment of an instant: its second, and what has been flushed until then.
    #[inline]
    pub fn moment(&self, instant: Instant, fresh: &Fresh) -> Moment {
        let now = self.at(instant);
        let flush_at = self.flush_at.load(Relaxed);
        if flush_at != 0 && flush_at <= now {
            return self.flush_slow(flush_at, now, fresh);
        }
        Moment { now, flushed: self.flushed.load(Relaxed) }
    }

    #[cold]
    fn flush_slow(&self, flush_at: u32, now: u32, fresh: &Fresh) -> Moment {
        if flush_at == now {
            return Moment { now, flushed: u64::MAX };
        }
        if self.flush_at.compare_exchange(flush_at, 0, Relaxed, Relaxed).is_ok() {
            self.flushed.fetch_max(fresh.next(), Relaxed);
        }
        Moment { now, flushed: self.flushed.load(Relaxed) }
    }

    /// Flushes everything, now or later. A date before the server started flushes nothing, and a
    /// flush that was to come later stays.
    pub fn flush(&self, delay: i64, now: u32, fresh: &Fresh) {
        let second = if delay > 0 { self.expiry(delay, now) } else { now };
        let last = if self.is_exact { second - 1 } else { second };
        self.flush_shown.store(last, Relaxed);
        let is_done = last < now;
        self.flush_at.store(if is_done { 0 } else { last }, Relaxed);
        if is_done && second > PAST {
            self.flushed.fetch_max(fresh.next(), Relaxed);
        }
    }

    /// Returns when an item expires that a client gives this expiry. 0 is never, a small number is
    /// a duration, a large number is a date, a negative number is the past.
    #[inline]
    pub fn expiry(&self, said: i64, now: u32) -> u32 {
        match said {
            0 => 0,
            ..0 => PAST,
            1..=LONGEST_DURATION => now + said as u32,
            date if date <= self.zero => PAST,
            date => u32::try_from(date - self.zero).unwrap_or(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_expiry_is_a_duration_a_date_or_the_past() {
        let clock = Clock::start(true);
        let now = clock.now();
        assert_eq!(clock.expiry(0, now), 0);
        assert_eq!(clock.expiry(-1, now), 1);
        assert_eq!(clock.expiry(LONGEST_DURATION, now), now + 2_592_000);
        assert_eq!(clock.expiry(LONGEST_DURATION + 1, now), 1);
        assert_eq!(clock.expiry(clock.date() + 10, now), now + 10);
        assert_eq!(clock.expiry(i64::MAX, now), u32::MAX);
    }

    #[test]
    fn a_later_flush_removes_items_stored_until_its_second_is_over() {
        let (clock, fresh) = (Clock::start(true), Fresh::default());
        let at = |second: u64| clock.began + Duration::from_secs(second);
        clock.flush(3, START, &fresh);
        let stored = fresh.next();
        assert_eq!(clock.moment(at(1), &fresh).flushed, 0);
        assert_eq!(clock.moment(at(2), &fresh).flushed, u64::MAX);
        let moment = clock.moment(at(3), &fresh);
        assert!(moment.flushed > stored && fresh.next() > moment.flushed);
        assert_eq!(clock.moment(at(3), &fresh).flushed, moment.flushed);
    }

    #[test]
    fn a_flush_at_a_date_before_the_start_removes_nothing() {
        let (clock, fresh) = (Clock::start(true), Fresh::default());
        let at = |second: u64| clock.began + Duration::from_secs(second);
        clock.flush(2, START, &fresh);
        clock.flush(LONGEST_DURATION + 1, START, &fresh);
        assert_eq!(clock.moment(at(9), &fresh).flushed, 0);
        clock.flush(-1, START + 9, &fresh);
        assert_eq!(clock.moment(at(9), &fresh).flushed, 1);
    }

    #[test]
    fn without_unique_numbers_a_flush_removes_items_of_its_whole_second() {
        let (clock, fresh) = (Clock::start(false), Fresh::default());
        clock.flush(0, START, &fresh);
        assert_eq!(clock.moment(clock.began, &fresh).flushed, u64::MAX);
        assert_eq!(clock.moment(clock.began + Duration::from_secs(1), &fresh).flushed, 1);
    }
}
