//! UDP, with std's methods.

use super::address::Address;
use super::addrs::{ToSocketAddrs, each, each_async, invalid};
use super::socket::Socket;
use super::tcp::family;
use crate::base::Deadline;
use rustix::net::{RecvFlags, SocketType, sockopt};
use std::future::ready;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Instant;
use std::{fmt, io};

/// A UDP socket: `std::net::UdpSocket` for fibres and tasks.
///
/// ```
/// use sinew::net::UdpSocket;
/// sinew::run(|| {
///     let (here, there) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
///     here.send_to(b"hello", there.local_addr()?)?;
///     let mut buffer = [0; 16];
///     let (count, from) = there.recv_from(&mut buffer)?;
///     assert_eq!((&buffer[..count], from), (&b"hello"[..], here.local_addr()?));
///     std::io::Result::Ok(())
/// })
/// # .unwrap();
/// ```
#[derive(Clone)]
pub struct UdpSocket {
    socket: Socket,
}

handle!(UdpSocket, std::net::UdpSocket);
timeouts!(UdpSocket);

impl UdpSocket {
    /// Makes a socket at the first of these addresses where that is possible.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind<A: ToSocketAddrs>(addresses: A) -> io::Result<UdpSocket> {
        each(addresses, UdpSocket::bind_at)
    }

    /// As [`bind`](UdpSocket::bind), for tasks, which look a name up.
    ///
    /// # Errors
    /// As for `bind`.
    pub async fn bind_async<A: ToSocketAddrs>(addresses: A) -> io::Result<UdpSocket> {
        each_async(addresses, |address| ready(UdpSocket::bind_at(address))).await
    }

    fn bind_at(address: SocketAddr) -> io::Result<UdpSocket> {
        let socket = Socket::new(family(&address), SocketType::DGRAM)?;
        socket.bind(&Address::from(address))?;
        Ok(UdpSocket { socket })
    }

    /// Sets the address that [`send`](UdpSocket::send) sends to. Datagrams from other addresses are
    /// not received any more.
    ///
    /// # Errors
    /// The kernel's.
    pub fn connect<A: ToSocketAddrs>(&self, addresses: A) -> io::Result<()> {
        each(addresses, |address| self.socket.connect(&Address::from(address), Deadline::NEVER))
    }

    /// As [`connect`](UdpSocket::connect), for tasks.
    ///
    /// # Errors
    /// As for `connect`.
    pub async fn connect_async<A: ToSocketAddrs>(&self, addresses: A) -> io::Result<()> {
        each_async(addresses, |address| ready(self.socket.connect_at_once(&Address::from(address)))).await
    }

    /// Sends a datagram to the connected address.
    ///
    /// # Errors
    /// The kernel's.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(bytes)
    }

    /// Sends a datagram to the first of these addresses.
    ///
    /// # Errors
    /// The kernel's; `InvalidInput` if there is no address.
    pub fn send_to<A: ToSocketAddrs>(&self, bytes: &[u8], addresses: A) -> io::Result<usize> {
        let first = addresses.to_socket_addrs()?.next();
        let address = first.ok_or_else(|| invalid("no addresses to send data to"))?;
        self.socket.send_to(bytes, &Address::from(address))
    }

    /// Waits for a datagram. Bytes that do not fit are lost.
    ///
    /// # Errors
    /// The kernel's.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.receive(buffer, RecvFlags::empty())
    }

    /// As [`recv`](UdpSocket::recv), for tasks. Dropped before its end, it has received
    /// nothing.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn recv_async(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.receive_async(buffer, RecvFlags::empty()).await
    }

    /// As [`recv_from`](UdpSocket::recv_from), for tasks; else as
    /// [`recv_async`](UdpSocket::recv_async).
    ///
    /// # Errors
    /// The kernel's.
    pub async fn recv_from_async(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        named(self.socket.receive_from_async(buffer).await?)
    }

    /// As [`send`](UdpSocket::send), for tasks. Dropped before its end, it has sent nothing.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn send_async(&self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write_async(bytes).await
    }

    /// As [`send_to`](UdpSocket::send_to), for tasks; else as
    /// [`send_async`](UdpSocket::send_async).
    ///
    /// # Errors
    /// As for `send_to`.
    pub async fn send_to_async<A: ToSocketAddrs>(&self, bytes: &[u8], addresses: A) -> io::Result<usize> {
        let first = addresses.to_socket_addrs_async().await?.next();
        let address = first.ok_or_else(|| invalid("no addresses to send data to"))?;
        self.socket.send_to_async(bytes, &Address::from(address)).await
    }

    /// As [`recv`](UdpSocket::recv), but waits until `deadline`, whatever the timeout.
    ///
    /// # Errors
    /// The kernel's; `TimedOut` beyond the deadline.
    pub fn recv_deadline(&self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
        self.socket.receive_until(buffer, deadline)
    }

    /// Waits for a datagram. Returns its length and the address that it came from. Bytes that do
    /// not fit are lost.
    ///
    /// # Errors
    /// The kernel's.
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        named(self.socket.receive_from(buffer, RecvFlags::empty())?)
    }

    /// As [`recv_from`](UdpSocket::recv_from), but waits until `deadline`, whatever the
    /// timeout.
    ///
    /// # Errors
    /// The kernel's; `TimedOut` beyond the deadline.
    pub fn recv_from_deadline(&self, buffer: &mut [u8], deadline: Instant) -> io::Result<(usize, SocketAddr)> {
        named(self.socket.receive_from_until(buffer, deadline)?)
    }

    /// As [`recv`](UdpSocket::recv), but leaves the datagram there.
    ///
    /// # Errors
    /// The kernel's.
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.receive(buffer, RecvFlags::PEEK)
    }

    /// As [`recv_from`](UdpSocket::recv_from), but leaves the datagram there.
    ///
    /// # Errors
    /// The kernel's.
    pub fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        named(self.socket.receive_from(buffer, RecvFlags::PEEK)?)
    }

    /// Returns the address that the socket is connected to.
    ///
    /// # Errors
    /// The kernel's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.peer_address()?.try_into()
    }

    /// Returns the socket's own address.
    ///
    /// # Errors
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_address()?.try_into()
    }

    /// Sets whether the socket may send to broadcast addresses.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_broadcast(&self, broadcast: bool) -> io::Result<()> {
        Ok(sockopt::set_socket_broadcast(self.socket.fd()?, broadcast)?)
    }

    /// Returns whether the socket may send to broadcast addresses.
    ///
    /// # Errors
    /// The kernel's.
    pub fn broadcast(&self) -> io::Result<bool> {
        Ok(sockopt::socket_broadcast(self.socket.fd()?)?)
    }

    /// Sets the number of hops that a datagram may take.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.socket.set_ttl(ttl)
    }

    /// Returns the number of hops that a datagram may take.
    ///
    /// # Errors
    /// The kernel's.
    pub fn ttl(&self) -> io::Result<u32> {
        self.socket.ttl()
    }
}

/// Multicast groups.
impl UdpSocket {
    /// Sets whether datagrams to a group of IPv4 come back to this machine.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_multicast_loop_v4(&self, back: bool) -> io::Result<()> {
        Ok(sockopt::set_ip_multicast_loop(self.socket.fd()?, back)?)
    }

    /// Returns whether datagrams to a group of IPv4 come back to this machine.
    ///
    /// # Errors
    /// The kernel's.
    pub fn multicast_loop_v4(&self) -> io::Result<bool> {
        Ok(sockopt::ip_multicast_loop(self.socket.fd()?)?)
    }

    /// Sets the number of hops that a datagram to a group of IPv4 may take.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_multicast_ttl_v4(&self, ttl: u32) -> io::Result<()> {
        Ok(sockopt::set_ip_multicast_ttl(self.socket.fd()?, ttl)?)
    }

    /// Returns the number of hops that a datagram to a group of IPv4 may take.
    ///
    /// # Errors
    /// The kernel's.
    pub fn multicast_ttl_v4(&self) -> io::Result<u32> {
        Ok(sockopt::ip_multicast_ttl(self.socket.fd()?)?)
    }

    /// Sets whether datagrams to a group of IPv6 come back to this machine.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_multicast_loop_v6(&self, back: bool) -> io::Result<()> {
        Ok(sockopt::set_ipv6_multicast_loop(self.socket.fd()?, back)?)
    }

    /// Returns whether datagrams to a group of IPv6 come back to this machine.
    ///
    /// # Errors
    /// The kernel's.
    pub fn multicast_loop_v6(&self) -> io::Result<bool> {
        Ok(sockopt::ipv6_multicast_loop(self.socket.fd()?)?)
    }

    /// Receives datagrams to this group, at the interface with this address.
    ///
    /// # Errors
    /// The kernel's.
    pub fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        Ok(sockopt::set_ip_add_membership(self.socket.fd()?, group, interface)?)
    }

    /// Receives datagrams to this group, at the interface with this number; 0 is any interface.
    ///
    /// # Errors
    /// The kernel's.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        Ok(sockopt::set_ipv6_add_membership(self.socket.fd()?, group, interface)?)
    }

    /// Reverses [`join_multicast_v4`](UdpSocket::join_multicast_v4).
    ///
    /// # Errors
    /// The kernel's.
    pub fn leave_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        Ok(sockopt::set_ip_drop_membership(self.socket.fd()?, group, interface)?)
    }

    /// Reverses [`join_multicast_v6`](UdpSocket::join_multicast_v6).
    ///
    /// # Errors
    /// The kernel's.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        Ok(sockopt::set_ipv6_drop_membership(self.socket.fd()?, group, interface)?)
    }
}

fn named((count, address): (usize, Address)) -> io::Result<(usize, SocketAddr)> {
    Ok((count, address.try_into()?))
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpSocket").field("addr", &self.local_addr().ok()).field("fd", &self.socket.number()).finish()
    }
}
