//! What kinds of strand have in common, and what a strand tells its processor.

use super::Strand;
use std::ptr::NonNull;

/// What a kind of strand has to offer.
pub(crate) struct Kind {
    /// Runs the strand, on the calling processor, until it gives that up.
    pub(crate) run: fn(&Strand) -> After,
    /// Frees the strand's memory.
    ///
    /// # Safety
    /// No reference to the strand is left.
    pub(crate) free: unsafe fn(NonNull<Strand>),
}

/// Why a strand gave up its processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// It is ready to go on.
    Yielded,
    /// It wants to park, unless a token has come.
    Parking,
    /// It waits for a signal.
    Waiting,
    /// It is ready, and `Strand::cluster` names another cluster by now.
    Moving,
    /// It will not run again.
    Finished,
}

/// Reasons for which a started strand may not leave its processor.
pub(crate) mod bound {
    /// The runtime does not let started fibres migrate.
    pub(crate) const STARTED: u8 = 1;
    /// The fibre asked for it.
    pub(crate) const PINNED: u8 = 2;
}
