//! Unix streams and their listeners, with std's methods.

use super::address::Address;
use super::addrs::invalid;
use super::patience::{accept_patiently, into_full_queue, into_full_queue_async};
use super::socket::Socket;
use crate::base::Deadline;
use crate::time;
use rustix::net::{AddressFamily, SocketType};
use std::iter::FusedIterator;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fmt, io};

/// A Unix stream: `std::os::unix::net::UnixStream` for fibres and tasks.
#[derive(Clone)]
pub struct UnixStream {
    socket: Socket,
}

handle!(UnixStream, std::os::unix::net::UnixStream);
timeouts!(UnixStream);
stream!(UnixStream, read_unix, read_unix_until, read_unix_async, poll_read_unix);

/// A Unix socket that accepts connections: `std::os::unix::net::UnixListener` for fibres and
/// tasks.
#[derive(Clone)]
pub struct UnixListener {
    socket: Socket,
}

handle!(UnixListener, std::os::unix::net::UnixListener);

/// See [`UnixListener::incoming`].
#[derive(Debug)]
pub struct UnixIncoming<'a> {
    listener: &'a UnixListener,
}

impl UnixStream {
    /// Connects to the listener at this path. Waits while its backlog is full.
    ///
    /// # Errors
    /// The kernel's.
    pub fn connect<P: AsRef<Path>>(path: P) -> io::Result<UnixStream> {
        UnixStream::connect_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Connects to the listener at this address, which may be an abstract name.
    ///
    /// # Errors
    /// The kernel's.
    pub fn connect_addr(address: &SocketAddr) -> io::Result<UnixStream> {
        UnixStream::connect_until(address, Deadline::NEVER)
    }

    /// As [`connect_addr`](UnixStream::connect_addr), but waits no longer than until
    /// `deadline`.
    ///
    /// # Errors
    /// The kernel's, or `TimedOut`.
    pub fn connect_deadline(address: &SocketAddr, deadline: Instant) -> io::Result<UnixStream> {
        UnixStream::connect_until(address, Deadline::at(deadline)).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "connection timed out"),
            _ => error,
        })
    }

    /// As [`connect_addr`](UnixStream::connect_addr), for tasks.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn connect_async(address: &SocketAddr) -> io::Result<UnixStream> {
        let address = Address::try_from(address)?;
        let socket = Socket::new(AddressFamily::UNIX, SocketType::STREAM)?;
        into_full_queue_async(&socket, || socket.connect_at_once(&address)).await?;
        Ok(UnixStream { socket })
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    fn connect_until(address: &SocketAddr, deadline: Deadline) -> io::Result<UnixStream> {
        let address = Address::try_from(address)?;
        let socket = Socket::new(AddressFamily::UNIX, SocketType::STREAM)?;
        into_full_queue(&socket, deadline, || socket.connect_at_once(&address))?;
        Ok(UnixStream { socket })
    }

    /// Makes two streams that are connected to each other.
    ///
    /// # Errors
    /// The kernel's.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (first, second) = Socket::pair(SocketType::STREAM)?;
        Ok((UnixStream { socket: first }, UnixStream { socket: second }))
    }

    /// Returns the address of this end.
    ///
    /// # Errors
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_address()?.try_into()
    }

    /// Returns the address of the other end.
    ///
    /// # Errors
    /// The kernel's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.peer_address()?.try_into()
    }

    /// Sends at least one byte, and copies of these descriptors with the first byte. Returns the
    /// number of bytes that were sent. If bytes were sent, the descriptors were.
    ///
    /// ```
    /// use sinew::net::UnixStream;
    /// use std::io::{Read, Write};
    /// use std::os::fd::AsFd;
    /// sinew::run(|| {
    ///     let (here, there) = UnixStream::pair()?;
    ///     let (mut near, far) = UnixStream::pair()?;
    ///     here.send_with_fds(b"take it", &[far.as_fd()])?;
    ///     drop(far);
    ///     let (count, mut received) = there.recv_with_fds(&mut [0; 16], 1)?;
    ///     let mut far = UnixStream::from(received.remove(0));
    ///     assert_eq!(count, 7);
    ///     far.write_all(b"yes")?;
    ///     let mut buffer = [0; 3];
    ///     near.read_exact(&mut buffer)?;
    ///     assert_eq!(&buffer, b"yes");
    ///     std::io::Result::Ok(())
    /// })
    /// # .unwrap();
    /// ```
    ///
    /// # Errors
    /// The kernel's; `InvalidInput` without a byte, or with more than 253 descriptors.
    pub fn send_with_fds(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        if bytes.is_empty() && !fds.is_empty() {
            return Err(invalid("descriptors have to go with a byte"));
        }
        self.socket.send_with_fds(bytes, fds)
    }

    /// Receives bytes, and up to `max` descriptors that were sent with them. They are closed on
    /// `exec`. If more were sent, the others are closed. A call returns no bytes beyond those that
    /// the descriptors came with.
    ///
    /// # Errors
    /// The kernel's.
    pub fn recv_with_fds(&self, buffer: &mut [u8], max: usize) -> io::Result<(usize, Vec<OwnedFd>)> {
        self.socket.receive_with_fds(buffer, max)
    }
}

impl UnixListener {
    /// Listens at this path, where nothing may be yet.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixListener> {
        UnixListener::bind_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Listens at this address, which may be an abstract name.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind_addr(address: &SocketAddr) -> io::Result<UnixListener> {
        let socket = Socket::new(AddressFamily::UNIX, SocketType::STREAM)?;
        socket.bind(&Address::try_from(address)?)?;
        socket.listen(4096)?;
        Ok(UnixListener { socket })
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// The kernel's; see [`TcpListener::accept`](super::TcpListener::accept).
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        named(self.socket.accept()?)
    }

    /// As [`accept`](UnixListener::accept), for tasks. Dropped before its end, it has accepted nothing.
    ///
    /// # Errors
    /// As `accept`.
    pub async fn accept_async(&self) -> io::Result<(UnixStream, SocketAddr)> {
        named(self.socket.accept_async().await?)
    }

    /// As [`accept`](UnixListener::accept), but waits no longer than `timeout`.
    ///
    /// # Errors
    /// The kernel's, or `TimedOut`.
    pub fn accept_timeout(&self, timeout: Duration) -> io::Result<(UnixStream, SocketAddr)> {
        match time::now().checked_add(timeout) {
            Some(deadline) => self.accept_deadline(deadline),
            None => self.accept(),
        }
    }

    /// As [`accept`](UnixListener::accept), but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// The kernel's, or `TimedOut`.
    pub fn accept_deadline(&self, deadline: Instant) -> io::Result<(UnixStream, SocketAddr)> {
        named(self.socket.accept_until(deadline)?)
    }

    /// Returns an iterator over connections that never ends. It waits while no descriptor is left,
    /// as [`TcpListener::incoming`](super::TcpListener::incoming) does.
    pub fn incoming(&self) -> UnixIncoming<'_> {
        UnixIncoming { listener: self }
    }

    /// Returns the address of the listener.
    ///
    /// # Errors
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_address()?.try_into()
    }
}

fn named((socket, address): (Socket, Address)) -> io::Result<(UnixStream, SocketAddr)> {
    Ok((UnixStream { socket }, address.try_into()?))
}

impl Iterator for UnixIncoming<'_> {
    type Item = io::Result<UnixStream>;

    fn next(&mut self) -> Option<io::Result<UnixStream>> {
        let accepted = accept_patiently(&self.listener.socket, || self.listener.accept());
        Some(accepted.map(|(stream, _)| stream))
    }
}

impl FusedIterator for UnixIncoming<'_> {}

impl<'a> IntoIterator for &'a UnixListener {
    type Item = io::Result<UnixStream>;
    type IntoIter = UnixIncoming<'a>;

    fn into_iter(self) -> UnixIncoming<'a> {
        self.incoming()
    }
}

impl fmt::Debug for UnixStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("UnixStream");
        debug.field("local", &self.local_addr().ok()).field("peer", &self.peer_addr().ok());
        debug.field("fd", &self.socket.number()).finish()
    }
}

impl fmt::Debug for UnixListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnixListener")
            .field("local", &self.local_addr().ok())
            .field("fd", &self.socket.number())
            .finish()
    }
}
