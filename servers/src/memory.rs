//! What the system has left, for those who can do without.
//!
//! What is allocated between two waits is bounded by the number of processors. There is nothing
//! to be done if it is not there: the process ends. What is *held* while a session waits grows
//! with the clients, and goes through here: buffers ([`reserve`]), and all the little things that a
//! connection costs ([`room_for_connection`]). The system is asked, once in a while, whether it would give
//! as much and a reserve. If it would not, the client that asked goes without: its answers are
//! sent in small pieces, or its connection is closed. The reserve is what everything else lives
//! from.
#![allow(unsafe_code)]

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io::{self, ErrorKind};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Buffers leave so much to connections, and to all that is small. Unmeasured.
const LEFT_BY_BUFFERS: usize = 16 << 20;

/// Connections leave so much to all that is small. Unmeasured.
const LEFT_BY_CONNECTIONS: usize = 8 << 20;

/// What a connection counts for. It takes two kilobytes of the heap, in ten allocations or fewer;
/// an arena that cannot grow takes a page for each of them.
const CONNECTION: usize = 16 * 1024;

/// A buffer up to this size counts with its connection.
pub const SMALL: usize = 1024;

/// So much is taken before the system is asked again, which takes as long as filling a small
/// buffer. The reserve covers it.
const MOST_UNASKED: usize = 1 << 20;

/// What has been taken since the system was asked last.
static UNASKED: AtomicUsize = AtomicUsize::new(0);

/// Whether the system would give so many bytes now, and what the others need.
pub fn is_left(bytes: usize) -> bool {
    would_give(bytes.saturating_add(LEFT_BY_BUFFERS))
}

/// Asks the system, not the allocator, which would keep what it got.
fn would_give(length: usize) -> bool {
    // SAFETY: a new mapping is in nobody's way, and nobody has seen it when it goes.
    unsafe {
        mmap_anonymous(ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
            .and_then(|mapping| munmap(mapping, length))
            .is_ok()
    }
}

/// Counts what is about to be taken. Gives whether the system is to be asked for it, because much
/// has been taken since it was.
fn count(bytes: usize) -> bool {
    UNASKED.fetch_add(bytes, Relaxed).saturating_add(bytes) > MOST_UNASKED
}

/// The outcome of asking.
fn answered(is_there: bool) -> io::Result<()> {
    if !is_there {
        return Err(ErrorKind::OutOfMemory.into());
    }
    UNASKED.store(0, Relaxed);
    Ok(())
}

/// Room for a connection to begin or to go on: to be asked for before anything is allocated that
/// lasts while it waits.
///
/// # Errors
/// `OutOfMemory`, if there would be too little left for others.
pub fn room_for_connection() -> io::Result<()> {
    if !count(CONNECTION) {
        return Ok(());
    }
    answered(would_give(LEFT_BY_CONNECTIONS) || has_allocator(LEFT_BY_CONNECTIONS))
}

/// Whether the allocator has as much, or gets it: what clients had who are gone may have stayed
/// with it.
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
    if bytes > SMALL && count(bytes) {
        answered(is_left(bytes))?;
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
