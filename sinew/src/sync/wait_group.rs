//! `WaitGroup`: waits for an open number of others.

use crate::base::Deadline;
use crate::base::atomic::{AcqRel, Acquire, AtomicU64, Relaxed};
use crate::base::spin::{SpinGuard, SpinLock};
use crate::wait::budget;
use crate::wait::{End, Limit, Outcome, Queue, wait_in, wait_in_async};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Lets some wait until others have finished, however many those turn out to be.
///
/// Whoever has a clone is a party, and has finished when it drops it; to wait is to
/// finish, too, and then to wait for the others. So there is nothing to count
/// beforehand, and once everybody has finished the group has ended for good.
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
    /// How many parties there are. Never more than 0 again once it is 0.
    parties: AtomicU64,
    waiting: SpinLock<Queue<()>>,
}

impl WaitGroup {
    /// A group with one party.
    #[must_use]
    pub fn new() -> WaitGroup {
        WaitGroup { group: Arc::new(Group { parties: AtomicU64::new(1), waiting: SpinLock::new(Queue::new()) }) }
    }

    /// Drops this party and waits until all others are gone that do not wait
    /// themselves.
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
        wait_in_async(&group.waiting, waiting, |queue| queue, End::Back, (), || (), |_, ()| ()).await;
    }

    /// As [`wait`](WaitGroup::wait), but for no longer than `timeout`.
    ///
    /// # Errors
    /// The party, which counts again, if the time was up first.
    pub fn wait_timeout(self, timeout: Duration) -> Result<(), WaitGroup> {
        self.wait_until(Deadline::after(timeout))
    }

    /// As [`wait`](WaitGroup::wait), but only until `deadline`.
    ///
    /// # Errors
    /// As [`wait_timeout`](WaitGroup::wait_timeout).
    pub fn wait_deadline(self, deadline: Instant) -> Result<(), WaitGroup> {
        self.wait_until(Deadline::at(deadline))
    }

    fn wait_until(self, deadline: Deadline) -> Result<(), WaitGroup> {
        let group = Arc::clone(&self.group);
        drop(self);
        if group.wait_within(Limit::until(deadline)) || !group.join() {
            return Ok(());
        }
        Err(WaitGroup { group })
    }
}

impl Group {
    /// One party more, unless the group has ended. Whether it has not.
    fn join(&self) -> bool {
        let one_more = |parties| (parties > 0).then_some(parties + 1);
        // Acquire, if the group has ended: pairs with the Release in `drop`.
        self.parties.fetch_update(Relaxed, Acquire, one_more).is_ok()
    }

    /// The lock, under which the caller may enter the queue; `None` if the group has ended.
    fn lock_unless_ended(&self) -> Option<SpinGuard<'_, Queue<()>>> {
        // Acquire pairs with the Release in `drop`: what all parties did is seen.
        if self.parties.load(Acquire) == 0 {
            return None;
        }
        let waiting = self.waiting.lock();
        // Acquire as above. Whoever was last takes the lock after it has counted, so
        // it finds the caller, or the caller sees the 0.
        if self.parties.load(Acquire) == 0 { None } else { Some(waiting) }
    }

    /// Whether the group has ended.
    fn wait_within(&self, limit: Limit) -> bool {
        let Some(waiting) = self.lock_unless_ended() else {
            budget::spend(budget::LOCK);
            return true;
        };
        let (outcome, ()) = wait_in(&self.waiting, waiting, |queue| queue, End::Back, (), limit, || ());
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
        // Relaxed: there is this party, so it is not 0.
        self.group.parties.fetch_add(1, Relaxed);
        WaitGroup { group: Arc::clone(&self.group) }
    }
}

impl Drop for WaitGroup {
    fn drop(&mut self) {
        // Release pairs with the Acquire of those who see the 0. Acquire: whom the last
        // one signals sees through it what all others did.
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
        f.debug_struct("WaitGroup").field("parties", &self.group.parties.load(Relaxed)).finish()
    }
}
