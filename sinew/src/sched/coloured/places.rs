//! Numbered places for ready strands. Each place that is taken is a link of up to two lists, so that a
//! strand can be taken out of the midst of both in constant time.
//!
//! The lists are made of numbers, not of pointers. A thread that knows only a number asks whether the
//! place still has its strand.

use super::worth::Shelf;
use crate::sched::{Ready, Weight};

/// Stands for no place.
const NOWHERE: u32 = u32::MAX;

/// Which of the two lists of a place is meant.
#[derive(Clone, Copy)]
pub(super) enum Chain {
    /// The order in which the processor runs its strands.
    Turns = 0,
    /// A shelf for thieves.
    Shelf = 1,
}

/// The ends of a list; both `NOWHERE`, or neither.
#[derive(Clone, Copy)]
pub(super) struct List {
    first: u32,
    last: u32,
}

#[derive(Clone, Copy)]
struct Neighbours {
    before: u32,
    after: u32,
}

struct Place {
    /// `None` if the place is free.
    strand: Option<Ready>,
    /// What the strand weighed when it was put here, or when it was weighed again. If it has no letters, the rest is
    /// not written.
    weight: Weight,
    /// The shelf whose list it is in.
    shelf: Option<Shelf>,
    neighbours: [Neighbours; 2],
}

pub(super) struct Places {
    places: Vec<Place>,
    /// The first free place. Each free place has the next one `after` it in the chain of turns.
    free: u32,
}

impl List {
    pub(super) const EMPTY: List = List { first: NOWHERE, last: NOWHERE };

    pub(super) fn first(&self) -> Option<u32> {
        known(self.first)
    }
}

fn known(place: u32) -> Option<u32> {
    (place != NOWHERE).then_some(place)
}

impl Places {
    pub(super) const fn new() -> Places {
        Places { places: Vec::new(), free: NOWHERE }
    }

    /// Puts a strand into a free place. Returns the place, which is in no list.
    #[inline]
    pub(super) fn put(&mut self, strand: Ready, weight: Weight) -> u32 {
        let Some(free) = known(self.free) else { return self.put_behind(strand, weight) };
        let place = &mut self.places[free as usize];
        self.free = place.neighbours[Chain::Turns as usize].after;
        place.strand = Some(strand);
        // The weight was written in parts a moment ago, and a copy of the whole waits for that: 40 ns of a yield.
        place.weight.letters = weight.letters;
        if weight.letters > 0 {
            place.weight = weight;
        }
        free
    }

    #[cold]
    fn put_behind(&mut self, strand: Ready, weight: Weight) -> u32 {
        let neighbours = [Neighbours { before: NOWHERE, after: NOWHERE }; 2];
        self.places.push(Place { strand: Some(strand), weight, shelf: None, neighbours });
        (self.places.len() - 1) as u32
    }

    /// Empties a place that is in no list any more.
    ///
    /// # Panics
    /// Panics if the place is free.
    pub(super) fn take(&mut self, place: u32) -> (Ready, Weight) {
        let freed = &mut self.places[place as usize];
        let strand = freed.strand.take().expect("a place in a list has a strand");
        debug_assert!(freed.shelf.is_none());
        freed.neighbours[Chain::Turns as usize].after = self.free;
        self.free = place;
        (strand, freed.weight)
    }

    /// Returns the strand in a place; `None` if the place is free or does not exist.
    pub(super) fn strand(&self, place: u32) -> Option<&Ready> {
        self.places.get(place as usize)?.strand.as_ref()
    }

    pub(super) fn weight(&self, place: u32) -> Weight {
        self.places[place as usize].weight
    }

    pub(super) fn set_weight(&mut self, place: u32, weight: Weight) {
        self.places[place as usize].weight = weight;
    }

    pub(super) fn shelf(&self, place: u32) -> Option<Shelf> {
        self.places[place as usize].shelf
    }

    pub(super) fn set_shelf(&mut self, place: u32, shelf: Option<Shelf>) {
        self.places[place as usize].shelf = shelf;
    }

    /// Returns the place behind `place` in a list.
    pub(super) fn after(&self, chain: Chain, place: u32) -> Option<u32> {
        known(self.places[place as usize].neighbours[chain as usize].after)
    }

    fn neighbours(&mut self, chain: Chain, place: u32) -> &mut Neighbours {
        &mut self.places[place as usize].neighbours[chain as usize]
    }

    /// Appends a place, which is in no list of this chain.
    pub(super) fn append(&mut self, chain: Chain, list: &mut List, place: u32) {
        *self.neighbours(chain, place) = Neighbours { before: list.last, after: NOWHERE };
        match known(list.last) {
            Some(last) => self.neighbours(chain, last).after = place,
            None => list.first = place,
        }
        list.last = place;
    }

    /// Takes a place out of `list`, which it is in.
    pub(super) fn remove(&mut self, chain: Chain, list: &mut List, place: u32) {
        let Neighbours { before, after } = *self.neighbours(chain, place);
        match known(before) {
            Some(before) => self.neighbours(chain, before).after = after,
            None => list.first = after,
        }
        match known(after) {
            Some(after) => self.neighbours(chain, after).before = before,
            None => list.last = before,
        }
    }
}
