//! What each kind of strand provides, and why a strand gives up its processor.

use super::Strand;
use std::any::Any;
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
    /// Returns what is known of the work that the strand has to do. By any thread that may look at it.
    pub(crate) weigh: fn(&Strand) -> Weight,
    /// What a layer above does for strands of this kind, if anything. The kind knows its type.
    pub(crate) nature: Option<&'static (dyn Any + Send + Sync)>,
}

/// The work that a strand has to do when it runs next, as far as that is known.
///
/// A colour and an actor know it: they have letters. Of a fibre and a task nothing is known: all
/// numbers are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Weight {
    /// The time that the letters are expected to take, each divided by the penalty of its handler.
    pub nanoseconds: u64,
    /// The time that the letters are expected to take, without penalties.
    pub undivided_nanoseconds: u64,
    /// The number of letters.
    pub letters: u32,
}

impl Weight {
    /// Makes the weight of letters that are expected to take this number of nanoseconds, and whose
    /// handlers have no penalty.
    pub(crate) const fn new(nanoseconds: u64, letters: u32) -> Weight {
        Weight { nanoseconds, undivided_nanoseconds: nanoseconds, letters }
    }

    /// Returns the same weight for handlers that have penalties: without these, the letters are expected
    /// to take this number of nanoseconds.
    pub(crate) const fn undivided(self, nanoseconds: u64) -> Weight {
        Weight { undivided_nanoseconds: nanoseconds, ..self }
    }

    /// Weighs a strand of which nothing is known.
    pub(crate) fn unknown(_: &Strand) -> Weight {
        Weight::default()
    }
}

/// How a strand has become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// It has never run.
    New,
    /// It ran, stopped, and was woken.
    Woken,
    /// It ran, and gave way to others.
    Yielded,
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
    /// It has not begun: it is new, or the processor leaves it to another one.
    Declined,
    /// It will not run again.
    Finished,
    /// It is a mailbox without letters. Nobody owns it: its `Ready` is void.
    Idle,
    /// It is a mailbox that has left with its carrier, which owns it now: its `Ready` is void.
    Left,
    /// It is a carrier without a mailbox.
    Resting,
}

/// The bit beside the reasons of [`bound`] that marks a hub.
pub(super) const HUB: u8 = 0x80;

/// Reasons for which a started strand may not leave its processor.
pub(crate) mod bound {
    /// The runtime does not let started fibres migrate.
    pub(crate) const STARTED: u8 = 1;
    /// The fibre was spawned pinned, or pinned itself.
    pub(crate) const PINNED: u8 = 2;
    /// All reasons.
    pub(crate) const ANY: u8 = STARTED | PINNED;
}
