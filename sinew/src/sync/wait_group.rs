//! `WaitGroup`: waits for an open number of others.

use crate::base::Deadline;
use crate::base::atomic::{AcqRel, Acquire, AtomicU64, Relaxed};
use crate::base::spin::{SpinGuard, SpinLock};
use crate::wait::budget;
use crate::wait::{End, Limit, Outcome, Queue, wait_in, wait_in_async};
use crate::wait::{Reason, Why};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Waits until all parties have finished. Their number need not be known beforehand.
///
/// Each clone is a party. A party finishes when its clone is dropped, or when it begins to
/// wait for the others. When all parties have finished the group has ended, for good.
///
/// ```
/// use sinew::sync::WaitGroup;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// static SUM: AtomicU32 = AtomicU32::new(0);
/// sinew::run(|| {
///     let group = WaitGroup::new();
///     for n in 1..=100 {
///         let party = group.clone();
///         sinew::spawn(move || {
///             SUM.fetch_add(n, Ordering::Relaxed);
///             drop(party);
///         });
///     }
///     group.wait();
///     assert_eq!(SUM.load(Ordering::Relaxed), 5050);
/// });
/// ```
pub struct WaitGroup {
    group: Arc<Group>,
}

struct Group {
    /// The number of parties. Once it is 0 it stays 0.
    parties: AtomicU64,
    waiting: SpinLock<Queue<()>>,
}

impl WaitGroup {
    /// Makes a group with one party.
    #[must_use]
    pub fn new() -> WaitGroup {
        WaitGroup { group: Arc::new(Group { parties: AtomicU64::new(1), waiting: SpinLock::new(Queue::new()) }) }
    }

    /// Finishes this party and waits until all other parties have finished.
    pub fn wait(self) {
        let group = Arc::clone(&self.group);
        drop(self);
        let ended = group.wait_within(Limit::NONE);
        debug_assert!(ended);
    }

    /// As [`wait`](WaitGroup::wait), for tasks.
    pub async fn wait_async(self) {
        let group = Arc::clone(&self.group);
        drop(self);
        let Some(waiting) = group.lock_unless_ended() else { return };
        wait_in_async(
            &group.waiting,
            waiting,
            |queue| queue,
            End::Back.of(Why::at(Reason::WaitGroup, &*group)),
            (),
            || (),
            |_, ()| (),
        )
        .await;
    }

    /// As [`wait`](WaitGroup::wait), but for no longer than `timeout`.
    ///
    /// # Errors
    /// The party, which counts again, if the time was up first.
    pub fn wait_timeout(self, timeout: Duration) -> Result<(), WaitGroup> {
        self.wait_within(Limit::until(Deadline::after(timeout)))
    }

    /// As [`wait`](WaitGroup::wait), but only until `deadline`.
    ///
    /// # Errors
    /// As [`wait_timeout`](WaitGroup::wait_timeout).
    pub fn wait_deadline(self, deadline: Instant) -> Result<(), WaitGroup> {
        self.wait_within(Limit::until(Deadline::at(deadline)))
    }

    /// As [`wait`](WaitGroup::wait), but notices [cancellation](crate::cancel).
    ///
    /// # Errors
    /// The party, which counts again, if the caller would have to wait and is cancelled, or a
    /// deadline that it carries has passed.
    pub fn wait_cancellable(self) -> Result<(), WaitGroup> {
        self.wait_within(Limit::CARRIED)
    }

    fn wait_within(self, limit: Limit) -> Result<(), WaitGroup> {
        let group = Arc::clone(&self.group);
        drop(self);
        if group.wait_within(limit) || !group.join() {
            return Ok(());
        }
        Err(WaitGroup { group })
    }
}

impl Group {
    /// Adds a party, unless the group has ended. Returns whether it did.
    fn join(&self) -> bool {
        let one_more = |parties| (parties > 0).then_some(parties + 1);
        // Acquire, if the group has ended, pairs with the Release in `drop`.
        self.parties.fetch_update(Relaxed, Acquire, one_more).is_ok()
    }

    /// Returns the lock, under which the caller may enter the queue; `None` if the group has
    /// ended.
    fn lock_unless_ended(&self) -> Option<SpinGuard<'_, Queue<()>>> {
        // Acquire pairs with the Release in `drop`: the caller sees what all parties did.
        if self.parties.load(Acquire) == 0 {
            return None;
        }
        let waiting = self.waiting.lock();
        // Acquire as above. The last party takes the lock after it has counted down. So it
        // finds the caller, or the caller sees the 0.
        if self.parties.load(Acquire) == 0 { None } else { Some(waiting) }
    }

    /// Waits within `limit`. Returns whether the group has ended.
    fn wait_within(&self, limit: Limit) -> bool {
        let Some(waiting) = self.lock_unless_ended() else {
            budget::spend(budget::LOCK);
            return true;
        };
        let (outcome, ()) = wait_in(
            &self.waiting,
            waiting,
            |queue| queue,
            End::Back.of(Why::at(Reason::WaitGroup, self)),
            (),
            limit,
            || (),
        );
        outcome == Outcome::Told
    }

    #[cold]
    fn end(&self) {
        let all = self.waiting.lock().pop_all();
        drop(all);
    }
}

impl Clone for WaitGroup {
    fn clone(&self) -> WaitGroup {
        // Relaxed: this party counts, so the number is not 0.
        self.group.parties.fetch_add(1, Relaxed);
        WaitGroup { group: Arc::clone(&self.group) }
    }
}

impl Drop for WaitGroup {
    fn drop(&mut self) {
        // Release pairs with the Acquires that see the 0. Acquire: a waiter that the last party
        // signals sees through it what all others did.
        if self.group.parties.fetch_sub(1, AcqRel) == 1 {
            self.group.end();
        }
    }
}

impl Default for WaitGroup {
    fn default() -> Self {
        WaitGroup::new()
    }
}

impl fmt::Debug for WaitGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parties, waiters) = (self.group.parties.load(Relaxed), self.group.waiting.lock().len());
        f.debug_struct("WaitGroup").field("parties", &parties).field("waiters", &waiters).finish()
    }
}
