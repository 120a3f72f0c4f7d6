//! Bytes that have been received but not yet read.

use super::transport::Transport;
use std::io;
use std::time::Instant;

/// The part of a buffer that holds received bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    begin: usize,
    end: usize,
}

impl Span {
    /// Returns the bytes that have not been read.
    #[inline]
    pub fn of<'b>(&self, buffer: &'b [u8]) -> &'b [u8] {
        &buffer[self.begin..self.end]
    }

    /// Marks the first `count` bytes as read.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.begin += count;
    }

    /// Adds `count` bytes that have been received into the [`room`](Span::room).
    #[inline]
    pub fn add(&mut self, count: usize) {
        self.end += count;
    }

    /// Returns whether all bytes have been read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    /// Moves the unread bytes to the beginning of the buffer, and returns the room behind them.
    ///
    /// # Errors
    /// `OutOfMemory` if the buffer is full of unread bytes.
    pub fn room<'b>(&mut self, buffer: &'b mut [u8]) -> io::Result<&'b mut [u8]> {
        if self.begin > 0 {
            buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        if self.end == buffer.len() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(&mut buffer[self.end..])
    }
}

/// Received bytes, in a borrowed buffer.
pub struct Input<'a> {
    buffer: &'a mut [u8],
    span: Span,
}

impl<'a> Input<'a> {
    /// Returns an input of the first `count` bytes in the buffer, which have been received.
    pub fn new(buffer: &'a mut [u8], count: usize) -> Input<'a> {
        Input { buffer, span: Span { begin: 0, end: count } }
    }

    /// Returns the bytes that have not been read.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.span.of(self.buffer)
    }

    /// Marks the first `count` bytes as read.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.span.consume(count);
    }

    /// Returns whether all bytes have been read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.span.is_empty()
    }

    /// Waits for more bytes, until `deadline`. Returns their number, which is 0 at the end of the
    /// connection.
    ///
    /// # Errors
    /// The errors of the connection; `TimedOut`; `OutOfMemory` if the buffer is full of unread bytes.
    #[cold]
    pub fn receive(&mut self, transport: &mut impl Transport, deadline: Instant) -> io::Result<usize> {
        let count = transport.read(self.span.room(self.buffer)?, deadline)?;
        self.span.add(count);
        Ok(count)
    }
}
