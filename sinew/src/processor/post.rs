//! The part of a processor that other threads see.

use super::cluster::ClusterShared;
use super::drain::Tally;
use crate::sched::ProcessorId;
use crate::strand::{Fifo, Inbox, Ready};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// There is one post for each processor number that the cluster has used. A post stays when its
/// processor ends, and serves the next processor with that number.
pub(crate) struct Post {
    id: ProcessorId,
    /// Strands bound to this processor that other threads have made ready. Any thread puts, the
    /// processor takes.
    arrivals: Inbox,
    /// An [`Order`]. Written by the thread that adds, removes or stops the processor.
    order: AtomicU8,
    /// The number of strands that are bound to the processor. Written by the processor only.
    bound: AtomicU32,
    /// Counts the strands that were spawned and that finished here.
    tally: Tally,
}

/// What a processor is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Order {
    /// Run strands.
    Serve = 0,
    /// Run only strands that are bound to the processor, and end after the last of them.
    Retire = 1,
    /// End: all strands of the runtime have finished.
    Stop = 2,
}

impl Post {
    pub(super) fn new(id: ProcessorId) -> Self {
        Post {
            id,
            arrivals: Inbox::new(),
            order: AtomicU8::new(Order::Serve as u8),
            bound: AtomicU32::new(0),
            tally: Tally::new(),
        }
    }

    pub(crate) fn id(&self) -> ProcessorId {
        self.id
    }

    pub(super) fn order(&self) -> Order {
        match self.order.load(Ordering::Relaxed) {
            0 => Order::Serve,
            1 => Order::Retire,
            _ => Order::Stop,
        }
    }

    pub(super) fn give_order(&self, order: Order) {
        self.order.store(order as u8, Ordering::Relaxed);
    }

    pub(super) fn bound_one(&self) {
        self.bound.store(self.bound.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(super) fn freed_one(&self) {
        self.bound.store(self.bound.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    pub(super) fn has_bound(&self) -> bool {
        self.bound.load(Ordering::Relaxed) != 0
    }

    #[inline]
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Puts a strand that is bound to this processor into the inbox, and wakes the processor.
    pub(super) fn deliver(&self, cluster: &ClusterShared, ready: Ready) {
        self.arrivals.put(ready);
        cluster.idle().notify_processor(self.id);
    }

    #[inline(always)]
    pub(super) fn has_arrivals(&self) -> bool {
        !self.arrivals.is_empty()
    }

    pub(super) fn take_arrivals(&self) -> Fifo {
        self.arrivals.take_all()
    }
}
