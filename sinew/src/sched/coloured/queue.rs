//! The strands of one station: the core-queue, in which they have their turns, and the stealing-queue, on
//! whose shelves thieves find them.

use super::places::{Chain, List, Places};
use super::worth::{Shelf, Worth};
use crate::sched::meter::Haul;
use crate::sched::{Claim, Grown, Priority, Ready, Weight};
use crate::strand::{Levels, PassedOver};

/// The station of a colour, and its place there while it is queued. Kept in the note of the strand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) station: usize,
    place: u32,
}

impl Seat {
    /// The bits of a note that hold the place. The rest holds the station plus one: 0 stands for no seat.
    const PLACE_BITS: u32 = 21;
    /// Stands for a place that does not fit. A colour there misses that it has grown.
    const NO_PLACE: u32 = (1 << Seat::PLACE_BITS) - 1;

    pub(super) fn read(note: u32) -> Option<Seat> {
        let station = (note >> Seat::PLACE_BITS).checked_sub(1)?;
        Some(Seat { station: station as usize, place: note & Seat::NO_PLACE })
    }

    fn note(station: usize, place: u32) -> u32 {
        (station as u32 + 1) << Seat::PLACE_BITS | place.min(Seat::NO_PLACE)
    }
}

/// What has become of a colour that has grown.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// It is not in this queue any more, or is as it was.
    None,
    /// It was not worth stealing, and is now.
    Worthy,
}

pub(super) struct Queue {
    places: Places,
    /// A list for each level of priority.
    turns: [List; Priority::LEVELS],
    /// A bit for each level that has strands.
    occupied: u32,
    /// Counts for the head of the least urgent level that is not empty, as [`Levels`] does.
    passed_over: PassedOver,
    shelves: [List; Shelf::NUMBER],
    /// The number of strands on each shelf.
    shelved: [u32; Shelf::NUMBER],
    len: u32,
    colours: u32,
    /// The letters of all colours.
    letters: u64,
    /// The letters of the strand that the processor took last, when it took it.
    running: u32,
}

/// Strands that a thief has taken, and what they weigh.
pub(super) struct Loot {
    pub(super) strands: Levels,
    pub(super) letters: u64,
    pub(super) nanoseconds: u64,
}

impl Queue {
    pub(super) const fn new() -> Queue {
        Queue {
            places: Places::new(),
            turns: [List::EMPTY; Priority::LEVELS],
            occupied: 0,
            passed_over: PassedOver::new(),
            shelves: [List::EMPTY; Shelf::NUMBER],
            shelved: [0; Shelf::NUMBER],
            len: 0,
            colours: 0,
            letters: 0,
            running: 0,
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Returns the number of strands that a thief may find on shelves.
    pub(super) fn stealable(&self) -> u32 {
        self.shelved.iter().sum()
    }

    /// Returns the number of letters, with those of the strand that runs.
    pub(super) fn letters(&self) -> u64 {
        self.letters + u64::from(self.running)
    }

    /// Notes what runs now: a strand with this number of letters, or nothing.
    pub(super) fn set_running(&mut self, letters: u32) {
        self.running = letters;
    }

    /// Puts a strand behind all others of its level, and on its shelf. `station` is that of this queue.
    pub(super) fn push(&mut self, strand: Ready, station: usize, worth: &Worth) -> Option<Shelf> {
        let (level, weight) = (level(&strand), strand.weight());
        let shelf = worth.shelf(weight);
        let place = self.places.put(strand, weight);
        self.places.append(Chain::Turns, &mut self.turns[level], place);
        self.occupied |= 1 << level;
        self.len += 1;
        if weight.letters > 0 {
            self.colours += 1;
            self.letters += u64::from(weight.letters);
            self.places.strand(place).into_iter().for_each(|strand| strand.set_note(Seat::note(station, place)));
        }
        self.shelve(place, shelf);
        shelf
    }

    fn shelve(&mut self, place: u32, shelf: Option<Shelf>) {
        self.places.set_shelf(place, shelf);
        if let Some(shelf) = shelf {
            self.places.append(Chain::Shelf, &mut self.shelves[shelf as usize], place);
            self.shelved[shelf as usize] += 1;
        }
    }

    fn unshelve(&mut self, place: u32) {
        if let Some(shelf) = self.places.shelf(place) {
            self.places.remove(Chain::Shelf, &mut self.shelves[shelf as usize], place);
            self.shelved[shelf as usize] -= 1;
            self.places.set_shelf(place, None);
        }
    }

    fn remove(&mut self, place: u32) -> Option<(Ready, Weight)> {
        let level = level(self.places.strand(place)?);
        self.unshelve(place);
        self.places.remove(Chain::Turns, &mut self.turns[level], place);
        if self.turns[level].first().is_none() {
            self.occupied &= !(1 << level);
        }
        let (strand, weight) = self.places.take(place);
        self.len -= 1;
        if weight.letters > 0 {
            self.colours -= 1;
            self.letters -= u64::from(weight.letters);
        }
        Some((strand, weight))
    }

    /// Returns when the head of a level became ready.
    fn since(&self, level: usize) -> Option<u64> {
        self.places.strand(self.turns[level].first()?).map(Ready::ready_at)
    }

    /// Takes the strand whose turn it is. The choice of the level is that of [`Levels`].
    pub(super) fn pop(&mut self) -> Option<(Ready, Weight)> {
        let first = self.first_level()?;
        let is_mixed = self.occupied & (self.occupied - 1) != 0;
        let level = if is_mixed { self.level_in_turn(first)? } else { first };
        self.remove(self.turns[level].first()?)
    }

    /// Returns the most urgent level that has a strand.
    fn first_level(&self) -> Option<usize> {
        (self.occupied != 0).then(|| self.occupied.trailing_zeros() as usize)
    }

    /// Returns the level whose turn it is where several have strands. `first` is the most urgent one.
    #[cold]
    fn level_in_turn(&mut self, first: usize) -> Option<usize> {
        let last = self.occupied.ilog2() as usize;
        if self.passed_over.may_be(self.since(last)?) {
            return Some(first);
        }
        (first + 1..=last).filter(|&level| self.since(level).is_some()).min_by_key(|&level| self.since(level))
    }

    /// Returns the claim of the most urgent strand.
    pub(super) fn claim(&self) -> Option<Claim> {
        let head = self.turns[self.first_level()?].first()?;
        self.places.strand(head).map(Claim::of)
    }

    /// Weighs the colour at `seat` again and moves it to the shelf that it belongs to now, if it is `grown`.
    pub(super) fn grow(&mut self, seat: Seat, grown: &Grown<'_>, worth: &Worth) -> Growth {
        if !self.places.strand(seat.place).is_some_and(|strand| grown.is(strand)) {
            return Growth::None;
        }
        let (before, weight) = (self.places.weight(seat.place), grown.weight());
        if before.letters == 0 || weight.letters == 0 {
            return Growth::None;
        }
        self.letters = self.letters - u64::from(before.letters) + u64::from(weight.letters);
        self.places.set_weight(seat.place, weight);
        let (old, new) = (self.places.shelf(seat.place), worth.shelf(weight));
        if old == new {
            return Growth::None;
        }
        self.unshelve(seat.place);
        self.shelve(seat.place, new);
        if old.is_none() { Growth::Worthy } else { Growth::None }
    }

    /// Takes the colour that a thief should have.
    pub(super) fn steal_colour(&mut self, worth: &Worth) -> Option<Loot> {
        let place = if worth.weighs_time() { self.richest(worth) } else { self.first_small() }?;
        let mut loot = Loot::new();
        loot.add(self.remove(place)?);
        Some(loot)
    }

    /// Returns a colour of the richest shelf. Takes colours off that are no longer worth it, because the cost
    /// of a steal has risen.
    fn richest(&mut self, worth: &Worth) -> Option<u32> {
        loop {
            let place = Shelf::OF_COLOURS.iter().find_map(|&shelf| self.shelves[shelf as usize].first())?;
            if worth.is_worthy(self.places.weight(place)) {
                return Some(place);
            }
            self.unshelve(place);
        }
    }

    /// Returns the first colour that has less than half of the letters, if there are two colours or more. Both
    /// count the colour that runs. Two colours at most have half of the letters, so this looks at three.
    fn first_small(&self) -> Option<u32> {
        if self.colours + u32::from(self.running > 0) < 2 {
            return None;
        }
        let is_small = |place: &u32| u64::from(self.places.weight(*place).letters) * 2 < self.letters();
        let first = self.shelves[Shelf::Poor as usize].first();
        std::iter::successors(first, |place| self.places.after(Chain::Shelf, *place)).find(is_small)
    }

    /// Takes half of the fibres and tasks, `most` at most.
    pub(super) fn steal_plain(&mut self, most: u32) -> Option<Loot> {
        let mut loot = Loot::new();
        for _ in 0..self.shelved[Shelf::Plain as usize].div_ceil(2).min(most) {
            let first = self.shelves[Shelf::Plain as usize].first();
            first.and_then(|place| self.remove(place)).into_iter().for_each(|taken| loot.add(taken));
        }
        loot.unless_empty()
    }

    /// Takes strands in the order of their turns: half of all, `most` at most.
    pub(super) fn steal_turns(&mut self, most: u32) -> Option<Loot> {
        let mut loot = Loot::new();
        for _ in 0..self.len.div_ceil(2).min(most) {
            self.pop().into_iter().for_each(|taken| loot.add(taken));
        }
        loot.unless_empty()
    }
}

impl Loot {
    fn new() -> Loot {
        Loot { strands: Levels::new(), letters: 0, nanoseconds: 0 }
    }

    fn add(&mut self, (strand, weight): (Ready, Weight)) {
        self.strands.push(strand);
        if weight.letters > 0 {
            self.letters += u64::from(weight.letters);
            self.nanoseconds += weight.undivided_nanoseconds;
        }
    }

    pub(super) fn haul(&self) -> Haul {
        Haul { strands: self.strands.len() as u64, letters: self.letters, nanoseconds: self.nanoseconds }
    }

    fn unless_empty(self) -> Option<Loot> {
        (!self.strands.is_empty()).then_some(self)
    }
}

fn level(strand: &Ready) -> usize {
    (strand.priority() as usize).min(Priority::LEVELS - 1)
}
