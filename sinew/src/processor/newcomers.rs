//! Fibres that other processors have sent to begin at a post.
//!
//! A processor that retires takes its newcomers for the last time after it has seen the order. A fibre
//! that comes later would be lost.
//!
//! | thread | step 1 | fence | step 2 |
//! | --- | --- | --- | --- |
//! | the sender | puts the fibre in | light | looks for the order; if it is there, takes the newcomers itself |
//! | the processor | sees the order | heavy | takes the newcomers |
//!
//! At least one of them sees the other, and taking all is one exchange, so each fibre is taken once.

use crate::base::fence;
use crate::strand::{Fifo, Inbox, Ready};
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) struct Newcomers {
    /// Any processor puts. The post's processor takes, or any thread if it retires or is held up.
    fibres: Inbox,
    /// The number of fibres that were sent here and have begun nowhere. Written by any processor.
    expected: AtomicU32,
}

impl Newcomers {
    pub(super) fn new() -> Newcomers {
        Newcomers { fibres: Inbox::new(), expected: AtomicU32::new(0) }
    }

    /// Puts a fibre in. Returns the fibres that the caller has to give to other processors:
    /// `is_serving` says whether this one is still to take them.
    pub(super) fn send(&self, fibre: Ready, is_serving: impl FnOnce() -> bool) -> Fifo {
        self.expected.fetch_add(1, Ordering::Relaxed);
        self.fibres.put(fibre);
        fence::light();
        if is_serving() { Fifo::new() } else { self.take() }
    }

    /// Takes all that have come. After an order to retire, the processor calls
    /// [`take_last`](Newcomers::take_last).
    pub(super) fn take(&self) -> Fifo {
        self.fibres.take_all()
    }

    /// Takes all that have come, after the processor has seen the order to retire.
    pub(super) fn take_last(&self) -> Fifo {
        fence::heavy();
        self.take()
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.fibres.is_empty()
    }

    /// Notes that a fibre which was sent here begins, here or elsewhere, or is sent on.
    pub(super) fn expect_one_less(&self) {
        self.expected.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn expected(&self) -> u32 {
        self.expected.load(Ordering::Relaxed)
    }
}
