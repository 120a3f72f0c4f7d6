//! The state of a strand: who may touch it, and what an unpark owes.
//!
//! ```text
//!                   park: no token                unpark
//!      ACTIVE ------------------------> PARKED ------------> ACTIVE
//!        |  ^                                                (the unparker
//! unpark |  | park: takes the token                           makes it ready)
//!        v  |
//!      WOKEN
//!
//!      ACTIVE, WOKEN --finish--> FINISHED --unpark--> FINISHED
//! ```
//!
//! *ACTIVE* covers a strand that runs and one that is ready: whether it sits in
//! a queue or on a processor is the scheduler's matter, and an unpark does the
//! same in both cases, it leaves the token. One atomic operation parks and one
//! unparks.
//!
//! The strand that parks does so in two steps. It gives up its stack first
//! (*parking*: still ACTIVE), and its processor commits the park afterwards,
//! on its own stack. An unpark that comes between the two finds ACTIVE, leaves
//! the token, and the commit fails: nothing is lost, and nobody resumes a stack
//! that is still in use.

use crate::atomic::{AcqRel, Acquire, AtomicU32, Relaxed};

const ACTIVE: u32 = 0;
const WOKEN: u32 = 1;
const PARKED: u32 = 2;
const FINISHED: u32 = 3;

/// The state word. Written by the strand itself, by its processor when it
/// commits a park, and by whoever unparks it.
pub(crate) struct State(AtomicU32);

/// What the caller of [`State::unpark`] now has to do.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unparked {
    /// The strand was parked and is the caller's: make it ready.
    Enqueue,
    /// It is active and has the token now, or it has finished.
    LeaveIt,
}

/// What became of a park that was to be committed.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    /// It is parked: whoever unparks it owns it from now on.
    Parked,
    /// A token had come and is consumed: the strand is still the caller's.
    Woken,
}

impl State {
    pub(crate) fn new() -> Self {
        State(AtomicU32::new(ACTIVE))
    }

    /// `WOKEN -> ACTIVE`: takes the token if it is there. By the strand itself.
    #[inline]
    pub(crate) fn take_token(&self) -> bool {
        // Acquire pairs with the AcqRel in `unpark`: what the unparker wrote
        // before is seen. The load keeps the common case free of an exchange;
        // a token that it misses is found by `commit_park`.
        self.0.load(Relaxed) == WOKEN && self.0.swap(ACTIVE, Acquire) == WOKEN
    }

    /// `ACTIVE -> PARKED | WOKEN -> ACTIVE`. By the processor, when the strand
    /// has given up its stack.
    #[inline]
    pub(crate) fn commit_park(&self) -> Commit {
        // Release: whoever unparks and resumes the strand sees what it did up
        // to here; pairs with the Acquire half of `unpark`.
        match self.0.compare_exchange(ACTIVE, PARKED, AcqRel, Acquire) {
            Ok(_) => Commit::Parked,
            Err(_) => {
                // Only WOKEN is possible, and only this strand leaves it. The
                // exchange, not a store: it must acquire the newest unparker.
                let before = self.0.swap(ACTIVE, Acquire);
                debug_assert_eq!(before, WOKEN);
                Commit::Woken
            }
        }
    }

    /// `PARKED -> ACTIVE | ACTIVE -> WOKEN`; nothing otherwise. By anyone.
    #[inline]
    pub(crate) fn unpark(&self) -> Unparked {
        let mut seen = self.0.load(Relaxed);
        loop {
            let next = match seen {
                PARKED => ACTIVE,
                FINISHED => return Unparked::LeaveIt,
                // WOKEN is written anew, so that the strand, when it takes the
                // token, acquires what this unparker wrote as well.
                _ => WOKEN,
            };
            // Release pairs with the Acquire in `take_token` and `commit_park`;
            // Acquire pairs with the Release in `commit_park`.
            match self.0.compare_exchange_weak(seen, next, AcqRel, Relaxed) {
                Ok(PARKED) => return Unparked::Enqueue,
                Ok(_) => return Unparked::LeaveIt,
                Err(now) => seen = now,
            }
        }
    }

    /// `ACTIVE | WOKEN -> FINISHED`. By the strand's processor, once.
    pub(crate) fn finish(&self) {
        self.0.store(FINISHED, Relaxed);
    }
}
