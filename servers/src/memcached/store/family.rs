//! What the shards of a store have in common.

use super::Shards;
use super::classes::Classes;
use super::pool::Pool;
use super::shard::Shard;
use crate::memcached::watch::Watchers;
use sinew::sync::MutexGuard;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, PoisonError, TryLockError, Weak};

/// So often the lock of a neighbour is tried. It is held for a microsecond at a time.
const MOST_ATTEMPTS: usize = 100;

/// Memory, classes, and the way to a neighbour.
pub struct Family {
    /// Where pages come from.
    pub pool: Arc<Pool>,
    /// memcached's classes of sizes.
    pub classes: Classes,
    /// Those who want to know what is evicted.
    pub watchers: Arc<Watchers>,
    /// Items that expire within so many seconds are not evicted; 0 if all are.
    pub temporary_ttl: AtomicU32,
    /// The unique number of the next large item that each shard would evict, or `u64::MAX`.
    /// Written under the lock of that shard, and read by all as a hint.
    eldest: Box<[AtomicU64]>,
    shards: OnceLock<Weak<Shards>>,
}

impl Family {
    /// The family of `count` shards.
    pub fn new(count: usize, pool: Pool, classes: Classes, watchers: Arc<Watchers>) -> Family {
        Family {
            pool: Arc::new(pool),
            classes,
            watchers,
            temporary_ttl: AtomicU32::new(0),
            eldest: (0..count).map(|_| AtomicU64::new(u64::MAX)).collect(),
            shards: OnceLock::new(),
        }
    }

    /// Shows the shards to each other.
    pub fn introduce(&self, shards: Weak<Shards>) {
        let _ = self.shards.set(shards);
    }

    /// Says which large item a shard would evict next.
    pub fn set_eldest(&self, shard: usize, unique: u64) {
        self.eldest[shard].store(unique, Relaxed);
    }

    /// The unique number of the oldest large item of all, or `u64::MAX`.
    pub fn eldest(&self) -> u64 {
        self.eldest.iter().map(|unique| unique.load(Relaxed)).min().unwrap_or(u64::MAX)
    }

    /// The shards that have large items, that with the oldest first.
    pub fn elders(&self) -> Vec<usize> {
        let all = self.eldest.iter().map(|unique| unique.load(Relaxed)).enumerate();
        let mut elders: Vec<(usize, u64)> = all.filter(|(_, unique)| *unique != u64::MAX).collect();
        elders.sort_unstable_by_key(|(_, unique)| *unique);
        elders.into_iter().map(|(shard, _)| shard).collect()
    }

    /// Calls `act` with a shard, of which the caller has locked another one. Returns `None` if its
    /// lock cannot be had: two shards that want each other must not wait.
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
