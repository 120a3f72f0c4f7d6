//! A task that never has to wait gives way all the same.

use super::give_way;
use crate::processor::with_current;
use std::future::poll_fn;
use std::task::{Context, Poll};

/// So many operations in one poll of a task that did not have to wait, and the next one
/// gives way. 128 of the cheapest are some microseconds. Unmeasured beyond that.
pub(crate) const OPERATIONS: u32 = 128;

/// To be awaited before an operation that may succeed at once.
#[inline]
pub(crate) fn spend() -> impl Future<Output = ()> {
    poll_fn(poll_spend)
}

/// As [`spend`]. Elsewhere than in a task it is ready: what polls there has its own way of
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
    give_way(context);
    Poll::Pending
}
