//! Counts the users of a scope, so that its owner leaves last.
//!
//! ```text
//!   enter   count + 1                        by a user that is counted, for a new fibre
//!   leave   count - 1                        by a fibre that uses nothing of the scope any more
//!   wait    owner = its party; count - 1     by the owner, which is counted until then
//! ```
//!
//! One of them brings the count to 0:
//!
//! - The owner does: all fibres have left, and it goes on.
//! - A fibre does: the owner has left the count, so it has written its party and waits. The fibre
//!   signals it.
//!
//! The count reaches 0 once, because only a counted user enters another. So the owner is signalled
//! once, or it is not signalled and does not wait.
//!
//! All users that leave change one word, each with Acquire and Release. So the last one has seen
//! what the others did to what they borrowed. The owner sees it too: it is the last, or it gets the
//! signal of the last.
//!
//! A fibre that was not the last touches nothing of the scope afterwards: the scope may be gone. The
//! last one may read the party, because the owner waits for its signal.

use crate::base::atomic::{AcqRel, AtomicU64, AtomicUsize, Relaxed};
use crate::strand::Owed;
use std::num::NonZeroU64;

pub(crate) struct Headcount {
    /// The fibres that have not left, and the owner until it waits.
    count: AtomicUsize,
    /// The number of the owner's party; 0 until it waits. Written by the owner before it leaves the
    /// count, read by the last fibre that leaves.
    owner: AtomicU64,
}

/// What a fibre that has left now owes.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Nothing: others are still counted.
    Others,
    /// The fibre was the last: signal this party, the owner's.
    Last(Owed),
}

/// What the owner now has to do.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Wait for the signal.
    Entered,
    /// Go on: all fibres have left, and nobody will signal.
    Alone,
}

impl Headcount {
    /// Counts the owner alone.
    pub(crate) fn new() -> Self {
        Headcount { count: AtomicUsize::new(1), owner: AtomicU64::new(0) }
    }

    /// `count -> count + 1`. By a user that is counted.
    pub(crate) fn enter(&self) {
        // Relaxed: the spawn orders what the new fibre sees.
        self.count.fetch_add(1, Relaxed);
    }

    /// `count -> count - 1`. By a fibre.
    pub(crate) fn leave(&self) -> Left {
        if !self.leave_last() {
            return Left::Others;
        }
        let owner = NonZeroU64::new(self.owner.load(Relaxed));
        Left::Last(Owed::taken(owner.expect("the owner waits, or it would be counted")))
    }

    /// Writes the owner's party, and `count -> count - 1`. By the owner, once.
    pub(crate) fn wait(&self, party: NonZeroU64) -> Wait {
        self.owner.store(party.get(), Relaxed);
        if self.leave_last() { Wait::Alone } else { Wait::Entered }
    }

    fn leave_last(&self) -> bool {
        // Release pairs with the Acquire here, of the last user that leaves.
        self.count.fetch_sub(1, AcqRel) == 1
    }

    /// Returns the count: a hint.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }
}
