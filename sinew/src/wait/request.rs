//! How a fibre is cancelled while it waits, and what that costs one that is not:
//! two stores and two loads for each wait.
//!
//! ```text
//!   the fibre                              whoever cancels it
//!   1  waiting = its wait                  1  requested = true, busy = true
//!   2  light fence                         2  heavy fence
//!   3  requested? then settle it oneself   3  waiting? then settle it
//!   4  ... waits ...                       4  busy = false
//!   5  waiting = none
//!   6  light fence
//!   7  busy? then wait until it is not
//! ```
//!
//! The fences make one of these true: the fibre sees the request in step 3, or
//! the canceller sees the wait in its step 3. And one of these: the canceller
//! sees in its step 3 that there is no wait any more, or the fibre sees in step 7
//! that somebody is at work on it. So no request is missed, and no wait is used
//! after it is gone.
#![allow(unsafe_code)]

use super::{Outcome, Party, Wait};
use crate::base::atomic::{Acquire, AtomicBool, AtomicPtr, Flag, Relaxed, Release, spin_loop};
use crate::base::fence;

/// A fibre's part in being cancelled.
pub(crate) struct Cancel {
    /// The wait that may be cancelled. Written by the fibre.
    waiting: AtomicPtr<Wait>,
    /// Whether it has been asked to end what it does. Stays.
    requested: AtomicBool,
    /// Whether somebody is at work on `waiting`.
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

    /// Lets others cancel the wait until [`leave`](Cancel::leave). `true` if the
    /// fibre has been cancelled already. By the fibre.
    #[inline]
    pub(crate) fn enter(&self, wait: &Wait) -> bool {
        // Release: whoever cancels sees the wait as it was made.
        self.waiting.store(std::ptr::from_ref(wait).cast_mut(), Release);
        // Pairs with the heavy fence in `request`.
        fence::light();
        self.requested.load(Relaxed)
    }

    /// Nobody uses the wait any more when this returns. By the fibre.
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

    /// Asks the fibre to end what it does. By anyone.
    pub(crate) fn cancel(&self) {
        if let Some(party) = self.request() {
            // SAFETY: the wait was ours to settle.
            unsafe { party.signal() };
        }
    }

    /// As [`cancel`](Cancel::cancel), but if that ended a wait, its party is the
    /// caller's to signal.
    pub(crate) fn request(&self) -> Option<Party> {
        // Release: who sees the request sees what led to it.
        self.requested.store(true, Release);
        // One at a time. Acquire pairs with the Release below.
        while self.busy.swap(true, Acquire) {
            std::thread::yield_now();
            spin_loop();
        }
        fence::heavy();
        // Acquire pairs with the Release in `enter`.
        let waiting = self.waiting.load(Acquire);
        // SAFETY: the fibre does not pass `leave` while we are busy, and what it
        // showed before `leave` is a wait on its stack.
        let party = unsafe { waiting.as_ref() }.and_then(|wait| wait.settle(Outcome::Cancelled));
        // Release: we are done with the wait; pairs with `leave`.
        self.busy.store(false, Release);
        party
    }
}
