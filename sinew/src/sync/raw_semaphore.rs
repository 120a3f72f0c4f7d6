//! The counter inside the semaphores: a word, and a queue of waiters.
//!
//! The word is the number of permits and the bit QUEUED. `n` and `m` are numbers of permits:
//!
//! ```text
//!   n --take m, m <= n--> n-m                     nobody waits
//!   n --give m--> n+m
//!
//!   n --take m, m > n--> n|QUEUED                 enters the queue
//!   n|QUEUED --take m--> n|QUEUED                 enters the queue, behind the others
//!   n|QUEUED --give m--> the rest (|QUEUED)       the first waiters get what they want
//!   n|QUEUED --leave--> the rest (|QUEUED)        a waiter gives up: as `give 0`
//! ```
//!
//! While QUEUED is clear, one exchange of the word takes or gives permits. While it is set,
//! the word changes only under the queue's lock. Permits then go to the waiters in the order
//! in which they came, and no newcomer passes them.
//!
//! A waiter that wants many permits holds up the waiters behind it. If it gives up, the
//! permits may be enough for them. So a waiter that leaves the queue early serves the queue.

use crate::base::atomic::{Acquire, AtomicUsize, Relaxed, Release, const_fn};
use crate::base::spin::{SpinGuard, SpinLock};
use crate::wait::budget::spend_async;
use crate::wait::{self, Batch, End, LARGEST_BATCH, Limit, Outcome, Queue, wait_in, wait_in_async};
use crate::wait::{Reason, Why};

const QUEUED: usize = 1;
const PERMIT: usize = 2;

/// The largest number of permits.
pub(crate) const MOST: usize = usize::MAX / PERMIT / 2;

pub(crate) struct RawSemaphore {
    word: AtomicUsize,
    /// A waiter's note is the number of permits that it wants.
    queue: SpinLock<Queue<usize>>,
}

impl RawSemaphore {
    const_fn! {
        pub(crate) fn new(permits: usize) -> Self {
            RawSemaphore { word: AtomicUsize::new(permits * PERMIT), queue: SpinLock::new(Queue::new()) }
        }
    }

    pub(crate) fn permits(&self) -> usize {
        self.word.load(Relaxed) / PERMIT
    }

    /// Returns the number of waiters.
    pub(crate) fn waiters(&self) -> usize {
        self.queue.lock().len()
    }

    /// Takes `count` permits if they are there and nobody waits. Returns whether it did.
    #[inline]
    pub(crate) fn try_take(&self, count: usize) -> bool {
        let mut word = self.word.load(Relaxed);
        while word & QUEUED == 0 && word / PERMIT >= count {
            // Acquire pairs with the Release in `give`.
            match self.word.compare_exchange_weak(word, word - count * PERMIT, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        // Zero permits are always there.
        count == 0
    }

    /// Waits for `count` permits and takes them, within `limit`.
    #[inline(always)]
    pub(crate) fn take(&self, count: usize, limit: Limit) -> Outcome {
        if self.try_take(count) {
            return Outcome::Told;
        }
        // Before QUEUED is set: a task that panics here must not leave it behind.
        wait::refuse_tasks();
        let Some(queue) = self.take_or_lock(count) else { return Outcome::Told };
        let (outcome, _) = wait_in(
            &self.queue,
            queue,
            |queue| queue,
            End::Back.of(Why::at(Reason::Semaphore, self)),
            count,
            limit,
            || (),
        );
        if outcome != Outcome::Told {
            self.give_slow(0, MOST);
        }
        outcome
    }

    /// As [`take`](RawSemaphore::take), for a task. A future that is dropped gives back the
    /// permits that it was given, up to `most` in all.
    pub(crate) async fn take_async(&self, count: usize, most: usize) {
        spend_async().await;
        let Some(queue) = self.take_or_lock(count) else { return };
        let abandoned = |is_told, count| {
            let _ = if is_told { self.give(count, most) } else { self.give_slow(0, most) };
        };
        wait_in_async(
            &self.queue,
            queue,
            |queue| queue,
            End::Back.of(Why::at(Reason::Semaphore, self)),
            count,
            || (),
            abandoned,
        )
        .await;
    }

    /// Takes `count` permits if they are there. Else returns the queue's lock, under which the
    /// caller may enter.
    #[inline(always)]
    fn take_or_lock(&self, count: usize) -> Option<SpinGuard<'_, Queue<usize>>> {
        if self.try_take(count) {
            return None;
        }
        let queue = self.queue.lock();
        // QUEUED that is set stays set while we have the lock.
        if self.word.load(Relaxed) & QUEUED == 0 {
            // Acquire as in `try_take`. From here on the word changes only under the lock.
            let word = self.word.fetch_or(QUEUED, Acquire);
            if word / PERMIT >= count {
                // Release pairs with the Acquire in `try_take`. It passes on what the givers of
                // the remaining permits did: a plain store ends their release sequence.
                self.word.store(word - count * PERMIT, Release);
                return None;
            }
        }
        Some(queue)
    }

    /// Gives `count` permits, up to `most` in all. Returns `false` if that left some out.
    #[inline]
    pub(crate) fn give(&self, count: usize, most: usize) -> bool {
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
    fn give_slow(&self, count: usize, most: usize) -> bool {
        let mut queue = self.queue.lock();
        let word = if queue.is_empty() {
            // Another thread has served the last waiter. Acquire pairs with the Release in
            // `give`: permits that others gave are passed on, with what they did.
            self.word.fetch_or(QUEUED, Acquire)
        } else {
            // Relaxed: while somebody waits the word is written under the lock.
            self.word.load(Relaxed)
        };
        let mut permits = (word / PERMIT).saturating_add(count);
        let Some(mut first) = queue.pop_if(|wanted| *wanted <= permits) else {
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
        let is_full = pop_into(&mut served, &mut queue, &mut permits);
        self.put_down(permits, most, &queue);
        drop(queue);
        drop(served);
        if is_full {
            self.serve_rest(most);
        }
        permits <= most
    }

    /// Serves more waiters, one batch at a time: others need the lock between two batches.
    #[cold]
    fn serve_rest(&self, most: usize) {
        let mut is_full = true;
        while is_full {
            let mut queue = self.queue.lock();
            if queue.is_empty() {
                // QUEUED may be clear: then the word is not ours to write.
                return;
            }
            // Relaxed as in `give_slow`.
            let mut permits = self.word.load(Relaxed) / PERMIT;
            let mut served = Batch::new();
            is_full = pop_into(&mut served, &mut queue, &mut permits);
            self.put_down(permits, most, &queue);
            drop(queue);
            drop(served);
        }
    }

    /// Writes the word anew. By the holder of the queue's lock, while QUEUED is set.
    #[inline(always)]
    fn put_down(&self, permits: usize, most: usize, queue: &Queue<usize>) {
        let queued = if queue.is_empty() { 0 } else { QUEUED };
        // Release as in `give`.
        self.word.store((permits.min(most) * PERMIT) | queued, Release);
    }
}

/// Takes the first waiters out of the queue while `permits` are enough, and subtracts what they
/// get. Returns `true` if it stopped at [`LARGEST_BATCH`] waiters.
fn pop_into(served: &mut Batch<usize>, queue: &mut Queue<usize>, permits: &mut usize) -> bool {
    for _ in 0..LARGEST_BATCH {
        let Some(mut told) = queue.pop_if(|wanted| *wanted <= *permits) else { return false };
        *permits -= *told.note();
        served.push(told);
    }
    true
}
