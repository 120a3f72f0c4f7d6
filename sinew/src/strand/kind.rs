//! What each kind of strand provides, and why a strand gives up its processor.

use super::Strand;
use std::ptr::NonNull;

/// A kind of strand: how it runs, and how it is freed.
pub(crate) struct Kind {
    /// Runs the strand on the calling processor, until it gives up the processor.
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
    /// It wants to wait for a signal, unless one has come.
    Waiting,
    /// It is ready, and belongs to another cluster now.
    Moving,
    /// It has not begun: the processor leaves it to another one.
    Declined,
    /// It will not run again.
    Finished,
}

/// Reasons for which a started strand may not leave its processor.
pub(crate) mod bound {
    /// The runtime does not let started fibres migrate.
    pub(crate) const STARTED: u8 = 1;
    /// The fibre was spawned pinned, or pinned itself.
    pub(crate) const PINNED: u8 = 2;
}
