//! What a session has received and not yet answered.
//!
//! Most requests are short. So a session reads into a small buffer on its stack, and takes a
//! large one from the heap only while more than that comes at a time.

use super::stream::Stream;
use crate::memory;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// The small buffer. A fibre's frames and this fit into half a page, which is what a stack
/// has of its first page at least; 1024 cost a second page for two thirds of all sessions.
pub const SMALL: usize = 512;

/// The large one. Requests of which more has to be at hand are requests for many keys.
pub const LARGE: usize = 16 * 1024;

/// The largest request for many keys. memcached has no limit.
const LARGEST: usize = 16 * 1024 * 1024;

/// Requests of more than [`LARGE`] take so many bytes together, beyond that. A request that does
/// not end keeps its memory, and there may be one on each connection.
const LARGEST_TOGETHER: usize = 4 * LARGEST;

/// What all sessions together may still have for long requests.
pub struct Allowance {
    left: AtomicUsize,
}

impl Allowance {
    /// All of it.
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

/// Bytes of a session, in one of its two buffers.
pub struct Input<'a> {
    small: [u8; SMALL],
    /// Empty if it is not in use.
    large: Vec<u8>,
    start: usize,
    end: usize,
    /// Whether the last read was more than the small buffer holds.
    is_busy: bool,
    /// For what the large one has beyond [`LARGE`].
    allowance: &'a Allowance,
}

impl<'a> Input<'a> {
    /// Nothing.
    pub fn new(allowance: &'a Allowance) -> Input<'a> {
        Input { small: [0; SMALL], large: Vec::new(), start: 0, end: 0, is_busy: false, allowance }
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

    /// Waits for more bytes, but not beyond a deadline. 0 is the end.
    ///
    /// # Errors
    /// Those of the connection; `OutOfMemory` if a request is too large.
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

/// Adds so many bytes to a buffer.
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
    fn much_is_received_in_large_pieces_and_little_in_the_small_buffer() {
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
