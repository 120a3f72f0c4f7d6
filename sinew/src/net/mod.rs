//! Sockets that block the fibre, not the processor.
//!
//! The types have std's names, methods and errors: a program of threads is ported by
//! its `use` lines. What is different, or more:
//!
//! - They work on fibres, and on kernel threads that run none; a socket may be shared
//!   by both.
//! - A fibre that is [cancelled](crate::cancel), or overdue, gets an error that says so
//!   where it would wait. Nothing is lost: the next call finds all bytes.
//! - `try_clone` takes no descriptor. Of several who read from the same socket each
//!   waits its turn.
//! - A timeout that is set on a socket gives `WouldBlock`, as with std's on Linux. The
//!   calls with a limit of their own, whose names end in `_timeout` or `_deadline`, give
//!   `TimedOut`.
//! - What waits has a form for [tasks](crate::task), whose name ends in `_async`. The
//!   timeouts of a socket are not theirs: see
//!   [`timeout_async`](crate::time::timeout_async). Dropped before its end, such a call has
//!   done nothing: no byte is lost, no connection. With the feature `futures-io` streams
//!   have that crate's traits.
//! - The descriptor itself, as [`AsRawFd`](std::os::fd::AsRawFd) shows it, is
//!   non-blocking.
//!
//! ```
//! use sinew::net::{TcpListener, TcpStream};
//! use std::io::{Read, Write};
//!
//! sinew::run(|| {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let address = listener.local_addr()?;
//!     let server = sinew::spawn(move || {
//!         let (mut stream, _) = listener.accept()?;
//!         stream.write_all(b"good morning")
//!     });
//!     let mut greeting = String::new();
//!     TcpStream::connect(address)?.read_to_string(&mut greeting)?;
//!     assert_eq!(greeting, "good morning");
//!     server.join().unwrap()
//! })
//! # .unwrap();
//! ```

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
