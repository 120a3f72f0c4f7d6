//! The arms of a [`Select`](super::Select): nodes in the queues of several channels,
//! all with one [`Wait`]. Futures and timers are arms, too: see [`polled`](super::polled).
//!
//! ```text
//!   1  attempt each arm; done, if one can be done at once
//!   2  enter each arm's queue under that channel's lock; if an arm can be done by now,
//!      settle the wait as told and go to 4
//!   3  wait until the wait is settled: by the other side of a channel, or by the limit
//!   4  leave all queues
//!   5  done, if the other side has done an arm; the limit has ended the wait: give up;
//!      else (step 2, or a channel was closed) go to 1
//! ```
//!
//! The select never holds more than one channel's lock. It misses nothing: it sees under
//! the lock in step 2 what came before, and later senders and receivers find its node. It
//! takes nothing in vain: the other side that settles the wait also does the arm, and in
//! step 2 the select settles the wait before it attempts an arm again. All others pass over
//! a wait that has been settled.
//!
//! In step 2 nodes of the same wait do not count, so no arm waits for another arm of the
//! same select.
#![allow(unsafe_code)]

use super::channel::{Buffer, Core};
use crate::base::Deadline;
use crate::cancel::Cancelled;
use crate::wait::{End, Limit, Node, Outcome, Wait, block_within_and};
use crate::wait::{Reason, Why};
use std::sync::mpsc::{RecvError, SendError, TryRecvError, TrySendError};
use std::task::Context;

/// How an arm says that the caller was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reports {
    /// It cannot.
    Nothing,
    /// By the error of its operation.
    Error,
    /// It is there for nothing else.
    Cancellation,
}

/// One operation of a select.
pub(super) trait Arm<R> {
    /// Does the operation if that needs no waiting. Returns whether it is done. Not to be called
    /// between `enter` and `leave`. A future is polled with `context`.
    fn attempt(&mut self, context: &mut Context<'_>) -> bool;

    /// Enters the channel's queue, unless the operation can be done now. Returns whether it
    /// has entered. An arm that is not a channel has no queue.
    ///
    /// # Safety
    /// Neither the arm nor `wait` moves or ends before `leave` is called.
    unsafe fn enter(&self, _wait: &Wait) -> bool {
        true
    }

    /// Leaves the channel's queue, if it is in it.
    fn leave(&self) {}

    /// Returns whether the other side has done the operation. Not to be called between `enter`
    /// and `leave`.
    fn is_done(&mut self) -> bool {
        false
    }

    /// Returns the time at which the arm can be done.
    fn deadline(&self) -> Deadline {
        Deadline::NEVER
    }

    /// Returns how the arm says that the caller was cancelled.
    fn reports(&self) -> Reports;

    /// Notes that the caller was cancelled: `complete` is to say so.
    fn give_up(&mut self, _why: Cancelled) {}

    /// Calls the closure, with an error if the operation has not been done.
    fn complete(self: Box<Self>) -> R;
}

/// Steps 2 to 4: waits until an arm is told, or can be done. `woken` tells of futures that are to
/// be polled again.
pub(super) fn wait_for_any<R, B: Buffer<()>>(
    arms: &[Box<dyn Arm<R> + '_>],
    woken: Option<&Core<(), B>>,
    limit: Limit,
) -> Outcome {
    let woken = woken.map(|woken| RecvArm::new(woken, |_| ()));
    let enter = |wait: &Wait| {
        // SAFETY: the arms are borrowed, and the wait lives, until `clear` has been called.
        let all_wait = arms.iter().all(|arm| unsafe { arm.enter(wait) });
        // SAFETY: as above.
        let all_wait = all_wait && woken.as_ref().is_none_or(|woken| unsafe { woken.enter(wait) });
        // If the wait is settled already, the other side has done an arm and is about to signal.
        all_wait || wait.settle(Outcome::Told).is_none()
    };
    let clear = || {
        arms.iter().for_each(|arm| arm.leave());
        woken.iter().for_each(Arm::leave);
    };
    block_within_and(limit, Why::at(Reason::Select, arms), enter, |_| true, clear)
}

pub(super) struct RecvArm<'a, T, B, F> {
    core: &'a Core<T, B>,
    /// The note is the message, when it has been received.
    node: Node<Option<T>>,
    then: F,
}

pub(super) struct SendArm<'a, T, B, F> {
    core: &'a Core<T, B>,
    /// The note is the message, until it has been sent.
    node: Node<Option<T>>,
    then: F,
}

impl<'a, T, B, F> RecvArm<'a, T, B, F> {
    pub(super) fn new(core: &'a Core<T, B>, then: F) -> Self {
        RecvArm { core, node: Node::new(None), then }
    }
}

impl<'a, T, B, F> SendArm<'a, T, B, F> {
    pub(super) fn new(core: &'a Core<T, B>, message: T, then: F) -> Self {
        SendArm { core, node: Node::new(Some(message)), then }
    }
}

impl<T, B: Buffer<T>, R, F: FnOnce(Result<T, RecvError>) -> R> Arm<R> for RecvArm<'_, T, B, F> {
    fn attempt(&mut self, _: &mut Context<'_>) -> bool {
        match self.core.try_recv() {
            Ok(message) => {
                *self.node.note_mut() = Some(message);
                true
            }
            Err(TryRecvError::Disconnected) => true,
            Err(TryRecvError::Empty) => false,
        }
    }

    unsafe fn enter(&self, wait: &Wait) -> bool {
        let mut state = self.core.lock();
        if state.can_receive(|senders| senders.has_other_than(wait)) {
            return false;
        }
        // SAFETY: by the contract; a node is entered here only, and each `enter` is
        // followed by a `leave`.
        unsafe { state.receiving().enter(&self.node, wait, End::Back) };
        true
    }

    fn leave(&self) {
        // SAFETY: the node is entered into this queue only.
        unsafe { self.core.lock().receiving().leave(&self.node) };
    }

    fn is_done(&mut self) -> bool {
        self.node.note_mut().is_some()
    }

    fn reports(&self) -> Reports {
        Reports::Error
    }

    fn complete(self: Box<Self>) -> R {
        let RecvArm { node, then, .. } = *self;
        then(node.into_note().ok_or(RecvError))
    }
}

impl<T, B: Buffer<T>, R, F: FnOnce(Result<(), SendError<T>>) -> R> Arm<R> for SendArm<'_, T, B, F> {
    fn attempt(&mut self, _: &mut Context<'_>) -> bool {
        let note = self.node.note_mut();
        let message = note.take().expect("an unsent message is in the note");
        match self.core.try_send(message) {
            Ok(()) => true,
            Err(TrySendError::Disconnected(message)) => {
                *note = Some(message);
                true
            }
            Err(TrySendError::Full(message)) => {
                *note = Some(message);
                false
            }
        }
    }

    unsafe fn enter(&self, wait: &Wait) -> bool {
        let mut state = self.core.lock();
        if state.can_send(|receivers| receivers.has_other_than(wait)) {
            return false;
        }
        // SAFETY: as for `RecvArm`.
        unsafe { state.sending().enter(&self.node, wait, End::Back) };
        true
    }

    fn leave(&self) {
        // SAFETY: the node is entered into this queue only.
        unsafe { self.core.lock().sending().leave(&self.node) };
    }

    fn is_done(&mut self) -> bool {
        self.node.note_mut().is_none()
    }

    fn reports(&self) -> Reports {
        Reports::Error
    }

    fn complete(self: Box<Self>) -> R {
        let SendArm { node, then, .. } = *self;
        then(node.into_note().map_or(Ok(()), |message| Err(SendError(message))))
    }
}
