//! Budgets: a strand that never has to wait gives way all the same.
//!
//! Nothing is preempted. A fibre that always finds bytes to read, a message to receive or a free lock
//! would keep its processor for ever. So each operation that may block spends some of a budget when it
//! does not block. The operation that finds the budget spent yields. Operations that only try
//! (`try_lock`) spend nothing: their callers may not expect other strands to run. To read what stays,
//! such as an initialised `OnceLock`, spends nothing either.
//!
//! The budget of fibres belongs to the processor: one word less to reach, and nothing to refill when
//! another fibre runs. A fibre that gives way by itself loses nothing by that, and a fibre that does not
//! is the only one that spends.

use super::yield_now;
use crate::processor::{runs_a_task, waker, with_current};
use crate::strand::After;
use std::future::poll_fn;
use std::task::{Context, Poll};

/// What a processor may spend between two yields. A unit is about 20 ns, so this is 20 to 50 µs. To give
/// way costs 15 ns if no other strand is ready, and about 100 ns if another runs whose memory has left
/// the cache: at most a hundredth of this.
const UNITS: u32 = 1024;

/// What a system call spends: there are 64 of them between two yields. One takes from 300 ns to some
/// microseconds.
pub(crate) const KERNEL_CALL: u32 = UNITS / 64;

/// What an operation in memory spends, which takes 5 to 30 ns.
pub(crate) const MESSAGE: u32 = 1;

/// What an operation on a lock spends. It takes 5 to 10 ns, as cheap messages do.
pub(crate) const LOCK: u32 = MESSAGE;

/// Spends `units`, and yields if the budget is spent. Called for an operation that succeeds at once or
/// may, by a caller that may be suspended. Six instructions.
#[inline(always)]
pub(crate) fn spend(units: u32) {
    let is_spent = with_current(|processor| {
        processor.is_some_and(|processor| {
            let (left, is_spent) = processor.budget().get().overflowing_sub(units);
            processor.budget().set(left);
            is_spent
        })
    });
    if is_spent {
        give_way();
    }
}

#[cold]
#[inline(never)]
fn give_way() {
    with_current(|processor| {
        if let Some(processor) = processor {
            processor.budget().set(UNITS);
            processor.read_clock_next();
        }
    });
    // A task has a budget of its own, and gives way at an `.await`.
    if !runs_a_task() {
        yield_now();
    }
}

/// Spends one operation of a task's budget: the form of [`spend`] for tasks. Awaited before an operation
/// that may succeed at once.
#[inline]
pub(crate) fn spend_async() -> impl Future<Output = ()> {
    poll_fn(poll_spend)
}

/// Polls as the future of [`spend_async`] does. Returns `Ready` outside of tasks: code that polls there
/// has its own way to be fair.
#[inline]
pub(crate) fn poll_spend(context: &mut Context<'_>) -> Poll<()> {
    let is_spent = with_current(|processor| {
        let Some(processor) = processor.filter(|processor| processor.task().is_some()) else { return false };
        let left = processor.task_budget().get();
        processor.task_budget().set(left.saturating_sub(1));
        left == 0
    });
    if !is_spent {
        return Poll::Ready(());
    }
    give_way_async(context);
    Poll::Pending
}

/// Has the task of this context polled again, after other strands.
#[inline]
pub(crate) fn give_way_async(context: &Context<'_>) {
    let polled = waker::strand_of(context.waker());
    let yielded = with_current(|processor| {
        let task = processor.and_then(|processor| processor.task()).filter(|task| polled == Some(*task));
        // Only the processor that runs the task may touch `after`.
        task.map(|task| task.after().set(After::Yielded)).is_some()
    });
    if !yielded {
        context.waker().wake_by_ref();
    }
}
