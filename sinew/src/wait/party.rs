//! Whom the end of a wait resumes.
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

/// Whom to signal. Kinds are told apart by the lowest bits of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Party(NonZeroU64);

/// A [`Parker`], which a kernel thread waits for.
pub(super) const KERNEL_THREAD: u64 = 1;
/// A [`Wait`] that is to be told before whoever waits in it.
const TIMED: u64 = 2;
/// A [`WakerSlot`], which a future waits with.
const FUTURE: u64 = 3;
/// A task, by a reference that is the party's own; it is unparked.
const TASK: u64 = 4;
/// Another's waker, in a box that is the party's own.
const WAKER: u64 = 5;
const TAGS: u64 = 7;

/// What goes on when a party is signalled, if it has not done so already.
#[must_use]
pub(crate) enum Resumed {
    Nobody,
    /// Make it ready.
    Strand(Ready),
    /// Call it, where no lock is held: it may run any code.
    Waker(Waker),
}

impl Resumed {
    /// What goes on when this waker is called.
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

    /// The party of a wait that has an end of its own; see [`Wait::tell`].
    pub(crate) fn timed(wait: &Wait) -> Party {
        Party::new(wait, TIMED)
    }

    pub(super) fn waker_slot(slot: &WakerSlot) -> Party {
        Party::new(slot, FUTURE)
    }

    /// A party that owns `waker`, and need not be there to be signalled.
    pub(super) fn of_waker(waker: Waker) -> Party {
        match waker::task_of(waker) {
            Ok(task) => Party::new(task.into_raw().as_ptr(), TASK),
            Err(waker) => Party::new(Box::into_raw(Box::new(waker)), WAKER),
        }
    }

    /// Whether this is [`of_waker`](Party::of_waker) of this one, if that is a task's. It
    /// may have been signalled already.
    pub(super) fn is_of_task(self, waker: &Waker) -> bool {
        self.0.get() & TAGS == TASK && waker::strand_of(waker) == Some(self.address())
    }

    /// Drops what the party owns, which will not be signalled.
    pub(super) fn discard(self) {
        drop(self.into_owned());
    }

    /// What [`of_waker`](Party::of_waker) put in.
    fn into_owned(self) -> Result<StrandArc, Waker> {
        match self.0.get() & TAGS {
            TASK => {
                let strand = NonNull::new(self.address::<Strand>().cast_mut()).expect("addresses are not 0");
                // SAFETY: the reference is the party's own, and it is used once.
                Ok(unsafe { StrandArc::from_raw(strand) })
            }
            // SAFETY: as above.
            _ => Err(*unsafe { Box::from_raw(self.address::<Waker>().cast_mut()) }),
        }
    }

    /// As a number greater than 7, which [`from_number`](Party::from_number)
    /// takes back.
    pub(crate) fn number(self) -> NonZeroU64 {
        self.0
    }

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

    /// As [`signal_owed`](Party::signal_owed), but leaves it to the caller to make the strand ready
    /// that goes on, if it is one.
    #[inline]
    pub(crate) fn signal_owed_strand(owed: Owed) -> Option<Ready> {
        // SAFETY: the party entered itself in a word, and `owed` says that it was taken out once
        // and has not been signalled since.
        unsafe { Party::from_number(owed.into_party()).signal_strand() }
    }

    /// Signals the party, which goes on.
    ///
    /// # Safety
    /// It has entered itself, and has not been signalled since.
    #[inline]
    pub(crate) unsafe fn signal(self) {
        // SAFETY: the caller's promise is the same.
        if let Some(ready) = unsafe { self.signal_strand() } {
            make_ready(ready);
        }
    }

    /// As [`signal`](Party::signal), but leaves it to the caller to make the
    /// strand ready that goes on, if it is one.
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

    /// As [`signal`](Party::signal), but leaves everything to the caller that may take
    /// a lock or run another's code.
    ///
    /// # Safety
    /// As for `signal`.
    #[inline]
    pub(crate) unsafe fn signal_later(self) -> Resumed {
        if self.0.get() & TAGS == 0 {
            // SAFETY: it waits for this signal, so it is alive.
            return unsafe { &*self.address::<Strand>() }.signal().map_or(Resumed::Nobody, Resumed::Strand);
        }
        // SAFETY: the caller's promise is the same.
        unsafe { self.signal_other() }
    }

    /// # Safety
    /// As for `signal`.
    unsafe fn signal_other(self) -> Resumed {
        match self.0.get() & TAGS {
            FUTURE => {
                // SAFETY: it does not leave before it has been told.
                unsafe { WakerSlot::tell(self.address()) }.map_or(Resumed::Nobody, Resumed::of)
            }
            KERNEL_THREAD => {
                // SAFETY: it waits for this signal, so its parker is there.
                unsafe { Parker::ring(self.address()) };
                Resumed::Nobody
            }
            TIMED => {
                // SAFETY: it does not leave before it has been told.
                match unsafe { Wait::tell(self.address()) } {
                    None => Resumed::Nobody,
                    // SAFETY: `tell` says that it waits for this.
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

/// Calls a waker, which may run any code. If it panics, that is its owner's matter: whoever
/// tells has others to tell, or is a processor.
pub(crate) fn call(waker: Waker) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        // The hook has told of it, and to drop it might panic again.
        std::mem::forget(payload);
    }
}
