//! Accepting TCP connections, with std's methods.

use super::address::Address;
use super::addrs::{ToSocketAddrs, each, each_async};
use super::patience::accept_patiently;
use super::raw;
use super::socket::Socket;
use super::tcp::{TcpStream, family};
use crate::time;
use rustix::net::{SocketType, sockopt};
use std::future::ready;
use std::iter::FusedIterator;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use std::{fmt, io};

/// A TCP socket that accepts connections: `std::net::TcpListener` for fibres and tasks.
#[derive(Clone)]
pub struct TcpListener {
    socket: Socket,
}

handle!(TcpListener, std::net::TcpListener);

/// Describes a listener; see [`TcpListener::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct ListenerBuilder {
    backlog: u32,
    reuse_address: bool,
    reuse_port: bool,
    only_v6: Option<bool>,
    silence: Duration,
}

/// See [`TcpListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl ListenerBuilder {
    /// Sets the number of connections that may wait to be accepted. The kernel has a limit of its
    /// own (`net.core.somaxconn`). By default 4096.
    pub fn backlog(mut self, backlog: u32) -> Self {
        self.backlog = backlog;
        self
    }

    /// Sets whether the listener may bind while connections of a former listener at the address
    /// are still being closed (`SO_REUSEADDR`). By default yes, as with std's.
    pub fn reuse_address(mut self, reuse: bool) -> Self {
        self.reuse_address = reuse;
        self
    }

    /// Sets whether several listeners with this option may listen at the address at the same time.
    /// The kernel distributes the connections among them (`SO_REUSEPORT`). By default no.
    pub fn reuse_port(mut self, reuse: bool) -> Self {
        self.reuse_port = reuse;
        self
    }

    /// Sets whether a listener at an IPv6 address refuses connections from IPv4. By default the
    /// system's setting.
    pub fn only_v6(mut self, only: bool) -> Self {
        self.only_v6 = Some(only);
        self
    }

    /// Sets how long the kernel keeps a connection back while the client sends nothing
    /// (`TCP_DEFER_ACCEPT`). A connection that is accepted then has its first bytes, and no fibre
    /// waits for them. For protocols in which the client speaks first. The kernel counts in
    /// seconds, and not precisely. By default connections are not kept back.
    ///
    /// ```
    /// use sinew::net::{TcpListener, TcpStream};
    /// use std::io::Write;
    /// use std::time::Duration;
    ///
    /// let listener = TcpListener::builder().defer(Duration::from_secs(1)).bind("127.0.0.1:0")?;
    /// let mut client = TcpStream::connect(listener.local_addr()?)?;
    /// client.write_all(b"first")?;
    /// let (stream, _) = listener.accept()?;
    /// stream.set_nonblocking(true)?;
    /// assert_eq!(stream.peek(&mut [0; 8])?, 5);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn defer(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// Listens at the first of these addresses where that is possible.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind<A: ToSocketAddrs>(&self, addresses: A) -> io::Result<TcpListener> {
        each(addresses, |address| self.bind_at(address))
    }

    /// As [`bind`](ListenerBuilder::bind), for tasks, which look a name up.
    ///
    /// # Errors
    /// As for `bind`.
    pub async fn bind_async<A: ToSocketAddrs>(&self, addresses: A) -> io::Result<TcpListener> {
        each_async(addresses, |address| ready(self.bind_at(address))).await
    }

    fn bind_at(&self, address: SocketAddr) -> io::Result<TcpListener> {
        let socket = Socket::new(family(&address), SocketType::STREAM)?;
        let fd = socket.fd()?;
        sockopt::set_socket_reuseaddr(fd, self.reuse_address)?;
        if self.reuse_port {
            sockopt::set_socket_reuseport(fd, true)?;
        }
        if let Some(only) = self.only_v6.filter(|_| address.is_ipv6()) {
            sockopt::set_ipv6_v6only(fd, only)?;
        }
        if !self.silence.is_zero() {
            raw::set_defer_accept(fd, self.silence.as_secs_f64().ceil() as i32)?;
        }
        socket.bind(&Address::from(address))?;
        socket.listen(self.backlog)?;
        Ok(TcpListener { socket })
    }
}

impl TcpListener {
    /// Listens at the first of these addresses where that is possible.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind<A: ToSocketAddrs>(addresses: A) -> io::Result<TcpListener> {
        TcpListener::builder().bind(addresses)
    }

    /// As [`bind`](TcpListener::bind), for tasks, which look a name up.
    ///
    /// # Errors
    /// As for `bind`.
    pub async fn bind_async<A: ToSocketAddrs>(addresses: A) -> io::Result<TcpListener> {
        TcpListener::builder().bind_async(addresses).await
    }

    /// Returns a description of a listener, to be completed.
    ///
    /// ```
    /// use sinew::net::TcpListener;
    /// let first = TcpListener::builder().reuse_port(true).backlog(16).bind("127.0.0.1:0")?;
    /// let second = TcpListener::builder().reuse_port(true).bind(first.local_addr()?)?;
    /// assert_eq!(first.local_addr()?, second.local_addr()?);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn builder() -> ListenerBuilder {
        ListenerBuilder {
            backlog: 4096,
            reuse_address: true,
            reuse_port: false,
            only_v6: None,
            silence: Duration::ZERO,
        }
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// The kernel's. When no descriptor is left, that is `EMFILE` or `ENFILE`, at once and every
    /// time: the connection stays in the backlog. See [`incoming`](TcpListener::incoming) for a
    /// loop that copes with it.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        named(self.socket.accept()?)
    }

    /// As [`accept`](TcpListener::accept), for tasks. Dropped before its end, it has accepted nothing.
    ///
    /// # Errors
    /// As `accept`.
    pub async fn accept_async(&self) -> io::Result<(TcpStream, SocketAddr)> {
        named(self.socket.accept_async().await?)
    }

    /// As [`accept`](TcpListener::accept), but waits no longer than `timeout`.
    ///
    /// # Errors
    /// The kernel's, or `TimedOut`.
    pub fn accept_timeout(&self, timeout: Duration) -> io::Result<(TcpStream, SocketAddr)> {
        match time::now().checked_add(timeout) {
            Some(deadline) => self.accept_deadline(deadline),
            None => self.accept(),
        }
    }

    /// As [`accept`](TcpListener::accept), but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// The kernel's, or `TimedOut`.
    pub fn accept_deadline(&self, deadline: Instant) -> io::Result<(TcpStream, SocketAddr)> {
        named(self.socket.accept_until(deadline)?)
    }

    /// Returns an iterator over connections that never ends.
    ///
    /// While no descriptor or no memory is left for another connection, it waits and tries again:
    /// after 10 ms at first, then later, up to a second. No connection is lost by that: it stays
    /// in the backlog. A non-blocking listener returns these errors as
    /// [`accept`](TcpListener::accept) does.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Returns the address of the listener.
    ///
    /// # Errors
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_address()?.try_into()
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
}

fn named((socket, address): (Socket, Address)) -> io::Result<(TcpStream, SocketAddr)> {
    Ok((TcpStream::of(socket), address.try_into()?))
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        let accepted = accept_patiently(&self.listener.socket, || self.listener.accept());
        Some(accepted.map(|(stream, _)| stream))
    }
}

impl FusedIterator for Incoming<'_> {}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener").field("addr", &self.local_addr().ok()).field("fd", &self.socket.number()).finish()
    }
}
