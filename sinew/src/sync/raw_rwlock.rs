//! The lock inside a [`RwLock`](super::RwLock): a word, and a queue of waiters.
//!
//! The word is the bits WRITER and QUEUED and the number of readers, here `n`:
//!
//! ```text
//!   0 --write--> WRITER --unlock--> 0                     nobody waits
//!   n --read--> n+1 --unlock--> n
//!   WRITER --downgrade--> 1
//!
//!   WRITER | n --queue--> WRITER|QUEUED | n|QUEUED        a caller enters the queue
//!   n|QUEUED --unlock--> n-1|QUEUED                       the last reader serves the queue
//!   WRITER|QUEUED --unlock--> 0|QUEUED                    and serves the queue
//!   WRITER|QUEUED --downgrade--> 1|QUEUED                 and serves the queue
//!
//!   0|QUEUED --serve--> WRITER (|QUEUED)                  a writer is first in the queue
//!   n|QUEUED --serve--> n+m (|QUEUED)                     m readers are first in the queue
//!   ..|QUEUED --serve--> ..                               all waiters have given up
//! ```
//!
//! While QUEUED is clear, one exchange of the word takes the lock. While it is set, the lock is
//! taken only from the queue, under the queue's lock: by one writer, or by all readers up to
//! the next writer. So readers that keep coming do not starve a writer, nor writers a reader.
//! The lock always goes to the callers that came first.
//!
//! QUEUED is set only while the lock is taken, so the holder that releases it last sees the bit.
//! A waiting writer holds up the readers behind it. If it gives up, they may share the lock with
//! its present holders. So a waiter that leaves the queue early serves the queue.

use crate::base::atomic::{Acquire, AtomicU32, Relaxed, Release, const_fn};
use crate::base::describe::Entry;
use crate::base::spin::{SpinGuard, SpinLock};
use crate::wait::budget::spend_async;
use crate::wait::{self, Batch, End, LARGEST_BATCH, Limit, Outcome, Queue, wait_in, wait_in_async};
use crate::wait::{Owner, Reason, Why};
use std::mem::offset_of;

const WRITER: u32 = 1;
const QUEUED: u32 = 2;
const READER: u32 = 4;
const MOST_READERS: u32 = u32::MAX / READER / 2;

/// The entries of the description.
pub(crate) const ENTRIES: &[Entry] = &[
    Entry::number("rwlock.word", offset_of!(RawRwLock, word)),
    Entry::number("rwlock.writing", WRITER as usize),
    Entry::number("rwlock.owner", offset_of!(RawRwLock, owner)),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

pub(crate) struct RawRwLock {
    word: AtomicU32,
    /// The writer, if there is one.
    owner: Owner,
    queue: SpinLock<Queue<Access>>,
}

/// Returns the word after one more caller has got `access`; `None` if the caller has to wait.
#[inline]
fn taken(word: u32, access: Access) -> Option<u32> {
    match access {
        Access::Read => (word & (WRITER | QUEUED) == 0).then(|| {
            assert!(word / READER < MOST_READERS, "too many readers of a RwLock");
            word + READER
        }),
        Access::Write => (word == 0).then_some(WRITER),
    }
}

impl RawRwLock {
    const_fn! {
        pub(crate) fn new() -> Self {
            RawRwLock { word: AtomicU32::new(0), owner: Owner::nobody(), queue: SpinLock::new(Queue::new()) }
        }
    }

    fn why(&self, access: Access) -> Why {
        Why::at(if access == Access::Read { Reason::Read } else { Reason::Write }, self)
    }

    /// Notes that the caller has got `access`.
    #[inline]
    fn note_owner(&self, access: Access) {
        if access == Access::Write {
            self.owner.is_caller();
        }
    }

    #[inline]
    fn try_take(&self, access: Access) -> bool {
        // Acquire pairs with the Releases in `unlock_read` and `unlock_write`.
        let is_taken = self.word.fetch_update(Acquire, Relaxed, |word| taken(word, access)).is_ok();
        if is_taken {
            self.note_owner(access);
        }
        is_taken
    }

    /// Waits for `access`, within `limit`. Returns whether the caller has it.
    #[inline]
    fn take(&self, access: Access, limit: Limit) -> bool {
        self.try_take(access) || self.take_slow(access, limit)
    }

    #[cold]
    #[inline(never)]
    fn take_slow(&self, access: Access, limit: Limit) -> bool {
        // Before QUEUED is set: a task that panics here must not leave it behind.
        wait::refuse_tasks();
        let Some(queue) = self.take_or_lock(access) else { return true };
        let (outcome, _) =
            wait_in(&self.queue, queue, |queue| queue, End::Back.of(self.why(access)), access, limit, || ());
        if outcome != Outcome::Told {
            self.serve(self.queue.lock());
        }
        if outcome == Outcome::Told {
            self.note_owner(access);
        }
        outcome == Outcome::Told
    }

    /// Takes the lock if it is free by now. Else returns the queue's lock, under which the
    /// caller may enter.
    fn take_or_lock(&self, access: Access) -> Option<SpinGuard<'_, Queue<Access>>> {
        let queue = self.queue.lock();
        // If it cannot be taken, the holder that releases it sees QUEUED. Acquire as in
        // `try_take`.
        let take_or_queue = |word| Some(taken(word, access).unwrap_or(word | QUEUED));
        let before = self.word.fetch_update(Acquire, Relaxed, take_or_queue).unwrap_or_else(|word| word);
        if taken(before, access).is_some() {
            self.note_owner(access);
            return None;
        }
        Some(queue)
    }

    /// As [`take`](RawRwLock::take), for a task. A future that is dropped releases the lock that
    /// it was given.
    async fn take_async(&self, access: Access) {
        spend_async().await;
        if self.try_take(access) {
            return;
        }
        let Some(queue) = self.take_or_lock(access) else { return };
        let abandoned = |is_told, access| match (is_told, access) {
            (true, Access::Read) => self.unlock_read(),
            (true, Access::Write) => self.unlock_write(),
            (false, _) => self.serve(self.queue.lock()),
        };
        wait_in_async(&self.queue, queue, |queue| queue, End::Back.of(self.why(access)), access, || (), abandoned)
            .await;
        self.note_owner(access);
    }

    pub(crate) async fn read_async(&self) {
        self.take_async(Access::Read).await;
    }

    pub(crate) async fn write_async(&self) {
        self.take_async(Access::Write).await;
    }

    #[inline]
    pub(crate) fn read(&self, limit: Limit) -> bool {
        self.take(Access::Read, limit)
    }

    #[inline]
    pub(crate) fn write(&self, limit: Limit) -> bool {
        self.take(Access::Write, limit)
    }

    pub(crate) fn try_read(&self) -> bool {
        self.try_take(Access::Read)
    }

    pub(crate) fn try_write(&self) -> bool {
        self.try_take(Access::Write)
    }

    /// By a reader.
    #[inline]
    pub(crate) fn unlock_read(&self) {
        // Release pairs with the Acquires in `try_take`, `take_or_lock` and `is_free_for`.
        if self.word.fetch_sub(READER, Release) == READER | QUEUED {
            self.unlock_slow(0);
        }
    }

    /// By the writer.
    #[inline]
    pub(crate) fn unlock_write(&self) {
        self.owner.is_nobody();
        // Release as in `unlock_read`.
        if self.word.compare_exchange(WRITER, 0, Release, Relaxed).is_err() {
            self.unlock_slow(WRITER);
        }
    }

    /// Makes the writer a reader.
    pub(crate) fn downgrade(&self) {
        self.owner.is_nobody();
        // Release as in `unlock_read`.
        if self.word.compare_exchange(WRITER, READER, Release, Relaxed).is_err() {
            let queue = self.queue.lock();
            // Release as above. WRITER is set and the queue is locked, so nobody else changes the
            // word.
            self.word.fetch_add(READER - WRITER, Release);
            self.serve(queue);
        }
    }

    /// Subtracts `held` and serves the queue.
    #[cold]
    #[inline(never)]
    fn unlock_slow(&self, held: u32) {
        let queue = self.queue.lock();
        // Release as in `unlock_read`.
        self.word.fetch_sub(held, Release);
        self.serve(queue);
    }

    /// Gives the lock to the first waiters that it is free for, one batch at a time: others need
    /// the queue's lock between two batches.
    fn serve<'a>(&'a self, mut queue: SpinGuard<'a, Queue<Access>>) {
        loop {
            let mut served = Batch::new();
            let mut is_over = false;
            for _ in 0..LARGEST_BATCH {
                let Some(mut told) = queue.pop_if(|access| self.is_free_for(*access)) else {
                    is_over = true;
                    break;
                };
                let held = if *told.note() == Access::Read { READER } else { WRITER };
                // Relaxed: `is_free_for` acquired what earlier holders did, and the signal passes
                // it on.
                self.word.fetch_add(held, Relaxed);
                served.push(told);
            }
            if queue.is_empty() {
                self.word.fetch_and(!QUEUED, Relaxed);
            }
            drop(queue);
            drop(served);
            if is_over {
                return;
            }
            queue = self.queue.lock();
        }
    }

    /// Returns whether a waiter can have `access`. QUEUED is set, so only a release changes the
    /// word meanwhile.
    fn is_free_for(&self, access: Access) -> bool {
        // Acquire pairs with the Releases of the unlocks: what the holders did is passed on.
        let word = self.word.load(Acquire);
        match access {
            Access::Read => word & WRITER == 0,
            Access::Write => word < READER && word & WRITER == 0,
        }
    }
}
