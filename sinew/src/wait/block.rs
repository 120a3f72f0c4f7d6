//! Blocking the caller: a fibre, or a kernel thread that runs none.

use super::budget;
use super::lent::Lent;
use super::limits::Limit;
use super::parker::Parker;
use super::party::{KERNEL_THREAD, Party};
use super::stackful::{Stackful, suspend};
use super::wait::{Outcome, Wait};
use super::why::Why;
use crate::base::{Deadline, fork};
use crate::processor::runs_a_task;
use crate::stack::{Stack, current_stack};
use crate::strand::After;

/// Passes the caller's party to `enter`. If that returns `true`, blocks the caller until its party is
/// signalled. `why` is for readers of memory.
#[inline(always)]
pub(crate) fn block(why: Why, enter: impl FnOnce(Party) -> bool) {
    match current_stack() {
        Some(stack) => {
            let lent = Lent::begin();
            if enter(Party::strand(stack.strand())) {
                why.leave_in(stack.strand());
                suspend(stack, After::Waiting);
            }
            lent.returned();
        }
        None => block_thread(enter),
    }
}

/// Refuses a task that would block: it would hold up its processor, and the strand that is to signal
/// it may need that processor.
///
/// # Panics
/// If the caller is a task.
pub(crate) fn refuse_tasks() {
    if runs_a_task() {
        panic!("a task may not block its processor: use the `_async` form, or a fibre");
    }
}

/// Calls `park` for a kernel thread that runs no fibre.
///
/// # Panics
/// If the caller is a task.
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

/// Passes a new wait to `enter`. If that returns `true`, blocks the caller until the wait is told, or
/// until `limit` ends it. Returns how the wait ended.
///
/// When the limit has ended the wait, `leave` withdraws it from where it was entered. If `leave`
/// returns `false`, it could not, and the caller goes on waiting to be told. Only a wait that was
/// entered as a [`Party::timed`] may do that.
#[inline(always)]
pub(crate) fn block_within(
    limit: Limit,
    why: Why,
    enter: impl FnOnce(&Wait) -> bool,
    leave: impl FnOnce(&Wait) -> bool,
) -> Outcome {
    block_within_and(limit, why, enter, leave, || ())
}

/// As [`block_within`], and calls `clear` at the end, however the wait ended, while the wait is still
/// there. This is for a wait that was entered in several places: only one of them has told it.
#[inline(always)]
pub(crate) fn block_within_and(
    limit: Limit,
    why: Why,
    enter: impl FnOnce(&Wait) -> bool,
    leave: impl FnOnce(&Wait) -> bool,
    clear: impl FnOnce(),
) -> Outcome {
    let Some(stack) = current_stack() else {
        return block_thread_within(limit, enter, leave, clear);
    };
    let waiter = Stackful::on(stack);
    let wait = Wait::new(Party::strand(stack.strand()));
    // Now: later it would have to be kept in a register meanwhile.
    why.leave_in(stack.strand());
    let lent = Lent::begin();
    if !enter(&wait) {
        clear();
        lent.returned();
        return Outcome::Told;
    }
    let limit = limit.as_carried_by(waiter);
    let is_overdue = limit.may_be_cancelled() && waiter.cancel().enter(&wait);
    if is_overdue && wait.settle(Outcome::Cancelled).is_some() {
        // No signal comes, and the fibre has not given way.
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
            // It is about to be told, so nobody misses the reason.
            Why::UNKNOWN.leave_in(stack.strand());
            suspend(stack, After::Waiting);
        }
        outcome = Outcome::Told;
    }
    clear();
    lent.returned();
    outcome
}

/// Suspends the calling fibre until its wait ends; at `deadline` a timer ends it.
#[inline(never)]
fn suspend_until(stack: Stack, wait: &Wait, deadline: Deadline) {
    let cluster = stack.strand().cluster();
    if cluster.timers().has_come(deadline) && wait.settle(Outcome::TimedOut).is_some() {
        return budget::spend(budget::MESSAGE);
    }
    let suspend = || Stackful::on(stack).while_timed(|| suspend(stack, After::Waiting));
    cluster.with_timer(wait, deadline, suspend);
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
    // The thread is its own timer. If another thread settled the wait first, that thread will ring.
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

/// Blocks the caller until `limit` ends the wait.
pub(crate) fn sleep(limit: Limit) -> Outcome {
    block_within(limit, Why::SLEEP, |_| true, |_| true)
}

/// Parks the calling fibre until it has a token, or until `deadline`.
pub(crate) fn park_until(stack: Stack, deadline: Deadline) {
    let strand = stack.strand();
    let wait = Wait::new(Party::strand(strand));
    Why::PARK.leave_in(strand);
    let suspend = || Stackful::on(stack).while_timed(|| suspend(stack, After::Parking));
    strand.cluster().with_timer(&wait, deadline, suspend);
    // The timer is disarmed. If it went off although there was a token, its signal is still there.
    strand.state().take_signal();
}
