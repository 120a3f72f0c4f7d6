//! The state that the shards of a store share.

use super::Shards;
use super::classes::Classes;
use super::pool::Pool;
use super::shard::Shard;
use crate::memcached::watch::Watchers;
use sinew::sync::MutexGuard;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, PoisonError, TryLockError, Weak};

/// The number of times that another shard's lock is tried. It is held for a microsecond at a time.
const MOST_ATTEMPTS: usize = 100;

/// Memory, classes, and access to the other shards.
pub struct Family {
    /// The pool that pages come from.
    pub pool: Arc<Pool>,
    /// memcached's classes of sizes.
    pub classes: Classes,
    /// Watchers that are told about evictions.
    pub watchers: Arc<Watchers>,
    /// Items that expire within this number of seconds are not evicted; 0 protects no item.
    pub temporary_ttl: AtomicU32,
    /// The unique number of the large item that each shard evicts next, or `u64::MAX`. Written
    /// under the lock of that shard. All shards read it as a hint.
    oldest_large: Box<[AtomicU64]>,
    shards: OnceLock<Weak<Shards>>,
}

impl Family {
    /// Returns the family of `count` shards.
    pub fn new(count: usize, pool: Pool, classes: Classes, watchers: Arc<Watchers>) -> Family {
        Family {
            pool: Arc::new(pool),
            classes,
            watchers,
            temporary_ttl: AtomicU32::new(0),
            oldest_large: (0..count).map(|_| AtomicU64::new(u64::MAX)).collect(),
            shards: OnceLock::new(),
        }
    }

    /// Gives the shards access to each other.
    pub fn introduce(&self, shards: Weak<Shards>) {
        let _ = self.shards.set(shards);
    }

    /// Publishes which large item a shard evicts next.
    pub fn publish_oldest(&self, shard: usize, unique: u64) {
        self.oldest_large[shard].store(unique, Relaxed);
    }

    /// Returns the unique number of the oldest large item of all shards, or `u64::MAX`.
    pub fn oldest_large(&self) -> u64 {
        self.oldest_large.iter().map(|unique| unique.load(Relaxed)).min().unwrap_or(u64::MAX)
    }

    /// Returns the shards that have large items; the shard with the oldest item comes first.
    pub fn by_oldest_large(&self) -> Vec<usize> {
        let all = self.oldest_large.iter().map(|unique| unique.load(Relaxed)).enumerate();
        let mut shards: Vec<(usize, u64)> = all.filter(|(_, unique)| *unique != u64::MAX).collect();
        shards.sort_unstable_by_key(|(_, unique)| *unique);
        shards.into_iter().map(|(shard, _)| shard).collect()
    }

    /// Calls `act` with a shard while the caller has locked another one. Returns `None` if the lock
    /// stays busy: two shards must not wait for each other.
    pub fn with_neighbour<T>(&self, shard: usize, act: impl FnOnce(&mut Shard) -> T) -> Option<T> {
        let shards = self.shards.get()?.upgrade()?;
        for _ in 0..MOST_ATTEMPTS {
            let mut locked: MutexGuard<'_, Shard> = match shards[shard].try_lock() {
                Ok(locked) => locked,
                Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
                Err(TryLockError::WouldBlock) => {
                    std::hint::spin_loop();
                    continue;
                }
            };
            return Some(act(&mut locked));
        }
        None
    }
}
