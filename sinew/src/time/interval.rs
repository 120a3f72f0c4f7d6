//! Ticks at equal distances.

use super::timeout;
use crate::base::Deadline;
use crate::cancel::Cancelled;
use std::time::{Duration, Instant};

/// A clock that ticks at equal distances, the first time at once.
///
/// Who comes late gets one tick for all that it missed; those that follow are where
/// they would have been.
///
/// ```
/// use sinew::time::Interval;
/// use std::time::{Duration, Instant};
/// sinew::run(|| {
///     let began = Instant::now();
///     let mut clock = Interval::new(Duration::from_millis(2));
///     for _ in 0..4 {
///         clock.tick();
///     }
///     assert!(began.elapsed() >= Duration::from_millis(6));
/// });
/// ```
#[derive(Debug)]
pub struct Interval {
    period: Duration,
    next: Instant,
}

impl Interval {
    /// Ticks now, and then every `period`.
    ///
    /// # Panics
    /// If `period` is zero.
    pub fn new(period: Duration) -> Interval {
        Interval::starting_at(Instant::now(), period)
    }

    /// Ticks at `first`, and then every `period`.
    ///
    /// # Panics
    /// If `period` is zero.
    pub fn starting_at(first: Instant, period: Duration) -> Interval {
        assert!(!period.is_zero(), "an interval needs a period that is longer than nothing");
        Interval { period, next: first }
    }

    /// Waits for the next tick; returns when that was due.
    pub fn tick(&mut self) -> Instant {
        super::sleep_until(self.next);
        self.advance()
    }

    /// As [`tick`](Interval::tick), for tasks. Dropped before its end, it leaves the tick to
    /// come.
    pub async fn tick_async(&mut self) -> Instant {
        super::sleep_until_async(self.next).await;
        self.advance()
    }

    /// As [`tick`](Interval::tick), but ends early when the fibre is cancelled or a
    /// limit that it carries is reached; the tick is still to come then.
    ///
    /// # Errors
    /// If it did.
    pub fn try_tick(&mut self) -> Result<Instant, Cancelled> {
        timeout::sleep_within(Deadline::at(self.next))?;
        Ok(self.advance())
    }

    /// The distance between ticks.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Begins anew: the next tick comes one period from now.
    pub fn reset(&mut self) {
        self.next = after(Instant::now(), self.period);
    }

    fn advance(&mut self) -> Instant {
        let due = self.next;
        let late = Instant::now().saturating_duration_since(due);
        let missed = late.as_nanos() / self.period.as_nanos();
        let periods = u32::try_from(missed + 1).unwrap_or(u32::MAX);
        self.next = after(due, self.period.saturating_mul(periods));
        due
    }
}

/// A time so far off that the clock cannot tell it is as good as never.
fn after(instant: Instant, duration: Duration) -> Instant {
    const AGES: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);
    instant.checked_add(duration).unwrap_or(instant + AGES)
}
