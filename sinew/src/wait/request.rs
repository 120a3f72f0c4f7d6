//! Cancelling a fibre while it waits. A wait that is not cancelled pays two stores and two loads.
//!
//! ```text
//!   the fibre                              the canceller
//!   1  waiting = its wait                  1  requested = true, busy = true
//!   2  light fence                         2  heavy fence
//!   3  requested? then settle the wait     3  waiting? then settle it
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
#![allow(unsafe_code)]

use super::{Outcome, Party, Wait};
use crate::base::atomic::{Acquire, AtomicBool, AtomicPtr, Flag, Relaxed, Release, spin_loop};
use crate::base::fence;
use crate::strand::Owed;

/// A fibre's part in being cancelled.
pub(crate) struct Cancel {
    /// The wait that may be cancelled, or null. Written by the fibre, read by cancellers.
    waiting: AtomicPtr<Wait>,
    /// Says that the fibre has been cancelled. Set once and stays.
    requested: AtomicBool,
    /// Says that a canceller uses `waiting`.
    busy: Flag,
}

impl Cancel {
    pub(crate) fn new() -> Self {
        Cancel {
            waiting: AtomicPtr::new(std::ptr::null_mut()),
            requested: AtomicBool::new(false),
            busy: Flag::new(false),
        }
    }

    pub(crate) fn is_requested(&self) -> bool {
        // Acquire pairs with the Release in `request`.
        self.requested.load(Acquire)
    }

    /// Lets others cancel the wait until [`leave`](Cancel::leave). Returns whether the fibre has been
    /// cancelled before. By the fibre.
    #[inline]
    pub(crate) fn enter(&self, wait: &Wait) -> bool {
        // Release pairs with the Acquire in `request`: the canceller sees the wait as it was made.
        self.waiting.store(std::ptr::from_ref(wait).cast_mut(), Release);
        // Pairs with the heavy fence in `request`.
        fence::light();
        self.requested.load(Relaxed)
    }

    /// Hides the wait: no canceller uses it when this returns. By the fibre.
    #[inline]
    pub(crate) fn leave(&self) {
        self.waiting.store(std::ptr::null_mut(), Relaxed);
        // Pairs with the heavy fence in `request`.
        fence::light();
        // Acquire pairs with the Release in `request`.
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

    /// Cancels the fibre as [`cancel`](Cancel::cancel) does. If that ended a wait, returns the
    /// signal that the caller owes.
    pub(crate) fn request(&self) -> Option<Owed> {
        // Release: a fibre that sees the request sees what led to it.
        self.requested.store(true, Release);
        // One at a time. Acquire pairs with the Release below.
        while self.busy.swap(true, Acquire) {
            std::thread::yield_now();
            spin_loop();
        }
        fence::heavy();
        // Acquire pairs with the Release in `enter`.
        let waiting = self.waiting.load(Acquire);
        // SAFETY: the fibre does not pass `leave` while we are busy, and what it shows before `leave`
        // is a wait on its stack.
        let owed = unsafe { waiting.as_ref() }.and_then(|wait| wait.settle(Outcome::Cancelled));
        // Release: we are done with the wait; pairs with `leave`.
        self.busy.store(false, Release);
        owed
    }
}
