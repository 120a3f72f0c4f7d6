//! Adding to a value, and subtracting from it.

use super::store::{Fresh, Moment, Number, Shard, Terms};
use sinew_memcached_protocol::number;

/// The answer to what is no number.
pub const NOT_NUMERIC: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";

/// As many bytes of a value are looked at: white space, a sign, and 20 digits.
const LONGEST: u32 = 64;

/// What came of it.
pub enum Calculated {
    /// The new value, and its item.
    Value {
        /// The new value.
        value: u64,
        /// Whose it is.
        item: Number,
    },
    /// There is no item.
    NotFound,
    /// Its value is not a number.
    NotNumeric,
    /// It is not the one that the client thinks.
    Exists,
    /// There is no memory for a longer value.
    OutOfMemory,
}

/// Adds to the value of a key, or subtracts, but not below 0; only if it has that unique
/// number, if that is not 0. A value that gets shorter is filled up with blanks, unless the item is
/// among those that are `held` by answers to meta commands: memcached makes a new one then. A value
/// that memcached keeps in several chunks is no number.
#[allow(clippy::too_many_arguments)]
pub fn calculate(
    shard: &mut Shard,
    hash: u32,
    key: &[u8],
    add: bool,
    delta: u64,
    unique: u64,
    held: &[u64],
    fresh: &Fresh,
    moment: Moment,
) -> Calculated {
    let Some(item) = shard.find(hash, key, moment) else {
        *(if add { &mut shard.counters.incr_misses } else { &mut shard.counters.decr_misses }) += 1;
        return Calculated::NotFound;
    };
    let length = shard.blocks.length(item);
    if length == 0 || shard.size(item) > shard.largest_chunk() {
        return Calculated::NotNumeric;
    }
    if unique != 0 && unique != shard.compared(item) {
        return Calculated::Exists;
    }
    let mut text = Vec::with_capacity(LONGEST as usize);
    shard.blocks.copy_out(&mut shard.blocks.value(item), length.min(LONGEST) as usize, &mut text);
    // A number that goes on behind what was looked at is taken for none.
    let is_cut = length > LONGEST && text.trim_ascii_start().iter().all(u8::is_ascii_digit);
    let Some(value) = number::unsigned(&text).filter(|_| !is_cut) else { return Calculated::NotNumeric };
    let value = if add { value.wrapping_add(delta) } else { value.saturating_sub(delta) };
    let hits = &mut shard.class(item).counters;
    *(if add { &mut hits.incr_hits } else { &mut hits.decr_hits }) += 1;
    text.clear();
    number::push(&mut text, value);
    let is_held = shard.blocks.pins(item) > 0 || held.contains(&shard.blocks.unique(item));
    if text.len() <= length as usize && !is_held {
        text.resize(length as usize, b' ');
        let start = shard.blocks.value(item);
        shard.blocks.overwrite(start, &text);
        shard.blocks.set_unique(item, fresh.next());
        shard.spare(item);
        return Calculated::Value { value, item };
    }
    let (flags, expiry) = (shard.blocks.flags(item), shard.blocks.expiry(item));
    let mut terms = Terms::new(key, flags, expiry, fresh, moment);
    terms.base64 = shard.blocks.is_marked(item, super::store::BASE64);
    let Some(draft) = shard.draft(key, &text, text.len(), moment) else { return Calculated::OutOfMemory };
    let old = shard.find(hash, key, moment);
    let item = shard.publish(draft, old, hash, &terms, text.len() as u32);
    Calculated::Value { value, item }
}
