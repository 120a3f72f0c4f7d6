//! What has been received and not yet been read.

use super::buffers::{Borrowed, Buffers, SIZE};
use super::transport::Transport;
use std::io;
use std::time::Instant;

/// Bytes that a session has room for while it is idle. It is on the fibre's stack: most
/// requests fit into it, and an idle connection needs nothing else.
pub const SMALL: usize = 512;

/// Bytes of a connection: in a small buffer as long as they fit, in a borrowed one while
/// they do not.
pub struct Input<'a> {
    small: &'a mut [u8; SMALL],
    large: Option<Borrowed<'a>>,
    begin: usize,
    end: usize,
}

impl<'a> Input<'a> {
    /// The first `count` bytes in the small buffer have been received.
    pub fn new(small: &'a mut [u8; SMALL], count: usize) -> Input<'a> {
        Input { small, large: None, begin: 0, end: count }
    }

    /// What there is.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match &self.large {
            None => &self.small[self.begin..self.end],
            Some(large) => &large[self.begin..self.end],
        }
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
    /// Those of the connection, `TimedOut`, and `OutOfMemory` if there is no room: no more
    /// than [`SIZE`] bytes wait to be read.
    #[cold]
    pub fn receive(
        &mut self,
        buffers: &'a Buffers,
        transport: &mut impl Transport,
        deadline: Instant,
    ) -> io::Result<usize> {
        let large = self.large.get_or_insert_with(|| {
            let mut large = buffers.take();
            large.extend_from_slice(&self.small[self.begin..self.end]);
            (self.begin, self.end) = (0, self.end - self.begin);
            large.resize(SIZE, 0);
            large
        });
        if self.end == SIZE {
            large.copy_within(self.begin.., 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        if self.end == SIZE {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let count = transport.read(&mut large[self.end..], deadline)?;
        self.end += count;
        Ok(count)
    }
}
