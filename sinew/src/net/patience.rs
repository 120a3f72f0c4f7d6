//! Waiting for what the kernel does not report.

use super::socket::Socket;
use crate::base::Deadline;
use crate::time::{sleep_async, try_sleep};
use std::io;
use std::time::Duration;

/// How long to wait before the next attempt: longer each time.
pub(crate) struct Patience {
    next: Duration,
    longest: Duration,
}

impl Patience {
    pub(crate) const fn new(first: Duration, longest: Duration) -> Patience {
        Patience { next: first, longest }
    }

    /// For the full queue of a Unix socket. Unmeasured.
    pub(crate) const fn of_full_queue() -> Patience {
        Patience::new(Duration::from_micros(50), Duration::from_millis(5))
    }

    /// Waits for the next moment to try, for a task.
    pub(crate) async fn wait_async(&mut self) {
        sleep_async(self.next).await;
        self.next = self.longest.min(self.next * 2);
    }

    /// Waits for the next moment to try.
    ///
    /// # Errors
    /// `WouldBlock` beyond the deadline; that of [`Cancelled`](crate::cancel::Cancelled).
    pub(crate) fn wait(&mut self, deadline: Deadline) -> io::Result<()> {
        if deadline.is_past() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        try_sleep(self.next.min(deadline.remaining()))?;
        self.next = self.longest.min(self.next * 2);
        Ok(())
    }
}

/// Accepts a connection. While there are no descriptors or no memory for it, it stays in the
/// backlog, and this tries again.
pub(crate) fn accept_patiently<T>(socket: &Socket, mut accept: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut patience = Patience::new(Duration::from_millis(10), Duration::from_secs(1));
    loop {
        match accept() {
            Err(error) if is_shortage(&error) && !socket.is_nonblocking() => patience.wait(Deadline::NEVER)?,
            accepted => return accepted,
        }
    }
}

fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// Makes an attempt that may find the queue of a Unix socket full. The kernel reports room in
/// the queue only to sockets that are connected to it, so this tries again from time to time.
pub(crate) fn into_full_queue<T>(
    socket: &Socket,
    deadline: Deadline,
    mut attempt: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let mut patience = Patience::of_full_queue();
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !socket.is_nonblocking() => {
                patience.wait(deadline)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// As [`into_full_queue`], for a task.
pub(crate) async fn into_full_queue_async<T>(
    socket: &Socket,
    mut attempt: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let mut patience = Patience::of_full_queue();
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !socket.is_nonblocking() => {
                patience.wait_async().await;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
