//! The arms of a [`Select`](super::Select) that are not channels: futures, timers, cancellation.
//!
//! A future is polled where a channel's arm is attempted. Its waker sends to a channel of capacity
//! 1, and the select waits in the queue of that channel besides those of its arms. So a wake-up
//! between the poll and the wait is not lost: the select finds the message. A timer is a limit to
//! the wait.
//!
//! All futures of a select share one waker. When it was called, all of them are polled.

use super::arms::{Arm, Reports};
use super::channel::Core;
use crate::base::Deadline;
use crate::cancel::Cancelled;
use crate::wait::Minder;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// What the futures of a select wake, while it runs.
pub(super) struct Polling {
    woken: Arc<Woken>,
    minder: Minder,
}

struct Woken(Core<(), Option<()>>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // If it is full, the select has been told already.
        let _ = self.0.try_send(());
    }
}

impl Polling {
    pub(super) fn begin() -> Polling {
        Polling { woken: Arc::new(Woken(Core::new(1))), minder: Minder::begin() }
    }

    pub(super) fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.woken))
    }

    /// Returns the channel that the futures' waker sends to.
    pub(super) fn woken(&self) -> &Core<(), Option<()>> {
        &self.woken.0
    }

    /// Forgets the calls of the waker so far: all futures are about to be polled.
    pub(super) fn begin_poll(&self) {
        let _ = self.woken.0.try_recv();
    }

    /// Returns the time at which to call `fire_due` next.
    pub(super) fn next_timer(&self) -> Deadline {
        self.minder.next()
    }

    /// Fires the timers of futures that are due, on a thread that minds its own.
    pub(super) fn fire_due(&self) {
        self.minder.fire_due();
    }
}

/// An arm that is done when a future is ready.
pub(super) struct FutureArm<F: Future, T> {
    /// Until it is ready.
    future: Option<Pin<Box<F>>>,
    output: Option<F::Output>,
    /// Makes the output for a caller that was cancelled, if there is one.
    cancelled: Option<fn(Cancelled) -> F::Output>,
    then: T,
}

/// An arm that is done at a time.
pub(super) struct TimerArm<T> {
    deadline: Deadline,
    then: T,
}

/// An arm that is done when the caller is cancelled.
pub(super) struct CancelledArm<T> {
    why: Option<Cancelled>,
    then: T,
}

impl<F: Future, T> FutureArm<F, T> {
    pub(super) fn new(future: F, cancelled: Option<fn(Cancelled) -> F::Output>, then: T) -> Self {
        FutureArm { future: Some(Box::pin(future)), output: None, cancelled, then }
    }
}

impl<T> TimerArm<T> {
    pub(super) fn new(deadline: Deadline, then: T) -> Self {
        TimerArm { deadline, then }
    }
}

impl<T> CancelledArm<T> {
    pub(super) fn new(then: T) -> Self {
        CancelledArm { why: None, then }
    }
}

impl<R, F: Future, T: FnOnce(F::Output) -> R> Arm<R> for FutureArm<F, T> {
    fn attempt(&mut self, context: &mut Context<'_>) -> bool {
        let future = self.future.as_mut().expect("an arm is attempted until it is done");
        let Poll::Ready(output) = future.as_mut().poll(context) else { return false };
        (self.future, self.output) = (None, Some(output));
        true
    }

    fn reports(&self) -> Reports {
        if self.cancelled.is_some() { Reports::Error } else { Reports::Nothing }
    }

    fn give_up(&mut self, why: Cancelled) {
        self.future = None;
        self.output = self.cancelled.map(|cancelled| cancelled(why));
    }

    fn complete(self: Box<Self>) -> R {
        let FutureArm { output, then, .. } = *self;
        then(output.expect("the future of an arm that is done was ready"))
    }
}

impl<R, T: FnOnce() -> R> Arm<R> for TimerArm<T> {
    fn attempt(&mut self, _: &mut Context<'_>) -> bool {
        self.deadline.is_past()
    }

    fn deadline(&self) -> Deadline {
        self.deadline
    }

    fn reports(&self) -> Reports {
        Reports::Nothing
    }

    fn complete(self: Box<Self>) -> R {
        (self.then)()
    }
}

impl<R, T: FnOnce(Cancelled) -> R> Arm<R> for CancelledArm<T> {
    fn attempt(&mut self, _: &mut Context<'_>) -> bool {
        false
    }

    fn reports(&self) -> Reports {
        Reports::Cancellation
    }

    fn give_up(&mut self, why: Cancelled) {
        self.why = Some(why);
    }

    fn complete(self: Box<Self>) -> R {
        (self.then)(self.why.expect("the arm is done when the caller is cancelled"))
    }
}
