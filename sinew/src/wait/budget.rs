//! A fibre that never has to wait gives way all the same.
//!
//! Nothing is preempted, so a fibre that always finds bytes to read, a message to
//! receive or a lock free would keep its processor for ever. So each operation that may
//! block spends of a budget when it does not block, and the one that finds it spent
//! yields. Operations that only try (`try_lock`) spend nothing: their callers may not be
//! prepared for others to run. Nor does reading what is there for good, an initialised
//! `OnceLock`.
//!
//! The budget is the processor's, not the fibre's: that is one word nearer, and needs
//! no filling up when another fibre comes. A fibre that gives way is not short-changed
//! by those before it, and one that does not is the only one that spends.

use super::yield_now;
use crate::processor::{runs_a_task, waker, with_current};
use crate::strand::After;
use std::future::poll_fn;
use std::task::{Context, Poll};

/// What a processor has to spend between two yields. A unit is some 20 ns, so this is
/// some 20 to 50 µs; and it is a thousand times what the cheapest operation costs, so
/// that giving way, which is 15 ns to nobody and some 100 ns to somebody whose memory
/// has left the cache, is a hundredth of it at most.
const UNITS: u32 = 1024;

/// What a call of the kernel spends: there are 64 of them between two yields. One
/// takes from 300 ns to some microseconds.
pub(crate) const KERNEL_CALL: u32 = UNITS / 64;

/// What an operation in memory spends, which takes 5 to 30 ns.
pub(crate) const MESSAGE: u32 = 1;

/// What an operation on a lock spends. It takes 5 to 10 ns, as cheap messages do.
pub(crate) const LOCK: u32 = MESSAGE;

/// To be called for an operation that succeeds at once, or may, by whoever may be
/// suspended. Six instructions.
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
    // A task has a budget of its own, and gives way where it awaits.
    if !runs_a_task() {
        yield_now();
    }
}

/// Is awaited before an operation that may succeed at once: the form of [`spend`] for tasks.
#[inline]
pub(crate) fn spend_async() -> impl Future<Output = ()> {
    poll_fn(poll_spend)
}

/// As [`spend_async`]. Ready at once outside of tasks: code that polls there has its own way of
/// being fair.
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

/// Lets the task that is polled with this context be polled again, after others.
#[inline]
pub(crate) fn give_way_async(context: &Context<'_>) {
    let polled = waker::strand_of(context.waker());
    let yielded = with_current(|processor| {
        let task = processor.and_then(|processor| processor.task()).filter(|task| polled == Some(*task));
        // Only the processor that runs the task may touch this.
        task.map(|task| task.after().set(After::Yielded)).is_some()
    });
    if !yielded {
        context.waker().wake_by_ref();
    }
}
