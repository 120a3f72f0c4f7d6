//! A processor's part in the scheduler.

use super::queue::Queue;
use super::worth::Worth;
use crate::base::atomic::{AtomicU32, Relaxed};
use crate::base::spin::{SpinGuard, SpinLock};
use crate::sched::arrivals::Arrivals;
use crate::sched::presence::Presence;
use crossbeam_utils::CachePadded;
// Hints that only polite thieves go by are not part of a model.
use std::sync::atomic::{AtomicBool as Hint, AtomicU64 as Hint64};

pub(super) struct Station {
    own: CachePadded<Own>,
    inbox: CachePadded<Arrivals>,
    shown: CachePadded<Shown>,
}

/// What the processor uses at every dispatch.
struct Own {
    queue: SpinLock<Queue>,
    /// The length of `queue`. Written under its lock.
    len: AtomicU32,
    /// If `queue` has one strand: when it became ready. Written under its lock.
    lone_since: Hint64,
}

/// What thieves and senders read. It is written seldom, so that their looks cost the processor little.
struct Shown {
    /// Whether a thief finds something on the shelves. Written under the lock of the queue.
    is_tempting: Hint,
    /// The number of letters, with those of the colour that runs. Written under the lock of the queue, and only
    /// if thieves choose by it.
    letters: Hint64,
    presence: Presence,
}

impl Default for Station {
    fn default() -> Self {
        Station {
            own: CachePadded::new(Own {
                queue: SpinLock::new(Queue::new()),
                len: AtomicU32::new(0),
                lone_since: Hint64::new(0),
            }),
            inbox: CachePadded::default(),
            shown: CachePadded::new(Shown {
                is_tempting: Hint::new(false),
                letters: Hint64::new(0),
                presence: Presence::default(),
            }),
        }
    }
}

/// The queue.
impl Station {
    pub(super) fn lock(&self) -> SpinGuard<'_, Queue> {
        self.own.queue.lock()
    }

    pub(super) fn try_lock(&self) -> Option<SpinGuard<'_, Queue>> {
        self.own.queue.try_lock()
    }

    /// Gives up the lock of a queue that has changed, and shows what others want to know.
    pub(super) fn close(&self, queue: SpinGuard<'_, Queue>, worth: &Worth) {
        let len = queue.len();
        self.own.len.store(len, Relaxed);
        if len == 1
            && let Some(claim) = queue.claim()
        {
            self.own.lone_since.store(claim.ready_at, Relaxed);
        }
        let is_tempting = queue.stealable() > 0;
        if self.shown.is_tempting.load(Relaxed) != is_tempting {
            self.shown.is_tempting.store(is_tempting, Relaxed);
        }
        if worth.picks_by_letters() {
            self.shown.letters.store(queue.letters(), Relaxed);
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.own.len.load(Relaxed)
    }

    /// Says whether there is one strand, which became ready within the last `young` cycles.
    pub(super) fn has_a_young_one_only(&self, now: u64, young: u64) -> bool {
        self.len() == 1 && now.saturating_sub(self.own.lone_since.load(Relaxed)) <= young
    }
}

/// The inbox.
impl Station {
    pub(super) fn inbox(&self) -> &Arrivals {
        &self.inbox
    }

    /// Moves the arrivals behind what is in `queue`, which is this station's, as `station` is its number.
    pub(super) fn unpack(&self, queue: &mut Queue, station: usize, worth: &Worth) {
        let mut arrivals = self.inbox.take_all();
        while let Some(strand) = arrivals.pop() {
            queue.push(strand, station, worth);
        }
    }
}

/// What is shown.
impl Station {
    pub(super) fn is_tempting(&self) -> bool {
        self.shown.is_tempting.load(Relaxed)
    }

    pub(super) fn letters(&self) -> u64 {
        self.shown.letters.load(Relaxed)
    }

    pub(super) fn presence(&self) -> &Presence {
        &self.shown.presence
    }
}
