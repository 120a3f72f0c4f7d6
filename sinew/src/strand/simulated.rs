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
        let strand = Strand::of(&KIND, std::ptr::null(), priority);
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

    /// Lets the strand have become ready in this way.
    pub(crate) fn simulate_past(&self, past: Past) {
        self.strand().after().set(match past {
            Past::New => After::Declined,
            Past::Woken => After::Waiting,
            Past::Yielded => After::Yielded,
        });
    }
}
