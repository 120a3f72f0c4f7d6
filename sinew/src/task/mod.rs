#![doc = include_str!("README.md")]

mod block_on;
mod budget;
mod handle;
mod life;
mod memory;
#[cfg(all(test, sinew_loom))]
mod models;
mod set;
mod spawn;

pub use block_on::block_on;
pub use handle::{AbortHandle, JoinError, JoinHandle};
pub use set::JoinSet;
pub use spawn::{TaskBuilder, spawn, spawn_local};

pub(crate) use budget::{OPERATIONS, poll_spend, spend};
pub(crate) use memory::{strand_of, task_of};

use crate::processor::with_current;
use crate::strand::After;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Whether a task runs the caller.
pub(crate) fn is_running() -> bool {
    with_current(|processor| processor.is_some_and(|processor| processor.task().is_some()))
}

/// Sees to it that whoever is polled with this context is polled again, after others.
#[inline]
pub(crate) fn give_way(context: &Context<'_>) {
    let polled = strand_of(context.waker());
    let yielded = with_current(|processor| {
        let task = processor.and_then(|processor| processor.task()).filter(|task| polled == Some(*task));
        // Only who runs it may touch this.
        task.map(|task| task.after().set(After::Yielded)).is_some()
    });
    if !yielded {
        context.waker().wake_by_ref();
    }
}

/// Gives others a turn, when it is awaited.
///
/// ```
/// sinew::run(|| {
///     let task = sinew::task::spawn(async {
///         sinew::task::yield_now().await;
///         7
///     });
///     assert_eq!(task.join().unwrap(), 7);
/// });
/// ```
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// See [`yield_now`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.yielded, true) {
            return Poll::Ready(());
        }
        give_way(context);
        Poll::Pending
    }
}
