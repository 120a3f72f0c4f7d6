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
        drop(Waiter::of(self.owed()));
    }

    /// Returns the party as a number greater than 7, for the word in which it waits.
    pub(crate) fn number(self) -> NonZeroU64 {
        self.0
    }

    /// Returns the signal that the caller owes: it took the party out of where it waited, or settled its
    /// wait. For each time once.
    #[inline(always)]
    pub(crate) fn owed(self) -> Owed {
        Owed::taken(self.0)
    }

    /// Returns the party of a signal, for a holder that keeps count of it by itself.
    #[inline(always)]
    pub(super) fn of_owed(owed: Owed) -> Party {
        Party(owed.into_party())
    }

    fn address<T>(self) -> *const T {
        std::ptr::with_exposed_provenance((self.0.get() & !TAGS) as usize)
    }

    /// Signals the party, and makes its strand ready or calls its waker.
    #[inline]
    pub(crate) fn signal_owed(owed: Owed) {
        if let Some(ready) = Party::signal_owed_strand(owed) {
            make_ready(ready);
        }
    }

    /// As [`signal_owed`](Party::signal_owed), but does not make a strand ready. Returns that strand.
    #[inline]
    pub(crate) fn signal_owed_strand(owed: Owed) -> Option<Ready> {
        match Party::signal_owed_later(owed) {
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
    #[inline]
    pub(crate) fn signal_owed_later(owed: Owed) -> Resumed {
        if owed.party().get() & TAGS != 0 {
            return Party::signal_other(owed);
        }
        match Waiter::of(owed) {
            Waiter::Strand(strand) => strand.signal().map_or(Resumed::Nobody, Resumed::Strand),
            _ => unreachable!("a strand has no tag"),
        }
    }

    /// As [`signal_owed_later`](Party::signal_owed_later), for a party that is not a strand.
    fn signal_other(owed: Owed) -> Resumed {
        match Waiter::of(owed) {
            Waiter::Strand(strand) => strand.signal().map_or(Resumed::Nobody, Resumed::Strand),
            Waiter::Thread(parker) => {
                Parker::ring(&parker.0);
                Resumed::Nobody
            }
            Waiter::Timed(wait) => {
                let party = wait.party;
                if Wait::tell(&wait.outcome) { Party::signal_owed_later(party.owed()) } else { Resumed::Nobody }
            }
            Waiter::Future(slot) => WakerSlot::tell(&slot.handover, &slot.waker).map_or(Resumed::Nobody, Resumed::of),
            Waiter::Task(task) => task.strand().unpark().map_or(Resumed::Nobody, Resumed::Strand),
            Waiter::Waker(waker) => Resumed::Waker(*waker),
        }
    }
}

/// What a party leads to.
enum Waiter<'a> {
    Strand(&'a Strand),
    Thread(&'a Parker),
    Timed(&'a Wait),
    Future(&'a WakerSlot),
    Task(StrandArc),
    Waker(Box<Waker>),
}

impl Waiter<'_> {
    #[inline(always)]
    fn of<'a>(owed: Owed) -> Waiter<'a> {
        let party = Party::of_owed(owed);
        // SAFETY: the tag says which of these the party was made of. A strand, parker, wait or slot does
        // not go before the party has been signalled, and `Owed` proves that the signal is still to come.
        // A task or waker belongs to the party, which ends here.
        unsafe {
            match party.0.get() & TAGS {
                0 => Waiter::Strand(&*party.address()),
                KERNEL_THREAD => Waiter::Thread(&*party.address()),
                TIMED => Waiter::Timed(&*party.address()),
                FUTURE => Waiter::Future(&*party.address()),
                TASK => Waiter::Task(StrandArc::from_raw(NonNull::from(&*party.address::<Strand>()))),
                _ => Waiter::Waker(Box::from_raw(party.address::<Waker>().cast_mut())),
            }
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
