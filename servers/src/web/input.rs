//! Bytes that have been received but not yet read.

use super::transport::Transport;
use std::io;
use std::time::Instant;

/// Received bytes, in a borrowed buffer.
pub struct Input<'a> {
    buffer: &'a mut [u8],
    begin: usize,
    end: usize,
}

impl<'a> Input<'a> {
    /// Returns an input of the first `count` bytes in the buffer, which have been received.
    pub fn new(buffer: &'a mut [u8], count: usize) -> Input<'a> {
        Input { buffer, begin: 0, end: count }
    }

    /// Returns the bytes that have not been read.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }

    /// Marks the first `count` bytes as read.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.begin += count;
    }

    /// Returns whether all bytes have been read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    /// Waits for more bytes, until `deadline`. Returns their number, which is 0 at the end of the
    /// connection.
    ///
    /// # Errors
    /// The errors of the connection; `TimedOut`; `OutOfMemory` if the buffer is full of unread bytes.
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
