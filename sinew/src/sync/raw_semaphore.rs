//! The counter inside of the semaphores: a word, and a queue for those who have to
//! wait.
//!
//! The word is the number of permits, and QUEUED. While QUEUED is not set, permits
//! are taken and given by one exchange of the word. While it is, the word changes
//! only under the queue's lock: permits go to those who wait, in the order in which
//! they came, and nobody passes them.
//!
//! Someone who wants many permits holds up those behind it. If it gives up, they may
//! have been waiting for nothing, so whoever leaves the queue early serves it.

use crate::base::atomic::{Acquire, AtomicU64, Relaxed, Release, const_fn};
use crate::base::spin::{SpinGuard, SpinLock};
use crate::wait::budget;
use crate::wait::{self, Batch, End, LARGEST_BATCH, Limit, Outcome, Queue, wait_in, wait_in_async};

const QUEUED: u64 = 1;
const PERMIT: u64 = 2;

/// The largest number of permits.
pub(crate) const MOST: u64 = u64::MAX / PERMIT / 2;

pub(crate) struct RawSemaphore {
    word: AtomicU64,
    /// The note: how many permits are wanted.
    queue: SpinLock<Queue<u64>>,
}

impl RawSemaphore {
    const_fn! {
        pub(crate) fn new(permits: u64) -> Self {
            RawSemaphore { word: AtomicU64::new(permits * PERMIT), queue: SpinLock::new(Queue::new()) }
        }
    }

    pub(crate) fn permits(&self) -> u64 {
        self.word.load(Relaxed) / PERMIT
    }

    /// Takes `count` permits if they are there and nobody waits.
    #[inline]
    pub(crate) fn try_take(&self, count: u64) -> bool {
        let mut word = self.word.load(Relaxed);
        while word & QUEUED == 0 && word / PERMIT >= count {
            // Acquire pairs with the Release in `give`.
            match self.word.compare_exchange_weak(word, word - count * PERMIT, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        // None are there always.
        count == 0
    }

    /// Waits for `count` permits and takes them. Whether it got them within `limit`.
    #[inline(always)]
    pub(crate) fn take(&self, count: u64, limit: Limit) -> Outcome {
        if self.try_take(count) {
            return Outcome::Told;
        }
        // Before QUEUED says that somebody waits.
        wait::refuse_tasks();
        let Some(queue) = self.take_or_lock(count) else { return Outcome::Told };
        let (outcome, _) = wait_in(&self.queue, queue, |queue| queue, End::Back, count, limit, || ());
        if outcome != Outcome::Told {
            self.give_slow(0, MOST);
        }
        outcome
    }

    /// As [`take`](RawSemaphore::take), for a task. If it is dropped, permits that it was
    /// given are given back, though there are not to be more than `most`.
    pub(crate) async fn take_async(&self, count: u64, most: u64) {
        budget::spend_async().await;
        let Some(queue) = self.take_or_lock(count) else { return };
        let abandoned = |is_told, count| {
            let _ = if is_told { self.give(count, most) } else { self.give_slow(0, most) };
        };
        wait_in_async(&self.queue, queue, |queue| queue, End::Back, count, || (), abandoned).await;
    }

    /// Takes `count` permits if they are there; else gives the lock, under which the caller
    /// may enter the queue.
    #[inline(always)]
    fn take_or_lock(&self, count: u64) -> Option<SpinGuard<'_, Queue<u64>>> {
        if self.try_take(count) {
            return None;
        }
        let queue = self.queue.lock();
        // If it is set, it stays so while we have the lock, for there are others.
        if self.word.load(Relaxed) & QUEUED == 0 {
            // Acquire as in `try_take`. From here on only who has the lock changes it.
            let word = self.word.fetch_or(QUEUED, Acquire);
            if word / PERMIT >= count {
                // Release passes on what the givers of the permits that are left did: a plain
                // store ends their release sequence. Pairs with the Acquire in `try_take`.
                self.word.store(word - count * PERMIT, Release);
                return None;
            }
        }
        Some(queue)
    }

    /// Gives `count` permits. What would exceed `most` is forgotten: `false` then.
    #[inline]
    pub(crate) fn give(&self, count: u64, most: u64) -> bool {
        let mut word = self.word.load(Relaxed);
        while word & QUEUED == 0 {
            let permits = (word / PERMIT).saturating_add(count);
            // Release pairs with the Acquire in `try_take`.
            match self.word.compare_exchange_weak(word, permits.min(most) * PERMIT, Release, Relaxed) {
                Ok(_) => return permits <= most,
                Err(now) => word = now,
            }
        }
        self.give_slow(count, most)
    }

    #[inline(never)]
    fn give_slow(&self, count: u64, most: u64) -> bool {
        let mut queue = self.queue.lock();
        let word = if queue.is_empty() {
            // Somebody else has served the last. Acquire pairs with the Release in `give`:
            // permits that others gave are passed on, with what they did.
            self.word.fetch_or(QUEUED, Acquire)
        } else {
            // Relaxed: while somebody waits the word was written under the lock.
            self.word.load(Relaxed)
        };
        let mut permits = (word / PERMIT).saturating_add(count);
        let mut fits = |wanted: &mut u64| *wanted <= permits;
        let Some(mut first) = queue.pop_if(&mut fits) else {
            self.put_down(permits, most, &queue);
            return permits <= most;
        };
        permits -= *first.note();
        if permits == 0 {
            self.put_down(permits, most, &queue);
            drop(queue);
            drop(first);
            return true;
        }
        let mut served = Batch::new();
        served.push(first);
        let mut is_over = true;
        for _ in 0..LARGEST_BATCH {
            let Some(mut told) = queue.pop_if(|wanted| *wanted <= permits) else { break };
            permits -= *told.note();
            served.push(told);
            is_over = false;
        }
        self.put_down(permits, most, &queue);
        drop(queue);
        drop(served);
        // There may be more than are served at once.
        if is_over { permits <= most } else { self.give_slow(0, most) }
    }

    /// Writes the word anew. By who has the lock, while QUEUED is set.
    #[inline(always)]
    fn put_down(&self, permits: u64, most: u64, queue: &Queue<u64>) {
        let queued = if queue.is_empty() { 0 } else { QUEUED };
        // Release as in `give`.
        self.word.store((permits.min(most) * PERMIT) | queued, Release);
    }
}
