//! What sessions need of a connection.

use super::listen::{AnyClient, Client};
use sinew::net::{TcpStream, UnixStream};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::task::{Context, Poll};
use std::time::Instant;

/// What bytes come from and go to.
pub trait Stream: Clone + Send + 'static {
    /// Waits for bytes.
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize>;
    /// As `read`, but not for ever.
    fn read_until(&self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize>;
    /// Waits until some bytes have been sent.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;
    /// As `write`, but not for ever.
    fn write_until(&self, bytes: &[u8], deadline: Instant) -> io::Result<usize>;
    /// Whether it is worth trying to read, or an error is to be found by that.
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()>;
}

/// One that a client has opened, and that lasts.
pub trait Connection: Stream {
    /// A client of this kind.
    fn client(client: Client<Self>) -> AnyClient;
    /// Another handle of it.
    fn any(&self) -> AnyStream;
}

/// A handle of a connection of any kind.
pub enum AnyStream {
    /// Came in at a port.
    Tcp(TcpStream),
    /// Came in at a path.
    Unix(UnixStream),
}

impl AnyStream {
    /// The number of its descriptor, by which memcached tells connections apart.
    pub fn number(&self) -> i32 {
        match self {
            AnyStream::Tcp(stream) => stream.as_raw_fd(),
            AnyStream::Unix(stream) => stream.as_raw_fd(),
        }
    }

    /// The client's address, if it came in at a port.
    pub fn peer(&self) -> Option<SocketAddr> {
        match self {
            AnyStream::Tcp(stream) => stream.peer_addr().ok(),
            AnyStream::Unix(_) => None,
        }
    }

    /// Where it came in, in memcached's words.
    pub fn door(&self) -> String {
        match self {
            AnyStream::Tcp(stream) => stream.local_addr().map_or(String::new(), |address| tcp_text("tcp", address)),
            AnyStream::Unix(stream) => {
                let path = stream.local_addr().ok().and_then(|address| address.as_pathname().map(PathBuf::from));
                format!("unix:{}", path.unwrap_or_default().display())
            }
        }
    }

    /// Ends it, as if the client had gone.
    pub fn shut_down(&self) {
        // It may have ended already.
        let _ = match self {
            AnyStream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            AnyStream::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

/// An address in memcached's words.
pub fn tcp_text(transport: &str, address: SocketAddr) -> String {
    let version = if address.is_ipv6() { "6" } else { "" };
    format!("{transport}{version}:{address}")
}

macro_rules! stream {
    ($Type:ty, $kind:ident) => {
        impl Stream for $Type {
            #[inline]
            fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
                let mut stream = self;
                Read::read(&mut stream, buffer)
            }

            fn read_until(&self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
                self.read_deadline(buffer, deadline)
            }

            #[inline]
            fn write(&self, bytes: &[u8]) -> io::Result<usize> {
                let mut stream = self;
                Write::write(&mut stream, bytes)
            }

            fn write_until(&self, bytes: &[u8], deadline: Instant) -> io::Result<usize> {
                self.write_deadline(bytes, deadline)
            }

            fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
                <$Type>::poll_readable(self, context).map(drop)
            }
        }

        impl Connection for $Type {
            fn client(client: Client<Self>) -> AnyClient {
                AnyClient::$kind(client)
            }

            fn any(&self) -> AnyStream {
                AnyStream::$kind(self.clone())
            }
        }
    };
}

stream!(TcpStream, Tcp);
stream!(UnixStream, Unix);
