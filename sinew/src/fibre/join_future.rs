//! Awaiting the end of a fibre.

use super::handle::{JoinHandle, SelfJoin};
use crate::wait::Enrolled;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The future of a fibre's [`JoinHandle`]: a task awaits the handle, and so does a future in
/// [`block_on`](crate::block_on). When it is dropped, the fibre runs on.
///
/// ```
/// sinew::run(|| {
///     let fibre = sinew::spawn(|| 7);
///     let task = sinew::task::spawn(async move { fibre.await.unwrap() });
///     assert_eq!(task.join().unwrap(), 7);
/// });
/// ```
#[must_use = "futures do nothing unless they are awaited"]
pub struct Joining<T> {
    /// The handle, until the result is taken.
    handle: Option<JoinHandle<T>>,
    enrolled: Enrolled,
}

impl<T> Unpin for Joining<T> {}

impl<T> IntoFuture for JoinHandle<T> {
    type Output = std::thread::Result<T>;
    type IntoFuture = Joining<T>;

    fn into_future(self) -> Joining<T> {
        Joining { handle: Some(self), enrolled: Enrolled::NONE }
    }
}

impl<T> Future for Joining<T> {
    type Output = std::thread::Result<T>;

    /// # Panics
    /// If the result has been taken.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let handle = this.handle.as_ref().expect("the result of a fibre is taken once");
        if handle.is_caller() {
            return Poll::Ready(Err(Box::new(SelfJoin)));
        }
        match this.enrolled.poll(handle.record().join(), context) {
            Poll::Pending => {
                handle.why().leave_in_task();
                Poll::Pending
            }
            Poll::Ready(()) => Poll::Ready(this.handle.take().expect("it is there").join()),
        }
    }
}

impl<T> Drop for Joining<T> {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            self.enrolled.leave(handle.record().join());
        }
    }
}

impl<T> fmt::Debug for Joining<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joining").field("handle", &self.handle).finish()
    }
}
