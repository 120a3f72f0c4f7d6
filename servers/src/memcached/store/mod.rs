#![doc = include_str!("README.md")]

mod blocks;
mod classes;
mod counters;
mod draft;
mod eviction;
mod family;
mod hash;
mod index;
mod item;
mod pool;
mod shard;
mod storing;
mod sweep;
#[cfg(test)]
mod tests;

pub use blocks::Number;
pub use classes::{SLAB_PAGE, Sizing};
pub use counters::{Class, Counters};
pub use draft::Draft;
pub use item::{BASE64, Cursor, FETCHED, STALE, WON};
pub use shard::Shard;
pub use sweep::{Classes as ClassBits, STEP, Sweeper};

use super::watch::Watchers;
use classes::Classes;
use crossbeam_utils::CachePadded;
use family::Family;
use hash::Hasher;
use pool::Pool;
use sinew::sync::{Mutex, MutexGuard, Policy};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};

/// The index may take this part of the memory for items, in addition to it.
const INDEX_SHARE: usize = 32;

/// The time of an operation, and what was flushed before it.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// In seconds of the server's clock.
    pub now: u32,
    /// Items with a unique number up to this one are flushed.
    pub flushed: u64,
}

/// How a value is to be stored.
#[derive(Debug)]
pub struct Terms<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The client's flags.
    pub flags: u32,
    /// When it expires, by the server's clock.
    pub expiry: u32,
    /// The unique number that the replaced item must have; 0 if any will do.
    pub unique: u64,
    /// The source of the item's unique number.
    pub fresh: &'a Fresh,
    /// Whether an outdated value may be stored, and is then marked as outdated.
    pub accepts_stale: bool,
    /// Whether the key is shown in base64.
    pub base64: bool,
    /// The time of the operation.
    pub moment: Moment,
    keeps_stale: bool,
    keeps_won: bool,
}

impl<'a> Terms<'a> {
    /// Returns terms without special conditions.
    pub fn new(key: &'a [u8], flags: u32, expiry: u32, fresh: &'a Fresh, moment: Moment) -> Terms<'a> {
        Terms {
            key,
            flags,
            expiry,
            unique: 0,
            fresh,
            accepts_stale: false,
            base64: false,
            moment,
            keeps_stale: false,
            keeps_won: false,
        }
    }
}

/// The outcome of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The value was stored.
    Stored {
        /// The item's unique number.
        unique: u64,
    },
    /// The verb's condition does not hold.
    NotStored,
    /// The item has another unique number.
    Exists,
    /// There is no item to compare with.
    NotFound,
    /// There is no memory.
    OutOfMemory,
}

/// A value that is to be stored.
pub enum Content<'a> {
    /// The whole value.
    Whole(&'a [u8]),
    /// A draft that has the key and the value, and the length of the value.
    Drafted(Draft, u32),
}

impl Content<'_> {
    /// Returns the length of the value.
    pub fn length(&self) -> usize {
        match self {
            Content::Whole(value) => value.len(),
            Content::Drafted(_, length) => *length as usize,
        }
    }
}

/// The shards, each on cache lines of its own.
type Shards = [CachePadded<Mutex<Shard>>];

/// All items.
pub struct Store {
    shards: Arc<Shards>,
    hasher: Hasher,
    family: Arc<Family>,
    /// The source of unique numbers.
    pub fresh: Fresh,
}

/// The settings of a store.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The largest number of bytes that items take.
    pub bytes: usize,
    /// The size of the largest item, as memcached counts it.
    pub largest: usize,
    /// Whether items are evicted when there is no room.
    pub evicts: bool,
    /// The numbers that determine memcached's classes.
    pub sizing: Sizing,
}

/// A source of unique numbers. Each is higher than all before it.
#[derive(Debug, Default)]
pub struct Fresh {
    last: AtomicU64,
}

impl Fresh {
    /// Returns the next number.
    #[inline]
    pub fn next(&self) -> u64 {
        self.last.fetch_add(1, Relaxed) + 1
    }
}

/// Where a key belongs.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The number of its shard.
    pub shard: usize,
    /// The hash of the key in that shard.
    pub hash: u32,
}

impl Store {
    /// Returns an empty store.
    pub fn new(plan: Plan, watchers: Arc<Watchers>) -> Store {
        // A shard holds at least a few of the largest items, and is more than an index.
        let count = (plan.bytes / (4 * plan.largest).max(16 * blocks::PAGE)).clamp(1, 64);
        let count = 1 << count.ilog2();
        let family = Family::new(count, Pool::new(plan.bytes, count), Classes::new(plan.sizing), watchers);
        let family = Arc::new(family);
        let index_bytes = plan.bytes / count / INDEX_SHARE;
        let shard = |number| {
            let mut shard = Shard::new(Arc::clone(&family), number, index_bytes, plan.largest, plan.evicts);
            shard.has_unique = plan.sizing.has_unique;
            CachePadded::new(Mutex::with_policy(shard, Policy::Spin))
        };
        let shards: Arc<Shards> = (0..count).map(shard).collect();
        family.introduce(Arc::downgrade(&shards));
        Store { shards, hasher: Hasher::random(), family, fresh: Fresh::default() }
    }

    /// Changes the largest number of bytes that items take.
    pub fn set_limit(&self, bytes: usize) {
        self.family.pool.set_limit(bytes);
    }

    /// Protects items that expire within this number of seconds from eviction; 0 protects no item.
    pub fn protect(&self, seconds: u32) {
        self.family.temporary_ttl.store(seconds, Relaxed);
    }

    /// Returns the size of an item as memcached counts it.
    #[inline]
    pub fn size(&self, key: usize, flags: u32, value: usize) -> usize {
        self.family.classes.size(key, flags, value)
    }

    /// Returns the class of an item.
    pub fn class(&self, key: usize, flags: u32, value: usize) -> usize {
        self.family.classes.of(self.size(key, flags, value))
    }

    /// Returns the size of the largest item of a class.
    pub fn chunk(&self, class: usize) -> usize {
        self.family.classes.chunk(class)
    }

    /// Returns where a key belongs.
    #[inline]
    pub fn place(&self, key: &[u8]) -> Place {
        let hash = self.hasher.hash(key);
        Place { shard: (hash >> 40) as usize & (self.shards.len() - 1), hash: hash as u32 }
    }

    /// Locks a shard. The caller must not wait while it holds the lock.
    #[inline]
    pub fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Returns the number of seconds since the last use of the item that is evicted next.
    pub fn age(&self, now: u32) -> u32 {
        let used = (0..self.shards()).filter_map(|shard| self.lock(shard).oldest_use()).min();
        used.map_or(0, |used| now.saturating_sub(used))
    }

    /// Returns the sums over all shards.
    pub fn totals(&self) -> Totals {
        let pool = &self.family.pool;
        let classes = vec![Class::default(); self.family.classes.count()];
        let mut totals = Totals { malloced: pool.bytes(), failures: pool.failures(), classes, ..Totals::default() };
        totals.spare_pages = pool.spare_pages();
        for shard in 0..self.shards() {
            let shard = self.lock(shard);
            totals.places += shard.index.places();
            totals.in_use += shard.blocks.bytes_in_use();
            totals.index_bytes += shard.index.bytes();
            totals.counters += shard.counters;
            for class in (0..shard.classes.len()).filter(|class| shard.touched >> class & 1 == 1) {
                totals.classes[class] += shard.classes[class];
            }
        }
        totals.all = totals.classes.iter().fold(Class::default(), |mut all, class| {
            all += *class;
            all
        });
        totals
    }

    /// Sets all counters to zero.
    pub fn reset_counters(&self) {
        for shard in 0..self.shards() {
            let mut shard = self.lock(shard);
            shard.counters = Counters::default();
            for class in &mut shard.classes {
                *class = Class { stock: class.stock, ..Class::default() };
            }
        }
    }
}

/// The sums over all shards.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Places of the indices.
    pub places: usize,
    /// Bytes of blocks and pages in use.
    pub in_use: usize,
    /// Bytes of the indices.
    pub index_bytes: usize,
    /// Bytes of all pages.
    pub malloced: usize,
    /// Pages that belong to no shard.
    pub spare_pages: usize,
    /// The number of times that the system had no memory.
    pub failures: usize,
    /// Counters that do not depend on the size of items.
    pub counters: Counters,
    /// Items and their counters by class of sizes.
    pub classes: Vec<Class>,
    /// The sum over all classes.
    pub all: Class,
}
