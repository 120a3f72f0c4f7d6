//! The outbox: calls of the kernel that strands leave with their processor, which makes all of them
//! at once.
//!
//! A strand leaves a call and waits. The processor *empties* its outbox when it has no other strand to
//! run, when the outbox is full, or when the oldest call has waited for long. If the processor is held
//! up, another one of its cluster empties the outbox. A [driver](super::driver::Driver::carry_out) makes
//! the calls and signals the strands. This file knows neither: a call is an address.
//!
//! ```text
//!   0 --leave--> 1 --leave--> 2 ... --leave--> MOST      by the processor
//!   1 ... MOST --take--> TAKEN --drop of `Taken`--> 0    by any thread of the cluster
//! ```
//!
//! One word has the state. **Each call is taken once**: a thread takes all calls in one step, and only
//! one thread finds them there. **A thread that takes a call sees it**: the step that leaves the call
//! releases it, the step that takes acquires it. **No place is written while a thread reads it**: the
//! processor writes to the place behind the last call, and adds the call in a step that fails if the
//! calls were taken meanwhile. While they are, the processor leaves none: the strand makes its call by
//! itself. **No address is used late**: a strand goes on when its call has been made, and the thread that
//! took the call does not look at it afterwards.

use crate::base::atomic::{Acquire, AtomicPtr, AtomicU32, AtomicU64, Relaxed, Release};
use std::ptr::NonNull;

/// The largest number of calls of a batch. 32 were measured to be 3 % faster than 16 if that number of
/// sessions are ready. More are seldom left, because the oldest call has to be made by then.
#[cfg(not(sinew_loom))]
pub(crate) const MOST: usize = 32;
#[cfg(sinew_loom)]
pub(crate) const MOST: usize = 2;

/// The calls have been taken, and are being made.
const TAKEN: u32 = u32::MAX;

/// See the documentation of the module. Owner: the processor, except for [`take`](Outbox::take).
pub(crate) struct Outbox {
    /// The number of calls, or `TAKEN`.
    state: AtomicU32,
    /// When the first call was left, in cycles. Read by other threads, which act on it only if they can
    /// take the calls.
    since: AtomicU64,
    calls: [AtomicPtr<()>; MOST],
}

impl Outbox {
    pub(super) fn new() -> Outbox {
        Outbox {
            state: AtomicU32::new(0),
            since: AtomicU64::new(0),
            calls: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
        }
    }

    /// Leaves a call, at the time `now`. Returns whether it did: there is no room, or another thread is
    /// just making the calls. By the processor.
    #[inline]
    pub(crate) fn leave(&self, call: NonNull<()>, now: u64) -> bool {
        // Acquire pairs with the Release in the drop of `Taken`: the places have been read.
        let count = self.state.load(Acquire);
        let Some(place) = self.calls.get(count as usize) else { return false };
        place.store(call.as_ptr(), Relaxed);
        if count == 0 {
            self.since.store(now, Relaxed);
        }
        // Release pairs with the Acquire in `take`.
        self.state.compare_exchange(count, count + 1, Release, Relaxed).is_ok()
    }

    /// Takes all calls, if there are any. By any thread.
    pub(crate) fn take(&self) -> Option<Taken<'_>> {
        let mut count = self.state.load(Relaxed);
        while count != 0 && count != TAKEN {
            // Acquire pairs with the Release in `leave`. The calls before the last one were released by
            // the same thread.
            match self.state.compare_exchange(count, TAKEN, Acquire, Relaxed) {
                Ok(_) => return Some(Taken { outbox: self, count: count as usize }),
                Err(now) => count = now,
            }
        }
        None
    }

    /// Returns whether there may be calls that were left before `time`. By any thread.
    #[inline]
    pub(super) fn has_calls_before(&self, time: u64) -> bool {
        let count = self.state.load(Relaxed);
        count != 0 && count != TAKEN && self.since.load(Relaxed) < time
    }

    /// Returns the number of calls that can be left still. By the processor.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        MOST.saturating_sub(self.state.load(Relaxed) as usize)
    }
}

/// Calls that were taken out of an outbox. The processor leaves no more until this is dropped.
#[must_use]
pub(crate) struct Taken<'a> {
    outbox: &'a Outbox,
    count: usize,
}

impl Taken<'_> {
    /// Returns the calls.
    pub(crate) fn calls(&self) -> impl Iterator<Item = NonNull<()>> {
        self.outbox.calls[..self.count].iter().filter_map(|place| NonNull::new(place.load(Relaxed)))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // Release pairs with the Acquire in `leave`.
        self.outbox.state.store(0, Release);
    }
}
