//! What the system has left, for those who can do without.
//!
//! Most of what a server allocates is small, and there is nothing to be done if it is not there:
//! the process ends. What clients choose the size of is asked for here, or by `try_reserve`, and
//! only if enough is left afterwards for all that is small.
#![allow(unsafe_code)]

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io::{self, ErrorKind};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// So much is left to all that is small. Unmeasured.
const LEFT_TO_OTHERS: usize = 16 << 20;

/// A buffer up to this size takes what there is.
const SMALL: usize = 32 * 1024;

/// So much is taken before the system is asked again, which takes as long as filling a small
/// buffer.
const MOST_UNASKED: usize = 1 << 20;

/// What buffers have taken since the system was asked last.
static UNASKED: AtomicUsize = AtomicUsize::new(0);

/// Whether the system would give so many bytes now, and what the others need. It is asked, not the
/// allocator, which would keep them.
pub fn is_left(bytes: usize) -> bool {
    let length = bytes.saturating_add(LEFT_TO_OTHERS);
    // SAFETY: a new mapping is in nobody's way, and nobody has seen it when it goes.
    unsafe {
        mmap_anonymous(ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
            .and_then(|mapping| munmap(mapping, length))
            .is_ok()
    }
}

/// Makes room for more elements, as `Vec::reserve` does.
///
/// # Errors
/// `OutOfMemory`, if there would be too little left for others.
#[inline]
pub fn reserve<T>(buffer: &mut Vec<T>, more: usize) -> io::Result<()> {
    if buffer.capacity() - buffer.len() >= more { Ok(()) } else { reserve_slow(buffer, more) }
}

#[cold]
fn reserve_slow<T>(buffer: &mut Vec<T>, more: usize) -> io::Result<()> {
    let bytes = (buffer.len() + more).saturating_mul(size_of::<T>());
    if bytes > SMALL && UNASKED.fetch_add(bytes, Relaxed).saturating_add(bytes) > MOST_UNASKED {
        if !is_left(bytes) {
            return Err(ErrorKind::OutOfMemory.into());
        }
        UNASKED.store(0, Relaxed);
    }
    Ok(buffer.try_reserve(more)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_does_not_have_is_refused() {
        assert!(is_left(1 << 20) && !is_left(1 << 60));
        let mut buffer = vec![1u8];
        assert_eq!(reserve(&mut buffer, 1 << 60).map_err(|error| error.kind()), Err(ErrorKind::OutOfMemory));
        assert!(reserve(&mut buffer, 1 << 20).is_ok() && buffer.capacity() > 1 << 20 && buffer == [1]);
    }
}
