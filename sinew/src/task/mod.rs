#![doc = include_str!("README.md")]

mod block_on;
mod handle;
mod life;
mod memory;
#[cfg(all(test, sinew_loom))]
mod models;
mod select;
mod set;
mod spawn;

pub(crate) use memory::{ENTRIES, portray};

pub use block_on::block_on;
pub use handle::{AbortHandle, JoinError, JoinHandle};
pub use set::JoinSet;
pub use spawn::{TaskBuilder, spawn, spawn_local};

use crate::wait::budget::give_way_async;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Gives other strands a turn: the form of [`yield_now`](crate::yield_now) for tasks.
///
/// ```
/// sinew::run(|| {
///     let task = sinew::task::spawn(async {
///         sinew::task::yield_now_async().await;
///         7
///     });
///     assert_eq!(task.join().unwrap(), 7);
/// });
/// ```
pub fn yield_now_async() -> YieldNow {
    YieldNow { yielded: false }
}

/// The future of [`yield_now_async`].
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
        give_way_async(context);
        Poll::Pending
    }
}
