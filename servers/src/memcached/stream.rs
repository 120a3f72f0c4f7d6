//! The operations that sessions need from a connection.

use super::listen::{AnyClient, Client};
use sinew::net::{TcpStream, UnixStream};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::task::{Context, Poll};
use std::time::Instant;

/// A source and a sink of bytes.
pub trait Stream: Clone + Send + 'static {
    /// Waits for bytes. Returns their number.
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize>;
    /// As `read`, but waits no longer than until the deadline.
    fn read_until(&self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize>;
    /// Waits until some bytes have been sent. Returns their number.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;
    /// As `write`, but waits no longer than until the deadline.
    fn write_until(&self, bytes: &[u8], deadline: Instant) -> io::Result<usize>;
    /// Becomes ready when a read would find bytes, the end of the stream, or an error.
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()>;
}

/// A connection that a client has opened, and that lasts for many requests.
pub trait Connection: Stream {
    /// Returns a handle of this connection as a client of any kind.
    fn client(client: Client<Self>) -> AnyClient;
    /// Returns another handle of this connection.
    fn any(&self) -> AnyStream;
}

/// A handle of a connection of any kind.
pub enum AnyStream {
    /// A connection to a port.
    Tcp(TcpStream),
    /// A connection to a path.
    Unix(UnixStream),
}

impl AnyStream {
    /// Returns the number of its descriptor. memcached names connections by it.
    pub fn number(&self) -> i32 {
        match self {
            AnyStream::Tcp(stream) => stream.as_raw_fd(),
            AnyStream::Unix(stream) => stream.as_raw_fd(),
        }
    }

    /// Returns the client's address if the connection is to a port.
    pub fn peer(&self) -> Option<SocketAddr> {
        match self {
            AnyStream::Tcp(stream) => stream.peer_addr().ok(),
            AnyStream::Unix(_) => None,
        }
    }

    /// Returns the address that the client connected to, as memcached writes it.
    pub fn door(&self) -> String {
        match self {
            AnyStream::Tcp(stream) => stream.local_addr().map_or(String::new(), |address| tcp_text("tcp", address)),
            AnyStream::Unix(stream) => {
                let path = stream.local_addr().ok().and_then(|address| address.as_pathname().map(PathBuf::from));
                format!("unix:{}", path.unwrap_or_default().display())
            }
        }
    }

    /// Ends the connection, as if the client had closed it.
    pub fn shut_down(&self) {
        // The connection may have ended already.
        let _ = match self {
            AnyStream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            AnyStream::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

/// Returns an address as memcached writes it.
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
