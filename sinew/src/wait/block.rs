//! Blocking the caller: a fibre, or a kernel thread that runs none.

use super::budget;
use super::lent::Lent;
use super::limits::Limit;
use super::parker::Parker;
use super::party::{KERNEL_THREAD, Party};
use super::stackful::{Stackful, suspend};
use super::wait::{Outcome, Wait};
use crate::base::{Deadline, fork};
use crate::processor::runs_a_task;
use crate::stack::{Stack, current_stack};
use crate::strand::After;

/// Blocks the caller until it is signalled, if `enter` says that it will be.
#[inline(always)]
pub(crate) fn block(enter: impl FnOnce(Party) -> bool) {
    match current_stack() {
        Some(stack) => {
            let lent = Lent::begin();
            if enter(Party::strand(stack.strand())) {
                suspend(stack, After::Waiting);
            }
            lent.returned();
        }
        None => block_thread(enter),
    }
}

/// # Panics
/// If the caller is a task: it would hold up its processor, and whoever is to signal it
/// may need just that one.
pub(crate) fn refuse_tasks() {
    if runs_a_task() {
        panic!("a task may not block its processor: use the `_async` form, or a fibre");
    }
}

/// Parks a kernel thread that runs no fibre.
#[cold]
pub(crate) fn park_thread(park: impl FnOnce()) {
    refuse_tasks();
    park();
}

#[cold]
fn block_thread(enter: impl FnOnce(Party) -> bool) {
    refuse_tasks();
    fork::check();
    let parker = Parker::new();
    let lent = Lent::begin();
    if enter(Party::new(&parker, KERNEL_THREAD)) {
        parker.wait(Deadline::NEVER);
    }
    lent.returned();
}

/// Blocks the caller until its wait is ended by another, if `enter` says that it
/// will be, or by its `limit`. In the latter case `leave` withdraws the wait from
/// where it was entered; if it says that it did not, the caller goes on waiting, to
/// be told: that is for a wait that was entered as a [`Party::timed`].
#[inline(always)]
pub(crate) fn block_within(
    limit: Limit,
    enter: impl FnOnce(&Wait) -> bool,
    leave: impl FnOnce(&Wait) -> bool,
) -> Outcome {
    block_within_and(limit, enter, leave, || ())
}

/// As [`block_within`]. However the wait ends, `clear` is called while it is still
/// there: for a wait that was entered in several places, of which only one has told
/// it.
#[inline(always)]
pub(crate) fn block_within_and(
    limit: Limit,
    enter: impl FnOnce(&Wait) -> bool,
    leave: impl FnOnce(&Wait) -> bool,
    clear: impl FnOnce(),
) -> Outcome {
    let Some(stack) = current_stack() else {
        return block_thread_within(limit, enter, leave, clear);
    };
    let waiter = Stackful::on(stack);
    let wait = Wait::new(Party::strand(stack.strand()));
    let lent = Lent::begin();
    if !enter(&wait) {
        clear();
        lent.returned();
        return Outcome::Told;
    }
    let limit = limit.as_carried_by(waiter);
    let is_overdue = limit.may_be_cancelled() && waiter.cancel().enter(&wait);
    if is_overdue && wait.settle(Outcome::Cancelled).is_some() {
        // Nobody will signal, and the fibre has not given way.
        budget::spend(budget::MESSAGE);
    } else if limit.deadline().is_never() {
        suspend(stack, After::Waiting);
    } else {
        suspend_until(stack, &wait, limit.deadline());
    }
    if limit.may_be_cancelled() {
        waiter.cancel().leave();
    }
    let mut outcome = wait.outcome();
    if outcome != Outcome::Told && !leave(&wait) {
        if wait.await_told() {
            suspend(stack, After::Waiting);
        }
        outcome = Outcome::Told;
    }
    clear();
    lent.returned();
    outcome
}

#[inline(never)]
fn suspend_until(stack: Stack, wait: &Wait, deadline: Deadline) {
    let cluster = stack.strand().cluster();
    if cluster.timers().has_come(deadline) && wait.settle(Outcome::TimedOut).is_some() {
        return budget::spend(budget::MESSAGE);
    }
    cluster.with_timer(wait, deadline, || suspend(stack, After::Waiting));
}

#[cold]
fn block_thread_within(
    limit: Limit,
    enter: impl FnOnce(&Wait) -> bool,
    leave: impl FnOnce(&Wait) -> bool,
    clear: impl FnOnce(),
) -> Outcome {
    refuse_tasks();
    fork::check();
    let parker = Parker::new();
    let wait = Wait::new(Party::new(&parker, KERNEL_THREAD));
    let lent = Lent::begin();
    if !enter(&wait) {
        clear();
        lent.returned();
        return Outcome::Told;
    }
    // Its own timer: whoever settled the wait before it will ring.
    let in_time = parker.wait(limit.as_carried_by_thread().deadline()) || wait.settle(Outcome::TimedOut).is_none();
    let mut outcome = Outcome::TimedOut;
    if in_time || !leave(&wait) {
        if in_time || wait.await_told() {
            parker.wait(Deadline::NEVER);
        }
        outcome = Outcome::Told;
    }
    clear();
    lent.returned();
    outcome
}

/// Lets time pass until `limit` ends it.
pub(crate) fn sleep(limit: Limit) -> Outcome {
    block_within(limit, |_| true, |_| true)
}

/// Parks the calling fibre until it has a token, or until `deadline`.
pub(crate) fn park_until(stack: Stack, deadline: Deadline) {
    let strand = stack.strand();
    let wait = Wait::new(Party::strand(strand));
    strand.cluster().with_timer(&wait, deadline, || suspend(stack, After::Parking));
    // The timer is out of the way. If it went off although there was a token,
    // its signal is still there.
    strand.state().take_signal();
}
