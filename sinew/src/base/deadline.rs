//! A point in time.

use super::clock;
use std::time::{Duration, Instant};

/// A point in time on the monotonic clock, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Deadline {
    ns: u64,
}

impl Deadline {
    pub(crate) const NEVER: Deadline = Deadline { ns: u64::MAX };

    /// Returns the deadline at the end of `duration` from now. One beyond the range of the clock never
    /// comes.
    pub(crate) fn after(duration: Duration) -> Deadline {
        let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Deadline { ns: clock::now_ns().saturating_add(duration_ns) }
    }

    pub(crate) fn at(instant: Instant) -> Deadline {
        Deadline { ns: clock::instant_ns(instant) }
    }

    /// Returns the deadline at `ns` on the time base of [`clock::now_ns`]. `u64::MAX` is never.
    pub(crate) const fn at_ns(ns: u64) -> Deadline {
        Deadline { ns }
    }

    pub(crate) const fn ns(self) -> u64 {
        self.ns
    }

    pub(crate) fn is_never(self) -> bool {
        self == Deadline::NEVER
    }

    pub(crate) fn is_past(self) -> bool {
        !self.is_never() && self.ns <= clock::now_ns()
    }

    /// Returns the time until the deadline.
    pub(crate) fn remaining(self) -> Duration {
        Duration::from_nanos(self.ns.saturating_sub(clock::now_ns()))
    }
}
