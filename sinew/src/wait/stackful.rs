//! What waiting needs to know of a strand that has a stack.
#![allow(unsafe_code)]

use super::limits::Limits;
use super::request::Cancel;
use crate::processor::{Post, with_current};
use crate::stack::arena::Class;
use crate::stack::{Stack, current_stack, unwinding};
use crate::strand::{After, Strand, bound, container};
use std::cell::Cell;
use std::ptr::NonNull;

/// The head of the record of a strand that has a stack.
#[repr(C)]
pub(crate) struct Stackful {
    /// First, so that a pointer to it is one to the whole.
    strand: Strand,
    cancel: Cancel,
    /// What the strand carries into its waits; null if it carries nothing. Owner: the strand.
    limits: Cell<*const Limits>,
    /// How deep `pin` is nested. Owner: the strand.
    pins: Cell<u32>,
    /// Whether it is pinned for life.
    is_pinned: bool,
    class: Class,
}

impl Stackful {
    #[inline(always)]
    pub(crate) fn new(strand: Strand, class: Class, is_pinned: bool) -> Stackful {
        Stackful {
            strand,
            cancel: Cancel::new(),
            limits: Cell::new(std::ptr::null()),
            pins: Cell::new(0),
            is_pinned,
            class,
        }
    }

    /// The strand that a stack serves.
    #[inline(always)]
    pub(super) fn on<'a>(stack: Stack) -> &'a Stackful {
        // SAFETY: only strands that begin with one of these are begun on a stack.
        unsafe { container(NonNull::from(stack.strand())).as_ref() }
    }

    #[inline(always)]
    pub(crate) fn strand(&self) -> &Strand {
        &self.strand
    }

    #[inline]
    pub(crate) fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    #[inline]
    pub(super) fn limits(&self) -> &Cell<*const Limits> {
        &self.limits
    }

    /// The size of its stack.
    #[inline(always)]
    pub(crate) fn class(&self) -> Class {
        self.class
    }

    /// Binds the strand to the processor that begins to run it, for life.
    pub(crate) fn bind_for_life(&self, post: &Post, is_migrating: bool) {
        if !is_migrating {
            self.strand.bind(post, bound::STARTED);
        }
        if self.is_pinned {
            self.strand.bind(post, bound::PINNED);
        }
    }

    /// Binds the strand to its processor until `unpin` was called as often. By the strand.
    pub(crate) fn pin(&self) {
        if self.pins.replace(self.pins.get() + 1) == 0 {
            with_current(|processor| {
                let processor = processor.expect("strands run on processors");
                self.strand.bind(processor.post(), bound::PINNED);
            });
        }
    }

    pub(crate) fn unpin(&self) {
        self.pins.set(self.pins.get() - 1);
        if self.pins.get() == 0 && !self.is_pinned {
            self.strand.unbind(bound::PINNED);
        }
    }
}

/// Calls `f` with the strand that calls, if it has a stack. `f` must not suspend it.
#[inline]
pub(crate) fn with_stackful<R>(f: impl FnOnce(Option<&Stackful>) -> R) -> R {
    f(current_stack().map(Stackful::on))
}

/// Gives up the processor. By a strand, whose stack this is.
#[inline(always)]
pub(crate) fn suspend(stack: Stack, after: After) {
    if unwinding::is_in_flight() {
        suspend_unwinding(stack, after);
    } else {
        // SAFETY: `current_stack` found it, so the caller is its strand.
        unsafe { stack.switch(after) };
    }
}

/// Takes the panics of the calling strand along; see [`unwinding`].
#[cold]
#[inline(never)]
fn suspend_unwinding(stack: Stack, after: After) {
    let waiter = Stackful::on(stack);
    waiter.pin();
    let panics = unwinding::lay_down();
    // SAFETY: as in `suspend`.
    unsafe { stack.switch(after) };
    panics.take_up();
    waiter.unpin();
}

/// Gives other strands a turn. A kernel thread that runs no fibre gives other threads one.
#[inline(always)]
pub(crate) fn yield_now() {
    match current_stack() {
        Some(stack) => suspend(stack, After::Yielded),
        None => std::thread::yield_now(),
    }
}
