//! Locality-aware work stealing for actors: a thief goes to its nearest neighbours first, hubs begin far from each
//! other, and woken strands may return to where they ran. The folder's README has the protocol.

mod hubs;
mod nearest;
#[cfg(all(test, not(sinew_loom)))]
mod tests;

use super::deques::{Deques, End, Place, Policy, Side, Station};
use super::{Effort, Local, Meter, Past, Placement, Ready, Scheduler, Wake};
use hubs::Hubs;
use std::fmt;
use std::sync::Arc;

/// The chance in 256 that a busy processor looks at a station behind another last-level cache, once it has picked that
/// station. As in [`Fair`](super::Fair).
const REMOTE_LOOKS: usize = 3;

/// Where a strand goes that ran, stopped, and was woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Woken {
    /// To the processor that woke it, before all other strands there: the message that it was woken for is in that
    /// processor's caches. The thesis calls this LAS/L.
    #[default]
    Here,
    /// To the processor that ran it last, behind all other strands there: its own state is in that processor's caches,
    /// and only thieves move it. The thesis calls this LAS/A.
    WhereItRan,
}

/// A work-stealing scheduler that knows which processors are near each other. Made for actors.
pub struct Locality {
    deques: Arc<Deques<Nearest>>,
}

impl Locality {
    /// Makes a scheduler that lets woken strands go there. `Locality::default()` is for [`Woken::Here`].
    pub fn new(woken: Woken) -> Locality {
        Locality { deques: Deques::new(Nearest { woken, hubs: Hubs::default() }, false) }
    }

    /// Makes the scheduler as it is published. A strand may starve: a processor always runs its newest strand, and no
    /// busy processor helps another one. A thief takes one strand.
    pub fn published(woken: Woken) -> Locality {
        Locality { deques: Deques::new(Nearest { woken, hubs: Hubs::default() }, true) }
    }

    /// Returns a meter of what its thieves do. It stays good when the scheduler has been given to a cluster.
    pub fn meter(&self) -> Meter {
        Meter::new(&self.deques.tally)
    }
}

impl Default for Locality {
    fn default() -> Self {
        Locality::new(Woken::default())
    }
}

impl fmt::Debug for Locality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deques = &*self.deques;
        let mut debug = f.debug_struct("Locality");
        debug.field("woken", &deques.policy.woken).field("is_published", &deques.is_published).finish_non_exhaustive()
    }
}

impl Scheduler for Locality {
    fn name(&self) -> &'static str {
        "locality"
    }

    fn attach(&self, placement: Placement) -> Box<dyn Local> {
        Box::new(End::new(&self.deques, placement))
    }

    fn inject(&self, strand: Ready, now: u64) -> Wake {
        self.deques.inject(strand, now)
    }
}

/// Near victims first, and hubs far from each other.
#[derive(Default)]
struct Nearest {
    woken: Woken,
    hubs: Hubs,
}

impl Policy for Nearest {
    #[inline]
    fn place(&self, deques: &Deques<Self>, strand: &Ready, here: Option<usize>) -> Place {
        match strand.past() {
            Past::Yielded => Place::Here(Side::Tail),
            Past::New if strand.is_hub() => self.hubs.place(deques, here),
            Past::Woken if self.woken == Woken::WhereItRan => where_it_ran(deques, strand.note(), here),
            Past::New | Past::Woken => Place::Here(Side::Head),
        }
    }

    fn notes_stations(&self) -> bool {
        self.woken == Woken::WhereItRan
    }

    fn steal(&self, thief: &End<Self>, now: u64, effort: Effort) -> Option<Ready> {
        nearest::steal(thief, now, effort)
    }

    fn takes_many(&self, thief: &End<Self>, victim: &Station) -> bool {
        thief.distance_to(victim).is_near()
    }

    fn looks_at(&self, looker: &End<Self>, other: &Station) -> bool {
        // A vacant station is under no cache.
        looker.distance_to(other).is_near() || !other.presence().is_taken() || looker.dice.below(256) < REMOTE_LOOKS
    }
}

/// Returns the place of a strand that was woken, whose note is the number of the station where it ran last, plus one.
fn where_it_ran(deques: &Deques<Nearest>, note: u32, here: Option<usize>) -> Place {
    let Some(home) = (note as usize).checked_sub(1) else { return Place::Here(Side::Head) };
    if Some(home) == here {
        return Place::Here(Side::Tail);
    }
    let is_taken = deques.stations.get(home).is_some_and(|station| station.presence().is_taken());
    if is_taken { Place::Inbox(home) } else { Place::Here(Side::Head) }
}
