//! Adding to a value, and subtracting from it.

use super::session::{Lookup, Session};
use super::store::{BASE64, Number, Shard, Terms};
use super::stream::Stream;
use sinew_memcached_protocol::number;

/// The answer if a value is not a number.
pub const NOT_NUMERIC: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";

/// The number of bytes of a value that are parsed: white space, a sign, and 20 digits.
const LONGEST: u32 = 64;

/// A request that adds to a value, or subtracts from it.
pub struct Calculation<'a> {
    /// The key of the value.
    pub key: &'a [u8],
    /// Whether `delta` is added. Otherwise it is subtracted, but the value stays at 0 or above.
    pub add: bool,
    /// The number that is added or subtracted.
    pub delta: u64,
    /// The unique number that the item has to have; 0 if any will do.
    pub unique: u64,
    /// The item that is created if there is none.
    pub vivify: Option<Vivify>,
}

/// An item that is created if there is none.
pub struct Vivify {
    /// The initial value.
    pub initial: u64,
    /// When it expires, by the server's clock.
    pub expiry: u32,
}

/// The result of a calculation.
pub enum Calculated {
    /// The value has changed, or has been created.
    Value {
        /// The new value.
        value: u64,
        /// The item that has it.
        item: Number,
        /// Whether the item has been created.
        is_new: bool,
    },
    /// There is no item.
    NotFound,
    /// The value is not a number.
    NotNumeric,
    /// The item has another unique number.
    Exists,
    /// There is no memory for the new value.
    OutOfMemory,
}

impl<'a, S: Stream> Session<'a, S> {
    /// Adds to the value of a key, or subtracts from it. Returns the shard of the key, locked.
    ///
    /// As in memcached, a lookup that creates the item counts neither as a hit nor as a miss. A
    /// value that memcached keeps in several chunks is not a number. A value that gets shorter is
    /// filled up with blanks, unless unsent answers to meta commands hold its item: memcached
    /// creates a new item then.
    pub(super) fn calculate(&self, wanted: &Calculation<'_>) -> (Lookup<'a>, Calculated) {
        let mut found = self.look_up(wanted.key);
        let calculated = match (found.item, &wanted.vivify) {
            (Some(item), _) => self.change(&mut found.shard, found.place.hash, item, wanted),
            (None, Some(vivify)) => self.vivify(&mut found.shard, found.place.hash, wanted.key, vivify),
            (None, None) => {
                let counters = &mut found.shard.counters;
                *(if wanted.add { &mut counters.incr_misses } else { &mut counters.decr_misses }) += 1;
                Calculated::NotFound
            }
        };
        (found, calculated)
    }

    fn change(&self, shard: &mut Shard, hash: u32, item: Number, wanted: &Calculation<'_>) -> Calculated {
        let Calculation { key, add, delta, unique, .. } = *wanted;
        let (fresh, moment) = (&self.server.store.fresh, self.moment);
        let length = shard.blocks.length(item);
        if length == 0 || shard.size(item) > shard.largest_chunk() {
            return Calculated::NotNumeric;
        }
        if unique != 0 && unique != shard.compared(item) {
            return Calculated::Exists;
        }
        let mut text = Vec::with_capacity(LONGEST as usize);
        shard.blocks.copy_out(&mut shard.blocks.value(item), length.min(LONGEST) as usize, &mut text);
        // If the number goes on after the bytes that are parsed, the value is not a number.
        let is_cut = length > LONGEST && text.trim_ascii_start().iter().all(u8::is_ascii_digit);
        let Some(value) = number::unsigned(&text).filter(|_| !is_cut) else { return Calculated::NotNumeric };
        let value = if add { value.wrapping_add(delta) } else { value.saturating_sub(delta) };
        let hits = &mut shard.class(item).counters;
        *(if add { &mut hits.incr_hits } else { &mut hits.decr_hits }) += 1;
        text.clear();
        number::push(&mut text, value);
        let is_held = shard.blocks.pins(item) > 0 || self.held.contains(&shard.blocks.unique(item));
        if text.len() <= length as usize && !is_held {
            text.resize(length as usize, b' ');
            let start = shard.blocks.value(item);
            shard.blocks.overwrite(start, &text);
            shard.blocks.set_unique(item, fresh.next());
            shard.spare(item);
            return Calculated::Value { value, item, is_new: false };
        }
        let (flags, expiry) = (shard.blocks.flags(item), shard.blocks.expiry(item));
        let mut terms = Terms::new(key, flags, expiry, fresh, moment);
        terms.base64 = shard.blocks.is_marked(item, BASE64);
        let Some(draft) = shard.draft(key, &text, text.len(), moment) else { return Calculated::OutOfMemory };
        let old = shard.find(hash, key, moment);
        let item = shard.publish(draft, old, hash, &terms, text.len() as u32);
        Calculated::Value { value, item, is_new: false }
    }

    fn vivify(&self, shard: &mut Shard, hash: u32, key: &[u8], vivify: &Vivify) -> Calculated {
        let mut text = Vec::new();
        number::push(&mut text, vivify.initial);
        let Some(draft) = shard.draft(key, &text, text.len(), self.moment) else { return Calculated::OutOfMemory };
        let terms = Terms::new(key, 0, vivify.expiry, &self.server.store.fresh, self.moment);
        let item = shard.publish(draft, None, hash, &terms, text.len() as u32);
        if vivify.expiry != 0 {
            self.server.sweeper.call();
        }
        Calculated::Value { value: vivify.initial, item, is_new: true }
    }
}
