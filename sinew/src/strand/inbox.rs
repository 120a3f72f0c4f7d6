//! A queue that any thread puts strands into, and that is taken whole.
//!
//! The strands are linked newest first. To put one in is one compare-and-exchange; to take all is one
//! exchange with null. Any number of threads may do either. No thread ever takes a single strand, so
//! the head cannot be taken and put back unseen (no ABA).
#![allow(unsafe_code)]

use super::{Fifo, Ready, Strand};
use crate::base::atomic::{Acquire, AtomicPtr, Relaxed, Release};
use std::mem::ManuallyDrop;
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

    /// Says whether the inbox was empty a moment ago.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.newest.load(Relaxed).is_null()
    }

    /// Puts a strand in. Returns whether the inbox was empty before.
    pub(crate) fn put(&self, ready: Ready) -> bool {
        let ready = ManuallyDrop::new(ready);
        let mut newest = self.newest.load(Relaxed);
        loop {
            ready.strand().next.set(NonNull::new(newest));
            // Gives the strand away. Release: the taker sees the link and what the strand did
            // before; pairs with the Acquire in `take_all`.
            match self.newest.compare_exchange_weak(newest, ready.0.as_ptr(), Release, Relaxed) {
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
        // Acquire pairs with the Release in `put`. Each `put` is a read-modify-write, so reading the
        // newest one acquires all that are chained to it.
        let newest = NonNull::new(self.newest.swap(std::ptr::null_mut(), Acquire));
        // SAFETY: the exchange gave the whole chain to us, and each strand in it was a `Ready`.
        unsafe { Fifo::from_reversed(newest) }
    }
}
