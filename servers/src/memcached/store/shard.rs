//! A shard: a part of all items, with its memory, its index, and its order of eviction.

use super::blocks::{Blocks, NONE, Number};
use super::counters::Class;
use super::draft::Draft;
use super::eviction::{Kind, Queue};
use super::family::Family;
use super::index::Index;
use super::item::{BASE64, FETCHED, Header, LINKED, SPARED, TEMPORARY, blocks_for};
use super::{Counters, Moment, Terms};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A part of all items. The caller of every method has locked the shard.
pub struct Shard {
    pub(in crate::memcached) blocks: Blocks,
    pub(in crate::memcached) index: Index,
    /// Items in blocks, in the order in which they are evicted.
    pub(super) small: Queue,
    /// Items in whole pages, in the order in which they are evicted.
    pub(super) large: Queue,
    /// The number of items that can expire.
    pub(in crate::memcached) expiring: usize,
    pub(super) evicts: bool,
    /// Whether unique numbers are compared.
    pub(super) has_unique: bool,
    /// The largest item, as memcached counts it.
    pub(super) largest: usize,
    pub(in crate::memcached) counters: Counters,
    /// Counters by class of sizes.
    pub(in crate::memcached) classes: Box<[Class]>,
    /// The classes that may have items or counters, as bits.
    pub(super) touched: u64,
    pub(super) family: Arc<Family>,
    /// The shard's number in the family.
    pub(super) number: usize,
}

impl Shard {
    /// Returns an empty shard whose index takes at most `index_bytes` bytes.
    pub fn new(family: Arc<Family>, number: usize, index_bytes: usize, largest: usize, evicts: bool) -> Shard {
        Shard {
            blocks: Blocks::new(Arc::clone(&family.pool)),
            index: Index::new(index_bytes),
            small: Queue::default(),
            large: Queue::default(),
            expiring: 0,
            evicts,
            has_unique: true,
            largest,
            counters: Counters::default(),
            classes: vec![Class::default(); family.classes.count()].into(),
            touched: 0,
            family,
            number,
        }
    }

    /// Returns whether an item has neither expired nor been flushed.
    #[inline]
    pub(super) fn is_live(&self, item: Number, moment: Moment) -> bool {
        let expiry = self.blocks.expiry(item);
        (expiry == 0 || expiry > moment.now) && self.blocks.unique(item) > moment.flushed
    }

    /// Finds the item with this key. Removes and counts an item that has expired or been flushed.
    #[inline]
    pub fn find(&mut self, hash: u32, key: &[u8], moment: Moment) -> Option<Number> {
        let item = self.index.find(&self.blocks, hash, key)?;
        if self.is_live(item, moment) {
            return Some(item);
        }
        self.expire_slow(item, moment);
        None
    }

    #[cold]
    fn expire_slow(&mut self, item: Number, moment: Moment) {
        if self.blocks.unique(item) <= moment.flushed {
            self.counters.get_flushed += 1;
        } else {
            self.counters.get_expired += 1;
        }
        self.remove(item);
    }

    /// Notes that a client has asked for an item. From the second time on eviction spares it.
    #[inline]
    pub fn notice(&mut self, item: Number, moment: Moment) {
        let marks = self.blocks.marks(item);
        if marks & (FETCHED | SPARED) != FETCHED | SPARED {
            if marks & FETCHED == 0 {
                self.blocks.set_marks(item, marks | FETCHED);
            } else {
                self.spare(item);
            }
        }
        if self.blocks.used_at(item) != moment.now {
            self.blocks.set_used_at(item, moment.now);
        }
    }

    /// Makes eviction spare an item.
    pub fn spare(&mut self, item: Number) {
        if !self.blocks.is_marked(item, SPARED) {
            self.mark(item, SPARED, 0);
            let class = self.class(item);
            class.stock.spared += 1;
            class.counters.spared += 1;
        }
    }

    /// Counts that a client asked for a key, to touch the item or not.
    #[inline]
    pub fn count_get(&mut self, found: Option<Number>, touches: bool) {
        if touches {
            self.counters.cmd_touch += 1;
        } else {
            self.counters.cmd_get += 1;
        }
        match (found, touches) {
            (Some(item), true) => self.class(item).counters.touch_hits += 1,
            (Some(item), false) => self.class(item).counters.get_hits += 1,
            (None, true) => self.counters.touch_misses += 1,
            (None, false) => self.counters.get_misses += 1,
        }
    }

    /// Returns the size of an item, as memcached counts it.
    #[inline]
    pub fn size(&self, item: Number) -> usize {
        let sketch = self.blocks.sketch(item);
        self.family.classes.size(sketch.key_length, sketch.flags, sketch.length)
    }

    /// Returns the unique number of an item, as comparisons see it.
    #[inline]
    pub fn compared(&self, item: Number) -> u64 {
        if self.has_unique { self.blocks.unique(item) } else { 0 }
    }

    /// Returns the class of an item.
    #[inline]
    pub fn class_of(&self, item: Number) -> usize {
        self.family.classes.of(self.size(item))
    }

    /// Returns the counters of an item's class.
    #[inline]
    pub fn class(&mut self, item: Number) -> &mut Class {
        let class = self.class_of(item);
        self.touched |= 1 << class;
        &mut self.classes[class]
    }

    /// Returns the counters of the class of an item that does not exist yet.
    #[inline]
    pub fn class_for(&mut self, key: usize, flags: u32, value: usize) -> &mut Class {
        let classes = &self.family.classes;
        let class = classes.of(classes.size(key, flags, value));
        self.touched |= 1 << class;
        &mut self.classes[class]
    }

    /// Returns the last use of the items that are evicted next, the earlier of both queues.
    pub fn oldest_use(&self) -> Option<u32> {
        let oldest = [self.small.oldest, self.large.oldest].into_iter().filter(|item| *item != NONE);
        oldest.map(|item| self.blocks.used_at(item)).min()
    }

    /// Calls `each` with the items at these places of the index that have neither expired nor been
    /// flushed.
    pub fn visit(&self, places: std::ops::Range<usize>, moment: Moment, mut each: impl FnMut(Number)) {
        for place in places {
            let mut item = self.index.first_at(place);
            while item != NONE {
                if self.is_live(item, moment) {
                    each(item);
                }
                item = self.blocks.chained(item);
            }
        }
    }

    /// Returns memcached's word for the status of a key, the class of its item, and the length of
    /// its value. Changes nothing.
    #[cold]
    pub fn status(&self, hash: u32, key: &[u8], moment: Moment) -> (&'static str, usize, u32) {
        match self.index.find(&self.blocks, hash, key) {
            None => ("not_found", 0, 0),
            Some(item) if self.blocks.unique(item) <= moment.flushed => ("flushed", 0, 0),
            Some(item) if !self.is_live(item, moment) => ("expired", 0, 0),
            Some(item) => ("found", self.class_of(item), self.blocks.length(item)),
        }
    }

    /// Sets when an item expires.
    pub fn set_expiry(&mut self, item: Number, expiry: u32) {
        self.expiring -= usize::from(self.blocks.expiry(item) != 0);
        self.expiring += usize::from(expiry != 0);
        self.blocks.set_expiry(item, expiry);
    }

    /// Returns the size of the largest item that is one chunk in memcached.
    pub fn largest_chunk(&self) -> usize {
        self.family.classes.chunk(self.family.classes.count() - 1)
    }

    /// Sets and clears marks of an item.
    pub fn mark(&mut self, item: Number, set: u8, clear: u8) {
        let marks = self.blocks.marks(item);
        self.blocks.set_marks(item, (marks | set) & !clear);
    }

    /// Removes an item. Its memory is freed when it is not pinned.
    pub fn remove(&mut self, item: Number) {
        self.index.remove(&mut self.blocks, item);
        self.let_go(item);
    }

    /// Does the part of `remove` that does not concern the index.
    fn let_go(&mut self, item: Number) {
        let sketch = self.blocks.sketch(item);
        let size = self.family.classes.size(sketch.key_length, sketch.flags, sketch.length);
        let (is_temporary, is_spared) = (sketch.marks & TEMPORARY != 0, sketch.marks & SPARED != 0);
        let stock = &mut self.classes[self.family.classes.of(size)].stock;
        stock.items -= 1;
        stock.bytes -= size as u64;
        stock.temporary -= u64::from(is_temporary);
        stock.spared -= u64::from(is_spared);
        let kind = self.kind_of(item);
        if !is_temporary {
            self.unqueue(item, kind);
        }
        self.expiring -= usize::from(sketch.expiry != 0);
        if sketch.is_pinned {
            self.mark(item, 0, LINKED);
        } else if kind == Kind::Small {
            self.blocks.free_blocks(item, blocks_for(sketch.key_length + sketch.length));
        } else {
            self.blocks.release(item);
        }
    }

    /// Pins an item: its memory stays even if the item is removed. Returns `false` if it has too
    /// many pins.
    pub fn pin(&mut self, item: Number) -> bool {
        let pins = self.blocks.pins(item);
        if pins < u16::MAX {
            self.blocks.set_pins(item, pins + 1);
        }
        pins < u16::MAX
    }

    /// Removes a pin, and frees the memory of a removed item with its last pin.
    pub fn unpin(&mut self, item: Number) {
        let pins = self.blocks.pins(item) - 1;
        self.blocks.set_pins(item, pins);
        if pins == 0 && !self.blocks.is_marked(item, LINKED) {
            self.blocks.release(item);
        }
    }

    /// Begins a draft with this key and the beginning of its value, whose full length is `length`
    /// bytes. Returns `None` if there is no memory.
    pub fn draft(&mut self, key: &[u8], begun: &[u8], length: usize, moment: Moment) -> Option<Draft> {
        let is_short = length <= SHORT && begun.len() == length;
        if !self.make_room(blocks_for(key.len() + begun.len().min(SHORT)), moment) {
            return None;
        }
        let mut draft = Draft::begin(&mut self.blocks, key.len() + length);
        if is_short {
            draft.push(&mut self.blocks, key);
            draft.push(&mut self.blocks, begun);
            return Some(draft);
        }
        if self.extend(&mut draft, key, moment) && self.extend(&mut draft, begun, moment) {
            return Some(draft);
        }
        draft.discard(&mut self.blocks);
        None
    }

    /// Adds to a draft. Returns `false` if there is no memory.
    #[inline]
    pub fn extend(&mut self, draft: &mut Draft, bytes: &[u8], moment: Moment) -> bool {
        let mut bytes = bytes;
        loop {
            let (rest, wants_page) = draft.fill(&mut self.blocks, bytes);
            bytes = rest;
            if !wants_page {
                break;
            }
            let page = self.take_page(moment);
            draft.add_page(&mut self.blocks, page);
        }
        let fits = self.make_room(draft.needs(bytes.len()), moment);
        if fits {
            draft.push(&mut self.blocks, bytes);
        }
        fits
    }

    /// Adds to a draft what a client has sent of its value. Returns `false` if there is no memory,
    /// or if values that are being received take too much of it.
    pub fn receive(&mut self, draft: &mut Draft, bytes: &[u8], moment: Moment) -> bool {
        let fits = self.family.pool.may_receive(draft.needs(bytes.len()), blocks_for(self.largest))
            && self.extend(draft, bytes, moment);
        self.family.pool.count_half_sent(draft.half_sent, draft.size());
        draft.half_sent = draft.size();
        fits
    }

    /// Gives the memory of a draft back.
    pub fn discard(&mut self, draft: Draft) {
        self.family.pool.count_half_sent(draft.half_sent, 0);
        draft.discard(&mut self.blocks);
    }

    /// Makes a draft an item, in place of `old`.
    pub fn publish(&mut self, draft: Draft, old: Option<Number>, hash: u32, terms: &Terms<'_>, length: u32) -> Number {
        let item = draft.first;
        if draft.half_sent > 0 {
            self.family.pool.count_half_sent(draft.half_sent, 0);
        }
        let is_temporary = self.is_temporary(terms);
        let header = Header {
            hash,
            flags: terms.flags,
            expiry: terms.expiry,
            used_at: terms.moment.now,
            unique: terms.fresh.next(),
            length,
            key_length: terms.key.len(),
            marks: LINKED | if terms.base64 { BASE64 } else { 0 } | if is_temporary { TEMPORARY } else { 0 },
        };
        self.blocks.set_header(item, &header);
        self.expiring += usize::from(terms.expiry != 0);
        match old {
            Some(old) => {
                self.index.replace(&mut self.blocks, old, item);
                self.let_go(old);
            }
            None => self.index.insert(&mut self.blocks, item),
        }
        if !is_temporary {
            self.enqueue(item, self.kind_of(item));
        }
        let size = self.family.classes.size(terms.key.len(), terms.flags, length as usize);
        let class = self.family.classes.of(size);
        self.touched |= 1 << class;
        let stock = &mut self.classes[class].stock;
        stock.items += 1;
        stock.bytes += size as u64;
        stock.temporary += u64::from(is_temporary);
        self.counters.total_items += 1;
        item
    }

    /// Returns whether an item expires so soon that it is not evicted.
    #[inline]
    fn is_temporary(&self, terms: &Terms<'_>) -> bool {
        terms.expiry != 0 && {
            let limit = self.family.temporary_ttl.load(Relaxed);
            limit != 0 && terms.expiry.saturating_sub(terms.moment.now) <= limit
        }
    }
}

/// The length of the longest value for which room is made before its draft begins.
const SHORT: usize = 8 * 1024;
