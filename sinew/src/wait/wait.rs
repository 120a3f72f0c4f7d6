//! One wait: several things may end it, and the first of them decides how.
#![allow(unsafe_code)]

use super::party::Party;
use crate::base::atomic::{AcqRel, Acquire, AtomicU32, Relaxed};

/// How a wait ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Outcome {
    /// What was waited for has come.
    Told = 1,
    /// The time was up first.
    TimedOut = 2,
    /// Whoever waits was cancelled first.
    Cancelled = 3,
}

const PENDING: u32 = 0;
/// The limit has ended it, but it is to be told before it may leave.
const AWAITING: u32 = 4;

/// A wait that several things may end, the first of which decides its outcome.
/// On the stack of whoever waits, or in its future. Aligned as `Parker` is.
#[repr(align(8))]
pub(crate) struct Wait {
    /// PENDING, AWAITING or an [`Outcome`].
    pub(super) outcome: AtomicU32,
    pub(super) party: Party,
}

/// ```text
///   PENDING --settle--> Told | TimedOut | Cancelled     (the settler signals)
///
///   PENDING ---------------------------tell--> Told     (the teller signals)
///   TimedOut | Cancelled --------------tell--> Told     (nobody signals)
///   TimedOut | Cancelled --await_told--> AWAITING --tell--> Told (the teller signals)
/// ```
impl Wait {
    pub(crate) fn new(party: Party) -> Self {
        Wait { outcome: AtomicU32::new(PENDING), party }
    }

    /// Ends the wait with this outcome, if nothing else has ended it: then the
    /// party is the caller's to signal. Whoever calls this has to know that the
    /// wait is still there.
    #[inline]
    pub(crate) fn settle(&self, outcome: Outcome) -> Option<Party> {
        // Read before: the wait may be gone when the party knows.
        let party = self.party;
        // Relaxed: the word only says who was first. What led to it is passed on by the
        // signal, and whoever was later leaves the wait alone.
        self.outcome.compare_exchange(PENDING, outcome as u32, Relaxed, Relaxed).is_ok().then_some(party)
    }

    /// As [`settle`](Wait::settle) as told, for a wait that nothing else can end.
    #[inline]
    pub(super) fn settle_alone(&self) -> Party {
        // Relaxed: the signal orders it.
        self.outcome.store(Outcome::Told as u32, Relaxed);
        self.party
    }

    /// Whether nothing has ended it yet.
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        self.outcome.load(Relaxed) == PENDING
    }

    /// Tells a wait that does not leave before that. Gives the party if it is to be
    /// signalled.
    ///
    /// # Safety
    /// As it says: the wait is there.
    pub(super) unsafe fn tell(wait: *const Wait) -> Option<Party> {
        // SAFETY: by the contract.
        let wait = unsafe { &*wait };
        let party = wait.party;
        // Release pairs with `outcome` and `await_told`, which go on without a signal if
        // they see this. Acquire pairs with the Release in `await_told`: the signal of this
        // comes after the one of the limit, which has been used up. The wait may be gone
        // afterwards.
        let before = wait.outcome.swap(Outcome::Told as u32, AcqRel);
        matches!(before, PENDING | AWAITING).then_some(party)
    }

    /// After the limit has ended the wait: `true` if it will be signalled when it is
    /// told, `false` if it has been told. By the one who waits.
    pub(super) fn await_told(&self) -> bool {
        // AcqRel: both pair with `tell`.
        self.outcome.swap(AWAITING, AcqRel) != Outcome::Told as u32
    }

    #[inline]
    pub(super) fn outcome(&self) -> Outcome {
        const TIMED_OUT: u32 = Outcome::TimedOut as u32;
        const CANCELLED: u32 = Outcome::Cancelled as u32;
        // Acquire pairs with `tell`, which does not signal after a limit.
        let outcome = self.outcome.load(Acquire);
        debug_assert_ne!(outcome, PENDING, "a signal that nobody owed");
        match outcome {
            TIMED_OUT => Outcome::TimedOut,
            CANCELLED => Outcome::Cancelled,
            _ => Outcome::Told,
        }
    }
}
