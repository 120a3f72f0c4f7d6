//! Deques that their owners use as stacks and thieves from the other end: what [`Random`](super::Random) and
//! [`Locality`](super::Locality) have in common. A [`Policy`] says where they differ.

mod deque;
mod end;
mod station;
#[cfg(all(test, not(sinew_loom)))]
mod tests;
mod thief;

pub(super) use deque::Side;
pub(super) use end::End;
pub(super) use station::{Size, Station};

use super::meter::Tally;
use super::presence::Found;
use super::stations::Stations;
use super::{Effort, Ready, Topology, Wake};
use std::sync::{Arc, OnceLock};

/// Where a strand goes that has become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The deque of the processor where it became ready.
    Here(Side),
    /// The inbox of this station.
    Inbox(usize),
}

/// Says where strands go, and which victims a thief tries.
pub(super) trait Policy: Default + Send + Sync + 'static {
    /// Returns where a strand goes that has become ready. `here` is the station of the processor where that
    /// happened, if there is one.
    fn place(&self, deques: &Deques<Self>, strand: &Ready, here: Option<usize>) -> Place;

    /// Says whether a strand is to have the station where it ran last in its note.
    fn notes_stations(&self) -> bool;

    /// Takes a strand from another processor.
    fn steal(&self, thief: &End<Self>, now: u64, effort: Effort) -> Option<Ready>;

    /// Says whether a thief takes half of the strands of this victim, and not just one.
    fn takes_many(&self, thief: &End<Self>, victim: &Station) -> bool;

    /// Says whether a busy processor looks at this station, which was picked at random.
    fn looks_at(&self, looker: &End<Self>, other: &Station) -> bool;
}

/// The part of a scheduler that its ends share.
#[derive(Default)]
pub(super) struct Deques<P> {
    pub(super) policy: P,
    pub(super) stations: Stations<Station>,
    /// Whether it does what the thesis says, and nothing more: see the essay.
    pub(super) is_published: bool,
    pub(super) tally: Arc<Tally>,
    topology: OnceLock<Arc<Topology>>,
}

impl<P: Policy> Deques<P> {
    pub(super) fn new(policy: P, is_published: bool) -> Arc<Deques<P>> {
        Arc::new(Deques { policy, is_published, ..Deques::default() })
    }

    /// Returns the topology of the machine, once a processor has attached.
    pub(super) fn topology(&self) -> Option<&Topology> {
        self.topology.get().map(|topology| &**topology)
    }

    /// Takes a strand that became ready elsewhere than on a processor of the cluster.
    pub(super) fn inject(&self, strand: Ready, now: u64) -> Wake {
        match self.policy.place(self, &strand, None) {
            Place::Inbox(index) => self.send(index, strand, now),
            Place::Here(_) => {
                self.stations.in_turn(|station| station.presence().is_taken()).inbox().arrive(strand, now);
                Wake::Backlog
            }
        }
    }

    /// Puts a strand into the inbox of a station. Nothing here waits for the station's lock.
    fn send(&self, index: usize, strand: Ready, now: u64) -> Wake {
        let station = self.stations.get_or_new(index);
        let is_alone = station.inbox().is_empty() && station.size() == Size::Empty;
        station.inbox().arrive(strand, now);
        match station.presence().look_after_sending() {
            Found::Vacant => Wake::Backlog,
            Found::Waiting(processor) => Wake::Processor(processor),
            // The processor gets to it when it has run the strand that it runs now.
            Found::Busy if is_alone => Wake::Lone,
            Found::Busy => Wake::Backlog,
        }
    }
}
