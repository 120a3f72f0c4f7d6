//! One wait: several events may end it, and the first of them decides its outcome.

use super::party::Party;
use crate::base::atomic::{AcqRel, Acquire, AtomicU32, Relaxed};
use crate::strand::Owed;

/// How a wait ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Outcome {
    /// What was waited for has come.
    Told = 1,
    /// The deadline came first.
    TimedOut = 2,
    /// A cancellation came first.
    Cancelled = 3,
}

const PENDING: u32 = 0;
/// A limit has ended the wait, but its owner leaves only after it has been told.
const AWAITING: u32 = 4;

/// A wait that several events may end; the first of them decides its outcome. It lies on the stack
/// of its owner, or in the owner's future. Aligned as `Parker` is.
#[repr(align(8))]
pub(crate) struct Wait {
    /// PENDING, AWAITING or an [`Outcome`]. Written by the thread that ends the wait, and by the owner
    /// in `await_told`.
    pub(super) outcome: AtomicU32,
    /// The party to signal. Never changes.
    pub(super) party: Party,
}

/// ```text
///   PENDING --settle--> Told | TimedOut | Cancelled     (the settler signals)
///
///   PENDING ---------------------------tell--> Told     (the teller signals)
///   TimedOut | Cancelled --------------tell--> Told     (no signal)
///   TimedOut | Cancelled --await_told--> AWAITING --tell--> Told (the teller signals)
/// ```
impl Wait {
    pub(crate) fn new(party: Party) -> Self {
        Wait { outcome: AtomicU32::new(PENDING), party }
    }

    /// Ends the wait with this outcome, if nothing else has ended it. Returns the signal that the caller
    /// then owes. The owner itself owes none.
    #[inline]
    pub(crate) fn settle(&self, outcome: Outcome) -> Option<Owed> {
        // Read before: the wait may be gone after the exchange.
        let party = self.party;
        // Relaxed: the word only says which caller was first. The signal passes on what led to it,
        // and later callers leave the wait alone.
        let settled = self.outcome.compare_exchange(PENDING, outcome as u32, Relaxed, Relaxed);
        settled.is_ok().then(|| party.owed())
    }

    /// Ends the wait as told, if nothing else can end it. Returns the signal that the caller owes.
    #[inline]
    pub(super) fn settle_alone(&self) -> Owed {
        // Relaxed: the signal orders this store.
        self.outcome.store(Outcome::Told as u32, Relaxed);
        self.party.owed()
    }

    /// Says whether nothing has ended the wait yet.
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        self.outcome.load(Relaxed) == PENDING
    }

    /// Tells a wait whose owner does not leave before that, by the word of the wait. Returns whether the
    /// caller owes the party a signal.
    pub(super) fn tell(outcome: &AtomicU32) -> bool {
        // Release pairs with the Acquire in `outcome` and `await_told`, which go on without a signal
        // if they see this. Acquire pairs with the Release in `await_told`: the signal that the caller
        // gives comes after the limit's signal, which has been used up. The wait may be gone
        // afterwards: so this takes the word alone.
        let before = outcome.swap(Outcome::Told as u32, AcqRel);
        matches!(before, PENDING | AWAITING)
    }

    /// `TimedOut | Cancelled -> AWAITING`. Returns `true` if the party will be signalled when the wait
    /// is told, `false` if it has been told already. By the owner, after a limit has ended the wait.
    pub(super) fn await_told(&self) -> bool {
        // Release pairs with the Acquire in `tell`, Acquire with the Release there.
        self.outcome.swap(AWAITING, AcqRel) != Outcome::Told as u32
    }

    /// Returns how the wait ended. By the owner, after it has been signalled.
    #[inline]
    pub(crate) fn outcome(&self) -> Outcome {
        const TIMED_OUT: u32 = Outcome::TimedOut as u32;
        const CANCELLED: u32 = Outcome::Cancelled as u32;
        // Acquire pairs with the Release in `tell`, which does not signal after a limit.
        let outcome = self.outcome.load(Acquire);
        debug_assert_ne!(outcome, PENDING, "a party was signalled before its wait ended");
        match outcome {
            TIMED_OUT => Outcome::TimedOut,
            CANCELLED => Outcome::Cancelled,
            _ => Outcome::Told,
        }
    }
}
