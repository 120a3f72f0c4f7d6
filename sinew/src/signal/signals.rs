//! `Signals`: a listener.

use super::number::{Set, Signal};
use super::registry::{Place, listen};
use crate::cancel::{self, Cancelled};
use crate::sync::mpmc::{self, Receiver, RecvTimeoutError};
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

/// A listener for signals. Several listeners of the same signal all see it.
///
/// While a signal has a listener, it does not have its usual effect: SIGTERM does not end the
/// process. A handler that another library installed before is called as well. When the last
/// listener is dropped, the signal does again what it did before.
///
/// A listener sees the signals that come after it was made. As in the kernel, a signal that comes
/// several times before it is received is received once. Different signals are received in the order
/// in which they came, or in the order of their numbers if they came at the same time.
///
/// ```
/// use sinew::process::Command;
/// use sinew::signal::{Signal, Signals};
/// sinew::run(|| {
///     let signals = Signals::new([Signal::USR1, Signal::TERM]).unwrap();
///     let id = std::process::id().to_string();
///     let kill = |signal: &str| Command::new("kill").args([signal, &id]).status();
///     kill("-USR1").unwrap();
///     assert_eq!(signals.recv().unwrap(), Signal::USR1);
///     kill("-TERM").unwrap();
///     assert_eq!(signals.recv().unwrap(), Signal::TERM);
/// });
/// ```
pub struct Signals {
    // Before the receiver: the sender is dropped first.
    _place: Place,
    caught: Receiver<Signal>,
    listened: Set,
}

impl Signals {
    /// Listens for these signals from now on.
    ///
    /// # Errors
    /// `InvalidInput` if there are no signals, or if nobody can wait for one of them: SIGKILL and
    /// SIGSTOP, which the kernel does not let a process catch; faults such as SIGSEGV, whose thread
    /// cannot go on; 32 and 33, which the C library needs. Others are the kernel's.
    ///
    /// ```
    /// use sinew::signal::{Signal, Signals};
    /// let error = Signals::new([Signal::TERM, Signal::KILL]).unwrap_err();
    /// assert_eq!(error.to_string(), "SIGKILL: the kernel does not let a process catch it");
    /// ```
    pub fn new(signals: impl IntoIterator<Item = Signal>) -> io::Result<Signals> {
        let listened = signals.into_iter().fold(Set::default(), Set::with);
        let refusal = match listened.iter().find_map(|signal| Some((signal, signal.refusal()?))) {
            Some((signal, why)) => Some(format!("{signal}: {why}")),
            None => listened.is_empty().then(|| "a listener needs at least one signal".to_owned()),
        };
        if let Some(refusal) = refusal {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, refusal));
        }
        let (sender, caught) = mpmc::channel();
        Ok(Signals { _place: listen(listened, sender)?, caught, listened })
    }

    /// Waits for the next signal. A fibre waits without blocking its processor; a kernel thread may
    /// call this as well.
    ///
    /// # Errors
    /// [`Cancelled`].
    pub fn recv(&self) -> io::Result<Signal> {
        Ok(self.caught.recv().map_err(|_| cancelled())?)
    }

    /// As [`recv`](Signals::recv), for tasks. A future that is dropped before its end has received
    /// nothing.
    pub async fn recv_async(&self) -> Signal {
        self.caught.recv_async().await.expect("the registry sends until this is dropped")
    }

    /// As [`recv`](Signals::recv), but waits no longer than `timeout`.
    ///
    /// # Errors
    /// `TimedOut` as well.
    pub fn recv_timeout(&self, timeout: Duration) -> io::Result<Signal> {
        self.caught.recv_timeout(timeout).map_err(limit_error)
    }

    /// As [`recv`](Signals::recv), but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// `TimedOut` as well.
    pub fn recv_deadline(&self, deadline: Instant) -> io::Result<Signal> {
        self.caught.recv_deadline(deadline).map_err(limit_error)
    }

    /// Returns the next signal if it has come.
    pub fn try_recv(&self) -> Option<Signal> {
        self.caught.try_recv().ok()
    }

    /// Returns an iterator that waits for each signal. It ends when the calling fibre is
    /// [cancelled](crate::cancel).
    pub fn iter(&self) -> Iter<'_> {
        Iter { signals: self }
    }

    /// Returns the channel on which the signals come, for a [`Select`](crate::sync::Select).
    ///
    /// ```
    /// use sinew::signal::{Signal, Signals};
    /// use sinew::sync::{Select, mpsc};
    /// sinew::run(|| {
    ///     let signals = Signals::new([Signal::TERM]).unwrap();
    ///     let (jobs, some_jobs) = mpsc::channel();
    ///     jobs.send("job").unwrap();
    ///     let first = Select::new()
    ///         .recv(&some_jobs, |job| job.unwrap().to_owned())
    ///         .recv(signals.receiver(), |signal| signal.unwrap().to_string())
    ///         .run();
    ///     assert_eq!(first, "job");
    /// });
    /// ```
    pub fn receiver(&self) -> &Receiver<Signal> {
        &self.caught
    }
}

/// Returns the reason why a wait without a limit of its own has ended.
fn cancelled() -> Cancelled {
    // The channel is open, so the caller was cancelled or is overdue, and stays so.
    cancel::check().err().unwrap_or(Cancelled::Requested)
}

fn limit_error(error: RecvTimeoutError) -> io::Error {
    match error {
        RecvTimeoutError::Timeout => io::Error::new(io::ErrorKind::TimedOut, "no signal came in time"),
        RecvTimeoutError::Disconnected => cancelled().into(),
    }
}

/// See [`Signals::iter`].
#[derive(Debug)]
pub struct Iter<'a> {
    signals: &'a Signals,
}

impl Iterator for Iter<'_> {
    type Item = Signal;

    fn next(&mut self) -> Option<Signal> {
        self.signals.recv().ok()
    }
}

/// As [`Iter`], but owns its listener.
#[derive(Debug)]
pub struct IntoIter {
    signals: Signals,
}

impl Iterator for IntoIter {
    type Item = Signal;

    fn next(&mut self) -> Option<Signal> {
        self.signals.recv().ok()
    }
}

impl<'a> IntoIterator for &'a Signals {
    type Item = Signal;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl IntoIterator for Signals {
    type Item = Signal;
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        IntoIter { signals: self }
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Signals").field(&self.listened.iter().collect::<Vec<_>>()).finish()
    }
}
