//! What is worth stealing.

use super::{Heuristics, Stealing};
use crate::sched::Weight;

/// A thief finds the colours of a queue on shelves, the best first. Strands of which nothing is known have
/// a shelf of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shelf {
    Rich = 0,
    Middle = 1,
    /// Without the time-left heuristic all colours are here, in the order of their arrival.
    Poor = 2,
    /// Fibres and tasks.
    Plain = 3,
}

impl Shelf {
    pub(super) const NUMBER: usize = 4;
    /// The shelves of colours, the best first.
    pub(super) const OF_COLOURS: [Shelf; 3] = [Shelf::Rich, Shelf::Middle, Shelf::Poor];
}

/// Colours whose time is this many times the cost of a steal are on the shelf in the middle, or on the rich
/// one. In the paper's *unbalanced* load, the long colours take 4 to 22 times the cost of a steal, so
/// these limits divide them. Unmeasured beyond that.
const MIDDLE: u64 = 4;
const RICH: u64 = 16;

/// Says what is worth stealing at this moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Worth {
    pub(super) stealing: Stealing,
    /// What a steal costs, in nanoseconds.
    pub(super) cost: u64,
}

impl Worth {
    pub(super) fn weighs_time(&self) -> bool {
        matches!(self.stealing, Stealing::Improved(Heuristics { time_left: true, .. }))
    }

    /// Says whether thieves look first at the station that has the most letters.
    pub(super) fn picks_by_letters(&self) -> bool {
        match self.stealing {
            Stealing::Off => false,
            Stealing::Base => true,
            Stealing::Improved(Heuristics { locality, .. }) => !locality,
        }
    }

    /// Says whether a thief needs to know the letters of the colour that runs.
    pub(super) fn counts_letters(&self) -> bool {
        self.picks_by_letters() || !self.weighs_time()
    }

    /// Returns the expected time of a colour, as far as it counts for a thief.
    fn time(&self, weight: Weight) -> u64 {
        match self.stealing {
            Stealing::Improved(Heuristics { penalty: true, .. }) => weight.nanoseconds,
            _ => weight.undivided_nanoseconds,
        }
    }

    /// Says whether a colour is worth more than its steal costs. Only the time-left heuristic finds that any
    /// colour is not.
    pub(super) fn is_worthy(&self, weight: Weight) -> bool {
        !self.weighs_time() || self.time(weight) > self.cost
    }

    /// Returns the shelf that a strand belongs to; `None` for a colour that is not to be stolen.
    pub(super) fn shelf(&self, weight: Weight) -> Option<Shelf> {
        if weight.letters == 0 {
            return Some(Shelf::Plain);
        }
        if self.stealing == Stealing::Off {
            return None;
        }
        if !self.weighs_time() {
            return Some(Shelf::Poor);
        }
        let time = self.time(weight);
        match time {
            _ if time <= self.cost => None,
            _ if time <= self.cost.saturating_mul(MIDDLE) => Some(Shelf::Poor),
            _ if time <= self.cost.saturating_mul(RICH) => Some(Shelf::Middle),
            _ => Some(Shelf::Rich),
        }
    }
}
