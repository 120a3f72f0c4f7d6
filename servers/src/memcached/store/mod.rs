#![doc = include_str!("README.md")]

mod blocks;
mod counters;
mod hash;
mod index;
mod item;
mod shard;
mod sweep;
#[cfg(test)]
mod tests;

pub use blocks::{BLOCK, Number, PAGE};
pub use counters::Counters;
pub use item::{BASE64, Cursor, Draft, FETCHED, SPARED, STALE, WON};
pub use shard::{Content, Shard};
pub use sweep::Sweeper;

use hash::Hasher;
use sinew::sync::{Mutex, MutexGuard, Policy};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// When something happens, and what was flushed before.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// In seconds of the server's clock.
    pub now: u32,
    /// Items with no higher unique number than this are gone.
    pub flushed: u64,
}

/// How a value is to be stored.
#[derive(Debug)]
pub struct Terms<'a> {
    /// Under what.
    pub key: &'a [u8],
    /// The client's flags.
    pub flags: u32,
    /// When it expires, by the server's clock.
    pub expiry: u32,
    /// The unique number that what it replaces has to have, if it has to.
    pub unique: u64,
    /// Where the unique number comes from that it gets.
    pub fresh: &'a Fresh,
    /// Whether a value that is outdated may be stored as such.
    pub accepts_stale: bool,
    /// Whether its key is shown in base64.
    pub base64: bool,
    /// When.
    pub moment: Moment,
    keeps_stale: bool,
    keeps_won: bool,
}

impl<'a> Terms<'a> {
    /// The usual ones.
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

/// What became of something that was to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was.
    Stored {
        /// The item's unique number.
        unique: u64,
    },
    /// It was not wanted.
    NotStored,
    /// What is there is not what the client thinks.
    Exists,
    /// There is nothing to compare with.
    NotFound,
    /// There is no memory.
    OutOfMemory,
}

/// A line of the cache to itself.
#[repr(align(128))]
struct Apart(Mutex<Shard>);

/// All items.
pub struct Store {
    shards: Box<[Apart]>,
    hasher: Hasher,
    /// Gives out unique numbers.
    pub fresh: Fresh,
}

/// Gives out unique numbers: each is higher than all before.
#[derive(Debug, Default)]
pub struct Fresh {
    last: AtomicU64,
}

impl Fresh {
    /// The next.
    #[inline]
    pub fn next(&self) -> u64 {
        self.last.fetch_add(1, Relaxed) + 1
    }
}

/// The size of an item as memcached counts it, which is what the limit for items is about.
pub fn size(key: usize, flags: u32, value: usize) -> usize {
    const HEADER: usize = 56;
    let flags = if flags == 0 { 0 } else { 4 };
    HEADER + key + 1 + flags + value + 2
}

/// Where an item belongs.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Which shard.
    pub shard: usize,
    /// Its hash in there.
    pub hash: u32,
}

impl Store {
    /// A store that takes at most so many bytes, for items of up to `largest` bytes.
    pub fn new(bytes: usize, largest: usize, evicts: bool) -> Store {
        // A shard is to hold some of the largest items, and not to be all index.
        let shards = (bytes / (4 * largest).max(16 * PAGE)).clamp(1, 64);
        let shards = 1 << shards.ilog2();
        let each = bytes / shards;
        let shards =
            (0..shards).map(|_| Apart(Mutex::with_policy(Shard::new(each, largest, evicts), Policy::Spin))).collect();
        Store { shards, hasher: Hasher::random(), fresh: Fresh::default() }
    }

    /// Where an item with this key belongs.
    #[inline]
    pub fn place(&self, key: &[u8]) -> Place {
        let hash = self.hasher.hash(key);
        Place { shard: (hash >> 40) as usize & (self.shards.len() - 1), hash: hash as u32 }
    }

    /// A shard, locked. Not to be held across anything that waits.
    #[inline]
    pub fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.shards[shard].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Sums over all shards.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for shard in 0..self.shards() {
            let shard = self.lock(shard);
            totals.items += shard.index.items();
            totals.places += shard.index.places();
            totals.bytes += shard.blocks.bytes_in_use();
            totals.index_bytes += shard.index.bytes();
            totals.taken += shard.blocks.bytes() + shard.index.bytes();
            totals.counters += shard.counters;
        }
        totals
    }

    /// Counts from zero again.
    pub fn reset_counters(&self) {
        for shard in 0..self.shards() {
            let mut shard = self.lock(shard);
            shard.counters = Counters::default();
        }
    }
}

/// What all shards have together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Items.
    pub items: usize,
    /// Places of the indices.
    pub places: usize,
    /// Bytes of blocks in use.
    pub bytes: usize,
    /// Bytes of the indices.
    pub index_bytes: usize,
    /// Bytes taken from the system.
    pub taken: usize,
    /// What happened.
    pub counters: Counters,
}
