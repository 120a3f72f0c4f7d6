//! What sessions need of a connection.

use super::listen::{AnyClient, Client};
use sinew::net::{TcpStream, UnixStream};
use std::io::{self, Read, Write};
use std::task::{Context, Poll};
use std::time::Instant;

/// A connection of any kind.
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
    /// A client of this kind.
    fn client(client: Client<Self>) -> AnyClient;
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

            fn client(client: Client<Self>) -> AnyClient {
                AnyClient::$kind(client)
            }
        }
    };
}

stream!(TcpStream, Tcp);
stream!(UnixStream, Unix);
