//! Events of a round that are counted when they are done.
//!
//! Neighbours share a counter, and only the last of them counts for the whole. So processors
//! that run different parts of a round rarely write to the same line.

use std::sync::atomic::{AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};

/// The number of neighbours.
const PART: usize = 50;

pub struct Countdown {
    events: usize,
    parts: Box<[Part]>,
    /// The number of parts that are not done.
    left: AtomicUsize,
}

/// On a line of its own.
#[repr(align(64))]
struct Part(AtomicUsize);

impl Countdown {
    pub fn new(events: usize) -> Countdown {
        let parts = (0..events.div_ceil(PART)).map(|_| Part(AtomicUsize::new(0))).collect();
        Countdown { events, parts, left: AtomicUsize::new(0) }
    }

    /// Begins a round, when the one before is over.
    pub fn begin(&self) {
        for (number, part) in self.parts.iter().enumerate() {
            part.0.store(PART.min(self.events - number * PART), Relaxed);
        }
        self.left.store(self.parts.len(), Relaxed);
    }

    /// Counts an event by its number in the round. Returns whether all are done.
    #[inline]
    pub fn done(&self, number: usize) -> bool {
        // Both pair with the load in `is_over`: the next round begins after all of this one.
        self.parts[number / PART].0.fetch_sub(1, AcqRel) == 1 && self.left.fetch_sub(1, AcqRel) == 1
    }

    pub fn is_over(&self) -> bool {
        self.left.load(Acquire) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_event_of_a_round_ends_it() {
        let countdown = Countdown::new(2 * PART + 1);
        for _ in 0..2 {
            countdown.begin();
            let ends = (0..2 * PART + 1).rev().map(|number| countdown.done(number));
            assert_eq!(ends.filter(|is_last| *is_last).count(), 1);
            assert!(countdown.is_over());
        }
    }
}
