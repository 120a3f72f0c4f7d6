#![doc = include_str!("README.md")]

#[macro_use]
mod handle;
mod address;
mod addrs;
mod awaited;
#[cfg(feature = "futures-io")]
mod futures_io;
mod listen;
mod patience;
mod raw;
mod select;
mod sendfile;
pub(crate) mod socket;
mod tcp;
mod transfer;
mod udp;
mod unix;
mod unix_datagram;

pub use addrs::ToSocketAddrs;
pub use listen::{Incoming, ListenerBuilder, TcpListener};
pub use sendfile::sendfile;
pub use std::net::{AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6};
pub use tcp::TcpStream;
pub use udp::UdpSocket;
pub use unix::{UnixIncoming, UnixListener, UnixStream};
pub use unix_datagram::UnixDatagram;
