//! Making room: pages and blocks, and the items that are evicted for them.

use super::Moment;
use super::blocks::{NONE, Number};
use super::item::{FETCHED, SPARED};
use super::shard::Shard;
use crate::memcached::watch::Eviction;

/// The largest number of marked items that are spared each time room is made. Unmeasured.
const MOST_SPARED: usize = 32;

/// The number of old items that are checked for an expired or flushed one, if items must not be
/// evicted. memcached's number.
const MOST_TRIED: usize = 5;

/// Items in the order in which they are evicted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Queue {
    /// The item that was stored last.
    newest: Number,
    /// The item that is evicted next.
    pub(super) oldest: Number,
}

/// The kind of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Items in blocks.
    Small,
    /// Items in whole pages.
    Large,
}

impl Shard {
    /// Makes sure that this number of blocks can be taken. Returns `false` if that is not possible.
    #[inline]
    pub(super) fn make_room(&mut self, blocks: usize, moment: Moment) -> bool {
        self.blocks.available() >= blocks || self.make_room_slow(blocks, moment)
    }

    #[cold]
    fn make_room_slow(&mut self, blocks: usize, moment: Moment) -> bool {
        while self.blocks.available() < blocks {
            if !self.blocks.grow() && !self.evict_one(moment) {
                return false;
            }
        }
        true
    }

    /// Takes a whole page. Evicts large items for it, of this shard or of others.
    #[cold]
    pub(super) fn take_page(&mut self, moment: Moment) -> Option<Number> {
        loop {
            if let Some(page) = self.blocks.take_whole() {
                return Some(page);
            }
            if !self.evict_large(moment) {
                return None;
            }
        }
    }

    /// Evicts the older one of two items: this shard's oldest small item, and the oldest large item
    /// of all shards. The pages of a large item can go to any shard.
    fn evict_one(&mut self, moment: Moment) -> bool {
        let small = match self.small.oldest {
            NONE => u64::MAX,
            oldest => self.blocks.unique(oldest),
        };
        if self.family.oldest_large() < small && self.evict_large(moment) {
            return true;
        }
        self.evict_from(Kind::Small, moment) || self.evict_large(moment)
    }

    /// Evicts the oldest large item of all shards, or the next one if its shard is busy.
    fn evict_large(&mut self, moment: Moment) -> bool {
        self.family.by_oldest_large().into_iter().any(|shard| {
            if shard == self.number {
                return self.evict_from(Kind::Large, moment);
            }
            let given = self.family.with_neighbour(shard, |neighbour| neighbour.evict_from(Kind::Large, moment));
            given.unwrap_or(false)
        })
    }

    #[inline(always)]
    fn queue(&mut self, kind: Kind) -> &mut Queue {
        match kind {
            Kind::Small => &mut self.small,
            Kind::Large => &mut self.large,
        }
    }

    /// Evicts the oldest item of a queue. An item that was used goes back to the front instead.
    fn evict_from(&mut self, kind: Kind, moment: Moment) -> bool {
        for _ in 0..MOST_SPARED {
            let item = self.queue(kind).oldest;
            if item == NONE || !self.evicts || !self.is_live(item, moment) || !self.blocks.is_marked(item, SPARED) {
                break;
            }
            self.mark(item, 0, SPARED);
            self.class(item).stock.spared -= 1;
            self.unqueue(item, kind);
            self.enqueue(item, kind);
            self.counters.lru_moves += 1;
        }
        let mut item = self.queue(kind).oldest;
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
            self.class(item).counters.reclaimed += 1;
        } else if self.evicts {
            self.count_eviction(item, moment);
        } else {
            return false;
        }
        self.remove(item);
        true
    }

    fn count_eviction(&mut self, item: Number, moment: Moment) {
        let is_fetched = self.blocks.is_marked(item, FETCHED);
        let is_active = self.blocks.is_marked(item, SPARED);
        let expires = self.blocks.expiry(item) != 0;
        let idle = moment.now.saturating_sub(self.blocks.used_at(item));
        let class = self.class(item);
        class.counters.evicted += 1;
        class.counters.evicted_unfetched += u64::from(!is_fetched);
        class.counters.evicted_active += u64::from(is_active);
        class.counters.evicted_nonzero += u64::from(expires);
        class.evicted_time = idle;
        if self.family.watchers.wants(Eviction::TOPIC) {
            let (length, expiry) = (self.blocks.length(item), self.blocks.expiry(item));
            let key = self.blocks.key(item);
            let ttl = if expires { i64::from(expiry) - i64::from(moment.now) } else { -1 };
            let class = self.class_of(item);
            self.family.watchers.say_evicted(&Eviction { key: &key, is_fetched, ttl, idle, class, length });
        }
    }

    #[inline]
    pub(super) fn kind_of(&self, item: Number) -> Kind {
        if self.blocks.is_whole(item) { Kind::Large } else { Kind::Small }
    }

    /// Puts an item where it is evicted last.
    #[inline(always)]
    pub(super) fn enqueue(&mut self, item: Number, kind: Kind) {
        let newest = self.queue(kind).newest;
        self.blocks.set_older(item, newest);
        self.blocks.set_newer(item, NONE);
        match newest {
            NONE => self.queue(kind).oldest = item,
            newest => self.blocks.set_newer(newest, item),
        }
        self.queue(kind).newest = item;
        self.publish_oldest(kind);
    }

    #[inline(always)]
    pub(super) fn unqueue(&mut self, item: Number, kind: Kind) {
        let (older, newer) = (self.blocks.older(item), self.blocks.newer(item));
        match older {
            NONE => self.queue(kind).oldest = newer,
            older => self.blocks.set_newer(older, newer),
        }
        match newer {
            NONE => self.queue(kind).newest = older,
            newer => self.blocks.set_older(newer, older),
        }
        self.publish_oldest(kind);
    }

    #[inline(always)]
    fn publish_oldest(&mut self, kind: Kind) {
        if kind == Kind::Large {
            self.publish_oldest_slow();
        }
    }

    #[cold]
    fn publish_oldest_slow(&mut self) {
        let unique = match self.large.oldest {
            NONE => u64::MAX,
            oldest => self.blocks.unique(oldest),
        };
        self.family.publish_oldest(self.number, unique);
    }
}
