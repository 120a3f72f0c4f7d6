//! A queue in which some strands are not counted: those that its owner keeps.

use super::{Effort, Ready};
use crate::base::atomic::{AtomicU64, AtomicUsize, Relaxed};
use crate::base::spin::{SpinGuard, SpinLock};
use crate::sched::Claim;
use crate::strand::Levels;

/// The fields beside the queue are written under its lock. Processors read them without the lock,
/// so that a look in vain does not take it.
pub(super) struct Strands {
    queue: SpinLock<Levels>,
    len: AtomicUsize,
    /// The number of strands in the queue that the counter does not count; never more than `len`.
    kept: AtomicUsize,
    /// When the first of these was put in, approximately.
    kept_since: AtomicU64,
}

/// Strands that have been taken out of a queue, and the number of them that are not counted.
pub(super) struct Taken {
    strands: Levels,
    kept: usize,
}

impl Taken {
    pub(super) fn len(&self) -> usize {
        self.strands.len()
    }
}

impl Default for Strands {
    fn default() -> Self {
        Strands {
            queue: SpinLock::new(Levels::new()),
            len: AtomicUsize::new(0),
            kept: AtomicUsize::new(0),
            kept_since: AtomicU64::new(0),
        }
    }
}

impl Strands {
    /// Says whether the queue is empty. For the owner this is certain: it alone adds strands.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len.load(Relaxed) == 0
    }

    #[inline]
    fn kept(&self) -> usize {
        self.kept.load(Relaxed)
    }

    /// Notes the length and gives up the lock.
    #[inline]
    fn close(&self, queue: SpinGuard<'_, Levels>) {
        self.len.store(queue.len(), Relaxed);
    }

    /// Puts in a strand that has been counted.
    pub(super) fn push(&self, strand: Ready) {
        let mut queue = self.queue.lock();
        queue.push(strand);
        self.close(queue);
    }

    /// Puts in a strand that is not counted.
    #[inline]
    pub(super) fn keep(&self, strand: Ready, now: u64) {
        let mut queue = self.queue.lock();
        queue.push(strand);
        if self.kept() == 0 {
            self.kept_since.store(now, Relaxed);
        }
        self.kept.store(self.kept() + 1, Relaxed);
        self.close(queue);
    }

    /// Takes a counted strand, for a processor that has reserved one.
    pub(super) fn pop(&self) -> Option<Ready> {
        if self.len.load(Relaxed) <= self.kept() {
            return None;
        }
        let mut queue = self.queue.lock();
        let strand = if queue.len() > self.kept() { queue.pop() } else { None };
        queue.prefetch_head();
        self.close(queue);
        strand
    }

    /// Takes a strand that is not counted.
    #[inline]
    pub(super) fn take_kept(&self) -> Option<Ready> {
        if self.kept() == 0 { None } else { self.take_kept_slow() }
    }

    fn take_kept_slow(&self) -> Option<Ready> {
        let mut queue = self.queue.lock();
        let kept = self.kept().checked_sub(1)?;
        self.kept.store(kept, Relaxed);
        let strand = queue.pop();
        queue.prefetch_head();
        self.close(queue);
        strand
    }

    /// Takes a strand that is not counted, for another processor than the owner. A polite one
    /// leaves a single strand to the owner while that is `young`.
    pub(super) fn take_left(&self, now: u64, young: u64, effort: Effort) -> Option<Ready> {
        let age = now.saturating_sub(self.kept_since.load(Relaxed));
        if self.kept() == 1 && age <= young && effort == Effort::Polite { None } else { self.take_kept() }
    }

    /// Takes everything, if the head has waited for longer than `limit`.
    #[cold]
    pub(super) fn take_neglected(&self, now: u64, limit: u64) -> Option<Taken> {
        let mut queue = self.queue.lock();
        let is_old = queue.claim().is_some_and(|claim| now.saturating_sub(claim.ready_at) > limit);
        is_old.then(|| {
            let taken = Taken { strands: queue.take_all(), kept: self.kept() };
            self.kept.store(0, Relaxed);
            self.close(queue);
            taken
        })
    }

    /// Puts strands from another queue in front, because they are the older ones.
    pub(super) fn prepend(&self, taken: Taken, now: u64) {
        let mut queue = self.queue.lock();
        queue.prepend(taken.strands);
        if taken.kept > 0 {
            self.kept_since.store(now, Relaxed);
            self.kept.store(self.kept() + taken.kept, Relaxed);
        }
        self.close(queue);
    }

    /// Moves everything behind what is in another queue. No strand in this queue is kept.
    pub(super) fn move_to(&self, other: &Strands) {
        let mut queue = self.queue.lock();
        debug_assert_eq!(self.kept(), 0);
        let strands = queue.take_all();
        self.close(queue);
        let mut queue = other.queue.lock();
        queue.append(strands);
        other.close(queue);
    }

    /// `push` and `pop` in one step: the number of strands does not change.
    #[inline]
    pub(super) fn exchange(&self, strand: Ready) -> Ready {
        let mut queue = self.queue.lock();
        let next = queue.exchange(strand);
        queue.prefetch_head();
        next
    }

    pub(super) fn claim(&self) -> Option<Claim> {
        if self.is_empty() { None } else { self.queue.lock().claim() }
    }
}
