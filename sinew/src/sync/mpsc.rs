//! Channels with any number of senders and one receiver: `std::sync::mpsc` for
//! fibres, and kernel threads too.
//!
//! The functions, types and errors are std's, so changing the `use` line is the whole port.
//! Operations that wait have forms with a deadline besides. The channels are those of
//! [`mpmc`], which says in which order messages and waiters are served. Here the receiver
//! cannot be cloned or shared.
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
/// The sending end of a [`sync_channel`].
#[doc(inline)]
pub use super::mpmc::Sender as SyncSender;
pub use super::mpmc::{IntoIter, Iter, TryIter};
pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

/// Makes a channel that always has room.
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpmc::channel();
    (Sender { sender }, Receiver::new(receiver))
}

/// Makes a channel that holds up to `bound` messages. Senders wait while it is full. With a
/// bound of 0 each sender waits until the receiver has taken its message. Memory is allocated
/// as the channel fills.
#[must_use]
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    let (sender, receiver) = mpmc::sync_channel(bound);
    (sender, Receiver::new(receiver))
}

/// The sending end of a [`channel`].
pub struct Sender<T> {
    sender: mpmc::Sender<T>,
}

/// The receiving end of a channel. There is one; it may be sent, and cannot be shared.
pub struct Receiver<T> {
    receiver: mpmc::Receiver<T>,
    not_sync: PhantomData<Cell<()>>,
}

impl<T> RefUnwindSafe for Receiver<T> {}

impl<T> Sender<T> {
    pub(super) fn core(&self) -> &Core<T> {
        self.sender.core()
    }

    /// Sends a message. Never waits, but gives others a turn now and then: see [`mpmc`]. So
    /// there is no form for tasks: they call this one.
    ///
    /// # Errors
    /// If the receiver is gone. The message is in the error.
    #[inline(always)]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.sender.core().send_unbounded(message)
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
    /// If all senders are gone and no message is left. The same error comes if the calling fibre
    /// would have to wait and is cancelled, or a deadline that it carries has passed.
    #[inline(always)]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.receiver.recv()
    }

    /// Receives a message if there is one.
    ///
    /// # Errors
    /// If there is none; if there will be none because all senders are gone.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.receiver.try_recv()
    }

    /// As [`recv`](Receiver::recv), for tasks. A future that is dropped before its end has
    /// received nothing.
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

    /// Returns an iterator that waits for each message. It ends when
    /// [`recv`](Receiver::recv) returns an error.
    pub fn iter(&self) -> Iter<'_, T> {
        self.receiver.iter()
    }

    /// Returns an iterator over the messages that are there. It does not wait for more.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        self.receiver.try_iter()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender { sender: self.sender.clone() }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core().fmt_end("Sender", f)
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core().fmt_end("Receiver", f)
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
