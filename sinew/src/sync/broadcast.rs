//! Channels in which every receiver gets every message.
//!
//! A channel keeps the last messages, up to its capacity. A sender never waits. If the channel is
//! full, the oldest message makes room. A receiver that had not received it is told how many
//! messages it has missed, and goes on with the oldest that is left.
//!
//! A receiver gets the messages that are sent after it was made, in the order in which they were
//! sent. A message is dropped when all receivers have received it. A channel is closed when all
//! its senders are dropped. The receivers of a closed channel get the messages that are left.
//!
//! Fibres, tasks and kernel threads may use the same channel.
//!
//! ```
//! use sinew::sync::broadcast::{self, RecvError};
//!
//! sinew::run(|| {
//!     let (news, mut reader) = broadcast::channel(2);
//!     let mut other = news.subscribe();
//!     let listener = sinew::spawn(move || other.recv());
//!     news.send("one").unwrap();
//!     assert_eq!(listener.join().unwrap(), Ok("one"));
//!
//!     news.send("two").unwrap();
//!     news.send("three").unwrap();
//!     drop(news);
//!     assert_eq!(reader.recv(), Err(RecvError::Lagged(1)));
//!     assert_eq!(reader.recv(), Ok("two"));
//!     assert_eq!(reader.recv(), Ok("three"));
//!     assert_eq!(reader.recv(), Err(RecvError::Disconnected));
//! });
//! ```
//!
//! # How it works
//!
//! Messages have numbers. The ring holds those from `oldest` on, and each receiver has the number
//! of the message that it receives next. A message lies in an [`Arc`]: the receivers clone it when
//! they have released the lock, because a clone runs code of the program. The last receiver of a
//! message takes it without a clone.

use crate::base::Deadline;
use crate::base::spin::{SpinGuard, SpinLock};
use crate::wait::budget;
use crate::wait::budget::spend_async;
use crate::wait::{End, LARGEST_BATCH, Limit, Outcome, Queue, wait_in, wait_in_async};
use crate::wait::{Reason, Why};
use std::collections::VecDeque;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use std::sync::mpsc::SendError;

/// Makes a channel that keeps the last `capacity` messages. Memory is allocated as it fills.
///
/// # Panics
/// If `capacity` is 0: no message could be received.
#[must_use]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a broadcast channel needs room for a message");
    let state = State { ring: VecDeque::new(), oldest: 0, capacity, senders: 1, receivers: 1, waiting: Queue::new() };
    let shared = Arc::new(Shared { state: SpinLock::new(state) });
    (Sender { shared: Arc::clone(&shared) }, Receiver { shared, next: 0 })
}

/// The sending end of a channel.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// The receiving end of a channel.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The number of the next message. Not larger than that of the next message that is sent.
    next: u64,
}

struct Shared<T> {
    state: SpinLock<State<T>>,
}

// A user's code never runs under the lock, so no panic leaves a channel half changed.
impl<T> UnwindSafe for Shared<T> {}
impl<T> RefUnwindSafe for Shared<T> {}

struct State<T> {
    /// The messages that a receiver has still to receive, except for those that made room.
    ring: VecDeque<Slot<T>>,
    /// The number of the first message in the ring, or of the next one.
    oldest: u64,
    capacity: usize,
    senders: usize,
    receivers: usize,
    /// Receivers that wait. The note is the number of the message that each waits for.
    waiting: Queue<u64>,
}

struct Slot<T> {
    message: Arc<T>,
    /// The number of receivers that have not received it.
    left: usize,
}

/// What a receiver finds.
enum Found<'a, T> {
    Message(Arc<T>),
    /// The number of messages that it has missed.
    Lagged(u64),
    Disconnected,
    /// With the lock, under which the receiver may enter the queue.
    Nothing(SpinGuard<'a, State<T>>),
}

impl<T> State<T> {
    /// Returns the number of the next message that is sent.
    fn end(&self) -> u64 {
        self.oldest + self.ring.len() as u64
    }

    /// Notes that a receiver has received this message, which is in the ring. Returns it. The last
    /// receiver gets the only reference.
    fn receive(&mut self, number: u64) -> Arc<T> {
        let place = usize::try_from(number - self.oldest).expect("the message is in the ring");
        let slot = &mut self.ring[place];
        slot.left -= 1;
        if slot.left > 0 {
            return Arc::clone(&slot.message);
        }
        // All receivers have passed it, and so all messages before it are gone.
        debug_assert_eq!(place, 0);
        self.oldest += 1;
        self.ring.pop_front().expect("it is the first").message
    }
}

impl<T> Shared<T> {
    /// Looks for the message of a receiver, whose number is `next`, and counts that up.
    fn find(&self, next: &mut u64) -> Found<'_, T> {
        let mut state = self.state.lock();
        if *next < state.oldest {
            let number = std::mem::replace(next, state.oldest);
            Found::Lagged(*next - number)
        } else if *next < state.end() {
            *next += 1;
            Found::Message(state.receive(*next - 1))
        } else if state.senders == 0 {
            Found::Disconnected
        } else {
            Found::Nothing(state)
        }
    }

    /// Lets the receivers go on that wait for a message before `end`. One batch at a time: others
    /// need the lock between two batches.
    fn tell(&self, end: u64) {
        loop {
            let some = self.state.lock().waiting.pop_some(|number| *number < end);
            if some.is_empty() {
                return;
            }
        }
    }

    fn fmt_end(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        let (messages, capacity) = (state.ring.len(), state.capacity);
        let (senders, receivers, waiters) = (state.senders, state.receivers, state.waiting.len());
        drop(state);
        f.debug_struct(name)
            .field("messages", &messages)
            .field("capacity", &capacity)
            .field("senders", &senders)
            .field("receivers", &receivers)
            .field("waiters", &waiters)
            .field("closed", &(senders == 0 || receivers == 0))
            .finish()
    }
}

impl<T> Sender<T> {
    /// Sends a message to all receivers. Returns their number. Never waits, but gives others a turn
    /// now and then: see [`mpmc`](super::mpmc). So there is no form for tasks: they call this one.
    ///
    /// # Errors
    /// If there are no receivers. The message is in the error.
    pub fn send(&self, message: T) -> Result<usize, SendError<T>> {
        let message = Arc::new(message);
        let mut state = self.shared.state.lock();
        let receivers = state.receivers;
        if receivers == 0 {
            drop(state);
            return Err(SendError(Arc::into_inner(message).expect("nobody else has the message")));
        }
        let is_full = state.ring.len() == state.capacity;
        let oldest = if is_full { state.ring.pop_front() } else { None };
        state.oldest += u64::from(is_full);
        state.ring.push_back(Slot { message, left: receivers });
        let (end, somebody_waits) = (state.end(), !state.waiting.is_empty());
        drop(state);
        drop(oldest);
        if somebody_waits {
            self.shared.tell(end);
        }
        budget::spend(budget::MESSAGE);
        Ok(receivers)
    }

    /// Makes a receiver, which gets the messages that are sent from now on.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver::new(&self.shared)
    }

    /// Returns the number of receivers.
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        self.shared.state.lock().receivers
    }

    /// Returns the number of messages that a receiver has still to receive.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.state.lock().ring.len()
    }

    /// Returns whether [`len`](Sender::len) is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the largest number of messages that the channel keeps.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.shared.state.lock().capacity
    }
}

impl<T> Receiver<T> {
    /// Makes a receiver for what is sent from now on.
    fn new(shared: &Arc<Shared<T>>) -> Receiver<T> {
        let mut state = shared.state.lock();
        state.receivers = state.receivers.checked_add(1).expect("a channel has less than 2^64 receivers");
        let next = state.end();
        drop(state);
        Receiver { shared: Arc::clone(shared), next }
    }

    /// Makes a receiver, which gets the messages that are sent from now on. It does not get the
    /// messages that this one has still to receive.
    #[must_use]
    pub fn resubscribe(&self) -> Receiver<T> {
        Receiver::new(&self.shared)
    }

    /// Returns the number of messages that have been sent and that this receiver has not received.
    /// Those that it has missed count.
    #[must_use]
    pub fn len(&self) -> usize {
        let end = self.shared.state.lock().end();
        usize::try_from(end - self.next).unwrap_or(usize::MAX)
    }

    /// Returns whether [`len`](Receiver::len) is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Clone> Receiver<T> {
    /// Waits for the next message.
    ///
    /// # Errors
    /// [`Lagged`](RecvError::Lagged) if the receiver has missed messages. The next call returns the
    /// oldest that is left. [`Disconnected`](RecvError::Disconnected) if all senders are gone and
    /// no message is left. The same error comes if the calling fibre would have to wait and is
    /// [cancelled](crate::cancel), or a deadline that it carries has passed.
    pub fn recv(&mut self) -> Result<T, RecvError> {
        self.recv_within(Limit::CARRIED).map_err(|error| match error {
            RecvTimeoutError::Lagged(missed) => RecvError::Lagged(missed),
            RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected => RecvError::Disconnected,
        })
    }

    /// As [`recv`](Receiver::recv), but waits no longer than `timeout`.
    ///
    /// # Errors
    /// As for `recv`, and if the time was up first.
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_within(Limit::carried_until(Deadline::after(timeout)))
    }

    /// As [`recv`](Receiver::recv), but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// As for `recv`, and if the time was up first.
    pub fn recv_deadline(&mut self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.recv_within(Limit::carried_until(Deadline::at(deadline)))
    }

    /// As [`recv`](Receiver::recv), for tasks. A future that is dropped before its end has
    /// received nothing.
    ///
    /// # Errors
    /// As for `recv`.
    pub async fn recv_async(&mut self) -> Result<T, RecvError> {
        spend_async().await;
        loop {
            let state = match self.shared.find(&mut self.next) {
                Found::Message(message) => return Ok(take(message)),
                Found::Lagged(missed) => return Err(RecvError::Lagged(missed)),
                Found::Disconnected => return Err(RecvError::Disconnected),
                Found::Nothing(state) => state,
            };
            let (lock, number) = (&self.shared.state, self.next);
            wait_in_async(
                lock,
                state,
                |state| &mut state.waiting,
                End::Back.of(Why::at(Reason::Broadcast, lock)),
                number,
                || (),
                |_, _| (),
            )
            .await;
        }
    }

    /// Receives a message if there is one.
    ///
    /// # Errors
    /// If there is none; if messages have been missed; if there will be none because all senders
    /// are gone.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        match self.shared.find(&mut self.next) {
            Found::Message(message) => Ok(take(message)),
            Found::Lagged(missed) => Err(TryRecvError::Lagged(missed)),
            Found::Disconnected => Err(TryRecvError::Disconnected),
            Found::Nothing(_) => Err(TryRecvError::Empty),
        }
    }

    fn recv_within(&mut self, limit: Limit) -> Result<T, RecvTimeoutError> {
        loop {
            let state = match self.shared.find(&mut self.next) {
                Found::Message(message) => {
                    budget::spend(budget::MESSAGE);
                    return Ok(take(message));
                }
                Found::Lagged(missed) => return Err(RecvTimeoutError::Lagged(missed)),
                Found::Disconnected => {
                    budget::spend(budget::MESSAGE);
                    return Err(RecvTimeoutError::Disconnected);
                }
                Found::Nothing(state) => state,
            };
            let (lock, number) = (&self.shared.state, self.next);
            match wait_in(
                lock,
                state,
                |state| &mut state.waiting,
                End::Back.of(Why::at(Reason::Broadcast, lock)),
                number,
                limit,
                || (),
            )
            .0
            {
                Outcome::Told => {}
                Outcome::TimedOut => return Err(RecvTimeoutError::Timeout),
                Outcome::Cancelled => return Err(RecvTimeoutError::Disconnected),
            }
        }
    }
}

/// Returns a message that was received. The last receiver of a message need not clone it.
fn take<T: Clone>(message: Arc<T>) -> T {
    Arc::try_unwrap(message).unwrap_or_else(|message| T::clone(&message))
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        let mut state = self.shared.state.lock();
        state.senders = state.senders.checked_add(1).expect("a channel has less than 2^64 senders");
        drop(state);
        Sender { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.senders -= 1;
        let is_last = state.senders == 0;
        drop(state);
        if is_last {
            self.shared.tell(u64::MAX);
        }
    }
}

impl<T> Drop for Receiver<T> {
    /// Passes over the messages that it has not received. The last receiver of a message drops it.
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.receivers -= 1;
        // Later messages do not count this receiver.
        let end = state.end();
        loop {
            let mut passed = Vec::new();
            self.next = self.next.max(state.oldest);
            while self.next < end && passed.len() < LARGEST_BATCH {
                passed.push(state.receive(self.next));
                self.next += 1;
            }
            // A receiver that has received all goes without an allocation.
            drop(state);
            if passed.is_empty() {
                return;
            }
            drop(passed);
            state = self.shared.state.lock();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt_end("Sender", f)
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt_end("Receiver", f)
    }
}

/// Why no message was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// The receiver was too slow: this number of messages made room for later ones.
    Lagged(u64),
    /// All senders are gone, and no message is left.
    Disconnected,
}

/// Why no message was received in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvTimeoutError {
    /// The receiver was too slow: this number of messages made room for later ones.
    Lagged(u64),
    /// The time was up before there was a message.
    Timeout,
    /// All senders are gone, and no message is left.
    Disconnected,
}

/// Why no message was received at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// The receiver was too slow: this number of messages made room for later ones.
    Lagged(u64),
    /// There is no message yet.
    Empty,
    /// All senders are gone, and no message is left.
    Disconnected,
}

const CLOSED: &str = "receiving on a closed channel";

fn fmt_lagged(missed: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "the receiver was too slow and has missed {missed} messages")
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::Lagged(missed) => fmt_lagged(*missed, f),
            RecvError::Disconnected => f.write_str(CLOSED),
        }
    }
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvTimeoutError::Lagged(missed) => fmt_lagged(*missed, f),
            RecvTimeoutError::Timeout => f.write_str("timed out waiting on channel"),
            RecvTimeoutError::Disconnected => f.write_str(CLOSED),
        }
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryRecvError::Lagged(missed) => fmt_lagged(*missed, f),
            TryRecvError::Empty => f.write_str("receiving on an empty channel"),
            TryRecvError::Disconnected => f.write_str(CLOSED),
        }
    }
}

impl std::error::Error for RecvError {}
impl std::error::Error for RecvTimeoutError {}
impl std::error::Error for TryRecvError {}
