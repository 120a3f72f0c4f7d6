//! The bytes that a session has received and not yet answered.
//!
//! Most requests are short. A session reads into a small buffer on its stack. It takes a large
//! buffer from the heap only while more bytes than that arrive at a time.

use super::stream::Stream;
use crate::memory;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// The size of the small buffer. The buffer and a fibre's frames fit into half a page, and a stack
/// has at least half of its first page. With 1024 bytes, two thirds of all sessions took a second
/// page.
pub const SMALL: usize = 512;

/// The size of the large buffer. Only requests for many keys need more bytes at a time.
pub const LARGE: usize = 16 * 1024;

/// The length of the longest request for many keys. memcached has no limit.
const LARGEST: usize = 16 * 1024 * 1024;

/// The bytes that all requests longer than [`LARGE`] take together, beyond that length. A request
/// that does not end keeps its memory, and each connection may have one.
const LARGEST_TOGETHER: usize = 4 * LARGEST;

/// The memory that is left to all sessions together for long requests.
pub struct Allowance {
    left: AtomicUsize,
}

impl Allowance {
    /// Returns an allowance of which nothing is taken.
    pub fn new() -> Allowance {
        Allowance { left: AtomicUsize::new(LARGEST_TOGETHER) }
    }

    fn take(&self, bytes: usize) -> io::Result<()> {
        let taken = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes));
        taken.map(drop).map_err(|_| ErrorKind::OutOfMemory.into())
    }

    fn give_back(&self, bytes: usize) {
        self.left.fetch_add(bytes, Relaxed);
    }
}

/// The bytes of a session, in one of its two buffers.
pub struct Input<'a> {
    small: [u8; SMALL],
    /// The large buffer. Empty if it is not in use.
    large: Vec<u8>,
    start: usize,
    end: usize,
    /// Whether the last read was longer than the small buffer.
    is_busy: bool,
    /// Limits what the large buffer has beyond [`LARGE`].
    allowance: &'a Allowance,
}

impl<'a> Input<'a> {
    /// Returns an empty input.
    pub fn new(allowance: &'a Allowance) -> Input<'a> {
        Input { small: [0; SMALL], large: Vec::new(), start: 0, end: 0, is_busy: false, allowance }
    }

    /// Returns the bytes that have not been consumed.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let buffer: &[u8] = if self.large.is_empty() { &self.small } else { &self.large };
        &buffer[self.start..self.end]
    }

    /// Removes the first bytes: they have been dealt with.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
    }

    /// Returns whether more bytes arrive at a time than the small buffer holds.
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Waits for more bytes until a deadline. Returns their number; 0 is the end of the stream.
    ///
    /// # Errors
    /// Errors of the connection; `OutOfMemory` if a request is too long.
    #[inline]
    pub fn fill(&mut self, stream: &impl Stream, deadline: Option<Instant>) -> io::Result<usize> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if !self.large.is_empty() || self.is_busy {
            return self.fill_large(stream, deadline);
        }
        let count = read(stream, &mut self.small[self.end..], deadline)?;
        self.end += count;
        self.is_busy = self.end == SMALL;
        Ok(count)
    }

    #[cold]
    fn fill_large(&mut self, stream: &impl Stream, deadline: Option<Instant>) -> io::Result<usize> {
        if self.end == 0 && (!self.is_busy || self.large.len() > LARGE) {
            self.drop_large();
            return self.fill(stream, deadline);
        }
        if self.large.is_empty() {
            let mut large = Vec::new();
            grow(&mut large, LARGE)?;
            large[..self.end - self.start].copy_from_slice(&self.small[self.start..self.end]);
            self.large = large;
            (self.start, self.end) = (0, self.end - self.start);
        } else if self.end == self.large.len() {
            self.large.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.end == self.large.len() {
                self.double()?;
            }
        }
        let count = read(stream, &mut self.large[self.end..], deadline)?;
        self.end += count;
        self.is_busy = self.end > SMALL;
        Ok(count)
    }

    fn double(&mut self) -> io::Result<()> {
        let more = self.large.len();
        if more >= LARGEST {
            return Err(ErrorKind::OutOfMemory.into());
        }
        self.allowance.take(more)?;
        grow(&mut self.large, more).inspect_err(|_| self.allowance.give_back(more))
    }

    fn drop_large(&mut self) {
        self.allowance.give_back(self.large.len().saturating_sub(LARGE));
        self.large = Vec::new();
    }
}

impl Drop for Input<'_> {
    fn drop(&mut self) {
        self.drop_large();
    }
}

/// Appends this number of bytes to a buffer.
fn grow(buffer: &mut Vec<u8>, more: usize) -> io::Result<()> {
    memory::reserve(buffer, more)?;
    buffer.resize(buffer.len() + more, 0);
    Ok(())
}

#[inline]
fn read(stream: &impl Stream, buffer: &mut [u8], deadline: Option<Instant>) -> io::Result<usize> {
    match deadline {
        Some(deadline) => stream.read_until(buffer, deadline),
        None => stream.read(buffer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sinew::net::UnixStream;
    use std::io::Write;

    #[test]
    fn long_input_uses_the_large_buffer_and_short_input_the_small_one() {
        let (mut there, here) = UnixStream::pair().unwrap();
        let allowance = Allowance::new();
        let mut input = Input::new(&allowance);
        let mut receive = || {
            let count = input.fill(&here, None).unwrap();
            input.consume(count);
            (count, !input.large.is_empty())
        };
        there.write_all(&[7; SMALL + 2 * LARGE]).unwrap();
        assert_eq!([receive(), receive(), receive()], [(SMALL, false), (LARGE, true), (LARGE, true)]);
        there.write_all(b"little").unwrap();
        assert_eq!(receive(), (6, true));
        there.write_all(b"less").unwrap();
        assert_eq!(receive(), (4, false));
    }
}
