//! When a dispatch is a stall.
//!
//! A processor whose kernel thread does not get a CPU dispatches nothing either, and nobody is to blame. So
//! the age of a dispatch proves nothing. The kernel's account of the thread counts, between two looks at the
//! same dispatch:
//!
//! | the thread, at the second look | it has kept its processor for |
//! | --- | --- |
//! | runs, or waits for a CPU | the CPU time that it has used |
//! | waits in the kernel, and has used no CPU time | the whole time: to begin another wait it would have had to run |
//! | waits in the kernel | the whole time, without what it has waited for a CPU. That is known when a wait for a CPU ends, and the last one has ended |
//!
//! All are lower bounds. Time before the first look does not count.

use std::time::{Duration, Instant};

/// Identifies a dispatch of a processor: the last reading of its clock, and the number of dispatches until
/// the next one. The processor changes one of them after each dispatch. A strand that spawns others is at work for
/// them, so each look at it is the first one: a loop that spawns a hundred thousand fibres is no stall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dispatch {
    pub(crate) pulse: u64,
    pub(crate) left: u32,
    /// The number of strands that were spawned on the processor.
    pub(crate) spawned: u64,
}

/// The kernel's account of a processor's thread.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    pub(super) at: Instant,
    pub(super) cpu: Duration,
    /// The time that it has waited for a CPU.
    pub(super) queued: Option<Duration>,
    /// Whether it waits in the kernel.
    pub(super) waits: bool,
}

impl Reading {
    /// Makes a reading of this CPU time, now. The rest is not known.
    pub(super) fn new(cpu: Duration) -> Reading {
        Reading { at: Instant::now(), cpu, queued: None, waits: false }
    }
}

/// A dispatch that takes long.
#[derive(Clone, Copy)]
pub(super) struct Watch {
    pub(super) dispatch: Dispatch,
    first: Reading,
    pub(super) is_reported: bool,
}

impl Watch {
    pub(super) fn begin(dispatch: Dispatch, first: Reading) -> Watch {
        Watch { dispatch, first, is_reported: false }
    }

    /// Returns the time since the first reading.
    pub(super) fn time(&self, now: &Reading) -> Duration {
        now.at.saturating_duration_since(self.first.at)
    }

    /// Begins anew with a reading that knows more than the first one, if its thread waits in the kernel.
    pub(super) fn learn(&mut self, now: &Reading) {
        if now.waits && self.first.queued.is_none() {
            self.first = *now;
        }
    }

    /// Returns for how long the dispatch has kept its processor at least.
    pub(super) fn held(&self, now: &Reading) -> Duration {
        let used = now.cpu.saturating_sub(self.first.cpu);
        let whole = self.time(now);
        match (self.first.queued, now.queued) {
            _ if !now.waits => used,
            _ if used.is_zero() => whole,
            (Some(before), Some(after)) => whole.saturating_sub(after.saturating_sub(before)),
            _ => used,
        }
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns how long a dispatch is held if its thread did this in 20 ms.
    fn held(cpu: u32, queued: Option<u32>, waits: bool) -> Duration {
        let first = Reading { at: Instant::now(), cpu: 100 * MS, queued: queued.map(|_| 50 * MS), waits: false };
        let queued = queued.map(|queued| (50 + queued) * MS);
        let now = Reading { at: first.at + 20 * MS, cpu: (100 + cpu) * MS, queued, waits };
        Watch::begin(Dispatch::default(), first).held(&now)
    }

    #[test]
    fn a_thread_without_a_cpu_does_not_stall() {
        assert_eq!(held(0, Some(0), false), Duration::ZERO);
        assert_eq!(held(3, Some(2), false), 3 * MS);
        assert_eq!(held(1, Some(19), true), MS);
    }

    #[test]
    fn a_thread_that_computes_or_waits_in_the_kernel_does() {
        assert_eq!(held(20, Some(0), false), 20 * MS);
        assert_eq!(held(0, None, true), 20 * MS);
        assert_eq!(held(8, Some(2), true), 18 * MS);
        // Time of which nothing is known does not count.
        assert_eq!(held(8, None, true), 8 * MS);
    }
}
