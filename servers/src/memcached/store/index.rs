//! The index: finds items by their hash. Its table grows by one place at a time.
//!
//! The low bits of a hash are the number of its place. There are between `low` and `2 * low`
//! places. Places from `low` on are the upper halves of places that have been split.

use super::blocks::{Blocks, NONE, Number};

const SEGMENT_PLACES: usize = 4096;

/// The number of bytes by which the table grows.
pub const SEGMENT: usize = SEGMENT_PLACES * size_of::<Number>();

/// The first item of each place. The items of a place are chained.
pub struct Index {
    segments: Vec<Box<[Number]>>,
    places: usize,
    /// The largest power of two that is at most `places`.
    low: usize,
    items: usize,
    most_segments: usize,
}

impl Index {
    /// Returns an empty index of at most this number of bytes, but of one segment at least.
    pub fn new(bytes: usize) -> Index {
        let most_segments = (bytes / SEGMENT).max(1);
        Index {
            segments: vec![vec![NONE; SEGMENT_PLACES].into()],
            places: SEGMENT_PLACES,
            low: SEGMENT_PLACES,
            items: 0,
            most_segments,
        }
    }

    /// Returns the number of bytes taken from the system.
    pub fn bytes(&self) -> usize {
        self.segments.len() * SEGMENT
    }

    /// Returns the number of items.
    pub fn items(&self) -> usize {
        self.items
    }

    /// Returns the number of places.
    pub fn places(&self) -> usize {
        self.places
    }

    #[inline]
    fn place_of(&self, hash: u32) -> usize {
        let place = hash as usize & (2 * self.low - 1);
        if place < self.places { place } else { place & (self.low - 1) }
    }

    /// Returns the first item of a place.
    #[inline]
    pub fn first_at(&self, place: usize) -> Number {
        self.segments[place / SEGMENT_PLACES][place % SEGMENT_PLACES]
    }

    #[inline]
    fn first_mut(&mut self, place: usize) -> &mut Number {
        &mut self.segments[place / SEGMENT_PLACES][place % SEGMENT_PLACES]
    }

    /// Returns the item with this key.
    #[inline]
    pub fn find(&self, blocks: &Blocks, hash: u32, key: &[u8]) -> Option<Number> {
        let mut item = self.first_at(self.place_of(hash));
        while item != NONE {
            if blocks.hash(item) == hash && blocks.has_key(item, key) {
                return Some(item);
            }
            item = blocks.chained(item);
        }
        None
    }

    /// Adds an item whose hash has been set. The caller has checked that its key is not in the
    /// index.
    #[inline]
    pub fn insert(&mut self, blocks: &mut Blocks, item: Number) {
        self.items += 1;
        if self.items > self.places {
            self.split(blocks);
        }
        let first = self.first_mut(self.place_of(blocks.hash(item)));
        blocks.set_chained(item, *first);
        *first = item;
    }

    /// Removes an item that is in the index.
    #[inline]
    pub fn remove(&mut self, blocks: &mut Blocks, item: Number) {
        let place = self.place_of(blocks.hash(item));
        self.items -= 1;
        let (next, first) = (blocks.chained(item), self.first_mut(place));
        if *first == item {
            *first = next;
            return;
        }
        let mut before = *first;
        while blocks.chained(before) != item {
            before = blocks.chained(before);
        }
        blocks.set_chained(before, next);
    }

    /// Puts one item in the place of another.
    pub fn replace(&mut self, blocks: &mut Blocks, old: Number, new: Number) {
        self.remove(blocks, old);
        self.insert(blocks, new);
    }

    /// Splits the next place in two, if there is memory for it.
    fn split(&mut self, blocks: &mut Blocks) {
        if self.places == self.segments.len() * SEGMENT_PLACES && !self.grow() {
            return;
        }
        let (from, to) = (self.places - self.low, self.places);
        let mut item = std::mem::replace(self.first_mut(from), NONE);
        self.places += 1;
        while item != NONE {
            let next = blocks.chained(item);
            let place = if blocks.hash(item) as usize & self.low == 0 { from } else { to };
            let first = self.first_mut(place);
            blocks.set_chained(item, *first);
            *first = item;
            item = next;
        }
        if self.places == 2 * self.low {
            self.low = self.places;
        }
    }

    /// Adds a segment. Returns `false` if there is no memory.
    fn grow(&mut self) -> bool {
        let mut segment = Vec::new();
        if self.segments.len() == self.most_segments
            || self.segments.try_reserve(1).is_err()
            || segment.try_reserve_exact(SEGMENT_PLACES).is_err()
        {
            return false;
        }
        segment.resize(SEGMENT_PLACES, NONE);
        self.segments.push(segment.into());
        true
    }
}
