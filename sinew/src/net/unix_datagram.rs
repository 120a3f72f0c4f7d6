//! Unix datagrams, with std's methods.

use super::address::Address;
use super::patience::{into_full_queue, into_full_queue_async};
use super::socket::{Socket, overdue};
use crate::base::Deadline;
use crate::io::Side;
use rustix::net::{AddressFamily, RecvFlags, SocketType};
use std::net::Shutdown;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::time::Instant;
use std::{fmt, io};

/// A Unix datagram socket: `std::os::unix::net::UnixDatagram` for fibres and tasks.
#[derive(Clone)]
pub struct UnixDatagram {
    socket: Socket,
}

handle!(UnixDatagram, std::os::unix::net::UnixDatagram);
timeouts!(UnixDatagram);

impl UnixDatagram {
    /// Makes a socket at this path, where nothing may be yet.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixDatagram> {
        UnixDatagram::bind_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Makes a socket at this address, which may be an abstract name.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind_addr(address: &SocketAddr) -> io::Result<UnixDatagram> {
        let datagram = UnixDatagram::unbound()?;
        datagram.socket.bind(&Address::try_from(address)?)?;
        Ok(datagram)
    }

    /// Makes a socket without an address.
    ///
    /// # Errors
    /// The kernel's.
    pub fn unbound() -> io::Result<UnixDatagram> {
        Ok(UnixDatagram { socket: Socket::new(AddressFamily::UNIX, SocketType::DGRAM)? })
    }

    /// Makes two sockets that are connected to each other.
    ///
    /// # Errors
    /// The kernel's.
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (first, second) = Socket::pair(SocketType::DGRAM)?;
        Ok((UnixDatagram { socket: first }, UnixDatagram { socket: second }))
    }

    /// Sets the path that [`send`](UnixDatagram::send) sends to.
    ///
    /// # Errors
    /// The kernel's.
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        self.connect_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Sets the address that [`send`](UnixDatagram::send) sends to.
    ///
    /// # Errors
    /// The kernel's.
    pub fn connect_addr(&self, address: &SocketAddr) -> io::Result<()> {
        self.socket.connect_at_once(&Address::try_from(address)?)
    }

    /// Sends a datagram to the connected address. Waits while the receiver's queue is full.
    ///
    /// # Errors
    /// The kernel's.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(bytes)
    }

    /// As [`send`](UnixDatagram::send), but waits until `deadline`, whatever the timeout.
    ///
    /// # Errors
    /// The kernel's; `TimedOut` beyond the deadline.
    pub fn send_deadline(&self, bytes: &[u8], deadline: Instant) -> io::Result<usize> {
        self.socket.write_until(bytes, deadline)
    }

    /// As [`send`](UnixDatagram::send), for tasks. Dropped before its end, it has sent nothing.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn send_async(&self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write_async(bytes).await
    }

    /// Sends a datagram to this path. See [`send_to_addr`](UnixDatagram::send_to_addr).
    ///
    /// # Errors
    /// The kernel's.
    pub fn send_to<P: AsRef<Path>>(&self, bytes: &[u8], path: P) -> io::Result<usize> {
        self.send_to_addr(bytes, &SocketAddr::from_pathname(path)?)
    }

    /// As [`send_to`](UnixDatagram::send_to), for tasks. Dropped before its end, it has sent
    /// nothing.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn send_to_async<P: AsRef<Path>>(&self, bytes: &[u8], path: P) -> io::Result<usize> {
        self.send_to_addr_async(bytes, &SocketAddr::from_pathname(path)?).await
    }

    /// Sends a datagram to this address. While the receiver's queue is full, it tries again from
    /// time to time: the kernel reports room only to sockets that are connected.
    ///
    /// # Errors
    /// The kernel's.
    pub fn send_to_addr(&self, bytes: &[u8], address: &SocketAddr) -> io::Result<usize> {
        self.send_to_until(bytes, address, self.socket.deadline(Side::Write))
    }

    /// As [`send_to_addr`](UnixDatagram::send_to_addr), but waits until `deadline`, whatever the
    /// timeout.
    ///
    /// # Errors
    /// The kernel's; `TimedOut` beyond the deadline.
    pub fn send_to_addr_deadline(&self, bytes: &[u8], address: &SocketAddr, deadline: Instant) -> io::Result<usize> {
        self.send_to_until(bytes, address, Deadline::at(deadline)).map_err(overdue)
    }

    /// As [`send_to_addr`](UnixDatagram::send_to_addr), for tasks. Dropped before its end, it has
    /// sent nothing.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn send_to_addr_async(&self, bytes: &[u8], address: &SocketAddr) -> io::Result<usize> {
        let address = Address::try_from(address)?;
        into_full_queue_async(&self.socket, || self.socket.try_send_to(bytes, &address)).await
    }

    fn send_to_until(&self, bytes: &[u8], address: &SocketAddr, deadline: Deadline) -> io::Result<usize> {
        let address = Address::try_from(address)?;
        into_full_queue(&self.socket, deadline, || self.socket.try_send_to(bytes, &address))
    }

    /// Waits for a datagram. Bytes that do not fit are lost.
    ///
    /// # Errors
    /// The kernel's.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.receive(buffer, RecvFlags::empty())
    }

    /// As [`recv`](UnixDatagram::recv), but waits until `deadline`, whatever the timeout.
    ///
    /// # Errors
    /// The kernel's; `TimedOut` beyond the deadline.
    pub fn recv_deadline(&self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
        self.socket.receive_until(buffer, deadline)
    }

    /// As [`recv`](UnixDatagram::recv), for tasks. Dropped before its end, it has received
    /// nothing.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn recv_async(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.receive_async(buffer, RecvFlags::empty()).await
    }

    /// Waits for a datagram. Returns its length and the address that it came from. Bytes that do
    /// not fit are lost.
    ///
    /// # Errors
    /// The kernel's.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        named(self.socket.receive_from(buffer, RecvFlags::empty())?)
    }

    /// As [`recv_from`](UnixDatagram::recv_from), but waits until `deadline`, whatever the
    /// timeout.
    ///
    /// # Errors
    /// The kernel's; `TimedOut` beyond the deadline.
    pub fn recv_from_deadline(&self, buffer: &mut [u8], deadline: Instant) -> io::Result<(usize, SocketAddr)> {
        named(self.socket.receive_from_until(buffer, deadline)?)
    }

    /// As [`recv_from`](UnixDatagram::recv_from), for tasks. Dropped before its end, it has
    /// received nothing.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn recv_from_async(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        named(self.socket.receive_from_async(buffer).await?)
    }

    /// Sends a datagram and copies of these descriptors to the connected address.
    ///
    /// # Errors
    /// The kernel's; `InvalidInput` for more than 253 descriptors.
    pub fn send_with_fds(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        self.socket.send_with_fds(bytes, fds)
    }

    /// Receives a datagram, and up to `max` descriptors that were sent with it. They are closed on
    /// `exec`. If more were sent, the others are closed.
    ///
    /// # Errors
    /// The kernel's.
    pub fn recv_with_fds(&self, buffer: &mut [u8], max: usize) -> io::Result<(usize, Vec<OwnedFd>)> {
        self.socket.receive_with_fds(buffer, max)
    }

    /// Closes one side or both. Calls that wait there return.
    ///
    /// # Errors
    /// The kernel's.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.shutdown(how)
    }

    /// Returns the socket's own address.
    ///
    /// # Errors
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_address()?.try_into()
    }

    /// Returns the address that the socket is connected to.
    ///
    /// # Errors
    /// The kernel's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.peer_address()?.try_into()
    }
}

fn named((count, address): (usize, Address)) -> io::Result<(usize, SocketAddr)> {
    Ok((count, address.try_into()?))
}

impl fmt::Debug for UnixDatagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("UnixDatagram");
        debug.field("local", &self.local_addr().ok()).field("peer", &self.peer_addr().ok());
        debug.field("fd", &self.socket.number()).finish()
    }
}
