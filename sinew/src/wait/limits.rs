//! What ends a wait besides that which is waited for: a limit of the call, and
//! what the caller carries from further out.
#![allow(unsafe_code)]

use super::stackful::Stackful;
use crate::base::Deadline;
use crate::stack::current_stack;
use std::cell::Cell;

/// A limit to one wait.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    deadline: Deadline,
    may_be_cancelled: bool,
}

impl Limit {
    /// Only what is waited for ends the wait.
    pub(crate) const NONE: Limit = Limit { deadline: Deadline::NEVER, may_be_cancelled: false };

    /// So does the caller's being cancelled, or a deadline that it carries.
    pub(crate) const CARRIED: Limit = Limit { deadline: Deadline::NEVER, may_be_cancelled: true };

    pub(crate) const fn until(deadline: Deadline) -> Limit {
        Limit { deadline, may_be_cancelled: false }
    }

    /// As `CARRIED`, but not beyond `deadline`.
    pub(crate) const fn carried_until(deadline: Deadline) -> Limit {
        Limit { deadline, may_be_cancelled: true }
    }

    /// Whether nothing but being told ends the wait.
    #[inline(always)]
    pub(super) fn is_none(self) -> bool {
        self.deadline.is_never() && !self.may_be_cancelled
    }

    pub(super) fn deadline(self) -> Deadline {
        self.deadline
    }

    pub(super) fn may_be_cancelled(self) -> bool {
        self.may_be_cancelled
    }

    /// The limit that this is for the strand that waits.
    #[inline(always)]
    pub(super) fn as_carried_by(self, waiter: &Stackful) -> Limit {
        if !self.may_be_cancelled || waiter.limits().get().is_null() {
            return self;
        }
        self.within(carried())
    }

    pub(super) fn as_carried_by_thread(self) -> Limit {
        if self.may_be_cancelled { self.within(carried()) } else { self }
    }

    fn within(self, limits: Limits) -> Limit {
        let may_be_cancelled = self.may_be_cancelled && !limits.shielded;
        Limit { deadline: self.deadline.min(limits.deadline), may_be_cancelled }
    }
}

/// What a fibre, or a kernel thread that runs none, carries into every wait that
/// may be cancelled.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) deadline: Deadline,
    /// Whether requests to cancel it are ignored for now.
    pub(crate) shielded: bool,
}

impl Limits {
    pub(crate) const NONE: Limits = Limits { deadline: Deadline::NEVER, shielded: false };
}

thread_local!(static OF_THREAD: Cell<*const Limits> = const { Cell::new(std::ptr::null()) });

/// What the caller carries.
pub(crate) fn carried() -> Limits {
    let limits = match current_stack() {
        Some(stack) => Stackful::on(stack).limits().get(),
        None => OF_THREAD.get(),
    };
    // SAFETY: `carrying` keeps them as long as they are there to be found.
    unsafe { limits.as_ref() }.copied().unwrap_or(Limits::NONE)
}

/// Runs `f` with these limits.
pub(crate) fn carrying<T>(limits: Limits, f: impl FnOnce() -> T) -> T {
    struct Restore(*const Limits);
    impl Drop for Restore {
        fn drop(&mut self) {
            exchange(self.0);
        }
    }
    let _restore = Restore(exchange(&limits));
    f()
}

fn exchange(limits: *const Limits) -> *const Limits {
    match current_stack() {
        Some(stack) => Stackful::on(stack).limits().replace(limits),
        None => OF_THREAD.replace(limits),
    }
}
