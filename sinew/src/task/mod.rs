#![doc = include_str!("README.md")]

mod block_on;
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

use crate::wait::budget::give_way_async;
use std::pin::Pin;
use std::task::{Context, Poll};

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
        give_way_async(context);
        Poll::Pending
    }
}
