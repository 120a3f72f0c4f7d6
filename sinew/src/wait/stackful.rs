//! What a wait needs to know of a strand that has a stack.
#![allow(unsafe_code)]

use super::limits::Limits;
use super::request::Cancel;
use crate::base::atomic::Relaxed;
use crate::base::describe::Entry;
use crate::base::{Deadline, here};
use crate::processor::{Post, with_current};
use crate::stack::arena::Class;
use crate::stack::{Stack, current_stack, unwinding};
use crate::strand::{After, Strand, bound, container};
use std::cell::Cell;
use std::mem::offset_of;
use std::num::NonZeroU64;
use std::ptr::NonNull;
use std::sync::OnceLock;

/// The head of the record of a strand that has a stack.
#[repr(C)]
pub(crate) struct Stackful {
    /// The first field: a pointer to it is a pointer to the whole.
    strand: Strand,
    cancel: Cancel,
    id: NonZeroU64,
    /// The limits that the strand carries into its waits, in as little space as they need: the deadline
    /// counts unless `carries` is `Nothing`. Owner: the strand.
    deadline: Cell<Deadline>,
    /// The number of calls of `pin` without their `unpin`. Owner: the strand.
    pins: Cell<u32>,
    /// Whether the strand is pinned for life.
    is_pinned: bool,
    class: Class,
    carries: Cell<Carries>,
    /// Whether the strand's use of its stack is measured. Owner: the processor that runs the strand.
    is_measured: Cell<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Carries {
    Nothing = 0,
    Deadline,
    /// A deadline, and a shield against cancellation.
    Shield,
    /// Nothing, and the wait that the strand is in has a time limit. Only readers of memory care: to the strand
    /// it is a deadline that never comes.
    Timed,
}

impl Stackful {
    /// Where the id is.
    pub(crate) const ID: usize = offset_of!(Stackful, id);

    /// Makes the head of a strand that carries `deadline` from its first wait on.
    #[inline(always)]
    pub(crate) fn new(strand: Strand, id: NonZeroU64, class: Class, is_pinned: bool, deadline: Deadline) -> Stackful {
        Stackful {
            strand,
            cancel: Cancel::new(),
            id,
            deadline: Cell::new(deadline),
            pins: Cell::new(0),
            is_pinned,
            class,
            carries: Cell::new(if deadline.is_never() { Carries::Nothing } else { Carries::Deadline }),
            is_measured: Cell::new(false),
        }
    }

    /// Returns the record of the strand that runs on `stack`.
    #[inline(always)]
    pub(super) fn on<'a>(stack: Stack) -> &'a Stackful {
        // SAFETY: every strand that is started on a stack is the first field of a `Stackful`.
        unsafe { container(NonNull::from(stack.strand())).as_ref() }
    }

    /// Returns the record that `strand` is the head of.
    ///
    /// # Safety
    /// The strand has a stack.
    pub(crate) unsafe fn of(strand: &Strand) -> &Stackful {
        // SAFETY: by the contract.
        unsafe { container(NonNull::from(strand)).as_ref() }
    }

    #[inline(always)]
    pub(crate) fn strand(&self) -> &Strand {
        &self.strand
    }

    #[inline(always)]
    pub(crate) fn id(&self) -> NonZeroU64 {
        self.id
    }

    #[inline]
    pub(crate) fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Says whether the strand carries limits into its waits. By the strand.
    #[inline(always)]
    pub(super) fn carries_limits(&self) -> bool {
        self.carries.get() != Carries::Nothing
    }

    /// Returns the limits that the strand carries into its waits. By the strand.
    #[inline]
    pub(super) fn limits(&self) -> Limits {
        match self.carries.get() {
            Carries::Nothing => Limits::NONE,
            carries => Limits { deadline: self.deadline.get(), shielded: carries == Carries::Shield },
        }
    }

    /// Shows readers of memory that the wait in `f` ends at a certain time. By the strand.
    pub(super) fn while_timed(&self, f: impl FnOnce()) {
        let carries = self.carries.get();
        if carries == Carries::Nothing {
            self.carries.set(Carries::Timed);
        }
        f();
        self.carries.set(carries);
    }

    /// Makes the strand carry these limits. Returns those before. By the strand.
    pub(super) fn replace_limits(&self, limits: Limits) -> Limits {
        let before = self.limits();
        self.deadline.set(limits.deadline);
        self.carries.set(match limits {
            Limits { shielded: true, .. } => Carries::Shield,
            Limits { deadline, .. } if deadline.is_never() => Carries::Nothing,
            Limits { .. } => Carries::Deadline,
        });
        before
    }

    /// Sets whether the strand calls [`Switches`] when it is suspended. By the strand.
    pub(crate) fn watch_switches(&self, switches: &'static Switches, is_watched: bool) {
        SWITCHES.get_or_init(|| switches);
        self.strand.flag().store(is_watched, Relaxed);
    }

    /// Undoes [`watch_switches`](Stackful::watch_switches). By the strand.
    pub(crate) fn ignore_switches(&self) {
        self.strand.flag().store(false, Relaxed);
    }

    /// Returns the size of the strand's stack.
    #[inline(always)]
    pub(crate) fn class(&self) -> Class {
        self.class
    }

    /// Returns the cell that says whether the strand's use of its stack is measured. By the processor that
    /// runs the strand.
    #[inline(always)]
    pub(crate) fn is_measured(&self) -> &Cell<bool> {
        &self.is_measured
    }

    /// Binds the strand for life to the processor that starts it, unless the runtime is migrating and
    /// the strand is not pinned.
    pub(crate) fn bind_for_life(&self, post: &Post, is_migrating: bool) {
        if !is_migrating {
            self.strand.bind(post, bound::STARTED);
        }
        if self.is_pinned {
            self.strand.bind(post, bound::PINNED);
        }
    }

    /// Binds the strand to its processor until `unpin` has been called the same number of times. By
    /// the strand.
    pub(crate) fn pin(&self) {
        if self.pins.replace(self.pins.get() + 1) == 0 {
            with_current(|processor| {
                let processor = processor.expect("strands run on processors");
                self.strand.bind(processor.post(), bound::PINNED);
            });
        }
    }

    /// Undoes one call of [`pin`](Stackful::pin). By the strand.
    pub(crate) fn unpin(&self) {
        self.pins.set(self.pins.get() - 1);
        if self.pins.get() == 0 && !self.is_pinned {
            self.strand.unbind(bound::PINNED);
        }
    }
}

/// The entries of the description.
pub(crate) const ENTRIES: &[Entry] = &[
    Entry::number("fibre.id", offset_of!(Stackful, id)),
    Entry::number("fibre.cancel", offset_of!(Stackful, cancel) + Cancel::REQUESTS),
    Entry::number("fibre.deadline", offset_of!(Stackful, deadline)),
    Entry::number("fibre.carries", offset_of!(Stackful, carries)),
    Entry::number("carries.timed", Carries::Timed as usize),
    Entry::number("fibre.class", offset_of!(Stackful, class)),
];

/// Calls `f` with the calling strand, if it has a stack. `f` must not suspend it.
#[inline]
pub(crate) fn with_stackful<R>(f: impl FnOnce(Option<&Stackful>) -> R) -> R {
    f(current_stack().map(Stackful::on))
}

/// What the layer above does when a strand is suspended that has asked for it. The strand itself calls
/// these functions, which must neither suspend it nor unwind.
pub(crate) struct Switches {
    /// The strand is about to give up its processor.
    pub(crate) before: fn(),
    /// The strand runs again, maybe on another processor.
    pub(crate) after: fn(),
}

/// Written when the first strand asks for it.
static SWITCHES: OnceLock<&'static Switches> = OnceLock::new();

/// Says whether the switches of a strand are watched. By the strand.
#[cfg(not(sinew_loom))]
#[inline(always)]
fn is_watched(strand: &Strand) -> bool {
    // Not an atomic load: that costs one instruction more, because compilers do not make it part of a
    // comparison.
    // SAFETY: only the strand itself writes the flag, and an `AtomicBool` lies in memory as a `bool`.
    unsafe { std::ptr::from_ref(strand.flag()).cast::<bool>().read() }
}

/// A model's flag does not lie in memory as a `bool`.
#[cfg(sinew_loom)]
fn is_watched(strand: &Strand) -> bool {
    strand.flag().load(Relaxed)
}

/// Gives up the processor, for the reason `after`. By the strand that runs on `stack`.
///
/// The flag of the strand says whether its switches are watched. It is on the line of the strand that
/// the switch writes to anyway, so a strand that is not watched pays two instructions.
#[inline(always)]
pub(crate) fn suspend(stack: Stack, after: After) {
    if unwinding::is_in_flight() || is_watched(stack.strand()) {
        suspend_slow(stack, after);
    } else {
        // SAFETY: `current_stack` returned it, so the caller runs on it.
        unsafe { stack.switch(after) };
    }
}

/// As [`suspend`], for a strand that unwinds, or whose switches are watched.
#[cold]
#[inline(never)]
fn suspend_slow(stack: Stack, after: After) {
    let switches = if is_watched(stack.strand()) { SWITCHES.get() } else { None };
    if let Some(switches) = switches {
        (switches.before)();
    }
    if unwinding::is_in_flight() {
        suspend_unwinding(stack, after);
    } else {
        // SAFETY: as in `suspend`.
        unsafe { stack.switch(after) };
    }
    if let Some(switches) = switches {
        (switches.after)();
    }
}

/// Takes the panics of the strand along; see [`unwinding`]. They are where they belong if the strand has an identity of
/// its own.
fn suspend_unwinding(stack: Stack, after: After) {
    if here::thread() != 0 {
        // SAFETY: as in `suspend`.
        unsafe { stack.switch(after) };
        return;
    }
    let waiter = Stackful::on(stack);
    waiter.pin();
    let panics = unwinding::lay_down();
    // SAFETY: as in `suspend`.
    unsafe { stack.switch(after) };
    panics.take_up();
    waiter.unpin();
}

/// Gives other strands a turn. A kernel thread that runs no fibre gives other kernel threads a turn.
#[inline(always)]
pub(crate) fn yield_now() {
    match current_stack() {
        Some(stack) => suspend(stack, After::Yielded),
        None => std::thread::yield_now(),
    }
}
