//! The memory that the system has left.
//!
//! Memory that is allocated and freed between two waits is bounded by the number of processors. If
//! the system does not have it, the process ends. Memory that is *held* while a session waits grows
//! with the number of clients, and is counted here: buffers ([`reserve`]), and the small objects of
//! a connection ([`room_for_connection`]). Once in a while the system is asked whether it would
//! give the memory and a reserve. If it would not, the client goes without: its answers are sent in
//! small pieces, or its connection is closed. Everything else lives from the reserve.
#![allow(unsafe_code)]

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io::{self, ErrorKind};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes that buffers leave to connections and to small objects. Unmeasured.
const LEFT_BY_BUFFERS: usize = 16 << 20;

/// Bytes that connections leave to small objects. Unmeasured.
const LEFT_BY_CONNECTIONS: usize = 8 << 20;

/// Bytes that a connection counts for. It takes two kilobytes of the heap, in at most ten
/// allocations. An allocator's arena that cannot grow takes a page for each of them.
const CONNECTION: usize = 16 * 1024;

/// A buffer up to this size counts with its connection.
pub const SMALL: usize = 1024;

/// Bytes that are allocated before the system is asked again. The reserve covers them. Asking takes
/// as long as filling a small buffer.
const MOST_UNASKED: usize = 1 << 20;

/// Bytes that were allocated since the system was asked last, for connections and for buffers. A yes
/// to a connection says nothing about the reserve of buffers, which is larger.
static BY_CONNECTIONS: Unasked = Unasked(AtomicUsize::new(0));
static BY_BUFFERS: Unasked = Unasked(AtomicUsize::new(0));

struct Unasked(AtomicUsize);

impl Unasked {
    /// Counts bytes that are about to be allocated. Returns whether the system has to be asked first.
    fn count(&self, bytes: usize) -> bool {
        self.0.fetch_add(bytes, Relaxed).saturating_add(bytes) > MOST_UNASKED
    }

    /// Turns the system's answer into a result, and counts from zero again if it was yes.
    fn answered(&self, is_there: bool) -> io::Result<()> {
        if !is_there {
            return Err(ErrorKind::OutOfMemory.into());
        }
        self.0.store(0, Relaxed);
        Ok(())
    }
}

/// Returns whether the system would give `bytes` now, and the reserve of buffers.
pub fn is_left(bytes: usize) -> bool {
    would_give(bytes.saturating_add(LEFT_BY_BUFFERS))
}

/// Asks the system. The allocator would keep the memory.
fn would_give(length: usize) -> bool {
    // SAFETY: the kernel chooses a free address, and nothing uses the mapping before it is removed.
    unsafe {
        mmap_anonymous(ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
            .and_then(|mapping| munmap(mapping, length))
            .is_ok()
    }
}

/// Asks for the memory of a connection that begins or goes on. Call it before anything is allocated
/// that lasts while the connection waits.
///
/// # Errors
/// `OutOfMemory` if too little would be left for others.
pub fn room_for_connection() -> io::Result<()> {
    if !BY_CONNECTIONS.count(CONNECTION) {
        return Ok(());
    }
    BY_CONNECTIONS.answered(would_give(LEFT_BY_CONNECTIONS) || has_allocator(LEFT_BY_CONNECTIONS))
}

/// Returns whether the allocator has `bytes`, or gets them. It may have kept the memory of clients
/// that are gone.
#[cold]
fn has_allocator(bytes: usize) -> bool {
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    let mut add = || {
        let mut piece = Vec::new();
        let is_there = pieces.try_reserve(1).is_ok() && piece.try_reserve_exact(CONNECTION).is_ok();
        pieces.extend(is_there.then_some(piece));
        is_there
    };
    (0..bytes / CONNECTION).all(|_| add())
}

/// Makes room for `more` elements, as `Vec::reserve` does.
///
/// # Errors
/// `OutOfMemory` if too little would be left for others.
#[inline]
pub fn reserve<T>(buffer: &mut Vec<T>, more: usize) -> io::Result<()> {
    if buffer.capacity() - buffer.len() >= more { Ok(()) } else { reserve_slow(buffer, more) }
}

#[cold]
fn reserve_slow<T>(buffer: &mut Vec<T>, more: usize) -> io::Result<()> {
    let bytes = (buffer.len() + more).saturating_mul(size_of::<T>());
    if bytes > SMALL && BY_BUFFERS.count(bytes) {
        BY_BUFFERS.answered(is_left(bytes))?;
    }
    Ok(buffer.try_reserve(more)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_the_system_does_not_have_is_refused() {
        assert!(is_left(1 << 20) && !is_left(1 << 60));
        let mut buffer = vec![1u8];
        assert_eq!(reserve(&mut buffer, 1 << 60).map_err(|error| error.kind()), Err(ErrorKind::OutOfMemory));
        assert!(reserve(&mut buffer, 1 << 20).is_ok() && buffer.capacity() > 1 << 20 && buffer == [1]);
    }
}
