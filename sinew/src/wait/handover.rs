//! Whose the waker is that a future waits with.
//!
//! The waker lies in a slot in the pinned future. Two may reach for it: the one who
//! polls the future, to put another waker in its place, and the one who tells it, to
//! take the waker out and call it.
//!
//! ```text
//!   HELD --borrow--> BORROWED --put_back--> HELD      by the one who polls
//!   HELD --take--> TAKEN --tell--> TOLD               by the one who tells
//!   BORROWED --take--> TOLD                           the one who polls finds out
//!   HELD | BORROWED --retract--> TOLD                 by the one who drops the future
//! ```
//!
//! A slot may begin BORROWED and without a waker: cloning one may run any code, so whoever
//! polls does that when it has entered the queue and released its lock.
//!
//! The one who tells copies the waker out between TAKEN and TOLD, and calls it after
//! that, when the slot may be gone already. So whoever polls or drops the future goes
//! by TOLD alone, and waits for the few instructions that TAKEN lasts.

use crate::base::atomic::{AcqRel, Acquire, AtomicU32, Relaxed, Release, spin_loop};

const HELD: u32 = 0;
const BORROWED: u32 = 1;
const TAKEN: u32 = 2;
const TOLD: u32 = 3;

/// How often one looks before it lets the kernel run somebody else.
const SPINS_BEFORE_YIELD: u32 = 100;

/// The word beside the waker.
pub(crate) struct Handover(AtomicU32);

/// What became of the wish to change the waker.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Borrowed {
    /// The waker is the caller's until `put_back`.
    Yes,
    /// It was called, or is being called.
    Told,
}

/// Whether the waker that was put back will be called.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PutBack {
    /// It will.
    Held,
    /// What it would be called for has come meanwhile: the waker is still the caller's.
    Told,
}

/// What the one who tells now has to do.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Copy the waker out, `tell`, and call the copy.
    Call,
    /// Nothing: the future is being polled and sees it.
    LeaveIt,
}

impl Handover {
    pub(crate) fn new() -> Self {
        Handover(AtomicU32::new(HELD))
    }

    /// A slot that is the poller's to fill.
    pub(crate) fn borrowed() -> Self {
        Handover(AtomicU32::new(BORROWED))
    }

    /// Whether the slot is still to be filled. By the one who polls, which borrows it at no
    /// other time when it asks.
    #[inline]
    pub(crate) fn is_borrowed(&self) -> bool {
        self.0.load(Relaxed) == BORROWED
    }

    /// Whether it has been told: what led to that is seen then, and nobody else uses the
    /// slot any more.
    #[inline]
    pub(crate) fn is_told(&self) -> bool {
        // Acquire pairs with the Releases in `tell` and `take`.
        self.0.load(Acquire) == TOLD
    }

    /// `HELD -> BORROWED`. By the one who polls.
    pub(crate) fn borrow(&self) -> Borrowed {
        // Relaxed: HELD is from the caller's own `put_back`, and on failure `await_told`
        // acquires.
        match self.0.compare_exchange(HELD, BORROWED, Relaxed, Relaxed) {
            Ok(_) => Borrowed::Yes,
            Err(_) => {
                self.await_told();
                Borrowed::Told
            }
        }
    }

    /// `BORROWED -> HELD`. By the one who polls.
    pub(crate) fn put_back(&self) -> PutBack {
        // Release: the waker, for `take`. Acquire on failure as in `is_told`.
        match self.0.compare_exchange(BORROWED, HELD, Release, Acquire) {
            Ok(_) => PutBack::Held,
            Err(_) => PutBack::Told,
        }
    }

    /// `HELD -> TAKEN | BORROWED -> TOLD`. By the one who tells, once.
    #[inline]
    pub(crate) fn take(&self) -> Taken {
        let mut seen = HELD;
        loop {
            let (next, taken) = if seen == HELD { (TAKEN, Taken::Call) } else { (TOLD, Taken::LeaveIt) };
            // Acquire pairs with the Release in `put_back`; Release as in `tell`.
            match self.0.compare_exchange(seen, next, AcqRel, Relaxed) {
                Ok(_) => return taken,
                Err(now) => seen = now,
            }
        }
    }

    /// `TAKEN -> TOLD`. By the one who took the waker. The word may be gone afterwards.
    #[inline]
    pub(crate) fn tell(&self) {
        // Release pairs with the Acquire in `is_told`.
        self.0.store(TOLD, Release);
    }

    /// `HELD | BORROWED -> TOLD`. By the one who drops the future, when nobody else reaches
    /// it any more. Returns whether there is a waker in the slot, which is the caller's.
    pub(crate) fn retract(&self) -> bool {
        // Relaxed: nobody else uses the word.
        self.0.swap(TOLD, Relaxed) == HELD
    }

    /// Until it has been told. By the one who polls or drops the future, when somebody is
    /// about to tell it.
    #[cold]
    pub(crate) fn await_told(&self) {
        let mut spins = 0;
        while !self.is_told() {
            spins += 1;
            if spins % SPINS_BEFORE_YIELD == 0 {
                std::thread::yield_now();
            }
            spin_loop();
        }
    }
}
