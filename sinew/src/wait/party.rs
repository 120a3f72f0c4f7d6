//! Parties: what the end of a wait resumes.
#![allow(unsafe_code)]

use super::awaiting::WakerSlot;
use super::parker::Parker;
use super::wait::Wait;
use crate::processor::{make_ready, waker};
use crate::strand::{Owed, Ready, Strand, StrandArc};
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::task::Waker;

/// The address of a strand, kernel thread or future that waits. The lowest bits say which of these
/// it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Party(NonZeroU64);

/// A [`Parker`], with which a kernel thread waits.
pub(super) const KERNEL_THREAD: u64 = 1;
/// A [`Wait`] that has limits: it is told first, and that may signal its own party.
const TIMED: u64 = 2;
/// A [`WakerSlot`], with which a future waits.
const FUTURE: u64 = 3;
/// A reference to a task, which the party owns. The task is unparked.
const TASK: u64 = 4;
/// A boxed waker that is not a task's; the party owns the box.
const WAKER: u64 = 5;
const TAGS: u64 = 7;

/// What the signaller of a party now has to do.
#[must_use]
pub(crate) enum Resumed {
    /// Nothing.
    Nobody,
    /// Make it ready.
    Strand(Ready),
    /// Call it, where no lock is held: it may run any code.
    Waker(Waker),
}

impl Resumed {
    /// Unparks the task if the waker is a task's. Leaves any other waker to the caller.
    #[inline]
    pub(crate) fn of(waker: Waker) -> Resumed {
        match waker::task_of(waker) {
            Ok(task) => task.strand().unpark().map_or(Resumed::Nobody, Resumed::Strand),
            Err(waker) => Resumed::Waker(waker),
        }
    }
}

impl Party {
    pub(super) fn new<T>(address: *const T, tag: u64) -> Party {
        let number = NonZeroU64::new(address.expose_provenance() as u64 | tag);
        Party(number.expect("addresses are not 0"))
    }

    #[inline]
    pub(super) fn strand(strand: &Strand) -> Party {
        Party::new(strand, 0)
    }

    /// Makes the party of a wait that has limits; see [`Wait::tell`].
    pub(crate) fn timed(wait: &Wait) -> Party {
        Party::new(wait, TIMED)
    }

    pub(super) fn waker_slot(slot: &WakerSlot) -> Party {
        Party::new(slot, FUTURE)
    }

    /// Makes a party that owns `waker`. The future that waits may be gone when the party is signalled.
    pub(super) fn of_waker(waker: Waker) -> Party {
        match waker::task_of(waker) {
            Ok(task) => Party::new(task.into_raw().as_ptr(), TASK),
            Err(waker) => Party::new(Box::into_raw(Box::new(waker)), WAKER),
        }
    }

    /// Says whether [`of_waker`](Party::of_waker) made this party from a waker of the same task as
    /// `waker`. The party may have been signalled already.
    pub(super) fn is_of_task(self, waker: &Waker) -> bool {
        self.0.get() & TAGS == TASK && waker::strand_of(waker) == Some(self.address())
    }

    /// Drops what the party owns. For a party of [`of_waker`](Party::of_waker) that will not be
    /// signalled.
    pub(super) fn discard(self) {
        drop(self.into_owned());
    }

    /// Returns what [`of_waker`](Party::of_waker) put in.
    fn into_owned(self) -> Result<StrandArc, Waker> {
        match self.0.get() & TAGS {
            TASK => {
                let strand = NonNull::new(self.address::<Strand>().cast_mut()).expect("addresses are not 0");
                // SAFETY: the party owns the reference, and gives it up once.
                Ok(unsafe { StrandArc::from_raw(strand) })
            }
            // SAFETY: as above.
            _ => Err(*unsafe { Box::from_raw(self.address::<Waker>().cast_mut()) }),
        }
    }

    /// Returns the party as a number greater than 7, for [`from_number`](Party::from_number).
    pub(crate) fn number(self) -> NonZeroU64 {
        self.0
    }

    /// Returns the party with this number, which came from [`number`](Party::number).
    pub(crate) fn from_number(number: NonZeroU64) -> Party {
        Party(number)
    }

    fn address<T>(self) -> *const T {
        std::ptr::with_exposed_provenance((self.0.get() & !TAGS) as usize)
    }

    /// Signals a party that was taken out of the word in which it waited.
    #[inline]
    pub(crate) fn signal_owed(owed: Owed) {
        if let Some(ready) = Party::signal_owed_strand(owed) {
            make_ready(ready);
        }
    }

    /// As [`signal_owed`](Party::signal_owed), but does not make a strand ready. Returns that strand.
    #[inline]
    pub(crate) fn signal_owed_strand(owed: Owed) -> Option<Ready> {
        // SAFETY: the party entered itself in a word. `owed` proves that it was taken out once and
        // has not been signalled since.
        unsafe { Party::from_number(owed.into_party()).signal_strand() }
    }

    /// Signals the party, and makes its strand ready or calls its waker.
    ///
    /// # Safety
    /// The party has entered itself somewhere, and has not been signalled since.
    #[inline]
    pub(crate) unsafe fn signal(self) {
        // SAFETY: the caller's promise is the same.
        if let Some(ready) = unsafe { self.signal_strand() } {
            make_ready(ready);
        }
    }

    /// As [`signal`](Party::signal), but does not make a strand ready. Returns that strand.
    ///
    /// # Safety
    /// As for `signal`.
    #[inline]
    pub(crate) unsafe fn signal_strand(self) -> Option<Ready> {
        // SAFETY: the caller's promise is the same.
        match unsafe { self.signal_later() } {
            Resumed::Nobody => None,
            Resumed::Strand(ready) => Some(ready),
            Resumed::Waker(waker) => {
                call(waker);
                None
            }
        }
    }

    /// Signals the party, but neither makes a strand ready nor calls a waker: the first may take a
    /// lock, the second may run any code. Returns what the caller has to do later.
    ///
    /// # Safety
    /// As for `signal`.
    #[inline]
    pub(crate) unsafe fn signal_later(self) -> Resumed {
        if self.0.get() & TAGS == 0 {
            // SAFETY: the strand waits for this signal, so it is alive.
            return unsafe { &*self.address::<Strand>() }.signal().map_or(Resumed::Nobody, Resumed::Strand);
        }
        // SAFETY: the caller's promise is the same.
        unsafe { self.signal_other() }
    }

    /// As [`signal_later`](Party::signal_later), for a party that is not a strand.
    ///
    /// # Safety
    /// As for `signal`.
    unsafe fn signal_other(self) -> Resumed {
        match self.0.get() & TAGS {
            FUTURE => {
                // SAFETY: the future does not leave before its slot has been told.
                unsafe { WakerSlot::tell(self.address()) }.map_or(Resumed::Nobody, Resumed::of)
            }
            KERNEL_THREAD => {
                // SAFETY: the thread waits for this signal, so its parker is there.
                unsafe { Parker::ring(self.address()) };
                Resumed::Nobody
            }
            TIMED => {
                // SAFETY: the owner of the wait does not leave before the wait has been told.
                match unsafe { Wait::tell(self.address()) } {
                    None => Resumed::Nobody,
                    // SAFETY: `tell` returns a party that waits for this signal.
                    Some(party) => unsafe { party.signal_later() },
                }
            }
            _ => match self.into_owned() {
                Ok(task) => task.strand().unpark().map_or(Resumed::Nobody, Resumed::Strand),
                Err(waker) => Resumed::Waker(waker),
            },
        }
    }
}

/// Calls a waker, which may run any code. A panic in it stops here: the caller has other parties to
/// signal, or is a processor.
pub(crate) fn call(waker: Waker) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        // The panic hook has reported it. Dropping the payload might panic again.
        std::mem::forget(payload);
    }
}
