//! `Barrier`, with std's signatures.
//!
//! The last party to arrive ends a *generation*: it counts the next one from zero and lets
//! all waiters go on. A party whose time is up takes itself off the count of its generation.
//! If the generation has ended meanwhile, the party was counted, so it goes on with the
//! others. Either all parties of a generation pass, or none.

use crate::base::Deadline;
use crate::base::atomic::const_fn;
use crate::base::spin::{SpinGuard, SpinLock};
use crate::wait::budget;
use crate::wait::budget::spend_async;
use crate::wait::{self, End, Limit, Outcome, Queue, wait_in, wait_in_async};
use crate::wait::{Reason, Why};
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
    /// The number of parties of this generation that have arrived and have not given up.
    arrived: usize,
    generation: u64,
    queue: Queue<()>,
}

/// Whether the caller was the last to arrive.
pub struct BarrierWaitResult(bool);

/// The caller gave up before all parties had arrived: the time was up, or it was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierTimeout;

impl Barrier {
    const_fn! {
        /// Makes a barrier for `parties` parties. 0 is the same as 1: nobody waits.
        pub fn new(parties: usize) -> Barrier {
            let state = State { arrived: 0, generation: 0, queue: Queue::new() };
            Barrier { parties, state: SpinLock::new(state) }
        }
    }

    /// Waits until all parties have arrived. The last one is the leader. Then the barrier can
    /// be used again.
    pub fn wait(&self) -> BarrierWaitResult {
        self.wait_within(Limit::NONE).expect("without a limit nobody gives up")
    }

    /// As [`wait`](Barrier::wait), but for no longer than `timeout`. A party that gives up is
    /// not counted any more.
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

    /// As [`wait`](Barrier::wait), but notices [cancellation](crate::cancel). A party that gives
    /// up is not counted any more.
    ///
    /// # Errors
    /// If the caller would have to wait and is cancelled, or a deadline that it carries has
    /// passed.
    pub fn wait_cancellable(&self) -> Result<BarrierWaitResult, BarrierTimeout> {
        self.wait_within(Limit::CARRIED)
    }

    fn wait_within(&self, limit: Limit) -> Result<BarrierWaitResult, BarrierTimeout> {
        let Some(state) = self.arrive(wait::refuse_tasks) else {
            budget::spend(budget::LOCK);
            return Ok(BarrierWaitResult(true));
        };
        let generation = state.generation;
        let (outcome, ()) = wait_in(
            &self.state,
            state,
            |state| &mut state.queue,
            End::Back.of(Why::at(Reason::Barrier, self)),
            (),
            limit,
            || (),
        );
        if outcome == Outcome::Told || !self.give_up(generation) {
            return Ok(BarrierWaitResult(false));
        }
        Err(BarrierTimeout)
    }

    /// Counts the caller. If it is not the last party, returns the lock, under which it may enter
    /// the queue. `may_wait` panics, before the caller is counted, if it must not wait.
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

    /// As [`wait`](Barrier::wait), for tasks. A future that is dropped before all parties have
    /// arrived is not counted any more.
    pub async fn wait_async(&self) -> BarrierWaitResult {
        spend_async().await;
        let Some(state) = self.arrive(|| ()) else { return BarrierWaitResult(true) };
        let generation = state.generation;
        let abandoned = |is_told: bool, ()| {
            if !is_told {
                self.give_up(generation);
            }
        };
        wait_in_async(
            &self.state,
            state,
            |state| &mut state.queue,
            End::Back.of(Why::at(Reason::Barrier, self)),
            (),
            || (),
            abandoned,
        )
        .await;
        BarrierWaitResult(false)
    }

    /// Takes the caller off the count of `generation`. Returns `false` if that has ended.
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
    /// Returns whether the caller is the leader. Each generation has one.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrived = self.state.lock().arrived;
        f.debug_struct("Barrier").field("parties", &self.parties).field("arrived", &arrived).finish()
    }
}

impl fmt::Debug for BarrierWaitResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BarrierWaitResult").field("is_leader", &self.is_leader()).finish()
    }
}

impl fmt::Display for BarrierTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not all parties arrived at the barrier in time")
    }
}

impl std::error::Error for BarrierTimeout {}
