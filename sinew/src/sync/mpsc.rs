//! Channels with any number of senders and one receiver: `std::sync::mpsc` for
//! fibres, and kernel threads too.
//!
//! The functions, types and errors are std's, so that changing the `use` line is the
//! whole port; what waits has forms with a deadline besides. For the order of
//! messages and of those who wait see [`mpmc`], whose channels
//! these are.
//!
//! ```
//! use sinew::sync::mpsc;
//!
//! sinew::run(|| {
//!     let (tx, rx) = mpsc::channel();
//!     for number in 0..3 {
//!         let tx = tx.clone();
//!         sinew::spawn(move || tx.send(number).unwrap());
//!     }
//!     drop(tx);
//!     assert_eq!(rx.iter().sum::<i32>(), 3);
//! });
//! ```

use super::channel::Core;
use super::mpmc;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::RefUnwindSafe;
use std::time::{Duration, Instant};

pub use super::channel::SendTimeoutError;
pub use super::mpmc::{IntoIter, Iter, TryIter};
pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

/// A channel that always has room.
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpmc::channel();
    (Sender { sender }, Receiver::new(receiver))
}

/// A channel that holds up to `bound` messages; senders wait when it is full. With a
/// bound of 0 each sender waits until the receiver has taken its message. What the
/// bound permits is not allocated before it is needed.
#[must_use]
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    let (sender, receiver) = mpmc::sync_channel(bound);
    (SyncSender { sender }, Receiver::new(receiver))
}

/// The sending end of a [`channel`].
pub struct Sender<T> {
    sender: mpmc::Sender<T>,
}

/// The sending end of a [`sync_channel`].
pub struct SyncSender<T> {
    sender: mpmc::Sender<T>,
}

/// The receiving end of a channel. There is one; it may be sent, and is not shared.
pub struct Receiver<T> {
    receiver: mpmc::Receiver<T>,
    not_sync: PhantomData<Cell<()>>,
}

impl<T> RefUnwindSafe for Receiver<T> {}

impl<T> Sender<T> {
    pub(super) fn core(&self) -> &Core<T> {
        self.sender.core()
    }

    /// Sends a message. Never waits, but gives others a turn now and then: see
    /// [`mpmc`].
    ///
    /// # Errors
    /// If the receiver is gone. The message is in the error.
    #[inline(always)]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.sender.core().send_unbounded(message)
    }
}

impl<T> SyncSender<T> {
    pub(super) fn core(&self) -> &Core<T> {
        self.sender.core()
    }

    /// Sends a message. Waits until there is room for it; in a channel of bound 0,
    /// until it has been taken.
    ///
    /// # Errors
    /// If the receiver is gone, or goes before the message was accepted. Also, as if
    /// it were gone, if the calling fibre would have to wait and is cancelled, or a
    /// deadline that it carries has passed. The message is in the error.
    #[inline(always)]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.sender.send(message)
    }

    /// Sends a message if that takes no waiting.
    ///
    /// # Errors
    /// If the receiver is gone; if there is no room; in a channel of bound 0, if the
    /// receiver does not wait. The message is in the error.
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.sender.try_send(message)
    }

    /// As [`send`](SyncSender::send), for tasks. Dropped before its end, it has dropped the
    /// message as well.
    ///
    /// # Errors
    /// If the receiver is gone. The message is in the error.
    pub async fn send_async(&self, message: T) -> Result<(), SendError<T>> {
        self.sender.send_async(message).await
    }

    /// As [`send`](SyncSender::send), but waits no longer than `timeout`.
    ///
    /// # Errors
    /// As for `send`, and if the time was up first.
    pub fn send_timeout(&self, message: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        self.sender.send_timeout(message, timeout)
    }

    /// As [`send`](SyncSender::send), but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// As for `send`, and if the time was up first.
    pub fn send_deadline(&self, message: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        self.sender.send_deadline(message, deadline)
    }
}

impl<T> Receiver<T> {
    fn new(receiver: mpmc::Receiver<T>) -> Self {
        Receiver { receiver, not_sync: PhantomData }
    }

    pub(super) fn core(&self) -> &Core<T> {
        self.receiver.core()
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// If all senders are gone and no message is left. Also, as if they were gone, if
    /// the calling fibre would have to wait and is cancelled, or a deadline that it
    /// carries has passed.
    #[inline(always)]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.receiver.recv()
    }

    /// A message, if there is one.
    ///
    /// # Errors
    /// If there is none; if there will be none because all senders are gone.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.receiver.try_recv()
    }

    /// As [`recv`](Receiver::recv), for tasks. Dropped before its end, it has received
    /// nothing.
    ///
    /// # Errors
    /// If all senders are gone and no message is left.
    pub async fn recv_async(&mut self) -> Result<T, RecvError> {
        self.receiver.recv_async().await
    }

    /// As [`recv`](Receiver::recv), but waits no longer than `timeout`.
    ///
    /// # Errors
    /// As for `recv`, and if the time was up first.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.receiver.recv_timeout(timeout)
    }

    /// As [`recv`](Receiver::recv), but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// As for `recv`, and if the time was up first.
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.receiver.recv_deadline(deadline)
    }

    /// The messages as they come, each waited for, until [`recv`](Receiver::recv)
    /// would return an error.
    pub fn iter(&self) -> Iter<'_, T> {
        self.receiver.iter()
    }

    /// The messages that are there, without waiting for more.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        self.receiver.try_iter()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender { sender: self.sender.clone() }
    }
}

impl<T> Clone for SyncSender<T> {
    fn clone(&self) -> Self {
        SyncSender { sender: self.sender.clone() }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for SyncSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncSender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
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
        self.receiver.into_iter()
    }
}
