//! A signal that is owed.

use std::num::NonZeroU64;

/// A party whose wait has ended, and that waits for its signal: it was taken out of the word in which it
/// waited, or the holder has settled its wait. There is one of these for each signal, and its holder
/// owes the party that signal. So what the party's number leads to is there.
#[must_use = "the party waits for its signal"]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Owed(NonZeroU64);

impl Owed {
    /// By the one that took the party's number out of a word or settled its wait, for each time once.
    #[inline(always)]
    pub(crate) fn taken(party: NonZeroU64) -> Owed {
        Owed(party)
    }

    /// The number of the party, which still waits.
    #[inline(always)]
    pub(crate) fn party(&self) -> NonZeroU64 {
        self.0
    }

    /// The number of the party, for the one that signals it now.
    #[inline(always)]
    pub(crate) fn into_party(self) -> NonZeroU64 {
        self.0
    }
}
