//! Ticks at equal distances.

use super::timeout;
use crate::base::Deadline;
use crate::cancel::Cancelled;
use std::fmt;
use std::time::{Duration, Instant};

/// A clock that ticks at equal distances, for the first time at once.
///
/// A caller that is late gets one tick for all ticks that it missed. The ticks after that keep
/// their times: they do not drift.
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
pub struct Interval {
    period: Duration,
    next: Instant,
}

impl Interval {
    /// Returns a clock that ticks now, and then every `period`.
    ///
    /// # Panics
    /// If `period` is zero.
    pub fn new(period: Duration) -> Interval {
        Interval::starting_at(super::now(), period)
    }

    /// Returns a clock that ticks at `first`, and then every `period`.
    ///
    /// # Panics
    /// If `period` is zero.
    pub fn starting_at(first: Instant, period: Duration) -> Interval {
        assert!(!period.is_zero(), "the period of an interval must not be zero");
        Interval { period, next: first }
    }

    /// Waits for the next tick. Returns the time at which it was due.
    pub fn tick(&mut self) -> Instant {
        super::sleep_until(self.next);
        self.advance()
    }

    /// The form of [`tick`](Interval::tick) for tasks. If the future is dropped before it is ready,
    /// the tick is still to come.
    pub async fn tick_async(&mut self) -> Instant {
        super::sleep_until_async(self.next).await;
        self.advance()
    }

    /// Waits as [`tick`](Interval::tick) does, but notices [cancellation](crate::cancel).
    ///
    /// # Errors
    /// [`Cancelled`] if the fibre was cancelled, or a limit that it carries was reached, before the
    /// tick was due. The tick is still to come then.
    pub fn try_tick(&mut self) -> Result<Instant, Cancelled> {
        timeout::sleep_within(Deadline::at(self.next))?;
        Ok(self.advance())
    }

    /// Returns the time between two ticks.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Starts again: the next tick comes one period from now.
    pub fn reset(&mut self) {
        self.next = after(super::now(), self.period);
    }

    fn advance(&mut self) -> Instant {
        let due = self.next;
        let late = super::now().saturating_duration_since(due);
        let missed = late.as_nanos() / self.period.as_nanos();
        let periods = u32::try_from(missed + 1).unwrap_or(u32::MAX);
        self.next = after(due, self.period.saturating_mul(periods));
        due
    }
}

/// Returns `instant + duration`, or a time 30 years off if the clock has no such time.
fn after(instant: Instant, duration: Duration) -> Instant {
    const AGES: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);
    instant.checked_add(duration).unwrap_or(instant + AGES)
}

impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until_next = self.next.saturating_duration_since(super::now());
        f.debug_struct("Interval").field("period", &self.period).field("until_next", &until_next).finish()
    }
}
