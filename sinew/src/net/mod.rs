#![doc = include_str!("README.md")]

#[macro_use]
mod handle;
mod address;
mod addrs;
mod awaited;
mod duplex;
#[cfg(feature = "futures-io")]
mod futures_io;
mod halves;
mod line;
mod listen;
pub(crate) mod lookup;
mod patience;
mod raw;
mod sendfile;
pub(crate) mod socket;
mod tcp;
mod transfer;
mod udp;
mod unix;
mod unix_datagram;

pub use addrs::ToSocketAddrs;
pub use duplex::{Duplex, DuplexSocket};
pub use halves::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use listen::{Incoming, ListenerBuilder, TcpListener};
pub use lookup::{lookup, lookup_async, lookup_deadline, lookup_timeout};
pub use sendfile::sendfile;
pub use std::net::{AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6};
pub use tcp::TcpStream;
pub use udp::UdpSocket;
pub use unix::{UnixIncoming, UnixListener, UnixStream};
pub use unix_datagram::UnixDatagram;
