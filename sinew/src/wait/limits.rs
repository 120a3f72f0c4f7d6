//! Limits: what else may end a wait. A call has its own limit, and its caller carries limits from
//! further out.

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
    /// Nothing else ends the wait.
    pub(crate) const NONE: Limit = Limit { deadline: Deadline::NEVER, may_be_cancelled: false };

    /// A cancellation of the caller ends the wait, or a deadline that it carries.
    pub(crate) const CARRIED: Limit = Limit { deadline: Deadline::NEVER, may_be_cancelled: true };

    /// `deadline` ends the wait.
    pub(crate) const fn until(deadline: Deadline) -> Limit {
        Limit { deadline, may_be_cancelled: false }
    }

    /// What `CARRIED` says ends the wait, or `deadline`.
    pub(crate) const fn carried_until(deadline: Deadline) -> Limit {
        Limit { deadline, may_be_cancelled: true }
    }

    /// Returns whether only being told ends the wait.
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

    /// Returns this limit, narrowed by what the waiting strand carries.
    #[inline(always)]
    pub(super) fn as_carried_by(self, waiter: &Stackful) -> Limit {
        if !self.may_be_cancelled || !waiter.carries_limits() {
            return self;
        }
        self.within(carried())
    }

    /// Returns this limit, narrowed by what the calling kernel thread carries.
    pub(super) fn as_carried_by_thread(self) -> Limit {
        if self.may_be_cancelled { self.within(carried()) } else { self }
    }

    fn within(self, limits: Limits) -> Limit {
        let may_be_cancelled = self.may_be_cancelled && !limits.shielded;
        Limit { deadline: self.deadline.min(limits.deadline), may_be_cancelled }
    }
}

/// What a fibre, or a kernel thread that runs none, carries into each wait that may be cancelled.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) deadline: Deadline,
    /// Says that requests to cancel are ignored.
    pub(crate) shielded: bool,
}

impl Limits {
    pub(crate) const NONE: Limits = Limits { deadline: Deadline::NEVER, shielded: false };
}

thread_local!(static OF_THREAD: Cell<Limits> = const { Cell::new(Limits::NONE) });

/// Returns what the caller carries.
#[inline]
pub(crate) fn carried() -> Limits {
    match current_stack() {
        Some(stack) => Stackful::on(stack).limits(),
        None => carried_by_thread(),
    }
}

/// Returns what the calling kernel thread carries, which runs no fibre.
#[cold]
#[inline(never)]
fn carried_by_thread() -> Limits {
    OF_THREAD.get()
}

/// Runs `f` with these limits.
pub(crate) fn carrying<T>(limits: Limits, f: impl FnOnce() -> T) -> T {
    struct Restore(Limits);
    impl Drop for Restore {
        fn drop(&mut self) {
            exchange(self.0);
        }
    }
    let _restore = Restore(exchange(limits));
    f()
}

fn exchange(limits: Limits) -> Limits {
    match current_stack() {
        Some(stack) => Stackful::on(stack).replace_limits(limits),
        None => OF_THREAD.replace(limits),
    }
}
