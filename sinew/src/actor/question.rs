//! Which side of a question frees the place that both share.
//!
//! ```text
//!   PENDING --settle: an answer, or why there is none--> settled     (the asker is told, and frees the place)
//!   PENDING --give_up, by the asker--> GONE                          (the replier frees the place)
//!
//!   PREPARED --wait, by the asker--> PENDING
//!   PREPARED --settle--> settled                                     (nobody is told: the asker frees the place)
//!   PREPARED --withdraw, by the asker--> GONE
//! ```
//!
//! One exchange decides which side was first, and the other side frees. An answer to an asker that waits is handed
//! over by the signal that tells it, which is a release and an acquire.

use crate::base::atomic::{AcqRel, Acquire, AtomicU32, Relaxed, Release};

const PENDING: u32 = 0;
const GONE: u32 = 1;
/// The outcome of a question that was answered. Greater numbers say why there is no answer.
pub(super) const ANSWERED: u32 = 2;
/// The asker does not wait yet.
const PREPARED: u32 = u32::MAX;

/// What the replier now has to do.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Settled<T> {
    /// Tell the asker. The place is the asker's.
    Tell(T),
    /// Nothing: the asker does not wait. The place is the asker's.
    Leave,
    /// Free the place: the asker has given up.
    Free,
}

/// The state of one question.
pub(super) struct Question(AtomicU32);

impl Question {
    /// Makes a question whose asker is about to wait: it posts the question after it has said what is told.
    #[inline]
    pub(super) fn pending() -> Question {
        Question(AtomicU32::new(PENDING))
    }

    /// Makes a question whose asker does not wait yet.
    pub(super) fn prepared() -> Question {
        Question(AtomicU32::new(PREPARED))
    }

    /// `PENDING | PREPARED -> settled | GONE -> GONE`. `asker` reads what is told, which is there if the asker waits. By
    /// the replier, once.
    #[inline]
    pub(super) fn settle<T>(&self, outcome: u32, asker: impl Fn() -> T) -> Settled<T> {
        debug_assert!((ANSWERED..PREPARED).contains(&outcome));
        // Acquire pairs with the Release in `wait`: what is told has been written.
        let mut seen = self.0.load(Acquire);
        loop {
            // Acquire: the place is freed after what the asker did with it; pairs with the Releases in `give_up` and
            // `withdraw`.
            if seen == GONE {
                return Settled::Free;
            }
            let told = (seen == PENDING).then(&asker);
            // Release: an asker that does not wait sees the answer; pairs with the Acquires in `wait` and `withdraw`.
            match self.0.compare_exchange(seen, outcome, Release, Acquire) {
                Ok(_) => return told.map_or(Settled::Leave, Settled::Tell),
                Err(now) => seen = now,
            }
        }
    }

    /// `PREPARED -> PENDING`. Returns `false` if the question has been settled. By the asker, once, after it has said
    /// what is told.
    #[must_use]
    pub(super) fn wait(&self) -> bool {
        // Release pairs with the Acquires in `settle`, Acquire with the Release there.
        self.0.compare_exchange(PREPARED, PENDING, AcqRel, Acquire).is_ok()
    }

    /// `PREPARED -> GONE`. Returns `false` if the question has been settled. By the asker, instead of `wait`.
    #[must_use]
    pub(super) fn withdraw(&self) -> bool {
        // Release pairs with the Acquires in `settle`, Acquire with the Release there.
        self.0.compare_exchange(PREPARED, GONE, AcqRel, Acquire).is_ok()
    }

    /// `PENDING -> GONE`. Returns `false` if the question has been settled. By the asker, once.
    #[must_use]
    pub(super) fn give_up(&self) -> bool {
        // Release pairs with the Acquire in `settle`.
        self.0.compare_exchange(PENDING, GONE, Release, Relaxed).is_ok()
    }

    /// Returns the outcome. By the asker, after it has been told.
    #[inline]
    pub(super) fn outcome(&self) -> u32 {
        let outcome = self.0.load(Relaxed);
        debug_assert!(outcome >= ANSWERED);
        outcome
    }

    /// Says whether the asker has given up. The answer may be out of date.
    #[inline]
    pub(super) fn is_given_up(&self) -> bool {
        self.0.load(Relaxed) == GONE
    }
}
