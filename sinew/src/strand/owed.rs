//! A signal that is owed.

use std::num::NonZeroU64;

/// A party that has been taken out of the word in which it waited. There is one of these for
/// each party that was taken out, and its holder owes the party one signal.
#[must_use = "the party waits for its signal"]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Owed(NonZeroU64);

impl Owed {
    /// By the one that took the party's number out of a word, for each time once.
    #[inline(always)]
    pub(crate) fn taken(party: NonZeroU64) -> Owed {
        Owed(party)
    }

    /// The number of the party, for the one that signals it now.
    #[inline(always)]
    pub(crate) fn into_party(self) -> NonZeroU64 {
        self.0
    }
}
