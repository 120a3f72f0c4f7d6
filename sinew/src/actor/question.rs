//! Which side of a question frees the place that both share.
//!
//! ```text
//!   PENDING --settle: an answer, or why there is none--> settled     (the asker is told, and frees the place)
//!   PENDING --give_up, by the asker--> GONE                          (the replier frees the place)
//! ```
//!
//! One exchange decides which side was first, and the other side frees. An answer is handed over by the signal that
//! tells the asker, which is a release and an acquire.

use crate::base::atomic::{Acquire, AtomicU32, Relaxed, Release};

const PENDING: u32 = 0;
const GONE: u32 = 1;
/// The outcome of a question that was answered. Greater numbers say why there is no answer.
pub(super) const ANSWERED: u32 = 2;

/// What the replier now has to do.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// Tell the asker. The place is the asker's.
    Tell,
    /// Free the place: the asker has given up.
    Free,
}

/// The state of one question.
pub(super) struct Question(AtomicU32);

impl Question {
    #[inline]
    pub(super) fn new() -> Question {
        Question(AtomicU32::new(PENDING))
    }

    /// `PENDING -> settled | GONE -> GONE`. By the replier, once.
    #[inline]
    pub(super) fn settle(&self, outcome: u32) -> Settled {
        debug_assert!(outcome >= ANSWERED);
        // Relaxed if the asker is to be told: the signal orders what it reads. Acquire if not: the place is freed after
        // what the asker did with it; pairs with the Release in `give_up`.
        match self.0.compare_exchange(PENDING, outcome, Relaxed, Acquire) {
            Ok(_) => Settled::Tell,
            Err(_) => Settled::Free,
        }
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
