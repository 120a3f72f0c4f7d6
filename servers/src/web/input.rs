//! What has been received and not yet been read.

use super::transport::Transport;
use std::io;
use std::time::Instant;

/// Bytes of a connection, in a buffer that is borrowed.
pub struct Input<'a> {
    buffer: &'a mut [u8],
    begin: usize,
    end: usize,
}

impl<'a> Input<'a> {
    /// The first `count` bytes in the buffer have been received.
    pub fn new(buffer: &'a mut [u8], count: usize) -> Input<'a> {
        Input { buffer, begin: 0, end: count }
    }

    /// What there is.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }

    /// The first `count` bytes have been read.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.begin += count;
    }

    /// Whether there is nothing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    /// Waits for more, until `deadline`. Gives how many bytes came: none at the end.
    ///
    /// # Errors
    /// Those of the connection, `TimedOut`, and `OutOfMemory` if the buffer is full: what is
    /// in it has to be read first.
    #[cold]
    pub fn receive(&mut self, transport: &mut impl Transport, deadline: Instant) -> io::Result<usize> {
        if self.begin > 0 {
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        if self.end == self.buffer.len() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let count = transport.read(&mut self.buffer[self.end..], deadline)?;
        self.end += count;
        Ok(count)
    }
}
