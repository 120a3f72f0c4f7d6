//! The core of every channel: a buffer, and a queue for each side.
//!
//! Messages are handed over directly. A sender that finds a waiting receiver leaves the
//! message in the receiver's note and tells it, so the receiver does not need the lock again.
//! A receiver that makes room moves the first waiting sender's message into the buffer and
//! tells that sender. Where there is no buffer, the receiver takes the message itself.
//!
//! So two things hold while nobody has the lock. Where a receiver waits, the buffer is empty
//! and no sender waits. Where a sender waits, the buffer is full. A newcomer never gets a
//! message, or room, before a waiter.
//!
//! Operations that may wait give way now and then also when they need not wait: see
//! [`wait::budget`](crate::wait::budget).
//!
//! Messages are dropped, and memory is freed, after the lock has been released.

use crate::base::spin::{SpinGuard, SpinLock};
use crate::wait::budget;
use crate::wait::budget::spend_async;
use crate::wait::{Batch, End, Limit, Outcome, Queue, Told, wait_in, wait_in_async};
use crate::wait::{Reason, Why};
use std::collections::VecDeque;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

/// The capacity of a channel that always has room.
pub(super) const UNBOUNDED: usize = usize::MAX;

/// What the ends of a channel share. It has cache lines of its own: two channels that are made
/// one after the other may be used by different processors.
#[repr(align(64))]
pub struct Core<T, B = VecDeque<T>> {
    state: SpinLock<State<T, B>>,
}

/// With the lock before it, all but the buffer is one cache line: while messages are handed
/// over, nothing else is touched.
#[repr(C)]
pub(super) struct State<T, B> {
    /// Receivers that wait. The note is the message, which the teller puts there. A receiver
    /// that is told without a message finds the channel closed.
    receiving: Queue<Option<T>>,
    /// Senders that wait. The note is the message, which the teller takes out. A sender that is
    /// told and still has its message finds the channel closed.
    sending: Queue<Option<T>>,
    senders: u32,
    receivers: u32,
    /// The number of messages that the buffer may hold.
    capacity: usize,
    /// The number of messages that it holds.
    buffered: usize,
    buffer: B,
}

type Guard<'a, T, B> = SpinGuard<'a, State<T, B>>;

/// Where messages are after they have been sent and before they are received.
pub trait Buffer<T>: Default {
    /// Adds a message behind all others. There is room.
    fn push(&mut self, message: T);
    /// Adds a message before all others.
    fn push_first(&mut self, message: T);
    /// Takes out the first message.
    fn pop(&mut self) -> Option<T>;
}

impl<T> Buffer<T> for VecDeque<T> {
    #[inline]
    fn push(&mut self, message: T) {
        self.push_back(message);
    }

    fn push_first(&mut self, message: T) {
        self.push_front(message);
    }

    #[inline]
    fn pop(&mut self) -> Option<T> {
        self.pop_front()
    }
}

/// For a channel of capacity 1.
impl<T> Buffer<T> for Option<T> {
    #[inline]
    fn push(&mut self, message: T) {
        debug_assert!(self.is_none());
        *self = Some(message);
    }

    fn push_first(&mut self, message: T) {
        self.push(message);
    }

    #[inline]
    fn pop(&mut self) -> Option<T> {
        self.take()
    }
}

// A user's code never runs under the lock, so no panic leaves a channel half changed.
impl<T, B> UnwindSafe for Core<T, B> {}
impl<T, B> RefUnwindSafe for Core<T, B> {}

/// Why a message was not sent at once.
enum Unsent<'a, T, B> {
    Closed(T),
    /// With the lock, under which the sender may enter its queue.
    Full(T, Guard<'a, T, B>),
}

/// Why no message was received at once.
enum Unreceived<'a, T, B> {
    Closed,
    /// With the lock, under which the receiver may enter its queue.
    Empty(Guard<'a, T, B>),
}

impl<T, B: Buffer<T>> State<T, B> {
    #[inline]
    fn push(&mut self, message: T) {
        self.buffer.push(message);
        self.buffered += 1;
    }

    #[inline]
    fn pop(&mut self) -> Option<T> {
        if self.buffered == 0 {
            return None;
        }
        self.buffered -= 1;
        self.buffer.pop()
    }

    /// Moves the first waiting sender's message into the buffer. There is room.
    #[inline]
    fn admit_sender(&mut self) -> Option<Told<Option<T>>> {
        let mut told = self.sending.pop()?;
        let message = told.note().take().expect("a sender waits with its message");
        self.push(message);
        Some(told)
    }

    /// Returns whether a receiver would not have to wait. `others` tells whether a queue has a
    /// waiter that counts.
    pub(super) fn can_receive(&self, others: impl FnOnce(&Queue<Option<T>>) -> bool) -> bool {
        self.buffered > 0 || self.senders == 0 || others(&self.sending)
    }

    /// As [`can_receive`](State::can_receive), for a sender.
    pub(super) fn can_send(&self, others: impl FnOnce(&Queue<Option<T>>) -> bool) -> bool {
        self.buffered < self.capacity || self.receivers == 0 || others(&self.receiving)
    }

    pub(super) fn receiving(&mut self) -> &mut Queue<Option<T>> {
        &mut self.receiving
    }

    pub(super) fn sending(&mut self) -> &mut Queue<Option<T>> {
        &mut self.sending
    }
}

impl<T, B: Buffer<T>> Core<T, B> {
    /// Makes a channel with one end on each side.
    pub(super) fn new(capacity: usize) -> Self {
        Core {
            state: SpinLock::new(State {
                receiving: Queue::new(),
                sending: Queue::new(),
                senders: 1,
                receivers: 1,
                capacity,
                buffered: 0,
                buffer: B::default(),
            }),
        }
    }

    pub(super) fn lock(&self) -> Guard<'_, T, B> {
        self.state.lock()
    }

    /// Sends, if that needs no waiting.
    #[inline(always)]
    fn offer(&self, message: T) -> Result<(), Unsent<'_, T, B>> {
        let mut state = self.state.lock();
        if let Some(told) = state.receiving.pop() {
            drop(state);
            hand_over(told, message);
            return Ok(());
        }
        if state.receivers == 0 {
            return Err(Unsent::Closed(message));
        }
        if state.buffered < state.capacity {
            state.push(message);
            return Ok(());
        }
        Err(Unsent::Full(message, state))
    }

    /// Receives, if that needs no waiting.
    #[inline(always)]
    fn take(&self) -> Result<T, Unreceived<'_, T, B>> {
        let mut state = self.state.lock();
        if let Some(message) = state.pop() {
            // The buffer may be over-full: a message that was put back needs no room.
            if !state.sending.is_empty() && state.buffered < state.capacity {
                let admitted = state.admit_sender();
                drop(state);
                drop(admitted);
            }
            return Ok(message);
        }
        if let Some(mut told) = state.sending.pop() {
            drop(state);
            return Ok(told.note().take().expect("a sender waits with its message"));
        }
        if state.senders == 0 { Err(Unreceived::Closed) } else { Err(Unreceived::Empty(state)) }
    }

    /// Sends into a channel that always has room.
    #[inline(always)]
    pub(super) fn send_unbounded(&self, message: T) -> Result<(), SendError<T>> {
        match self.offer(message) {
            Ok(()) => {
                budget::spend(budget::MESSAGE);
                Ok(())
            }
            Err(Unsent::Closed(message) | Unsent::Full(message, _)) => Err(SendError(message)),
        }
    }

    #[inline]
    pub(super) fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        match self.offer(message) {
            Ok(()) => Ok(()),
            Err(Unsent::Closed(message)) => Err(TrySendError::Disconnected(message)),
            Err(Unsent::Full(message, _)) => Err(TrySendError::Full(message)),
        }
    }

    /// Sends a message. Waits for a place in the buffer, or for a receiver.
    #[inline(always)]
    pub(super) fn send(&self, message: T, limit: Limit) -> Result<(), SendTimeoutError<T>> {
        match self.offer(message) {
            Ok(()) => {
                budget::spend(budget::MESSAGE);
                Ok(())
            }
            Err(Unsent::Closed(message)) => {
                budget::spend(budget::MESSAGE);
                Err(SendTimeoutError::Disconnected(message))
            }
            Err(Unsent::Full(message, state)) => {
                let note = Some(message);
                match wait_in(
                    &self.state,
                    state,
                    |state| &mut state.sending,
                    End::Back.of(Why::at(Reason::Send, self)),
                    note,
                    limit,
                    || (),
                ) {
                    (_, None) => Ok(()),
                    (Outcome::TimedOut, Some(message)) => Err(SendTimeoutError::Timeout(message)),
                    (_, Some(message)) => Err(SendTimeoutError::Disconnected(message)),
                }
            }
        }
    }

    #[inline]
    pub(super) fn try_recv(&self) -> Result<T, TryRecvError> {
        self.take().map_err(|unreceived| match unreceived {
            Unreceived::Closed => TryRecvError::Disconnected,
            Unreceived::Empty(_) => TryRecvError::Empty,
        })
    }

    /// Waits for a message.
    #[inline(always)]
    pub(super) fn recv(&self, limit: Limit) -> Result<T, RecvTimeoutError> {
        match self.take() {
            Ok(message) => {
                budget::spend(budget::MESSAGE);
                Ok(message)
            }
            Err(Unreceived::Closed) => {
                budget::spend(budget::MESSAGE);
                Err(RecvTimeoutError::Disconnected)
            }
            Err(Unreceived::Empty(state)) => {
                match wait_in(
                    &self.state,
                    state,
                    |state| &mut state.receiving,
                    End::Back.of(Why::at(Reason::Receive, self)),
                    None,
                    limit,
                    || (),
                ) {
                    (_, Some(message)) => Ok(message),
                    (Outcome::TimedOut, None) => Err(RecvTimeoutError::Timeout),
                    (Outcome::Cancelled, None) => Err(RecvTimeoutError::Disconnected),
                    (Outcome::Told, None) => self.recv_closed().map_err(|RecvError| RecvTimeoutError::Disconnected),
                }
            }
        }
    }

    /// As [`recv`](Core::recv), for a task. A future that is dropped puts back the message that
    /// it was given.
    pub(super) async fn recv_async(&self) -> Result<T, RecvError> {
        spend_async().await;
        match self.take() {
            Ok(message) => Ok(message),
            Err(Unreceived::Closed) => Err(RecvError),
            Err(Unreceived::Empty(state)) => {
                let abandoned = |_, message| self.put_back(message);
                let note = wait_in_async(
                    &self.state,
                    state,
                    State::receiving,
                    End::Back.of(Why::at(Reason::Receive, self)),
                    None,
                    || (),
                    abandoned,
                )
                .await;
                note.map_or_else(|| self.recv_closed(), Ok)
            }
        }
    }

    /// Receives after the caller was told that the channel is closed: a message may have been
    /// put back since.
    #[cold]
    fn recv_closed(&self) -> Result<T, RecvError> {
        self.try_recv().map_err(|_| RecvError)
    }

    /// Gives a message to the next receiver. The receiver that had been given it has left.
    #[cold]
    fn put_back(&self, message: Option<T>) {
        let Some(message) = message else { return };
        let mut state = self.state.lock();
        if let Some(told) = state.receiving.pop() {
            drop(state);
            hand_over(told, message);
        } else if state.receivers > 0 {
            // It was sent before all messages in the buffer. There need not be room for it: its
            // sender has gone on.
            state.buffer.push_first(message);
            state.buffered += 1;
        }
    }

    /// As [`send`](Core::send), for a task. A future that is dropped before the message was
    /// accepted drops the message.
    pub(super) async fn send_async(&self, message: T) -> Result<(), SendError<T>> {
        spend_async().await;
        match self.offer(message) {
            Ok(()) => Ok(()),
            Err(Unsent::Closed(message)) => Err(SendError(message)),
            Err(Unsent::Full(message, state)) => {
                let note = Some(message);
                let note = wait_in_async(
                    &self.state,
                    state,
                    State::sending,
                    End::Back.of(Why::at(Reason::Send, self)),
                    note,
                    || (),
                    |_, _| (),
                )
                .await;
                note.map_or(Ok(()), |message| Err(SendError(message)))
            }
        }
    }

    /// As [`recv`](Core::recv), within the limits that the calling fibre carries.
    #[inline(always)]
    pub(super) fn recv_carried(&self) -> Result<T, RecvError> {
        self.recv(Limit::CARRIED).map_err(|_| RecvError)
    }

    pub(super) fn len(&self) -> usize {
        self.state.lock().buffered
    }

    /// Returns `None` if there is always room.
    pub(super) fn capacity(&self) -> Option<usize> {
        let capacity = self.state.lock().capacity;
        (capacity != UNBOUNDED).then_some(capacity)
    }

    pub(super) fn has_receivers(&self) -> bool {
        self.state.lock().receivers > 0
    }

    /// Returns whether no message is left and none will come.
    pub(super) fn is_exhausted(&self) -> bool {
        let state = self.state.lock();
        state.senders == 0 && state.buffered == 0
    }

    pub(super) fn add_sender(&self) {
        let mut state = self.state.lock();
        state.senders = state.senders.checked_add(1).expect("a channel has at most 2^32 senders");
    }

    pub(super) fn add_receiver(&self) {
        let mut state = self.state.lock();
        state.receivers = state.receivers.checked_add(1).expect("a channel has at most 2^32 receivers");
    }

    pub(super) fn remove_sender(&self) {
        let mut state = self.state.lock();
        state.senders -= 1;
        let told = if state.senders == 0 { state.receiving.pop_all() } else { Batch::new() };
        drop(state);
        drop(told);
    }

    /// Removes a receiver. The last one drops the messages that nobody will receive.
    pub(super) fn remove_receiver(&self) {
        let mut state = self.state.lock();
        state.receivers -= 1;
        if state.receivers > 0 {
            return;
        }
        let told = state.sending.pop_all();
        let messages = std::mem::take(&mut state.buffer);
        state.buffered = 0;
        drop(state);
        drop(told);
        drop(messages);
    }

    /// Sends the last message of the last sender, and removes that sender. There is room.
    pub(super) fn send_last(&self, message: T) -> Result<(), T> {
        let mut state = self.state.lock();
        state.senders -= 1;
        if let Some(told) = state.receiving.pop() {
            drop(state);
            hand_over(told, message);
            return Ok(());
        }
        if state.receivers == 0 {
            return Err(message);
        }
        state.push(message);
        Ok(())
    }

    /// Prints the state of the channel as that of its end `name`.
    pub(super) fn fmt_end(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        let (messages, capacity) = (state.buffered, state.capacity);
        let (senders, receivers) = (state.senders, state.receivers);
        // Senders wait, or receivers, or neither.
        let waiters = state.sending.len() + state.receiving.len();
        drop(state);
        let mut debug = f.debug_struct(name);
        debug.field("messages", &messages);
        match capacity {
            UNBOUNDED => debug.field("capacity", &format_args!("unbounded")),
            _ => debug.field("capacity", &capacity),
        };
        debug.field("senders", &senders).field("receivers", &receivers).field("waiters", &waiters);
        debug.field("closed", &(senders == 0 || receivers == 0)).finish()
    }
}

/// Leaves the message in the note of a receiver, which goes on.
#[inline]
fn hand_over<T>(mut told: Told<Option<T>>, message: T) {
    *told.note() = Some(message);
}

/// Why a message was not sent in time. The message is in the error.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// The time was up before there was room, or a receiver.
    Timeout(T),
    /// There is no receiver any more.
    Disconnected(T),
}

impl<T> SendTimeoutError<T> {
    /// Returns the message.
    pub fn into_inner(self) -> T {
        match self {
            SendTimeoutError::Timeout(message) | SendTimeoutError::Disconnected(message) => message,
        }
    }
}

impl<T> From<SendError<T>> for SendTimeoutError<T> {
    fn from(error: SendError<T>) -> Self {
        SendTimeoutError::Disconnected(error.0)
    }
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => "Timeout(..)",
            SendTimeoutError::Disconnected(_) => "Disconnected(..)",
        })
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => "timed out waiting to send",
            SendTimeoutError::Disconnected(_) => "sending on a closed channel",
        })
    }
}

impl<T> std::error::Error for SendTimeoutError<T> {}
