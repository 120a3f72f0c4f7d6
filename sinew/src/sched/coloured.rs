//! Coloured stealing, as in Mely: a thief knows what a colour is worth, what a steal costs, and which
//! victims are near. The folder's README has the protocol.

mod end;
mod places;
mod queue;
mod station;
#[cfg(all(test, not(sinew_loom)))]
mod tests;
mod thief;
mod worth;

use super::meter::{Meter, Tally};
use super::presence::Found;
use super::stations::Stations;
use super::{Grown, Local, Past, Placement, Ready, Scheduler, Wake, Weight};
use end::End;
use queue::{Growth, Seat};
use station::Station;
use std::fmt;
use std::sync::Arc;
use worth::Worth;

/// How processors without work steal colours. Strands without letters are always stolen: half of them, as by
/// [`Fair`](super::Fair).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stealing {
    /// Colours stay where they are, unless their processor is held up.
    Off,
    /// As in Libasync-smp. The victim is the processor that has the most letters, or the next one by number.
    /// The thief takes the first colour that has less than half of the victim's letters.
    Base,
    /// As in Mely: the base, changed by heuristics.
    Improved(Heuristics),
}

/// The heuristics of Mely. Each can be switched off, to see what it is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heuristics {
    /// Victims are tried in the order of their distance from the thief.
    pub locality: bool,
    /// A colour is stolen only if its letters are expected to take longer than the steal, and those with the
    /// most work first.
    pub time_left: bool,
    /// The expected time of each letter is divided by the penalty of its handler. Without `time_left`, this
    /// changes nothing.
    pub penalty: bool,
}

impl Default for Heuristics {
    /// Returns all heuristics, switched on.
    fn default() -> Self {
        Heuristics { locality: true, time_left: true, penalty: true }
    }
}

impl Default for Stealing {
    /// Returns the improved stealing with all heuristics.
    fn default() -> Self {
        Stealing::Improved(Heuristics::default())
    }
}

/// A scheduler for colours: strands that have letters, and say how long these will take. Each colour stays on
/// the processor that ran it last, until it is worth stealing.
#[derive(Default)]
pub struct Coloured {
    shared: Arc<Shared>,
}

impl Coloured {
    /// Makes a scheduler that steals in this way. `Coloured::default()` has all heuristics.
    pub fn new(stealing: Stealing) -> Coloured {
        Coloured { shared: Arc::new(Shared { stealing, ..Shared::default() }) }
    }

    /// Returns a meter of what its thieves do. It stays good when the scheduler has been given to a cluster.
    pub fn meter(&self) -> Meter {
        Meter::new(&self.shared.tally)
    }

    /// Makes a scheduler whose steals cost this, whatever they take.
    #[cfg(test)]
    pub(super) fn at_cost(stealing: Stealing, ns: u64) -> Coloured {
        let scheduler = Coloured::new(stealing);
        scheduler.shared.tally.fix_cost(ns);
        scheduler
    }
}

impl fmt::Debug for Coloured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coloured").field("stealing", &self.shared.stealing).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Shared {
    stealing: Stealing,
    stations: Stations<Station>,
    tally: Arc<Tally>,
}

impl Shared {
    fn worth(&self) -> Worth {
        Worth { stealing: self.stealing, cost: self.tally.cost_ns() }
    }

    /// Returns the station where a colour ran last, if a processor has it.
    fn seat_of(&self, strand: &Ready, weight: Weight) -> Option<(usize, &Arc<Station>)> {
        if weight.letters == 0 || strand.past() != Past::Woken {
            return None;
        }
        let seat = Seat::read(strand.note())?.station;
        self.stations.get(seat).filter(|station| station.presence().is_taken()).map(|station| (seat, station))
    }

    /// Puts a strand into the inbox of a station.
    fn send(&self, station: &Station, strand: Ready, now: u64) -> Wake {
        let weight = strand.weight();
        station.inbox().arrive(strand, now);
        match station.presence().look_after_sending() {
            Found::Vacant => Wake::Backlog,
            Found::Waiting(processor) => Wake::Processor(processor),
            Found::Busy if self.worth().shelf(weight).is_some() => Wake::Backlog,
            Found::Busy => Wake::Lone,
        }
    }
}

impl Scheduler for Coloured {
    fn name(&self) -> &'static str {
        "coloured"
    }

    fn attach(&self, placement: Placement) -> Box<dyn Local> {
        Box::new(End::new(&self.shared, placement))
    }

    fn inject(&self, strand: Ready, now: u64) -> Wake {
        let shared = &*self.shared;
        if let Some((_, seat)) = shared.seat_of(&strand, strand.weight()) {
            return shared.send(seat, strand, now);
        }
        shared.stations.in_turn(|station| station.presence().is_taken()).inbox().arrive(strand, now);
        Wake::Backlog
    }

    fn weighs(&self) -> bool {
        true
    }

    fn grown(&self, strand: &Grown<'_>, _now: u64) -> Wake {
        let Some(seat) = Seat::read(strand.note()) else { return Wake::Nobody };
        let Some(station) = self.shared.stations.get(seat.station) else { return Wake::Nobody };
        let worth = self.shared.worth();
        let mut queue = station.lock();
        let growth = queue.grow(seat, strand, &worth);
        let len = queue.len();
        station.close(queue, &worth);
        match growth {
            Growth::None => Wake::Nobody,
            Growth::Worthy if len > 1 => Wake::Backlog,
            Growth::Worthy => Wake::Lone,
        }
    }
}
