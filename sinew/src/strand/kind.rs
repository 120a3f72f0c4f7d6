//! What each kind of strand provides, and why a strand gives up its processor.

use super::Strand;
use crate::base::describe::{Entry, Symbol};
use crate::base::peek;
use std::any::Any;
use std::mem::offset_of;
use std::ptr::NonNull;

/// A kind of strand: how it runs, and how it is freed.
#[repr(C)]
pub(crate) struct Kind {
    /// The part that readers of memory see.
    pub(crate) face: Face,
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

/// The part of a kind that readers of memory see.
#[repr(C)]
pub(crate) struct Face {
    /// Says that this is a kind.
    magic: usize,
    class: Class,
    symbol: Symbol,
    /// Returns the name of the type, for reports of this process.
    type_name: Option<fn() -> &'static str>,
}

const MAGIC: usize = 0x5111_e3ff_ac1e_57a9;

/// The class of a strand, for readers of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Class {
    Fibre = 1,
    Task = 2,
    Mailbox = 3,
}

impl Face {
    /// Makes the face of a kind of this class. The symbol tells the type, if there is one.
    pub(crate) const fn new(class: Class, symbol: Symbol) -> Face {
        Face { magic: MAGIC, class, symbol, type_name: None }
    }

    /// The same face, of a type with this name.
    pub(crate) const fn named(self, type_name: Option<fn() -> &'static str>) -> Face {
        Face { type_name, ..self }
    }

    pub(crate) fn class(&self) -> Class {
        self.class
    }

    pub(crate) fn type_name(&self) -> Option<fn() -> &'static str> {
        self.type_name
    }
}

impl Kind {
    /// Says whether there is a kind at this address, which may be any number.
    pub(super) fn is_at(address: usize) -> bool {
        peek::word(address.wrapping_add(offset_of!(Kind, face.magic))) == Some(MAGIC)
    }
}

/// The entries of the description.
pub(crate) const ENTRIES: &[Entry] = &[
    Entry::number("kind.magic", offset_of!(Kind, face.magic)),
    Entry::number("kind.magic_value", MAGIC),
    Entry::number("kind.class", offset_of!(Kind, face.class)),
    Entry::number("kind.symbol", offset_of!(Kind, face.symbol)),
    Entry::number("class.fibre", Class::Fibre as usize),
    Entry::number("class.task", Class::Task as usize),
    Entry::number("class.mailbox", Class::Mailbox as usize),
    Entry::number("after.yielded", After::Yielded as usize),
    Entry::number("after.parking", After::Parking as usize),
    Entry::number("after.waiting", After::Waiting as usize),
    Entry::number("after.moving", After::Moving as usize),
    Entry::number("after.declined", After::Declined as usize),
    Entry::number("after.finished", After::Finished as usize),
    Entry::number("after.idle", After::Idle as usize),
    Entry::number("after.left", After::Left as usize),
    Entry::number("after.resting", After::Resting as usize),
];

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
