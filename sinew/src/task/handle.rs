//! Handles to tasks: joining and aborting.

use super::life::Life;
use super::memory::{Taker, join_of};
use crate::base::Deadline;
use crate::processor;
use crate::strand::StrandArc;
use crate::strand::join::{Join, Wait};
use crate::wait::{self, Enrolled, Limit, Outcome, Party, Reason};
use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The right to a task's result. A task awaits the handle; a fibre or a kernel thread
/// [joins](JoinHandle::join) it. When the handle is dropped, the task runs on and its result is
/// dropped.
///
/// Awaiting is cancel safe: a handle may be awaited by reference, and again later.
#[must_use = "the task runs on without the handle, and its result is lost"]
pub struct JoinHandle<T> {
    taker: Taker<T>,
    enrolled: Enrolled,
}

impl<T> Unpin for JoinHandle<T> {}

/// Why a task has no result.
pub struct JoinError(Why);

enum Why {
    Aborted,
    Overdue,
    Panicked(Box<dyn Any + Send + 'static>),
}

impl JoinError {
    pub(super) fn aborted() -> JoinError {
        JoinError(Why::Aborted)
    }

    pub(super) fn overdue() -> JoinError {
        JoinError(Why::Overdue)
    }

    pub(super) fn panicked(payload: Box<dyn Any + Send + 'static>) -> JoinError {
        JoinError(Why::Panicked(payload))
    }

    /// Returns whether the task was [aborted](JoinHandle::abort).
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        matches!(self.0, Why::Aborted)
    }

    /// Returns whether the task was ended by a time limit. Only tasks of a [`JoinSet`](super::JoinSet)
    /// have one.
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        matches!(self.0, Why::Overdue)
    }

    /// Returns whether the task panicked: while it was polled, or while its future was dropped.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        matches!(self.0, Why::Panicked(_))
    }

    /// Returns the payload of the panic, for `std::panic::resume_unwind`.
    ///
    /// # Errors
    /// The error itself, if the task did not panic.
    pub fn into_panic(self) -> Result<Box<dyn Any + Send + 'static>, JoinError> {
        match self.0 {
            Why::Panicked(payload) => Ok(payload),
            Why::Aborted | Why::Overdue => Err(self),
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let payload = match &self.0 {
            Why::Aborted => return f.write_str("the task was aborted"),
            Why::Overdue => return f.write_str("the time of the task was up"),
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
    #[inline]
    pub(super) fn new(taker: Taker<T>) -> Self {
        JoinHandle { taker, enrolled: Enrolled::NONE }
    }

    /// Returns whether the task has ended: then to join or to await it does not wait.
    pub fn is_finished(&self) -> bool {
        self.taker.join().is_done()
    }

    /// Asks the task to end. Its processor drops the future soon, at the `.await` where the
    /// future waits or that it reaches next. This may be after `abort` has returned. A task that
    /// ends before that keeps its result.
    pub fn abort(&self) {
        abort(self.taker.task());
    }

    /// Returns a handle that aborts the task and does not join it.
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle { task: self.taker.task().clone() }
    }

    /// Waits until the task has ended and returns the output of its future. Blocks the
    /// calling fibre, or the kernel thread that runs none. A task awaits the handle instead.
    ///
    /// # Errors
    /// [`JoinError`] if the task panicked or was aborted.
    ///
    /// # Panics
    /// In a task, if it would have to wait. If an `.await` has taken the result.
    pub fn join(mut self) -> Result<T, JoinError> {
        self.enrolled.leave(self.taker.join());
        if !self.is_finished() {
            let word = self.taker.join();
            let why = wait::Why::at(Reason::JoinTask, self.taker.task().strand());
            wait::block(why, |party| word.wait(party.number()) == Wait::Entered);
        }
        self.take()
    }

    /// Joins as [`join`](JoinHandle::join) does, but waits no longer than `timeout`.
    ///
    /// # Errors
    /// Returns the handle if the task did not end in time.
    pub fn join_timeout(self, timeout: Duration) -> Result<Result<T, JoinError>, JoinHandle<T>> {
        self.join_until(Deadline::after(timeout))
    }

    /// Joins as [`join`](JoinHandle::join) does, but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// Returns the handle if the task did not end in time.
    pub fn join_deadline(self, deadline: Instant) -> Result<Result<T, JoinError>, JoinHandle<T>> {
        self.join_until(Deadline::at(deadline))
    }

    fn join_until(mut self, deadline: Deadline) -> Result<Result<T, JoinError>, JoinHandle<T>> {
        self.enrolled.leave(self.taker.join());
        let word = self.taker.join();
        let enter = |wait: &wait::Wait| word.wait(Party::timed(wait).number()) == Wait::Entered;
        let leave = |wait: &wait::Wait| word.withdraw(Party::timed(wait).number());
        let why = wait::Why::at(Reason::JoinTask, self.taker.task().strand());
        if !self.is_finished() && wait::block_within(Limit::until(deadline), why, enter, leave) != Outcome::Told {
            return Err(self);
        }
        Ok(self.take())
    }

    /// Returns the join word. The handle's own waker is not in it.
    pub(super) fn free_word(&mut self) -> Join<'_> {
        self.enrolled.leave(self.taker.join());
        self.taker.join()
    }

    /// Takes the result of a task that has ended.
    fn take(&mut self) -> Result<T, JoinError> {
        self.taker.take().expect("the result of a task is taken once")
    }
}

fn debug(f: &mut fmt::Formatter<'_>, name: &str, task: &StrandArc) -> fmt::Result {
    let strand = task.strand();
    f.debug_struct(name)
        .field("is_finished", &join_of(strand).is_done())
        .field("is_aborted", &Life::of(strand).is_ending())
        .finish()
}

/// Asks the task to end.
pub(super) fn abort(task: &StrandArc) {
    let strand = task.strand();
    if let Some(ready) = strand.woken(Life::of(strand).abort()) {
        processor::make_ready(ready);
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    /// # Panics
    /// If the result has been taken.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        match this.enrolled.poll(this.taker.join(), context) {
            Poll::Pending => {
                wait::Why::at(Reason::JoinTask, this.taker.task().strand()).leave_in_task();
                Poll::Pending
            }
            Poll::Ready(()) => Poll::Ready(this.take()),
        }
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        self.enrolled.leave(self.taker.join());
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug(f, "JoinHandle", self.taker.task())
    }
}

/// Aborts a task: see [`JoinHandle::abort_handle`].
#[derive(Clone)]
pub struct AbortHandle {
    task: StrandArc,
}

impl AbortHandle {
    /// Asks the task to end, as [`JoinHandle::abort`] does.
    pub fn abort(&self) {
        abort(&self.task);
    }

    /// Returns whether the task has ended.
    pub fn is_finished(&self) -> bool {
        join_of(self.task.strand()).is_done()
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug(f, "AbortHandle", &self.task)
    }
}
