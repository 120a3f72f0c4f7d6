//! Channels with any number of senders and receivers: each message goes to one of
//! the receivers.
//!
//! Messages are received in the order in which they were sent. Waiting senders and receivers
//! are served in the order in which they came. A channel is closed when all ends of one side
//! are dropped. The receivers of a closed channel get the messages that are left. When there
//! are no receivers, these messages are dropped.
//!
//! Fibres, tasks and kernel threads may use the same channel. A fibre that sends or receives
//! about a thousand times without having to wait gives others a turn. Operations whose names
//! begin with `try_` never give way.
//!
//! ```
//! use sinew::sync::mpmc;
//!
//! sinew::run(|| {
//!     let (jobs, todo) = mpmc::sync_channel(8);
//!     let workers: Vec<_> = (0..3)
//!         .map(|_| {
//!             let todo = todo.clone();
//!             sinew::spawn(move || todo.iter().sum::<u32>())
//!         })
//!         .collect();
//!     (1..=100).for_each(|job| jobs.send(job).unwrap());
//!     drop(jobs);
//!     assert_eq!(workers.into_iter().map(|worker| worker.join().unwrap()).sum::<u32>(), 5050);
//! });
//! ```

use super::channel::{Core, UNBOUNDED};
use crate::base::Deadline;
use crate::wait::Limit;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use super::channel::SendTimeoutError;
pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

/// Makes a channel that always has room.
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    with_capacity(UNBOUNDED)
}

/// Makes a channel that holds up to `capacity` messages. Senders wait while it is full. With a
/// capacity of 0 each sender waits until a receiver has taken its message. Memory is allocated
/// as the channel fills. With `usize::MAX` the channel is the same as [`channel`] makes.
#[must_use]
pub fn sync_channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    with_capacity(capacity)
}

fn with_capacity<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let core = Arc::new(Core::new(capacity));
    (Sender { core: Arc::clone(&core) }, Receiver { core })
}

/// The sending end of a channel.
pub struct Sender<T> {
    core: Arc<Core<T>>,
}

/// The receiving end of a channel.
pub struct Receiver<T> {
    core: Arc<Core<T>>,
}

impl<T> Sender<T> {
    #[inline(always)]
    pub(super) fn core(&self) -> &Core<T> {
        &self.core
    }

    /// Sends a message. Waits until there is room for it; in a channel of capacity 0,
    /// until it has been taken.
    ///
    /// # Errors
    /// If all receivers are gone, or go before the message was accepted. The same error comes if
    /// the calling fibre would have to wait and is cancelled, or a deadline that it carries has
    /// passed. The message is in the error.
    #[inline(always)]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.core.send(message, Limit::CARRIED).map_err(|error| SendError(error.into_inner()))
    }

    /// Sends a message if that needs no waiting.
    ///
    /// # Errors
    /// If all receivers are gone; if there is no room; in a channel of capacity 0, if
    /// no receiver waits. The message is in the error.
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.core.try_send(message)
    }

    /// As [`send`](Sender::send), for tasks. A future that is dropped before its end drops the
    /// message as well.
    ///
    /// # Errors
    /// If all receivers are gone. The message is in the error.
    pub async fn send_async(&self, message: T) -> Result<(), SendError<T>> {
        self.core.send_async(message).await
    }

    /// As [`send`](Sender::send), but waits no longer than `timeout`.
    ///
    /// # Errors
    /// As for `send`, and if the time was up first.
    pub fn send_timeout(&self, message: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        self.send_until(message, Deadline::after(timeout))
    }

    /// As [`send`](Sender::send), but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// As for `send`, and if the time was up first.
    pub fn send_deadline(&self, message: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        self.send_until(message, Deadline::at(deadline))
    }

    fn send_until(&self, message: T, deadline: Deadline) -> Result<(), SendTimeoutError<T>> {
        self.core.send(message, Limit::carried_until(deadline))
    }

    /// Returns the number of messages that have been sent and not received. Messages of waiting
    /// senders do not count.
    #[must_use]
    pub fn len(&self) -> usize {
        self.core.len()
    }

    /// Returns whether [`len`](Sender::len) is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the largest number of messages that the channel holds; `None` if there is always
    /// room.
    #[must_use]
    pub fn capacity(&self) -> Option<usize> {
        self.core.capacity()
    }
}

impl<T> Receiver<T> {
    #[inline(always)]
    pub(super) fn core(&self) -> &Core<T> {
        &self.core
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// If all senders are gone and no message is left. The same error comes if the calling fibre
    /// would have to wait and is cancelled, or a deadline that it carries has passed.
    #[inline(always)]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.core.recv_carried()
    }

    /// Receives a message if there is one.
    ///
    /// # Errors
    /// If there is none; if there will be none because all senders are gone.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.core.try_recv()
    }

    /// As [`recv`](Receiver::recv), for tasks. A future that is dropped before its end has
    /// received nothing.
    ///
    /// # Errors
    /// If all senders are gone and no message is left.
    pub async fn recv_async(&self) -> Result<T, RecvError> {
        self.core.recv_async().await
    }

    /// As [`recv`](Receiver::recv), but waits no longer than `timeout`.
    ///
    /// # Errors
    /// As for `recv`, and if the time was up first.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_until(Deadline::after(timeout))
    }

    /// As [`recv`](Receiver::recv), but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// As for `recv`, and if the time was up first.
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.recv_until(Deadline::at(deadline))
    }

    fn recv_until(&self, deadline: Deadline) -> Result<T, RecvTimeoutError> {
        self.core.recv(Limit::carried_until(deadline))
    }

    /// Returns an iterator that waits for each message. It ends when
    /// [`recv`](Receiver::recv) returns an error.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// Returns an iterator over the messages that are there. It does not wait for more.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }

    /// As [`Sender::len`].
    #[must_use]
    pub fn len(&self) -> usize {
        self.core.len()
    }

    /// Returns whether [`len`](Receiver::len) is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As [`Sender::capacity`].
    #[must_use]
    pub fn capacity(&self) -> Option<usize> {
        self.core.capacity()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.core.add_sender();
        Sender { core: Arc::clone(&self.core) }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.core.add_receiver();
        Receiver { core: Arc::clone(&self.core) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.core.remove_sender();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.core.remove_receiver();
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.fmt_end("Sender", f)
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.fmt_end("Receiver", f)
    }
}

/// See [`Receiver::iter`].
#[derive(Debug)]
pub struct Iter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// See [`Receiver::try_iter`].
#[derive(Debug)]
pub struct TryIter<'a, T> {
    receiver: &'a Receiver<T>,
}

/// As [`Iter`], but owns its receiver.
#[derive(Debug)]
pub struct IntoIter<T> {
    receiver: Receiver<T>,
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    #[inline(always)]
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    #[inline(always)]
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self }
    }
}
