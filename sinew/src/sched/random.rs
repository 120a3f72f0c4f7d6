//! Randomised work stealing: each processor uses its deque as a stack, and steals the oldest strand of a random
//! victim. The folder's README has the protocol.

use super::deques::{Deques, End, Place, Policy, Side, Station};
use super::{Effort, Local, Meter, Past, Placement, Ready, Scheduler, Wake};
use std::fmt;
use std::sync::Arc;

/// A work-stealing scheduler that runs the newest strand first and picks its victims at random. Where the caches and
/// the memory are makes no difference to it.
pub struct Random {
    deques: Arc<Deques<Anywhere>>,
}

impl Random {
    /// Makes the scheduler as it is published. A strand may starve: a processor always runs its newest strand, and no
    /// busy processor helps another one. A thief takes one strand.
    pub fn published() -> Random {
        Random { deques: Deques::new(Anywhere, true) }
    }

    /// Returns a meter of what its thieves do. It stays good when the scheduler has been given to a cluster.
    pub fn meter(&self) -> Meter {
        Meter::new(&self.deques.tally)
    }
}

impl Default for Random {
    fn default() -> Self {
        Random { deques: Deques::new(Anywhere, false) }
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Random").field("is_published", &self.deques.is_published).finish_non_exhaustive()
    }
}

impl Scheduler for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn attach(&self, placement: Placement) -> Box<dyn Local> {
        Box::new(End::new(&self.deques, placement))
    }

    fn inject(&self, strand: Ready, now: u64) -> Wake {
        self.deques.inject(strand, now)
    }
}

/// Strands stay where they become ready, and every victim is as good as another.
#[derive(Default)]
struct Anywhere;

impl Policy for Anywhere {
    fn place(&self, _deques: &Deques<Self>, strand: &Ready, _here: Option<usize>) -> Place {
        // At the head, a strand that yields would have the next turn itself.
        Place::Here(if strand.past() == Past::Yielded { Side::Tail } else { Side::Head })
    }

    fn notes_stations(&self) -> bool {
        false
    }

    fn steal(&self, thief: &End<Self>, now: u64, effort: Effort) -> Option<Ready> {
        let stations = &thief.deques.stations;
        let used = stations.used();
        let first = thief.dice.other(thief.index, used)?;
        let victims = (0..used).map(|offset| (first + offset) % used).filter(|&victim| victim != thief.index);
        victims.filter_map(|victim| stations.get(victim)).find_map(|victim| thief.rob(victim, now, effort))
    }

    fn takes_many(&self, _thief: &End<Self>, _victim: &Station) -> bool {
        true
    }

    fn looks_at(&self, _looker: &End<Self>, _other: &Station) -> bool {
        true
    }
}
