//! Decides which side owns a future's waker: the side that polls, or the side that tells.
//!
//! The waker lies in a slot in the pinned future. The side that polls the future may put another waker
//! in its place. The side that tells the future takes the waker out and calls it.
//!
//! ```text
//!   HELD --borrow--> BORROWED --put_back--> HELD      by the side that polls
//!   HELD --take--> TAKEN --tell--> TOLD               by the side that tells
//!   BORROWED --take--> TOLD                           the side that polls finds out
//!   HELD | BORROWED --retract--> TOLD                 by the side that drops the future
//! ```
//!
//! A slot may begin BORROWED and without a waker. To clone a waker may run any code, so the polling
//! side clones it when it has entered the queue and released the lock.
//!
//! The telling side copies the waker out between TAKEN and TOLD. It calls the copy after that, when the
//! slot may be gone. So the side that polls or drops the future goes by TOLD alone, and waits for the
//! few instructions that TAKEN lasts.

use crate::base::atomic::{AcqRel, Acquire, AtomicU32, Relaxed, Release, spin_loop};

const HELD: u32 = 0;
const BORROWED: u32 = 1;
const TAKEN: u32 = 2;
const TOLD: u32 = 3;

/// The number of looks before the waiting side lets the kernel run another thread. Unmeasured.
const SPINS_BEFORE_YIELD: u32 = 100;

/// The word beside the waker.
pub(crate) struct Handover(AtomicU32);

/// Proves that the waker in the slot is the holder's, which may take it out.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ours(());

/// The result of `borrow`.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Borrowed {
    /// The waker is the caller's until `put_back`.
    Yes(Ours),
    /// The future has been told: the waker was called, or is about to be.
    Told,
}

/// The result of `put_back`.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PutBack {
    /// The waker will be called.
    Held,
    /// The future has been told meanwhile: the waker is still the caller's.
    Told(Ours),
}

/// What the telling side now has to do.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Copy the waker out, `tell`, and call the copy.
    Call(Ours),
    /// Nothing: the polling side sees TOLD.
    LeaveIt,
}

impl Handover {
    pub(crate) fn new() -> Self {
        Handover(AtomicU32::new(HELD))
    }

    /// Returns the word of a slot that the polling side has to fill.
    pub(crate) fn borrowed() -> Self {
        Handover(AtomicU32::new(BORROWED))
    }

    /// Returns whether the slot is still to be filled. By the polling side, which has not borrowed the
    /// slot when it asks.
    #[inline]
    pub(crate) fn is_borrowed(&self) -> bool {
        self.0.load(Relaxed) == BORROWED
    }

    /// Returns whether the future has been told. Then the caller sees what led to that, and nobody else
    /// uses the slot.
    #[inline]
    pub(crate) fn is_told(&self) -> bool {
        // Acquire pairs with the Releases in `tell` and `take`.
        self.0.load(Acquire) == TOLD
    }

    /// `HELD -> BORROWED`. By the polling side.
    pub(crate) fn borrow(&self) -> Borrowed {
        // Relaxed: HELD is from the caller's own `put_back`, and on failure `await_told`
        // acquires.
        match self.0.compare_exchange(HELD, BORROWED, Relaxed, Relaxed) {
            Ok(_) => Borrowed::Yes(Ours(())),
            Err(_) => {
                self.await_told();
                Borrowed::Told
            }
        }
    }

    /// `BORROWED -> HELD`. By the polling side.
    pub(crate) fn put_back(&self) -> PutBack {
        // Release: the waker, for `take`. Acquire on failure as in `is_told`.
        match self.0.compare_exchange(BORROWED, HELD, Release, Acquire) {
            Ok(_) => PutBack::Held,
            Err(_) => PutBack::Told(Ours(())),
        }
    }

    /// `HELD -> TAKEN | BORROWED -> TOLD`. By the telling side, once.
    #[inline]
    pub(crate) fn take(&self) -> Taken {
        let mut seen = HELD;
        loop {
            let (next, taken) = if seen == HELD { (TAKEN, Taken::Call(Ours(()))) } else { (TOLD, Taken::LeaveIt) };
            // Acquire pairs with the Release in `put_back`; Release as in `tell`.
            match self.0.compare_exchange(seen, next, AcqRel, Relaxed) {
                Ok(_) => return taken,
                Err(now) => seen = now,
            }
        }
    }

    /// `TAKEN -> TOLD`. By the telling side. The word may be gone afterwards.
    #[inline]
    pub(crate) fn tell(&self) {
        // Release pairs with the Acquire in `is_told`.
        self.0.store(TOLD, Release);
    }

    /// `HELD | BORROWED -> TOLD`. By the side that drops the future, when no teller can reach it. If
    /// the slot holds a waker, that is then the caller's.
    pub(crate) fn retract(&self) -> Option<Ours> {
        // Relaxed: nobody else uses the word.
        (self.0.swap(TOLD, Relaxed) == HELD).then_some(Ours(()))
    }

    /// Waits for TOLD. By the side that polls or drops the future, when a teller is about to tell it.
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
