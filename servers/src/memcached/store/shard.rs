//! One part of all items: memory, index, and the order in which they are given up.

use super::blocks::{Blocks, NONE, Number};
use super::index::Index;
use super::item::{BASE64, Draft, FETCHED, LINKED, SPARED, STALE, WON, blocks_for};
use super::{Counters, Moment, Outcome, Terms};
use sinew_memcached_protocol::Verb;

/// As many marked items are spared at a time, when room is needed. Unmeasured.
const MOST_SPARED: usize = 32;

/// As many old items are looked at for one that is gone anyway, when nothing may be evicted.
/// memcached's number.
const MOST_TRIED: usize = 5;

/// Values that are being received may take this part of a shard's memory, but two of the largest
/// at least. The rest stays with items, however many clients begin to send and do not go on.
const HALF_SENT_SHARE: usize = 4;

/// The index may take this part of a shard's memory.
const INDEX_SHARE: usize = 32;

/// A part of all items. Every method is called under its lock.
pub struct Shard {
    pub(in crate::memcached) blocks: Blocks,
    pub(in crate::memcached) index: Index,
    /// The item that was stored last.
    newest: Number,
    /// The next to be given up.
    pub(in crate::memcached) oldest: Number,
    /// Items that can expire.
    pub(in crate::memcached) expiring: usize,
    pub(in crate::memcached) evicts: bool,
    /// Blocks of values that are being received, and how many these may be.
    half_sent: usize,
    most_half_sent: usize,
    /// The largest item, as memcached counts it.
    largest: usize,
    pub(in crate::memcached) counters: Counters,
}

/// A value with its key, to be stored.
pub enum Content<'a> {
    /// Everything at hand.
    Whole(&'a [u8]),
    /// Key and value have been put there already.
    Drafted(Draft, u32),
}

impl Shard {
    /// A shard that takes at most so many bytes.
    pub fn new(bytes: usize, largest: usize, evicts: bool) -> Shard {
        let index = Index::new(bytes / INDEX_SHARE);
        let blocks = Blocks::new(bytes - bytes / INDEX_SHARE);
        let (all, two) = (blocks.capacity(), 2 * blocks_for(largest));
        Shard {
            blocks,
            index,
            newest: NONE,
            oldest: NONE,
            expiring: 0,
            evicts,
            half_sent: 0,
            most_half_sent: (all / HALF_SENT_SHARE).max(two).min(all / 2),
            largest,
            counters: Counters::default(),
        }
    }

    /// Whether an item is still to be found.
    #[inline]
    fn is_live(&self, item: Number, moment: Moment) -> bool {
        let expiry = self.blocks.expiry(item);
        (expiry == 0 || expiry > moment.now) && self.blocks.unique(item) > moment.flushed
    }

    /// The item with this key. One that is gone anyway is removed.
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

    /// Notes that an item has been asked for.
    #[inline]
    pub fn notice(&mut self, item: Number, moment: Moment) {
        let marks = self.blocks.marks(item);
        if marks & (FETCHED | SPARED) != FETCHED | SPARED {
            self.blocks.set_marks(item, marks | FETCHED | SPARED);
        }
        if self.blocks.used_at(item) != moment.now {
            self.blocks.set_used_at(item, moment.now);
        }
    }

    /// Lets it expire at another time.
    pub fn set_expiry(&mut self, item: Number, expiry: u32) {
        self.expiring -= usize::from(self.blocks.expiry(item) != 0);
        self.expiring += usize::from(expiry != 0);
        self.blocks.set_expiry(item, expiry);
    }

    /// Changes marks of an item.
    pub fn mark(&mut self, item: Number, set: u8, clear: u8) {
        let marks = self.blocks.marks(item);
        self.blocks.set_marks(item, (marks | set) & !clear);
    }

    /// Makes sure that so many blocks can be taken.
    #[inline]
    pub fn make_room(&mut self, blocks: usize, moment: Moment) -> bool {
        self.blocks.available() >= blocks || self.make_room_slow(blocks, moment)
    }

    #[cold]
    fn make_room_slow(&mut self, blocks: usize, moment: Moment) -> bool {
        if blocks > self.blocks.capacity() {
            return false;
        }
        while self.blocks.available() < blocks {
            if !self.blocks.grow() && !self.give_one_up(moment) {
                self.counters.out_of_memory += 1;
                return false;
            }
        }
        true
    }

    fn give_one_up(&mut self, moment: Moment) -> bool {
        for _ in 0..MOST_SPARED {
            let item = self.oldest;
            if item == NONE || !self.evicts || !self.is_live(item, moment) || !self.blocks.is_marked(item, SPARED) {
                break;
            }
            self.mark(item, 0, SPARED);
            self.unqueue(item);
            self.enqueue(item);
        }
        let mut item = self.oldest;
        if !self.evicts {
            let mut tried = 0;
            while item != NONE && self.is_live(item, moment) && tried < MOST_TRIED {
                (item, tried) = (self.blocks.newer(item), tried + 1);
            }
        }
        if item == NONE {
            return false;
        }
        if !self.is_live(item, moment) {
            self.counters.reclaimed += 1;
        } else if self.evicts {
            self.counters.evictions += 1;
            self.counters.evicted_unfetched += u64::from(!self.blocks.is_marked(item, FETCHED));
        } else {
            return false;
        }
        self.remove(item);
        true
    }

    /// Puts an item where it is given up last.
    #[inline]
    fn enqueue(&mut self, item: Number) {
        self.blocks.set_older(item, self.newest);
        self.blocks.set_newer(item, NONE);
        match self.newest {
            NONE => self.oldest = item,
            newest => self.blocks.set_newer(newest, item),
        }
        self.newest = item;
    }

    #[inline]
    fn unqueue(&mut self, item: Number) {
        let (older, newer) = (self.blocks.older(item), self.blocks.newer(item));
        match older {
            NONE => self.oldest = newer,
            older => self.blocks.set_newer(older, newer),
        }
        match newer {
            NONE => self.newest = older,
            newer => self.blocks.set_older(newer, older),
        }
    }

    /// Takes an item out. Its memory is free when nobody has it pinned.
    pub fn remove(&mut self, item: Number) {
        self.index.remove(&mut self.blocks, item);
        self.let_go(item);
    }

    /// The part of `remove` that does not concern the index.
    fn let_go(&mut self, item: Number) {
        self.unqueue(item);
        self.expiring -= usize::from(self.blocks.expiry(item) != 0);
        if self.blocks.pins(item) == 0 {
            let count = self.blocks.item_blocks(item);
            self.blocks.give_back(item, count);
        } else {
            self.mark(item, 0, LINKED);
        }
    }

    /// Keeps its memory, whatever happens to it. `false` if too many have done so.
    pub fn pin(&mut self, item: Number) -> bool {
        let pins = self.blocks.pins(item);
        if pins < u16::MAX {
            self.blocks.set_pins(item, pins + 1);
        }
        pins < u16::MAX
    }

    /// Ends what `pin` began.
    pub fn unpin(&mut self, item: Number) {
        let pins = self.blocks.pins(item) - 1;
        self.blocks.set_pins(item, pins);
        if pins == 0 && !self.blocks.is_marked(item, LINKED) {
            let count = self.blocks.item_blocks(item);
            self.blocks.give_back(item, count);
        }
    }

    /// A draft with this key and the value, or what of it is there so far.
    pub fn draft(&mut self, key: &[u8], value: &[u8], moment: Moment) -> Option<Draft> {
        if !self.make_room(blocks_for(key.len() + value.len()), moment) {
            return None;
        }
        let mut draft = Draft::begin(&mut self.blocks);
        draft.push(&mut self.blocks, key);
        draft.push(&mut self.blocks, value);
        Some(draft)
    }

    /// Adds to a draft what has been received. `false` if there is no memory, or too much is taken
    /// by values that are being received.
    pub fn extend(&mut self, draft: &mut Draft, bytes: &[u8], moment: Moment) -> bool {
        let more = draft.needs(bytes.len());
        let fits = self.half_sent + more <= self.most_half_sent && self.make_room(more, moment);
        if fits {
            draft.push(&mut self.blocks, bytes);
            draft.half_sent += more;
            self.half_sent += more;
        }
        fits
    }

    /// Gives a draft up.
    pub fn discard(&mut self, draft: Draft) {
        self.half_sent -= draft.half_sent;
        draft.discard(&mut self.blocks);
    }

    /// Makes an item of a draft, in place of `old`.
    pub fn publish(&mut self, draft: Draft, old: Option<Number>, hash: u32, terms: &Terms<'_>, length: u32) -> Number {
        let item = draft.first;
        self.half_sent -= draft.half_sent;
        let blocks = &mut self.blocks;
        blocks.set_hash(item, hash);
        blocks.set_flags(item, terms.flags);
        blocks.set_expiry(item, terms.expiry);
        blocks.set_used_at(item, terms.moment.now);
        blocks.set_unique(item, terms.fresh.next());
        blocks.set_length(item, length);
        blocks.set_pins(item, 0);
        blocks.set_key_length(item, terms.key.len());
        blocks.set_marks(item, LINKED | if terms.base64 { BASE64 } else { 0 });
        self.expiring += usize::from(terms.expiry != 0);
        match old {
            Some(old) => {
                self.index.replace(&mut self.blocks, old, item);
                self.let_go(old);
            }
            None => self.index.insert(&mut self.blocks, item),
        }
        self.enqueue(item);
        self.counters.total_items += 1;
        item
    }

    /// Stores as the verb says.
    pub fn store(&mut self, verb: Verb, hash: u32, terms: &mut Terms<'_>, content: Content<'_>) -> Outcome {
        let moment = terms.moment;
        self.counters.cmd_set += 1;
        let old = self.find(hash, terms.key, moment);
        let refused = match (verb, old) {
            (Verb::Add, Some(old)) => {
                self.mark(old, SPARED, 0);
                Some(Outcome::NotStored)
            }
            (Verb::Replace | Verb::Append | Verb::Prepend, None) => Some(Outcome::NotStored),
            (Verb::Cas, None) => {
                self.counters.cas_misses += 1;
                Some(Outcome::NotFound)
            }
            (Verb::Cas, Some(old)) => self.compare(old, terms),
            (Verb::Append | Verb::Prepend, Some(old)) => {
                (terms.unique != 0 && self.blocks.unique(old) != terms.unique).then_some(Outcome::Exists)
            }
            _ => None,
        };
        if let Some(refused) = refused {
            if let Content::Drafted(draft, _) = content {
                self.discard(draft);
            }
            return refused;
        }
        if let (Verb::Append | Verb::Prepend, Some(old)) = (verb, old) {
            return self.concatenate(verb, hash, old, terms, content);
        }
        // What is to be replaced may be given up for what replaces it.
        let (draft, length) = match content {
            Content::Drafted(draft, length) => (draft, length),
            Content::Whole(value) => match self.draft(terms.key, value, moment) {
                Some(draft) => (draft, value.len() as u32),
                None => return self.fail(verb, hash, terms),
            },
        };
        let old = old.and_then(|_| self.index.find(&self.blocks, hash, terms.key));
        let item = self.publish(draft, old, hash, terms, length);
        if terms.keeps_stale {
            self.mark(item, STALE | if terms.keeps_won { WON } else { 0 }, 0);
        }
        Outcome::Stored { unique: self.blocks.unique(item) }
    }

    /// What a comparison says against storing.
    fn compare(&mut self, old: Number, terms: &mut Terms<'_>) -> Option<Outcome> {
        let unique = self.blocks.unique(old);
        if unique == terms.unique {
            self.counters.cas_hits += 1;
            None
        } else if terms.accepts_stale && terms.unique < unique {
            terms.keeps_stale = true;
            terms.keeps_won = self.blocks.is_marked(old, WON);
            terms.expiry = self.blocks.expiry(old);
            None
        } else {
            self.counters.cas_badval += 1;
            Some(Outcome::Exists)
        }
    }

    /// There is no memory: what was there is outdated, and goes if it was to be replaced.
    #[cold]
    fn fail(&mut self, verb: Verb, hash: u32, terms: &Terms<'_>) -> Outcome {
        if verb == Verb::Set
            && let Some(old) = self.index.find(&self.blocks, hash, terms.key)
        {
            self.remove(old);
        }
        Outcome::OutOfMemory
    }

    /// A new item from an old one and what is put before it or behind it.
    fn concatenate(
        &mut self,
        verb: Verb,
        hash: u32,
        old: Number,
        terms: &mut Terms<'_>,
        content: Content<'_>,
    ) -> Outcome {
        let added = match &content {
            Content::Whole(value) => value.len(),
            Content::Drafted(_, length) => *length as usize,
        };
        let length = self.blocks.length(old) as usize;
        terms.flags = self.blocks.flags(old);
        terms.expiry = self.blocks.expiry(old);
        terms.base64 = self.blocks.is_marked(old, BASE64);
        // Pinned, for making room must not take it away.
        let is_pinned = self.pin(old);
        let has_room = is_pinned
            && super::size(terms.key.len(), terms.flags, length + added) <= self.largest
            && self.make_room(blocks_for(terms.key.len() + length + added), terms.moment);
        let mut stored = None;
        if has_room {
            let mut draft = Draft::begin(&mut self.blocks);
            draft.push(&mut self.blocks, terms.key);
            let value = self.blocks.value(old);
            if verb == Verb::Append {
                draft.push_from(&mut self.blocks, value, length);
            }
            match &content {
                Content::Whole(value) => draft.push(&mut self.blocks, value),
                Content::Drafted(tail, _) => {
                    let from = self.blocks.behind_key(tail.first, terms.key.len());
                    draft.push_from(&mut self.blocks, from, added);
                }
            }
            if verb == Verb::Prepend {
                draft.push_from(&mut self.blocks, value, length);
            }
            let linked = self.index.find(&self.blocks, hash, terms.key);
            stored = Some(self.publish(draft, linked, hash, terms, (length + added) as u32));
        }
        if is_pinned {
            self.unpin(old);
        }
        if let Content::Drafted(tail, _) = content {
            self.discard(tail);
        }
        match stored {
            Some(item) => Outcome::Stored { unique: self.blocks.unique(item) },
            None => Outcome::NotStored,
        }
    }
}
