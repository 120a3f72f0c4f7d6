//! Cancelling a fibre while it waits. A wait that is not cancelled pays two stores and two loads.
//!
//! ```text
//!   the fibre                              the canceller
//!   1  waiting = its wait                  1  add a request, busy = true
//!   2  light fence                         2  heavy fence
//!   3  requests? then settle the wait      3  waiting? then settle it
//!   4  ... waits ...                       4  busy = false
//!   5  waiting = none
//!   6  light fence
//!   7  busy? then wait until it is not
//! ```
//!
//! The fences make one of these true: the fibre sees the request in its step 3, or the canceller sees
//! the wait in its step 3. They also make one of these true: the canceller sees in its step 3 that
//! there is no wait, or the fibre sees in step 7 that the canceller is busy. So no request is missed,
//! and no wait is used after it is gone.
//!
//! The heavy fence is a system call that interrupts all threads of the process. So a canceller of many
//! fibres takes step 1 for each of them, one fence, and step 3 for each of them. Meanwhile it holds
//! several `busy` flags. No deadlock comes of that. Only the first canceller of a fibre takes its flag.
//! So two cancellers of many fibres never wait for each other. An interrupter holds one flag, and does
//! not wait while it holds that.
#![allow(unsafe_code)]

use super::{Outcome, Party, Wait};
use crate::base::atomic::{Acquire, AtomicPtr, AtomicU32, Flag, Relaxed, Release, spin_loop};
use crate::base::fence;
use crate::strand::Owed;

/// The request of a canceller, which stays. The bits below are the number of interrupts.
const FOR_EVER: u32 = 1 << 31;

/// The largest number of fibres that are cancelled with one fence. A fibre whose wait ends meanwhile
/// holds up its processor until the canceller is done with all of them. Unmeasured.
const LARGEST_BATCH: usize = 256;

/// A fibre's part in being cancelled.
pub(crate) struct Cancel {
    /// The wait that may be cancelled, or null. Written by the fibre, read by cancellers.
    waiting: AtomicPtr<Wait>,
    /// `FOR_EVER` if the fibre has been cancelled, and the number of interrupts. Waits fail unless this
    /// is 0. Cancellers and interrupters add to it, the fibre takes interrupts back.
    requests: AtomicU32,
    /// Says that a canceller uses `waiting`.
    busy: Flag,
}

impl Cancel {
    /// The offset of the requests, for readers of memory.
    pub(super) const REQUESTS: usize = std::mem::offset_of!(Cancel, requests);

    pub(crate) fn new() -> Self {
        Cancel { waiting: AtomicPtr::new(std::ptr::null_mut()), requests: AtomicU32::new(0), busy: Flag::new(false) }
    }

    /// Returns whether waits of the fibre fail: it has been cancelled or interrupted.
    pub(crate) fn is_requested(&self) -> bool {
        // Acquire pairs with the Release in `begin` and `interrupt`.
        self.requests.load(Acquire) != 0
    }

    /// Returns whether the fibre has been cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        // Acquire as in `is_requested`.
        self.requests.load(Acquire) & FOR_EVER != 0
    }

    /// Lets others cancel the wait until [`leave`](Cancel::leave). Returns whether the fibre has been
    /// cancelled before. By the fibre.
    #[inline]
    pub(crate) fn enter(&self, wait: &Wait) -> bool {
        // Release pairs with the Acquire in `finish`: the canceller sees the wait as it was made.
        self.waiting.store(std::ptr::from_ref(wait).cast_mut(), Release);
        // Pairs with the heavy fence of the canceller.
        fence::light();
        self.requests.load(Relaxed) != 0
    }

    /// Hides the wait: no canceller uses it when this returns. By the fibre.
    #[inline]
    pub(crate) fn leave(&self) {
        self.waiting.store(std::ptr::null_mut(), Relaxed);
        // Pairs with the heavy fence of the canceller.
        fence::light();
        // Acquire pairs with the Release in `finish`.
        if self.busy.load(Acquire) {
            self.leave_slow();
        }
    }

    #[cold]
    fn leave_slow(&self) {
        while self.busy.load(Acquire) {
            std::thread::yield_now();
            spin_loop();
        }
    }

    /// Cancels the fibre. By any thread.
    pub(crate) fn cancel(&self) {
        if let Some(owed) = self.request() {
            Party::signal_owed(owed);
        }
    }

    /// Cancels all of these fibres as [`cancel`](Cancel::cancel) does, with one fence for each
    /// [`LARGEST_BATCH`] of them.
    pub(crate) fn cancel_all<'a>(mut fibres: impl Iterator<Item = &'a Cancel>) {
        loop {
            let mut looked_at = 0;
            let batch = fibres.by_ref().take(LARGEST_BATCH).inspect(|_| looked_at += 1);
            let begun: Vec<&Cancel> = batch.filter(|cancel| cancel.begin()).collect();
            if !begun.is_empty() {
                fence::heavy();
            }
            begun.into_iter().filter_map(Cancel::finish).for_each(Party::signal_owed);
            if looked_at < LARGEST_BATCH {
                return;
            }
        }
    }

    /// Cancels the fibre as [`cancel`](Cancel::cancel) does. If that ended a wait, returns the
    /// signal that the caller owes.
    pub(crate) fn request(&self) -> Option<Owed> {
        if !self.begin() {
            return None;
        }
        fence::heavy();
        self.finish()
    }

    /// Takes step 1. Returns `false` if another canceller has: then that one does the rest.
    fn begin(&self) -> bool {
        // Release: a fibre that sees the request sees what led to it.
        let is_first = self.requests.fetch_or(FOR_EVER, Release) & FOR_EVER == 0;
        if is_first {
            self.take_busy();
        }
        is_first
    }

    /// Takes the right to use the wait. One thread has it at a time.
    fn take_busy(&self) {
        // Acquire pairs with the Release in `finish`.
        while self.busy.swap(true, Acquire) {
            std::thread::yield_now();
            spin_loop();
        }
    }

    /// Takes steps 3 and 4. If that ended a wait, returns the signal that the caller owes.
    fn finish(&self) -> Option<Owed> {
        // Acquire pairs with the Release in `enter`.
        let waiting = self.waiting.load(Acquire);
        // SAFETY: the fibre does not pass `leave` while we are busy, and what it shows before `leave`
        // is a wait on its stack.
        let owed = unsafe { waiting.as_ref() }.and_then(|wait| wait.settle(Outcome::Cancelled));
        // Release: we are done with the wait; pairs with `leave`.
        self.busy.store(false, Release);
        owed
    }

    /// Makes the waits of the fibre fail until [`end_interrupt`](Cancel::end_interrupt). By any thread.
    pub(crate) fn interrupt(&self) {
        // Release as in `begin`.
        self.requests.fetch_add(1, Release);
        self.take_busy();
        fence::heavy();
        if let Some(owed) = self.finish() {
            Party::signal_owed(owed);
        }
    }

    /// Takes one [interrupt](Cancel::interrupt) back. By the fibre, after the call of `interrupt` has
    /// returned.
    pub(crate) fn end_interrupt(&self) {
        // Relaxed: an exchange keeps what the requests before it released.
        self.requests.fetch_sub(1, Relaxed);
    }
}
