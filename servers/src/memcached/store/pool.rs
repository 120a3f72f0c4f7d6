//! The pages that all shards share, and their limit.

use super::blocks::{BLOCK, PAGE};
use crate::memory;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Blocks in a page.
pub const PAGE_BLOCKS: usize = PAGE / BLOCK;

/// The memory that items leave to sessions: buffers for a few hundred of them. Unmeasured.
const LEFT_TO_SESSIONS: usize = 16 << 20;

/// The part of the memory that values being received may take. The rest stays with items, even if
/// many clients begin to send values and stop.
const HALF_SENT_SHARE: usize = 4;

/// A cache line.
#[derive(Clone)]
#[repr(align(64))]
pub struct Line(pub [u8; BLOCK]);

/// 64 KiB that belong to one shard at a time.
pub type Page = Box<[Line; PAGE_BLOCKS]>;

/// All pages: those of shards, and spare ones.
pub struct Pool {
    /// The largest number of pages.
    limit: AtomicUsize,
    /// The number of pages that exist, without those set aside. Written under the lock of `spare`.
    taken: AtomicUsize,
    /// The number of pages set aside, one for each shard, in addition to the limit.
    shards: usize,
    /// Pages that belong to no shard. No fibre is suspended while it holds this lock.
    spare: Mutex<Vec<Page>>,
    /// The number of times that the system had no memory.
    failures: AtomicUsize,
    /// The number of blocks of values that are being received.
    half_sent: AtomicUsize,
}

impl Pool {
    /// Returns a pool of at most `bytes` bytes, but of at least one page, for this number of
    /// shards.
    pub fn new(bytes: usize, shards: usize) -> Pool {
        Pool {
            limit: AtomicUsize::new(pages(bytes)),
            taken: AtomicUsize::new(0),
            shards,
            spare: Mutex::new(Vec::new()),
            failures: AtomicUsize::new(0),
            half_sent: AtomicUsize::new(0),
        }
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Page>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a page. Returns `None` at the limit, or if the system has no memory.
    #[cold]
    pub fn take(&self) -> Option<Page> {
        let mut spare = self.spare();
        if let Some(page) = spare.pop() {
            return Some(page);
        }
        if self.taken.load(Relaxed) >= self.limit.load(Relaxed) {
            return None;
        }
        let page = new_page();
        match page {
            Some(_) => self.taken.fetch_add(1, Relaxed),
            None => self.failures.fetch_add(1, Relaxed),
        };
        page
    }

    /// Takes the page that is set aside for a shard. It never comes back: a shard without a page
    /// could store nothing.
    #[cold]
    pub fn take_first(&self) -> Option<Page> {
        let page = new_page();
        self.failures.fetch_add(usize::from(page.is_none()), Relaxed);
        page
    }

    /// Takes a page back. A page above the limit goes back to the system.
    #[cold]
    pub fn give_back(&self, page: Page) {
        let mut spare = self.spare();
        if self.taken.load(Relaxed) > self.limit.load(Relaxed) || spare.try_reserve(1).is_err() {
            self.taken.fetch_sub(1, Relaxed);
        } else {
            spare.push(page);
        }
    }

    /// Changes the limit. Spare pages above it go back to the system.
    pub fn set_limit(&self, bytes: usize) {
        let mut spare = self.spare();
        self.limit.store(pages(bytes), Relaxed);
        while self.taken.load(Relaxed) > self.limit.load(Relaxed) && spare.pop().is_some() {
            self.taken.fetch_sub(1, Relaxed);
        }
    }

    /// Returns whether values that are being received may take this number of blocks more. They may
    /// have a quarter of the memory, or two of the largest values if that is not more than half of
    /// it. One value is always allowed.
    pub fn may_receive(&self, more: usize, largest: usize) -> bool {
        let all = self.limit.load(Relaxed) * PAGE_BLOCKS;
        let most = (all / HALF_SENT_SHARE).max((2 * largest).min(all / 2)).max(largest + PAGE_BLOCKS);
        self.half_sent.load(Relaxed) + more < most
    }

    /// Counts that a value being received has changed its number of blocks.
    pub fn count_half_sent(&self, before: usize, now: usize) {
        // The difference wraps around if the number gets lower.
        self.half_sent.fetch_add(now.wrapping_sub(before), Relaxed);
    }

    /// Returns the number of bytes that have been taken from the system, or set aside.
    pub fn bytes(&self) -> usize {
        (self.taken.load(Relaxed) + self.shards) * PAGE
    }

    /// Returns the number of spare pages.
    pub fn spare_pages(&self) -> usize {
        self.spare().len()
    }

    /// Returns the number of times that the system had no memory.
    pub fn failures(&self) -> usize {
        self.failures.load(Relaxed)
    }
}

fn pages(bytes: usize) -> usize {
    (bytes / PAGE).max(1)
}

fn new_page() -> Option<Page> {
    let mut page = Vec::new();
    memory::is_left(PAGE + LEFT_TO_SESSIONS).then(|| page.try_reserve_exact(PAGE_BLOCKS).ok())??;
    page.resize(PAGE_BLOCKS, Line([0; BLOCK]));
    page.into_boxed_slice().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_reused_and_above_the_limit_return_to_the_system() {
        let pool = Pool::new(3 * PAGE, 0);
        let mut pages: Vec<Page> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!((pages.len(), pool.bytes(), pool.spare_pages()), (3, 3 * PAGE, 0));
        pool.give_back(pages.remove(0));
        assert_eq!((pool.bytes(), pool.spare_pages()), (3 * PAGE, 1));
        pool.set_limit(PAGE);
        assert_eq!((pool.bytes(), pool.spare_pages()), (2 * PAGE, 0));
        assert!(pool.take().is_none());
        pool.give_back(pages.remove(0));
        assert_eq!((pool.bytes(), pool.spare_pages()), (PAGE, 0));
        pool.give_back(pages.remove(0));
        assert!(pool.take().is_some() && pool.take().is_none());
    }
}
