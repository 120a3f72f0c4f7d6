//! Strands that are never run, for simulations of schedulers.
#![allow(unsafe_code)]

use super::header::{Strand, container};
use super::kind::{After, Kind, Past, Weight};
use super::priority::Priority;
use super::ready::{Grown, Ready, StrandArc};
use std::ptr::NonNull;
use std::sync::Mutex;

#[repr(C)]
struct Record {
    strand: Strand,
    weight: Mutex<Weight>,
}

static KIND: Kind = Kind {
    face: super::Face::new(super::Class::Mailbox, crate::base::describe::Symbol::NONE),
    run: |_| unreachable!("a simulated strand is not run"),
    free,
    weigh: |strand| *record(strand).weight.lock().unwrap(),
    nature: None,
};

fn record(strand: &Strand) -> &Record {
    // SAFETY: only strands of `KIND` come here, and each is the head of a record.
    unsafe { container::<Record>(NonNull::from(strand)).as_ref() }
}

/// # Safety
/// The strand was made by `SimulatedColour::new`, and no reference to it is left.
unsafe fn free(strand: NonNull<Strand>) {
    // SAFETY: by the contract.
    drop(unsafe { Box::from_raw(strand.cast::<Record>().as_ptr()) });
}

/// A handle to a strand with letters.
pub(crate) struct SimulatedColour(StrandArc);

impl SimulatedColour {
    /// Makes a strand of no cluster.
    pub(crate) fn new(priority: Priority, weight: Weight) -> (Ready, SimulatedColour) {
        SimulatedColour::of(Strand::of(&KIND, std::ptr::null(), priority), weight)
    }

    fn of(strand: Strand, weight: Weight) -> (Ready, SimulatedColour) {
        let record = Box::leak(Box::new(Record { strand, weight: Mutex::new(weight) }));
        // SAFETY: the strand is new, and `KIND` frees it. The pointer is that of the whole record.
        let (ready, arc) = unsafe { Ready::of_new(NonNull::from(record).cast()) };
        (ready, SimulatedColour(arc))
    }

    pub(crate) fn set_weight(&self, weight: Weight) {
        *record(self.0.strand()).weight.lock().unwrap() = weight;
    }

    /// Returns what a scheduler is told when the weight has grown.
    pub(crate) fn grown(&self) -> Grown<'_> {
        Grown::new(self.0.strand())
    }
}

impl Ready {
    /// Makes a strand of no cluster, of which nothing is known.
    #[cfg(not(sinew_loom))]
    pub(crate) fn simulated(priority: Priority) -> Ready {
        SimulatedColour::new(priority, Weight::default()).0
    }

    /// Makes a hub of no cluster.
    #[cfg(not(sinew_loom))]
    pub(crate) fn simulated_hub() -> Ready {
        SimulatedColour::of(
            Strand::of(&KIND, std::ptr::null(), Priority::Normal).announced_as_hub(true),
            Weight::default(),
        )
        .0
    }

    /// Lets the strand have become ready in this way.
    pub(crate) fn simulate_past(&self, past: Past) {
        self.strand().after().set(match past {
            Past::New => After::Declined,
            Past::Woken => After::Waiting,
            Past::Yielded => After::Yielded,
        });
    }
}

#[cfg(not(sinew_loom))]
#[test]
fn a_hub_is_bound_to_no_processor_and_stays_a_hub_when_it_was_bound() {
    use super::bound;
    let (plain, hub) = (Ready::simulated(Priority::Normal), Ready::simulated_hub());
    assert_eq!((plain.is_hub(), hub.is_hub()), (false, true));
    let (strand, post) = (hub.strand(), std::ptr::from_ref(&()));
    assert!(!strand.is_bound(u8::MAX) && strand.post_address().is_null());
    assert_eq!(strand.bind_to(post, bound::PINNED), 0);
    assert_eq!(strand.post_address(), post);
    assert!(strand.take_bound(bound::PINNED) && strand.post_address().is_null() && hub.is_hub());
    [plain, hub].into_iter().for_each(Ready::retire);
}
