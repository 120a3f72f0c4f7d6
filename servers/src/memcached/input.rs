//! What a session has received and not yet answered.
//!
//! Most requests are short. So a session reads into a small buffer on its stack, and takes a
//! large one from the heap only while more than that comes at a time.

use super::stream::Stream;
use std::io;
use std::time::Instant;

/// The small buffer. A fibre's frames and this fit into half a page, which is what a stack
/// has of its first page at least; 1024 cost a second page for two thirds of all sessions.
pub const SMALL: usize = 512;

/// The large one. Requests of which more has to be at hand are requests for many keys.
pub const LARGE: usize = 16 * 1024;

/// The largest request for many keys. memcached has no limit.
const LARGEST: usize = 16 * 1024 * 1024;

/// Bytes of a session, in one of its two buffers.
pub struct Input {
    small: [u8; SMALL],
    /// Empty if it is not in use.
    large: Vec<u8>,
    start: usize,
    end: usize,
    /// Whether the last read was more than the small buffer holds.
    is_busy: bool,
}

impl Input {
    /// Nothing.
    pub fn new() -> Input {
        Input { small: [0; SMALL], large: Vec::new(), start: 0, end: 0, is_busy: false }
    }

    /// What there is.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let buffer: &[u8] = if self.large.is_empty() { &self.small } else { &self.large };
        &buffer[self.start..self.end]
    }

    /// So many have been dealt with.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
    }

    /// Whether more comes at a time than the small buffer holds.
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Waits for more bytes, but not beyond a deadline. 0 is the end, or a request that is too
    /// large.
    #[inline]
    pub fn fill(&mut self, stream: &impl Stream, deadline: Option<Instant>) -> io::Result<usize> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if !self.large.is_empty() || self.end == SMALL {
            return self.fill_large(stream, deadline);
        }
        let count = read(stream, &mut self.small[self.end..], deadline)?;
        self.end += count;
        self.is_busy = self.end == SMALL;
        Ok(count)
    }

    #[cold]
    fn fill_large(&mut self, stream: &impl Stream, deadline: Option<Instant>) -> io::Result<usize> {
        if self.end == 0 && !self.is_busy {
            self.large = Vec::new();
            return self.fill(stream, deadline);
        }
        if self.large.is_empty() {
            self.large = vec![0; LARGE];
            self.large[..self.end - self.start].copy_from_slice(&self.small[self.start..self.end]);
            (self.start, self.end) = (0, self.end - self.start);
        } else if self.end == self.large.len() {
            self.large.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.end == self.large.len() {
                if self.end >= LARGEST {
                    return Ok(0);
                }
                self.large.resize(2 * self.end, 0);
            }
        }
        let count = read(stream, &mut self.large[self.end..], deadline)?;
        self.end += count;
        self.is_busy = self.end > SMALL;
        Ok(count)
    }
}

#[inline]
fn read(stream: &impl Stream, buffer: &mut [u8], deadline: Option<Instant>) -> io::Result<usize> {
    match deadline {
        Some(deadline) => stream.read_until(buffer, deadline),
        None => stream.read(buffer),
    }
}
