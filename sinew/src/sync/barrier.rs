//! `Barrier`, with std's signatures.
//!
//! Whoever comes last ends a *generation*: it counts the next one from zero and lets
//! all go on that wait. One whose time is up takes itself off the count of its
//! generation. If that has ended meanwhile it was counted, so it goes on with the
//! others: either all parties of a generation have passed, or none.

use crate::base::Deadline;
use crate::base::atomic::const_fn;
use crate::base::spin::{SpinGuard, SpinLock};
use crate::wait::budget;
use crate::wait::{self, End, Limit, Outcome, Queue, wait_in, wait_in_async};
use std::fmt;
use std::time::{Duration, Instant};

/// A barrier: `std::sync::Barrier` for fibres, and kernel threads too.
///
/// ```
/// use sinew::sync::Barrier;
/// let barrier = Barrier::new(10);
/// let leaders = sinew::run(|| {
///     sinew::scope(|scope| {
///         let parties: Vec<_> = (0..10).map(|_| scope.spawn(|| barrier.wait().is_leader())).collect();
///         parties.into_iter().map(|party| party.join().unwrap()).filter(|&leads| leads).count()
///     })
/// });
/// assert_eq!(leaders, 1);
/// ```
pub struct Barrier {
    parties: usize,
    state: SpinLock<State>,
}

struct State {
    /// How many of this generation have come, and have not given up.
    arrived: usize,
    generation: u64,
    queue: Queue<()>,
}

/// Whether the caller was the one that ended the wait of all.
pub struct BarrierWaitResult(bool);

/// The time was up before all parties had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierTimeout;

impl Barrier {
    const_fn! {
        /// A barrier for `parties` at a time. 0 is the same as 1: nobody waits.
        pub fn new(parties: usize) -> Barrier {
            let state = State { arrived: 0, generation: 0, queue: Queue::new() };
            Barrier { parties, state: SpinLock::new(state) }
        }
    }

    /// Waits until all parties have come. The last one is the leader. Then the
    /// barrier can be used again.
    pub fn wait(&self) -> BarrierWaitResult {
        self.wait_within(Limit::NONE).expect("without a limit nobody gives up")
    }

    /// As [`wait`](Barrier::wait), but for no longer than `timeout`. Whoever gives up
    /// is not counted any more.
    ///
    /// # Errors
    /// If the time was up first.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<BarrierWaitResult, BarrierTimeout> {
        self.wait_within(Limit::until(Deadline::after(timeout)))
    }

    /// As [`wait_timeout`](Barrier::wait_timeout), but until `deadline`.
    ///
    /// # Errors
    /// As `wait_timeout`.
    pub fn wait_deadline(&self, deadline: Instant) -> Result<BarrierWaitResult, BarrierTimeout> {
        self.wait_within(Limit::until(Deadline::at(deadline)))
    }

    fn wait_within(&self, limit: Limit) -> Result<BarrierWaitResult, BarrierTimeout> {
        let Some(state) = self.arrive(wait::refuse_tasks) else {
            budget::spend(budget::LOCK);
            return Ok(BarrierWaitResult(true));
        };
        let generation = state.generation;
        let (outcome, ()) = wait_in(&self.state, state, |state| &mut state.queue, End::Back, (), limit, || ());
        if outcome == Outcome::Told || !self.give_up(generation) {
            return Ok(BarrierWaitResult(false));
        }
        Err(BarrierTimeout)
    }

    /// Counts the caller. If it is not the last, gives the lock, under which it may enter the
    /// queue. `may_wait` is called before, and panics if the caller must not.
    fn arrive(&self, may_wait: impl FnOnce()) -> Option<SpinGuard<'_, State>> {
        let mut state = self.state.lock();
        if state.arrived + 1 < self.parties {
            may_wait();
            state.arrived += 1;
            return Some(state);
        }
        state.arrived = 0;
        state.generation += 1;
        let all = state.queue.pop_all();
        drop(state);
        drop(all);
        None
    }

    /// As [`wait`](Barrier::wait), for tasks. Dropped before all parties have come, it is not
    /// counted any more.
    pub async fn wait_async(&self) -> BarrierWaitResult {
        budget::spend_async().await;
        let Some(state) = self.arrive(|| ()) else { return BarrierWaitResult(true) };
        let generation = state.generation;
        let abandoned = |is_told: bool, ()| {
            if !is_told {
                self.give_up(generation);
            }
        };
        wait_in_async(&self.state, state, |state| &mut state.queue, End::Back, (), || (), abandoned).await;
        BarrierWaitResult(false)
    }

    /// Whether the caller could still take itself off the count.
    #[cold]
    fn give_up(&self, generation: u64) -> bool {
        let mut state = self.state.lock();
        let in_time = state.generation == generation;
        if in_time {
            state.arrived -= 1;
        }
        in_time
    }
}

impl BarrierWaitResult {
    /// Whether the caller is the leader, of which there is one for each time that all
    /// parties have come.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").finish_non_exhaustive()
    }
}

impl fmt::Debug for BarrierWaitResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BarrierWaitResult").field("is_leader", &self.is_leader()).finish()
    }
}

impl fmt::Display for BarrierTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not all parties came to the barrier in time")
    }
}

impl std::error::Error for BarrierTimeout {}
