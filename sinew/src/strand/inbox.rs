//! A queue that anyone puts strands into and somebody takes all of at once.
//!
//! Linked newest first through the strands themselves. Putting is one
//! compare-and-exchange, taking all is one exchange with null; since nobody
//! ever takes a single strand, the head cannot be taken and put back unseen
//! (no ABA), and any number of threads may do either.
#![allow(unsafe_code)]

use super::{Fifo, Ready, Strand};
use crate::base::atomic::{Acquire, AtomicPtr, Relaxed, Release};
use std::ptr::NonNull;

pub(crate) struct Inbox {
    newest: AtomicPtr<Strand>,
}

impl Default for Inbox {
    fn default() -> Self {
        Inbox::new()
    }
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Inbox { newest: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Whether there was nothing in it at some moment just now.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.newest.load(Relaxed).is_null()
    }

    /// Puts a strand in. Returns whether the inbox was empty before.
    pub(crate) fn put(&self, ready: Ready) -> bool {
        let strand = ready.into_raw();
        let mut newest = self.newest.load(Relaxed);
        loop {
            // SAFETY: the strand is ours until the exchange below gives it away.
            unsafe { strand.as_ref() }.next.set(NonNull::new(newest));
            // Release: the taker sees the link and what the strand did before;
            // pairs with the Acquire in `take_all`.
            match self.newest.compare_exchange_weak(newest, strand.as_ptr(), Release, Relaxed) {
                Ok(before) => return before.is_null(),
                Err(seen) => newest = seen,
            }
        }
    }

    /// Takes everything, in the order of arrival.
    pub(crate) fn take_all(&self) -> Fifo {
        if self.is_empty() {
            return Fifo::new();
        }
        // Acquire pairs with the Release in `put`: each `put` is a read-modify-
        // write, so reading the newest one acquires all that are chained to it.
        let newest = NonNull::new(self.newest.swap(std::ptr::null_mut(), Acquire));
        // SAFETY: the exchange gave the whole chain to us, and each strand in it
        // came from a `Ready`.
        unsafe { Fifo::from_reversed(newest) }
    }
}
