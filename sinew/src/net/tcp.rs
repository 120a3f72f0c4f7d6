//! TCP, with std's methods.

use super::socket::{Address, Socket};
use crate::io::Side;
use crate::time::Deadline;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

/// A TCP connection: `std::net::TcpStream` for fibres.
#[derive(Clone)]
pub struct TcpStream {
    socket: Socket,
}

/// A TCP socket that accepts connections: `std::net::TcpListener` for fibres.
#[derive(Clone)]
pub struct TcpListener {
    socket: Socket,
}

/// See [`TcpListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

fn family(address: &SocketAddr) -> libc::c_int {
    if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }
}

/// Tries one address after the other.
fn each<T>(addresses: impl ToSocketAddrs, mut attempt: impl FnMut(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let mut last = None;
    for address in addresses.to_socket_addrs()? {
        match attempt(address) {
            Ok(value) => return Ok(value),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any addresses")))
}

impl TcpListener {
    /// As many connections as may wait to be accepted, as with std's.
    const BACKLOG: u32 = 4096;

    /// Listens at this address.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind(addresses: impl ToSocketAddrs) -> io::Result<TcpListener> {
        each(addresses, |address| {
            let socket = Socket::new(family(&address), libc::SOCK_STREAM)?;
            socket.set_option(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
            socket.bind(&Address::from(address))?;
            socket.listen(Self::BACKLOG)?;
            Ok(TcpListener { socket })
        })
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// The kernel's.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (socket, address) = self.socket.accept()?;
        Ok((TcpStream { socket }, address.try_into()?))
    }

    /// Connections, one after the other, for ever.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// The address that it listens at.
    ///
    /// # Errors
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_address()?.try_into()
    }
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl TcpStream {
    /// Connects to the first of these addresses that answers.
    ///
    /// # Errors
    /// The kernel's.
    pub fn connect(addresses: impl ToSocketAddrs) -> io::Result<TcpStream> {
        each(addresses, |address| Self::connect_until(&address, Deadline::NEVER))
    }

    /// As [`connect`](TcpStream::connect), but waits no longer than `timeout`.
    ///
    /// # Errors
    /// The kernel's, or `TimedOut`; `InvalidInput` for a timeout of zero.
    pub fn connect_timeout(address: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        if timeout.is_zero() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "cannot set a 0 duration timeout"));
        }
        Self::connect_until(address, Deadline::after(timeout))
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    fn connect_until(address: &SocketAddr, deadline: Deadline) -> io::Result<TcpStream> {
        let socket = Socket::new(family(address), libc::SOCK_STREAM)?;
        socket.connect(&Address::from(*address), deadline)?;
        Ok(TcpStream { socket })
    }

    /// Another handle to the same connection.
    ///
    /// # Errors
    /// None: the `Result` is std's.
    pub fn try_clone(&self) -> io::Result<TcpStream> {
        Ok(self.clone())
    }

    /// Closes one side or both: whoever waits there goes on.
    ///
    /// # Errors
    /// The kernel's.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.shutdown(how)
    }

    /// Sends what is small at once, too.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.socket.set_option(libc::IPPROTO_TCP, libc::TCP_NODELAY, nodelay.into())
    }

    /// How long a read may wait; `None` is for ever.
    ///
    /// # Errors
    /// `InvalidInput` for a duration of zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.set_timeout(Side::Read, timeout)
    }

    /// How long a write may wait; `None` is for ever.
    ///
    /// # Errors
    /// `InvalidInput` for a duration of zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.set_timeout(Side::Write, timeout)
    }

    /// The address of the other end.
    ///
    /// # Errors
    /// The kernel's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.peer_address()?.try_into()
    }

    /// The address of this end.
    ///
    /// # Errors
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_address()?.try_into()
    }
}

impl Read for &TcpStream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.socket.read_vectored(buffers)
    }
}

impl Write for &TcpStream {
    #[inline]
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.socket.write(buffer)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.socket.write_vectored(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.socket.read_vectored(buffers)
    }
}

impl Write for TcpStream {
    #[inline]
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.socket.write(buffer)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.socket.write_vectored(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for TcpStream {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.raw()
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("TcpStream");
        debug.field("addr", &self.local_addr().ok()).field("peer", &self.peer_addr().ok());
        debug.field("fd", &self.as_raw_fd()).finish()
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener").field("addr", &self.local_addr().ok()).field("fd", &self.socket.raw()).finish()
    }
}
