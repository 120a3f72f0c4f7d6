//! Which carrier runs the letters of a mailbox, and how another thread reaches a carrier that has left.
//!
//! ```text
//!   nobody --set--> here --leave--> LEFT --hold--> LEFT, HELD --release--> LEFT
//!      ^             | ^              |
//!      +----set------+ +--come_back---+   (waits while HELD)
//! ```
//!
//! A letter that blocks leaves its processor with its carrier. From then on somebody may want to cancel it. The
//! carrier is a fibre: it may end, and its record may be freed. So the processor counts a reference to it when it
//! leaves, and the carrier gives that back after the letter. A thread that has the word HELD may use the
//! reference.
//!
//! No kill is lost: the thread that kills writes its order into the mailbox's word and reads this word after
//! that. The processor writes LEFT and reads the mailbox's word after that. Each has a sequentially consistent fence
//! between the two, so one of them sees what the other did.

use crate::base::atomic::{Acquire, AtomicUsize, Relaxed, Release, SeqCst, fence, spin_loop};

const LEFT: usize = 1;
const HELD: usize = 2;
const FLAGS: usize = 63;

/// The address of the strand that runs letters at this moment, or 0, and two flags.
pub(crate) struct Carrier(AtomicUsize);

impl Carrier {
    pub(crate) fn none() -> Carrier {
        Carrier(AtomicUsize::new(0))
    }

    /// `nobody <-> here`. By the owner of the mailbox.
    #[inline]
    pub(crate) fn set(&self, address: usize) {
        self.0.store(address, Relaxed);
    }

    /// Returns the address of the strand, or 0. Only that strand can rely on the answer.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        self.0.load(Relaxed) & !FLAGS
    }

    /// `here -> LEFT`. The caller has counted a reference to the carrier. By the processor that the carrier
    /// has left, which then looks for an order.
    pub(crate) fn leave(&self) {
        // Nobody else writes the word of a carrier that has not left. Release pairs with the Acquire in `hold`.
        self.0.store(self.0.load(Relaxed) | LEFT, Release);
        // See the head of this file; pairs with the fence in `hold`.
        fence(SeqCst);
    }

    /// `LEFT -> LEFT, HELD`. Returns `None` if the carrier has not left, or has come back. By a thread that has given
    /// an order before.
    pub(crate) fn hold(&self) -> Option<Held<'_>> {
        // See the head of this file; pairs with the fence in `leave`.
        fence(SeqCst);
        loop {
            let seen = self.0.load(Relaxed);
            if seen & LEFT == 0 {
                return None;
            }
            // Acquire pairs with the Release in `leave`.
            let held = self.0.compare_exchange_weak(seen & !HELD, seen | HELD, Acquire, Relaxed);
            if held.is_ok() {
                return Some(Held { carrier: self, address: seen & !FLAGS });
            }
            spin_loop();
        }
    }

    /// `LEFT -> here`. Returns whether the carrier had left: then the caller gives back the reference. By the
    /// carrier.
    #[must_use]
    pub(crate) fn come_back(&self) -> bool {
        let seen = self.0.load(Relaxed);
        if seen & LEFT == 0 {
            return false;
        }
        let address = seen & !FLAGS;
        // Acquire pairs with the Release in `Held::drop`: what its holder did has happened.
        while self.0.compare_exchange_weak(address | LEFT, address, Acquire, Relaxed).is_err() {
            spin_loop();
        }
        true
    }
}

/// The right to use the reference to a carrier that has left.
pub(crate) struct Held<'a> {
    carrier: &'a Carrier,
    address: usize,
}

impl Held<'_> {
    /// Returns the address of the carrier's strand.
    pub(crate) fn address(&self) -> usize {
        self.address
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Release pairs with the Acquires in `come_back` and `hold`.
        self.carrier.0.fetch_and(!HELD, Release);
    }
}
