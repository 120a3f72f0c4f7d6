//! Channels for one message.
//!
//! ```
//! use sinew::sync::oneshot;
//!
//! sinew::run(|| {
//!     let (answer, question) = oneshot::channel();
//!     sinew::spawn(move || answer.send(6 * 7));
//!     assert_eq!(question.recv(), Ok(42));
//! });
//! ```

use super::channel::Core;
use crate::base::Deadline;
use crate::wait::Limit;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::RefUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, TryRecvError};

/// Makes a channel for one message.
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let core = Arc::new(Core::new(1));
    (Sender { core: Some(Arc::clone(&core)) }, Receiver { core, not_sync: PhantomData })
}

/// The right to send the message.
pub struct Sender<T> {
    /// Until the message is sent.
    core: Option<Arc<Core<T, Option<T>>>>,
}

/// The right to receive the message.
pub struct Receiver<T> {
    core: Arc<Core<T, Option<T>>>,
    not_sync: PhantomData<Cell<()>>,
}

impl<T> RefUnwindSafe for Receiver<T> {}

impl<T> Sender<T> {
    /// Sends the message. Never waits.
    ///
    /// # Errors
    /// The message, if the receiver is gone.
    pub fn send(mut self, message: T) -> Result<(), T> {
        let core = self.core.take().expect("one message is sent");
        core.send_last(message)
    }

    /// Returns whether the receiver is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.core.as_ref().is_none_or(|core| !core.has_receivers())
    }
}

impl<T> Receiver<T> {
    pub(super) fn core(&self) -> &Core<T, Option<T>> {
        &self.core
    }

    /// Waits for the message.
    ///
    /// # Errors
    /// If the sender is gone and has sent no message, or the message has been received already.
    /// The same error comes if the calling fibre would have to wait and is cancelled, or a
    /// deadline that it carries has passed.
    #[inline(always)]
    pub fn recv(self) -> Result<T, RecvError> {
        self.core.recv_carried()
    }

    /// As [`recv`](Receiver::recv), for tasks. A future that is dropped before its end has
    /// received nothing, and the receiver may try again.
    ///
    /// # Errors
    /// If the sender is gone and has sent no message, or the message has been received already.
    pub async fn recv_async(&mut self) -> Result<T, RecvError> {
        self.core.recv_async().await
    }

    /// Receives the message if it is there.
    ///
    /// # Errors
    /// If it is not there; if it will not come, because the sender is gone or the message has
    /// been received already.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.core.try_recv()
    }

    /// As [`recv`](Receiver::recv), but waits no longer than `timeout`.
    ///
    /// # Errors
    /// As for `recv`, and if the time was up first. Then the message may still come.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_until(Deadline::after(timeout))
    }

    /// As [`recv`](Receiver::recv), but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// As for `recv`, and if the time was up first. Then the message may still come.
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.recv_until(Deadline::at(deadline))
    }

    pub(crate) fn recv_until(&self, deadline: Deadline) -> Result<T, RecvTimeoutError> {
        self.core.recv(Limit::carried_until(deadline))
    }

    /// Returns whether no message will come: the sender is gone, and its message, if it sent
    /// one, has been received.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.core.is_exhausted()
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if let Some(core) = &self.core {
            core.remove_sender();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.core.remove_receiver();
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.core {
            Some(core) => core.fmt_end("Sender", f),
            None => f.debug_struct("Sender").finish_non_exhaustive(),
        }
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.fmt_end("Receiver", f)
    }
}
