//! The hand-over of a result: from a strand that finishes to the holder of its join handle.
//!
//! ```text
//!   RUNNING --wait--> a waiter --complete--> DONE    (the waiter is signalled)
//!   RUNNING --------------------complete--> DONE    (the handle will look)
//!   RUNNING --detach--> DETACHED --complete--> DONE  (the strand drops the result)
//!   a waiter --withdraw--> RUNNING                   (it no longer waits)
//! ```
//!
//! There is one handle, so there is at most one waiter. A waiter is the number of a party. The thread
//! that takes it out of the word owes it one signal. So a waiter whose time is up leaves only if it
//! can withdraw its number. Otherwise it waits for the signal.

use super::Owed;
use crate::base::atomic::{AcqRel, Acquire, AtomicU64, Relaxed, Release};
use std::num::NonZeroU64;

const RUNNING: u64 = 0;
const DONE: u64 = 1;
const DETACHED: u64 = 2;

/// The join word, which lies in the strand's record. A value other than the three above is a waiter.
#[derive(Clone, Copy)]
pub(crate) struct Join<'a>(&'a AtomicU64);

/// A number that is larger than every state, and stands for a waiter.
pub(crate) type Waiter = NonZeroU64;

/// What became of the request to wait.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The waiter is in the word and will be signalled.
    Entered,
    /// The result is there, and no signal will come.
    Done,
}

/// What the strand that finished now has to do.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Completed {
    /// Nothing: the holder of the handle will find the result.
    Kept,
    /// There is no handle any more: drop the result.
    Unwanted,
    /// Signal this waiter.
    Wake(Owed),
}

/// What the handle that is dropped now has to do.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Detached {
    /// Nothing: the strand will drop its result itself.
    Running,
    /// The result is there: drop it.
    Done,
}

impl<'a> Join<'a> {
    /// Makes a word a join word. It was 0 at first, and is written by nothing else.
    #[inline(always)]
    pub(crate) fn of(word: &'a AtomicU64) -> Self {
        const { assert!(RUNNING == 0) };
        Join(word)
    }

    /// Says whether the result is there.
    pub(crate) fn is_done(self) -> bool {
        // Acquire pairs with the Release in `complete`: the result is visible.
        self.0.load(Acquire) == DONE
    }

    /// `RUNNING -> waiter`. By the holder of the handle, which has no other waiter in the word.
    pub(crate) fn wait(self, waiter: Waiter) -> Wait {
        debug_assert!(waiter.get() > DETACHED);
        // Release: `complete` may use what the waiter stands for. Acquire on failure: as in
        // `is_done`.
        match self.0.compare_exchange(RUNNING, waiter.get(), Release, Acquire) {
            Ok(_) => Wait::Entered,
            Err(_) => Wait::Done,
        }
    }

    /// `waiter -> RUNNING`. Takes the waiter back. Returns `false` if `complete` has taken it.
    pub(crate) fn withdraw(self, waiter: Waiter) -> bool {
        // Acquire on failure: as in `is_done`.
        self.0.compare_exchange(waiter.get(), RUNNING, Relaxed, Acquire).is_ok()
    }

    /// `RUNNING | DETACHED | waiter -> DONE`. By the strand, once, after it has stored its result.
    pub(crate) fn complete(self) -> Completed {
        // Release: the result, for `is_done`, `wait` and `detach`. Acquire: the waiter, from `wait`.
        match self.0.swap(DONE, AcqRel) {
            RUNNING => Completed::Kept,
            DETACHED => Completed::Unwanted,
            waiter => Completed::Wake(Owed::taken(Waiter::new(waiter).expect("RUNNING is 0"))),
        }
    }

    /// `RUNNING -> DETACHED`. By the holder of the handle, which gives it up.
    pub(crate) fn detach(self) -> Detached {
        // Acquire on failure: as in `is_done`.
        match self.0.compare_exchange(RUNNING, DETACHED, Relaxed, Acquire) {
            Ok(_) => Detached::Running,
            Err(_) => Detached::Done,
        }
    }
}
