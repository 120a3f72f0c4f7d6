//! What sessions need of a connection.

use sinew::net::{TcpStream, UnixStream};
use std::io::{self, Read, Write};
use std::time::Instant;

/// A connection of any kind.
pub trait Stream: Send {
    /// Waits for bytes.
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize>;
    /// As `read`, but not for ever.
    fn read_until(&self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize>;
    /// Waits until some bytes have been sent.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;
    /// As `write`, but not for ever.
    fn write_until(&self, bytes: &[u8], deadline: Instant) -> io::Result<usize>;
}

macro_rules! stream {
    ($Type:ty) => {
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
        }
    };
}

stream!(TcpStream);
stream!(UnixStream);
