//! One connection.

use rustix::net::{RecvFlags, recv};
use sinew::cancel::Cancelled;
use sinew::net::{Shutdown, TcpStream};
use std::io::{self, Read, Write};
use std::sync::{Arc, Weak};
use std::time::Instant;
use ureq::unversioned::transport::{Buffers, LazyBuffers, NextTimeout, ShutdownHandle, Transport};
use ureq::{Error, Timeout};

/// A connection of ureq's over a socket of [`sinew::net`].
#[derive(Debug)]
pub struct SinewTransport {
    socket: Arc<Socket>,
    buffers: LazyBuffers,
}

/// The socket, shared weakly with the agent, whose `shutdown` ends it.
#[derive(Debug)]
struct Socket(TcpStream);

impl ShutdownHandle for Socket {
    fn shutdown(&self) {
        // An error says that the other end is gone already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl SinewTransport {
    /// Wraps a stream. The sizes are those of the buffers, which are allocated when they are used.
    #[must_use]
    pub fn new(stream: TcpStream, input_bytes: usize, output_bytes: usize) -> SinewTransport {
        SinewTransport { socket: Arc::new(Socket(stream)), buffers: LazyBuffers::new(input_bytes, output_bytes) }
    }

    pub(crate) fn shutdown_handle(&self) -> Weak<dyn ShutdownHandle> {
        let socket: Weak<Socket> = Arc::downgrade(&self.socket);
        socket
    }
}

impl Transport for SinewTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let timeout = timeout.for_write();
        let deadline = deadline(timeout)?;
        let (mut stream, mut rest) = (&self.socket.0, &self.buffers.output()[..amount]);
        while !rest.is_empty() {
            let written = match deadline {
                None => stream.write(rest),
                Some(deadline) => stream.write_deadline(rest, deadline),
            };
            match written {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(count) => rest = &rest[count..],
                Err(error) => return Err(failure(error, timeout.reason)),
            }
        }
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = timeout.for_read();
        let deadline = deadline(timeout)?;
        let (mut stream, room) = (&self.socket.0, self.buffers.input_append_buf());
        let received = match deadline {
            None => stream.read(room),
            Some(deadline) => stream.read_deadline(room, deadline),
        };
        let count = received.map_err(|error| failure(error, timeout.reason))?;
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    /// Returns whether the connection is idle: the other end has neither closed it nor sent
    /// anything. Asks the kernel directly: ureq holds a lock of std's here, so the fibre may not
    /// give way.
    fn is_open(&mut self) -> bool {
        let peeked = recv(&self.socket.0, &mut [0_u8], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        matches!(peeked, Err(rustix::io::Errno::AGAIN))
    }
}

/// Returns the moment at which `timeout` is over, or `None` if it never is.
///
/// # Errors
/// `Timeout` if it is over already.
pub(crate) fn deadline(timeout: NextTimeout) -> Result<Option<Instant>, Error> {
    if timeout.after.is_not_happening() {
        return Ok(None);
    }
    if timeout.after.is_zero() {
        return Err(Error::Timeout(timeout.reason));
    }
    Ok(Instant::now().checked_add(*timeout.after))
}

/// Returns ureq's error for an error of the socket. A limit that the fibre carries is not a timeout
/// of ureq's: its error keeps the [`Cancelled`].
pub(crate) fn failure(error: io::Error, reason: Timeout) -> Error {
    let is_cancelled = error.get_ref().is_some_and(|source| source.is::<Cancelled>());
    if error.kind() == io::ErrorKind::TimedOut && !is_cancelled { Error::Timeout(reason) } else { error.into() }
}
