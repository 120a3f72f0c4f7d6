//! How an actor that has failed is restarted.

use super::traits::Actor;
use std::any::Any;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// When an actor that has failed is restarted, and when it ends.
///
/// A restart keeps the address and the messages that wait. The message that failed is dropped, and its asker gets an
/// error.
#[derive(Clone, Copy, Debug)]
pub struct Restart {
    /// The largest number of restarts, and the time that they count for.
    limit: Option<(u32, Duration)>,
    least: Duration,
    most: Duration,
}

impl Restart {
    /// Restarts at most `restarts` times within `period`. At the next failure the actor ends.
    pub const fn limit(restarts: u32, period: Duration) -> Restart {
        Restart { limit: Some((restarts, period)), least: Duration::ZERO, most: Duration::ZERO }
    }

    /// Restarts after each failure.
    pub const fn always() -> Restart {
        Restart { limit: None, least: Duration::ZERO, most: Duration::ZERO }
    }

    /// Waits for `least` before the first restart, and for twice the last time before each further one, but for no
    /// longer than `most`. When no restart counts any more, it begins with `least` again.
    pub const fn back_off(self, least: Duration, most: Duration) -> Restart {
        Restart { least, most, ..self }
    }
}

/// The time for which a restart counts if there is no limit: for the back-off alone.
const FORGIVEN: Duration = Duration::from_secs(60);

/// The restarts of one actor.
pub(super) struct Supervision {
    restart: Restart,
    /// When it was restarted.
    past: VecDeque<Instant>,
    /// A `Factory` of the actor's type. It is taken out while it is used.
    pub(super) factory: Option<Box<dyn Any + Send>>,
    /// The number of restarts.
    pub(super) count: u64,
}

/// Makes the value of an actor anew.
pub(super) struct Factory<A>(pub(super) Box<dyn FnMut() -> A + Send>);

impl Supervision {
    pub(super) fn new<A: Actor>(restart: Restart, factory: Factory<A>) -> Supervision {
        Supervision { restart, past: VecDeque::new(), factory: Some(Box::new(factory)), count: 0 }
    }

    /// Returns whether the actor may have to wait before a restart.
    pub(super) fn waits(&self) -> bool {
        !self.restart.least.is_zero()
    }

    /// Returns how long to wait before a restart; `None` if there have been too many.
    pub(super) fn next(&mut self, now: Instant) -> Option<Duration> {
        let (most, period) = self.restart.limit.unwrap_or((u32::MAX, FORGIVEN));
        while self.past.front().is_some_and(|past| now.saturating_duration_since(*past) >= period) {
            self.past.pop_front();
        }
        if self.past.len() >= most as usize {
            return None;
        }
        let doublings = u32::try_from(self.past.len()).unwrap_or(u32::MAX).min(31);
        // Without a limit only the number counts, and 32 of them have the longest wait.
        if self.restart.limit.is_some() || self.past.len() < 32 {
            self.past.push_back(now);
        }
        self.count += 1;
        Some(self.restart.least.saturating_mul(1 << doublings).min(self.restart.most.max(self.restart.least)))
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    struct Nobody;
    impl Actor for Nobody {}

    #[test]
    fn the_limit_counts_restarts_of_the_period_and_waits_double() {
        let restart =
            Restart::limit(3, Duration::from_secs(10)).back_off(Duration::from_millis(10), Duration::from_millis(25));
        let mut supervision = Supervision::new(restart, Factory(Box::new(|| Nobody)));
        let now = Instant::now();
        let waits: Vec<_> = (0..4).map(|_| supervision.next(now)).collect();
        assert_eq!(waits, [Some(10), Some(20), Some(25), None].map(|ms| ms.map(Duration::from_millis)));
        assert_eq!(supervision.next(now + Duration::from_secs(10)), Some(Duration::from_millis(10)));
    }
}
