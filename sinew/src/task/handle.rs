//! Handles to tasks: how one is joined, and how it is aborted.
#![allow(unsafe_code)]

use super::life::Life;
use super::memory::{Taker, join_of};
use crate::base::Deadline;
use crate::processor;
use crate::strand::StrandArc;
use crate::strand::join::{Detached, Join, Wait};
use crate::wait::{self, Enrolled, Limit, Outcome, Party};
use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The right to a task's result: to be awaited in a task, or [joined](JoinHandle::join)
/// in a fibre or on a kernel thread. Dropped, it lets the task go on by itself.
///
/// Awaiting is cancel safe: a handle may be awaited by reference, and again later.
#[must_use = "the task goes on without it, but nobody will know its result"]
pub struct JoinHandle<T> {
    task: StrandArc,
    taker: Taker<T>,
    enrolled: Enrolled,
    /// Whether the result has been taken.
    taken: bool,
}

// SAFETY: a handle gives `T` from the task's side to the holder's, once.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: through a shared handle nothing of `T` can be reached.
unsafe impl<T> Sync for JoinHandle<T> {}
impl<T> Unpin for JoinHandle<T> {}

/// Why a task has no result.
pub struct JoinError(Why);

enum Why {
    Aborted,
    Panicked(Box<dyn Any + Send + 'static>),
}

impl JoinError {
    pub(super) fn aborted() -> JoinError {
        JoinError(Why::Aborted)
    }

    pub(super) fn panicked(payload: Box<dyn Any + Send + 'static>) -> JoinError {
        JoinError(Why::Panicked(payload))
    }

    /// Whether the task was [aborted](JoinHandle::abort).
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        matches!(self.0, Why::Aborted)
    }

    /// Whether the task panicked: while it was polled, or while its future was dropped.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        matches!(self.0, Why::Panicked(_))
    }

    /// The payload of the panic, for `std::panic::resume_unwind`.
    ///
    /// # Errors
    /// The error itself, if the task was aborted.
    pub fn into_panic(self) -> Result<Box<dyn Any + Send + 'static>, JoinError> {
        match self.0 {
            Why::Panicked(payload) => Ok(payload),
            Why::Aborted => Err(self),
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let payload = match &self.0 {
            Why::Aborted => return f.write_str("the task was aborted"),
            Why::Panicked(payload) => payload,
        };
        let message = payload.downcast_ref::<&str>().copied();
        match message.or_else(|| payload.downcast_ref::<String>().map(String::as_str)) {
            Some(message) => write!(f, "the task panicked: {message}"),
            None => f.write_str("the task panicked"),
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinError({self})")
    }
}

impl std::error::Error for JoinError {}

impl<T> JoinHandle<T> {
    /// # Safety
    /// `taker` came with the task, of which this is the only handle.
    pub(super) unsafe fn new(task: StrandArc, taker: Taker<T>) -> Self {
        JoinHandle { task, taker, enrolled: Enrolled::NONE, taken: false }
    }

    fn word(&self) -> Join<'_> {
        join_of(self.task.strand())
    }

    /// Whether the task has ended; then joining or awaiting it does not wait.
    pub fn is_finished(&self) -> bool {
        self.word().is_done()
    }

    /// Ends the task: its future is dropped, where it stands at its next `.await` or where
    /// it is waiting now, by its own processor and soon, but not before this returns. A
    /// task that ends by itself before that keeps its result.
    pub fn abort(&self) {
        abort(&self.task);
    }

    /// Aborts the task without its join handle.
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle { task: self.task.clone() }
    }

    /// Waits until the task has ended and returns what its future returned. Blocks the
    /// calling fibre, or the kernel thread that runs none; a task awaits the handle
    /// instead.
    ///
    /// # Errors
    /// If the task panicked, with the payload, or was aborted.
    ///
    /// # Panics
    /// In a task, if it would have to wait. If the result has been taken by an `.await`.
    pub fn join(mut self) -> Result<T, JoinError> {
        self.enrolled.leave(join_of(self.task.strand()));
        if !self.is_finished() {
            let word = self.word();
            wait::block(|party| word.wait(party.number()) == Wait::Entered);
        }
        self.take()
    }

    /// As [`join`](JoinHandle::join), but for no longer than `timeout`.
    ///
    /// # Errors
    /// The handle itself, if the time was up first.
    pub fn join_timeout(self, timeout: Duration) -> Result<Result<T, JoinError>, JoinHandle<T>> {
        self.join_until(Deadline::after(timeout))
    }

    /// As [`join`](JoinHandle::join), but only until `deadline`.
    ///
    /// # Errors
    /// The handle itself, if the time was up first.
    pub fn join_deadline(self, deadline: Instant) -> Result<Result<T, JoinError>, JoinHandle<T>> {
        self.join_until(Deadline::at(deadline))
    }

    fn join_until(mut self, deadline: Deadline) -> Result<Result<T, JoinError>, JoinHandle<T>> {
        self.enrolled.leave(join_of(self.task.strand()));
        let word = self.word();
        let enter = |wait: &wait::Wait| word.wait(Party::timed(wait).number()) == Wait::Entered;
        let leave = |wait: &wait::Wait| word.withdraw(Party::timed(wait).number());
        if !self.is_finished() && wait::block_within(Limit::until(deadline), enter, leave) != Outcome::Told {
            return Err(self);
        }
        Ok(self.take())
    }

    /// The task has ended.
    fn take(&mut self) -> Result<T, JoinError> {
        assert!(!self.taken, "the result of a task is taken once");
        self.taken = true;
        // SAFETY: the word says so, and this is the handle.
        let result = unsafe { self.taker.take(self.task.strand()) };
        result.expect("a task that has ended has a result")
    }
}

fn abort(task: &StrandArc) {
    let strand = task.strand();
    if let Some(ready) = strand.woken(Life::of(strand).abort()) {
        processor::make_ready(ready);
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    /// # Panics
    /// If the result has been taken already.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        match this.enrolled.poll(join_of(this.task.strand()), context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => Poll::Ready(this.take()),
        }
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        self.enrolled.leave(join_of(self.task.strand()));
        if !self.taken && self.word().detach() == Detached::Done {
            drop(self.take());
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("is_finished", &self.is_finished()).finish_non_exhaustive()
    }
}

/// The right to [abort](JoinHandle::abort) a task.
#[derive(Clone)]
pub struct AbortHandle {
    task: StrandArc,
}

impl AbortHandle {
    /// As [`JoinHandle::abort`].
    pub fn abort(&self) {
        abort(&self.task);
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        join_of(self.task.strand()).is_done()
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle").field("is_finished", &self.is_finished()).finish_non_exhaustive()
    }
}
