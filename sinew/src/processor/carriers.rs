//! Carriers: fibres on which a processor runs strands that have no stack, but whose code may block.
//!
//! A mailbox is such a strand. When a processor runs a mailbox, it *hands* the mailbox to one of its idle
//! carriers and resumes that. Two things can happen:
//!
//! - The carrier comes to the end of what it does for the mailbox, says how that *ended*, and rests. The
//!   dispatch was that of the mailbox, in place, at the price of two switches.
//! - The carrier blocks. Then the mailbox *leaves* with it. The processor commits the stop of the carrier,
//!   as it does for every fibre, and forgets the mailbox: that belongs to the carrier from now on. When
//!   the carrier is woken it runs as a fibre of its own. At the end it gives the mailbox back to
//!   the scheduler, and rests where it is.
//!
//! A carrier is made when no idle one is there. It does not count as a strand of the runtime: what counts
//! is the mailbox, while that is active.

use super::Processor;
use crate::strand::{After, Ready, Strand};
use std::cell::{Cell, RefCell};
use std::io;

/// The largest number of idle carriers that a processor keeps. Each has a stack with a page of memory.
/// Unmeasured beyond that.
const KEPT: usize = 32;

/// The carriers of a processor. Owner: the processor.
pub(crate) struct Carriers {
    idle: RefCell<Vec<Ready>>,
    /// The address of the mailbox that is handed to a carrier, and has not left with it; 0 if there is none.
    handed: Cell<usize>,
    /// How the dispatch of the handed mailbox ended. Written by its carrier.
    ended: Cell<After>,
    /// The carrier that has left with its mailbox, and why it gave up the processor.
    leaving: Cell<Option<(Ready, After)>>,
    /// The number of letters that have run here, modulo 2^32.
    letters: Cell<u32>,
}

impl Carriers {
    pub(super) fn new() -> Carriers {
        Carriers {
            idle: RefCell::new(Vec::new()),
            handed: Cell::new(0),
            ended: Cell::new(After::Idle),
            leaving: Cell::new(None),
            letters: Cell::new(0),
        }
    }

    /// Returns the address of the mailbox that was handed to the calling carrier. By a carrier, when it is
    /// resumed from its rest.
    #[inline]
    pub(crate) fn handed(&self) -> usize {
        self.handed.get()
    }

    /// Says whether the mailbox at this address is still in place: its carrier has not given up the
    /// processor since it was handed over. By that carrier.
    #[inline]
    pub(crate) fn is_in_place(&self, mailbox: usize) -> bool {
        self.handed.get() == mailbox
    }

    /// Calls `f` while the mailbox at this address runs on the processor's own stack.
    #[inline]
    pub(crate) fn hand_to_itself<R>(&self, mailbox: usize, f: impl FnOnce() -> R) -> R {
        self.handed.set(mailbox);
        let result = f();
        self.handed.set(0);
        result
    }

    /// Says how the dispatch of the mailbox ended. By its carrier, which is in place.
    #[inline]
    pub(crate) fn end(&self, after: After) {
        self.ended.set(after);
    }

    /// Returns the number of letters that have run here, modulo 2^32.
    #[inline]
    pub(crate) fn letters(&self) -> u32 {
        self.letters.get()
    }

    /// Counts letters that have run here.
    #[inline]
    pub(crate) fn count_letters(&self, letters: u32) {
        self.letters.set(self.letters.get().wrapping_add(letters));
    }

    pub(super) fn take_leaving(&self) -> Option<(Ready, After)> {
        self.leaving.take()
    }
}

impl Processor {
    #[inline]
    pub(crate) fn carriers(&self) -> &Carriers {
        &self.carriers
    }

    /// Runs `mailbox` on a carrier. For the `run` of its kind.
    #[inline]
    pub(crate) fn carry(&self, mailbox: &Strand) -> After {
        let carriers = &self.carriers;
        let idle = carriers.idle.borrow_mut().pop();
        let Some(carrier) = idle.or_else(|| self.new_carrier()) else {
            // Until a stack is free.
            return After::Yielded;
        };
        carriers.handed.set(std::ptr::from_ref(mailbox).addr());
        let after = (carrier.strand().kind().run)(carrier.strand());
        carriers.handed.set(0);
        if after == After::Resting {
            carriers.idle.borrow_mut().push(carrier);
            return carriers.ended.get();
        }
        if after == After::Finished {
            self.finish(carrier);
            return carriers.ended.get();
        }
        carriers.leaving.set(Some((carrier, after)));
        After::Left
    }

    #[cold]
    fn new_carrier(&self) -> Option<Ready> {
        self.cluster.new_carrier(self).inspect_err(|_| crate::base::spin::nap()).ok()
    }

    /// Keeps a carrier that rests and has given its mailbox back.
    pub(super) fn keep_carrier(&self, carrier: Ready) {
        if self.detached.get() || self.carriers.idle.borrow().len() >= KEPT {
            self.end_carrier(carrier);
        } else {
            self.carriers.idle.borrow_mut().push(carrier);
        }
    }

    /// Ends all idle carriers.
    pub(super) fn end_carriers(&self) {
        let idle = self.carriers.idle.take();
        idle.into_iter().for_each(|carrier| self.end_carrier(carrier));
    }

    /// A carrier that is resumed from its rest without a mailbox ends.
    fn end_carrier(&self, carrier: Ready) {
        let after = (carrier.strand().kind().run)(carrier.strand());
        debug_assert_eq!(after, After::Finished);
        self.finish(carrier);
    }

    /// Counts a carrier that is about to end. It was not counted when it was made, and its end is counted as that
    /// of every strand.
    pub(crate) fn count_spawned(&self) {
        self.post.tally().count_spawned();
    }
}

/// Makes a carrier that rests on the processor. Plugged in by the runtime.
pub(crate) type NewCarrier = fn(&Processor) -> io::Result<Ready>;
