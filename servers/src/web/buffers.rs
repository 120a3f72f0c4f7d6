//! Memory that sessions borrow while they work, so that idle ones hold none.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

/// Bytes of a buffer: a head at most, and what is gathered before it is sent.
pub const SIZE: usize = 16 * 1024;

/// As many buffers as are kept for later. Unmeasured: as many as sessions ever work at the
/// same time without waiting for a client, by far.
const MOST_KEPT: usize = 64;

/// Buffers that nobody uses at the moment.
#[derive(Default)]
pub struct Buffers {
    /// No suspension happens under the lock.
    kept: Mutex<Vec<Vec<u8>>>,
}

/// A buffer with a capacity of [`SIZE`] at least, empty at first.
pub struct Borrowed<'a> {
    buffer: Vec<u8>,
    home: &'a Buffers,
}

impl Buffers {
    /// Lends a buffer.
    #[inline]
    pub fn take(&self) -> Borrowed<'_> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Borrowed { buffer: kept.unwrap_or_else(|| Vec::with_capacity(SIZE)), home: self }
    }
}

impl Drop for Borrowed<'_> {
    #[inline]
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        // One that has grown is not kept.
        if buffer.capacity() <= 2 * SIZE {
            buffer.clear();
            let mut kept = self.home.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() < MOST_KEPT {
                kept.push(buffer);
            }
        }
    }
}

impl Deref for Borrowed<'_> {
    type Target = Vec<u8>;

    #[inline]
    fn deref(&self) -> &Vec<u8> {
        &self.buffer
    }
}

impl DerefMut for Borrowed<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_empty_and_one_that_has_grown_does_not() {
        let buffers = Buffers::default();
        let mut first = buffers.take();
        first.extend_from_slice(b"secret");
        let place = first.as_ptr();
        drop(first);
        let again = buffers.take();
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        let mut large = buffers.take();
        large.resize(3 * SIZE, 0);
        drop(large);
        assert!(buffers.kept.lock().unwrap().is_empty());
    }
}
