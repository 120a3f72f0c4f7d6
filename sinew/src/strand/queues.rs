//! Two intrusive queues of strands: they need no memory besides the strands themselves.
//!
//! A [`Fifo`] has a single owner. Any thread puts strands into an [`Inbox`], which is taken whole, as a
//! `Fifo`.
#![allow(unsafe_code)]

use super::{Ready, Strand};
use crate::base::atomic::{Acquire, AtomicPtr, Relaxed, Release};
use crate::base::peek;
use std::mem::{ManuallyDrop, offset_of};
use std::ptr::NonNull;

/// A first-in-first-out queue with a single owner.
pub(crate) struct Fifo {
    /// First and last strand; both or neither.
    ends: Option<(NonNull<Strand>, NonNull<Strand>)>,
}

// SAFETY: the strands inside are owned, as `Ready` is, and `Ready` is `Send`.
unsafe impl Send for Fifo {}

impl Fifo {
    pub(crate) const fn new() -> Self {
        Fifo { ends: None }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_none()
    }

    /// Returns the strand at the head.
    #[inline(always)]
    pub(super) fn head(&self) -> Option<&Strand> {
        self.ends.as_ref().map(|(first, _)| owned(first))
    }

    /// Links `strand`, the first of a chain that the queue takes over, behind the last strand.
    /// Returns the first strand of all.
    #[inline(always)]
    fn link(&self, strand: NonNull<Strand>) -> NonNull<Strand> {
        let Some((first, last)) = self.ends else { return strand };
        owned(&last).next.set(Some(strand));
        first
    }

    /// Returns when the strand at the head became ready.
    #[inline]
    pub(crate) fn ready_at(&self) -> Option<u64> {
        self.head().map(|head| head.ready_at.get())
    }

    #[inline]
    pub(crate) fn push(&mut self, ready: Ready) {
        ready.strand().next.set(None);
        let strand = ready.into_raw();
        self.ends = Some((self.link(strand), strand));
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Ready> {
        let (first, last) = self.ends?;
        let ready = Ready(first);
        self.ends = ready.strand().next.get().map(|next| (next, last));
        Some(ready)
    }

    /// Does `push` and `pop` in one step.
    #[inline]
    pub(super) fn rotate(&mut self, ready: Ready) -> Ready {
        if self.is_empty() {
            return ready;
        }
        ready.strand().next.set(None);
        let strand = ready.into_raw();
        let first = Ready(self.link(strand));
        // If `first` was the last one, its link is the new strand.
        self.ends = Some((first.strand().next.get().unwrap_or(strand), strand));
        first
    }

    /// Puts all of `other` behind what is here.
    pub(crate) fn append(&mut self, other: Fifo) {
        let other = ManuallyDrop::new(other);
        if let Some((first, last)) = other.ends {
            self.ends = Some((self.link(first), last));
        }
    }

    /// Splits off up to `count` strands from the head. Returns them and their number.
    pub(crate) fn split_head(&mut self, count: usize) -> (Fifo, usize) {
        let mut head = Fifo::new();
        let mut taken = 0;
        while taken < count {
            let Some(ready) = self.pop() else { break };
            head.push(ready);
            taken += 1;
        }
        (head, taken)
    }
}

/// Returns the strand at the other end of a link of a queue.
#[inline(always)]
fn owned(link: &NonNull<Strand>) -> &Strand {
    // SAFETY: the links of a queue come from `Ready`s that it has taken over. It owns these strands until
    // it gives them back, so they are alive.
    unsafe { link.as_ref() }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        if !self.is_empty() {
            crate::base::fatal("a queue was dropped with strands that were ready to run");
        }
    }
}

/// A queue that any thread puts strands into, and that is taken whole.
///
/// The strands are linked newest first. To put one in is one compare-and-exchange; to take all is one
/// exchange with null. Any number of threads may do either. No thread ever takes a single strand, so
/// the head cannot be taken and put back unseen (no ABA).
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

    /// Returns the number of strands inside, or `most` if there are more. By any thread, and by a signal handler:
    /// another thread may take the strands meanwhile, and then the number means nothing.
    pub(crate) fn peek_length(&self, most: usize) -> usize {
        let mut strand = self.newest.load(Relaxed).addr();
        let mut length = 0;
        while strand != 0 && length < most {
            length += 1;
            strand = peek::word(strand + offset_of!(Strand, next)).unwrap_or(0);
        }
        length
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
        let mut newest = NonNull::new(self.newest.swap(std::ptr::null_mut(), Acquire));
        // The exchange gave the whole chain to us, linked newest first.
        let last = newest;
        let mut first = None;
        while let Some(strand) = newest {
            newest = owned(&strand).next.replace(first);
            first = Some(strand);
        }
        Fifo { ends: first.zip(last) }
    }
}
