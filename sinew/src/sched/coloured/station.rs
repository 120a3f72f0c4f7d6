//! A processor's part in the scheduler.

use super::queue::Queue;
use super::worth::Worth;
use crate::base::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Relaxed};
use crate::base::spin::{SpinGuard, SpinLock};
use crate::sched::{ProcessorId, Ready};
use crate::strand::Inbox;
use crossbeam_utils::CachePadded;
// Hints that only polite thieves go by are not part of a model.
use std::sync::atomic::{AtomicBool as Hint, AtomicU32 as Hint32, AtomicU64 as Hint64};

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

/// Strands that come from elsewhere.
struct Arrivals {
    strands: Inbox,
    /// When the first strand came into the empty inbox, approximately.
    since: AtomicU64,
}

/// What thieves and senders read. It is written seldom, so that their looks cost the processor little.
struct Shown {
    /// Whether a thief finds something on the shelves. Written under the lock of the queue.
    is_tempting: Hint,
    /// The number of letters, with those of the colour that runs. Written under the lock of the queue, and only
    /// if thieves choose by it.
    letters: Hint64,
    /// When the processor has used its end last, to within a beat. Written by the processor.
    pulse: Hint64,
    /// The CPU that it ran on then. Written by the processor.
    cpu: Hint32,
    /// Whether a processor has this station. Written by the processor that comes or leaves.
    is_taken: AtomicBool,
    /// Whether the processor found nothing to run when it looked last. Written by the processor.
    is_waiting: AtomicBool,
    /// The number of the processor. Written by the processor that comes.
    processor: AtomicU16,
}

impl Default for Station {
    fn default() -> Self {
        Station {
            own: CachePadded::new(Own {
                queue: SpinLock::new(Queue::new()),
                len: AtomicU32::new(0),
                lone_since: Hint64::new(0),
            }),
            inbox: CachePadded::new(Arrivals { strands: Inbox::new(), since: AtomicU64::new(0) }),
            shown: CachePadded::new(Shown {
                is_tempting: Hint::new(false),
                letters: Hint64::new(0),
                pulse: Hint64::new(0),
                cpu: Hint32::new(0),
                is_taken: AtomicBool::new(false),
                is_waiting: AtomicBool::new(false),
                processor: AtomicU16::new(0),
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
    pub(super) fn arrive(&self, strand: Ready, now: u64) {
        if !self.has_arrivals() {
            self.inbox.since.store(now, Relaxed);
        }
        self.inbox.strands.put(strand);
    }

    pub(super) fn has_arrivals(&self) -> bool {
        !self.inbox.strands.is_empty()
    }

    /// Says whether strands have been in the inbox for more than this number of cycles.
    pub(super) fn has_old_arrivals(&self, now: u64, young: u64) -> bool {
        self.has_arrivals() && now.saturating_sub(self.inbox.since.load(Relaxed)) > young
    }

    /// Moves the arrivals behind what is in `queue`, which is this station's, as `station` is its number.
    pub(super) fn unpack(&self, queue: &mut Queue, station: usize, worth: &Worth) {
        let mut arrivals = self.inbox.strands.take_all();
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

    /// Says whether the processor has not used its end for more than this number of cycles.
    pub(super) fn is_held_up(&self, now: u64, limit: u64) -> bool {
        now.saturating_sub(self.shown.pulse.load(Relaxed)) > limit
    }

    pub(super) fn show_pulse(&self, now: u64, cpu: usize) {
        self.shown.pulse.store(now, Relaxed);
        if self.cpu() != cpu {
            self.shown.cpu.store(cpu as u32, Relaxed);
        }
    }

    pub(super) fn cpu(&self) -> usize {
        self.shown.cpu.load(Relaxed) as usize
    }

    /// Lets a processor have the station.
    pub(super) fn settle(&self, processor: ProcessorId) {
        self.shown.processor.store(processor.0, Relaxed);
        self.shown.is_taken.store(true, Relaxed);
    }

    /// Notes that the processor leaves.
    pub(super) fn vacate(&self) {
        self.shown.is_taken.store(false, Relaxed);
    }

    pub(super) fn is_taken(&self) -> bool {
        self.shown.is_taken.load(Relaxed)
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.shown.is_waiting.load(Relaxed)
    }

    pub(super) fn set_waiting(&self, is_waiting: bool) {
        self.shown.is_waiting.store(is_waiting, Relaxed);
    }

    pub(super) fn processor(&self) -> ProcessorId {
        ProcessorId(self.shown.processor.load(Relaxed))
    }
}
