//! Seconds, as memcached counts them.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::store::{Fresh, Moment};

/// The clock begins with this, so that 1 is always in the past.
const START: u32 = 2;

/// What is further away than this is no duration, but a date.
const LONGEST_DURATION: i64 = 60 * 60 * 24 * 30;

/// Time since the server began, and what was flushed when.
pub struct Clock {
    began: Instant,
    /// The date at which this clock would have shown 0.
    zero: i64,
    /// Items with no higher unique number are gone.
    flushed: AtomicU64,
    /// When all items are to be flushed; 0 is never.
    flush_at: AtomicU32,
}

impl Clock {
    /// Begins now.
    pub fn start() -> Clock {
        let date = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |date| date.as_secs());
        Clock {
            began: Instant::now(),
            zero: date.cast_signed() - i64::from(START),
            flushed: AtomicU64::new(0),
            flush_at: AtomicU32::new(0),
        }
    }

    /// What it shows.
    #[inline]
    pub fn now(&self) -> u32 {
        self.at(Instant::now())
    }

    #[inline]
    fn at(&self, instant: Instant) -> u32 {
        START + instant.saturating_duration_since(self.began).as_secs() as u32
    }

    /// The date.
    pub fn date(&self) -> i64 {
        self.zero + i64::from(self.now())
    }

    /// How long the server has been running.
    pub fn uptime(&self) -> u32 {
        self.now() - START
    }

    /// An instant that is now, and what has been flushed until then.
    #[inline]
    pub fn moment(&self, instant: Instant, fresh: &Fresh) -> Moment {
        let now = self.at(instant);
        let flush_at = self.flush_at.load(Relaxed);
        if flush_at != 0 && flush_at <= now {
            self.flush_slow(flush_at, fresh);
        }
        Moment { now, flushed: self.flushed.load(Relaxed) }
    }

    #[cold]
    fn flush_slow(&self, flush_at: u32, fresh: &Fresh) {
        if self.flush_at.compare_exchange(flush_at, 0, Relaxed, Relaxed).is_ok() {
            self.flushed.fetch_max(fresh.next(), Relaxed);
        }
    }

    /// Flushes everything, now or later.
    pub fn flush(&self, delay: i64, now: u32, fresh: &Fresh) {
        if delay > 0 {
            self.flush_at.store(self.expiry(delay, now), Relaxed);
        } else {
            self.flush_at.store(0, Relaxed);
            self.flushed.fetch_max(fresh.next(), Relaxed);
        }
    }

    /// When something expires of which a client says so: 0 is never, a small number is a
    /// duration, a large one a date, a negative one the past.
    #[inline]
    pub fn expiry(&self, said: i64, now: u32) -> u32 {
        match said {
            0 => 0,
            ..0 => 1,
            1..=LONGEST_DURATION => now + said as u32,
            date if date <= self.zero => 1,
            date => u32::try_from(date - self.zero).unwrap_or(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_dates_and_the_past() {
        let clock = Clock::start();
        let now = clock.now();
        assert_eq!(clock.expiry(0, now), 0);
        assert_eq!(clock.expiry(-1, now), 1);
        assert_eq!(clock.expiry(LONGEST_DURATION, now), now + 2_592_000);
        assert_eq!(clock.expiry(LONGEST_DURATION + 1, now), 1);
        assert_eq!(clock.expiry(clock.date() + 10, now), now + 10);
        assert_eq!(clock.expiry(i64::MAX, now), u32::MAX);
    }

    #[test]
    fn flushing_later_counts_what_is_stored_until_then() {
        let (clock, fresh) = (Clock::start(), Fresh::default());
        clock.flush(1, clock.now() - 1, &fresh);
        let stored = fresh.next();
        let moment = clock.moment(Instant::now(), &fresh);
        assert!(moment.flushed > stored);
        assert!(fresh.next() > moment.flushed);
        assert_eq!(clock.moment(Instant::now(), &fresh).flushed, moment.flushed);
    }
}
