//! TCP connections, with std's methods.

use super::address::Address;
use super::addrs::{ToSocketAddrs, each, each_async, invalid};
use super::socket::Socket;
use crate::base::Deadline;
use rustix::net::{AddressFamily, RecvFlags, SocketType, sockopt};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use std::{fmt, io};

/// A TCP connection: `std::net::TcpStream` for fibres and tasks.
#[derive(Clone)]
pub struct TcpStream {
    socket: Socket,
}

handle!(TcpStream, std::net::TcpStream);
timeouts!(TcpStream);
stream!(TcpStream, read, read_until, read_async, poll_read);

/// Returns the family of sockets for this address.
pub(super) fn family(address: &SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

impl TcpStream {
    pub(super) fn of(socket: Socket) -> TcpStream {
        TcpStream { socket }
    }

    /// Connects to the first of these addresses that answers.
    ///
    /// # Errors
    /// The kernel's.
    pub fn connect<A: ToSocketAddrs>(addresses: A) -> io::Result<TcpStream> {
        each(addresses, |address| Self::connect_until(&address, Deadline::NEVER))
    }

    /// As [`connect`](TcpStream::connect), but waits no longer than `timeout`.
    ///
    /// # Errors
    /// The kernel's, or `TimedOut`; `InvalidInput` for a timeout of zero.
    pub fn connect_timeout(address: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        if timeout.is_zero() {
            return Err(invalid("cannot set a 0 duration timeout"));
        }
        Self::connect_until(address, Deadline::after(timeout))
    }

    /// As [`connect`](TcpStream::connect), but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// The kernel's, or `TimedOut`.
    pub fn connect_deadline(address: &SocketAddr, deadline: Instant) -> io::Result<TcpStream> {
        Self::connect_until(address, Deadline::at(deadline))
    }

    /// As [`connect`](TcpStream::connect), for tasks. Dropped before its end, it closes the
    /// connection.
    ///
    /// ```
    /// use sinew::net::{TcpListener, TcpStream};
    /// sinew::run(|| {
    ///     let listener = TcpListener::bind("localhost:0")?;
    ///     let port = listener.local_addr()?.port();
    ///     let task = sinew::task::spawn(async move { TcpStream::connect_async(("localhost", port)).await });
    ///     let (_, from) = listener.accept()?;
    ///     assert_eq!(task.join().unwrap()?.local_addr()?, from);
    ///     std::io::Result::Ok(())
    /// })
    /// # .unwrap();
    /// ```
    ///
    /// # Errors
    /// The kernel's, and those of the lookup of a name.
    pub async fn connect_async<A: ToSocketAddrs>(addresses: A) -> io::Result<TcpStream> {
        each_async(addresses, async |address| {
            let socket = Socket::new(family(&address), SocketType::STREAM)?;
            socket.connect_async(&Address::from(address)).await?;
            Ok(TcpStream { socket })
        })
        .await
    }

    /// As [`peek`](TcpStream::peek), for tasks.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn peek_async(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.receive_async(buffer, RecvFlags::PEEK).await
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    fn connect_until(address: &SocketAddr, deadline: Deadline) -> io::Result<TcpStream> {
        let socket = Socket::new(family(address), SocketType::STREAM)?;
        socket.connect(&Address::from(*address), deadline)?;
        Ok(TcpStream { socket })
    }

    /// As [`read_deadline`](TcpStream::read_deadline), into a buffer that `lend` makes only when
    /// there may be something to receive: a connection that waits needs no buffer. Returns the
    /// buffer and the number of bytes; 0 bytes mean the end.
    ///
    /// `lend` is called again if nothing was there after all. The buffer before has been dropped
    /// then.
    ///
    /// ```
    /// use sinew::net::{TcpListener, TcpStream};
    /// use std::io::Write;
    /// use std::time::{Duration, Instant};
    ///
    /// sinew::run(|| {
    ///     let listener = TcpListener::bind("127.0.0.1:0")?;
    ///     let mut client = TcpStream::connect(listener.local_addr()?)?;
    ///     let (stream, _) = listener.accept()?;
    ///     client.write_all(b"hello")?;
    ///     let deadline = Instant::now() + Duration::from_secs(5);
    ///     let (buffer, count) = stream.read_lent(deadline, || vec![0; 100])?;
    ///     assert_eq!(&buffer[..count], b"hello");
    ///     Ok(())
    /// })
    /// # .map_err(|error: std::io::Error| panic!("{error}"));
    /// ```
    ///
    /// # Errors
    /// The kernel's; `TimedOut` beyond the deadline.
    pub fn read_lent<B: AsMut<[u8]>>(&self, deadline: Instant, lend: impl FnMut() -> B) -> io::Result<(B, usize)> {
        self.socket.read_lent(deadline, lend)
    }

    /// Waits for bytes as `read` does, but leaves them there.
    ///
    /// # Errors
    /// The kernel's.
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.receive(buffer, RecvFlags::PEEK)
    }

    /// Sets whether small writes are sent at once.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        Ok(sockopt::set_tcp_nodelay(self.socket.fd()?, nodelay)?)
    }

    /// Returns whether small writes are sent at once.
    ///
    /// # Errors
    /// The kernel's.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(sockopt::tcp_nodelay(self.socket.fd()?)?)
    }

    /// Sets the number of hops that a packet may take.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.socket.set_ttl(ttl)
    }

    /// Returns the number of hops that a packet may take.
    ///
    /// # Errors
    /// The kernel's.
    pub fn ttl(&self) -> io::Result<u32> {
        self.socket.ttl()
    }

    /// Returns the address of the other end.
    ///
    /// # Errors
    /// The kernel's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.peer_address()?.try_into()
    }

    /// Returns the address of this end.
    ///
    /// # Errors
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_address()?.try_into()
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("TcpStream");
        debug.field("addr", &self.local_addr().ok()).field("peer", &self.peer_addr().ok());
        debug.field("fd", &self.socket.number()).finish()
    }
}
