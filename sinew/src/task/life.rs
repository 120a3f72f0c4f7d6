//! The life of a task: which processor polls it, and what a wake-up and an abort owe.
//!
//! A task only ever parks: its future returns `Pending`, the processor commits the park, and a
//! waker unparks the task. So its states are those of [`State`]. Beside them there is one flag,
//! which says that the future is to be dropped instead of polled. The flag is set once and stays.
//!
//! ```text
//!   the processor                       a waker                 the aborting thread
//!   1  begin: take the token;           1  unpark: PARKED?      1  flag = true
//!      flag? then drop the future          then make it ready   2  unpark, as a waker
//!   2  poll                                else leave a token
//!   3  pending: commit the park;
//!      a token? then go to 1
//!   4  ready: hand the result over
//! ```
//!
//! A wake-up before step 1 leaves a token. Step 1 takes it, and the poll sees what the waker did
//! before. A wake-up after step 1 leaves a token that step 3 finds, or it finds the task parked.
//! So no wake-up is lost, and a spurious poll comes only from a surplus wake-up.
//!
//! The flag is written before the token, so the processor that takes the token sees the flag. An
//! abort is noticed unless the task ends first.

use crate::base::atomic::{AtomicBool, Relaxed};
use crate::strand::{State, Strand, Woken};

/// The words of a strand that a task uses.
#[derive(Clone, Copy)]
pub(crate) struct Life<'a> {
    state: &'a State,
    /// Says that the task is to end. Written by the threads that abort it, read by its processor.
    ending: &'a AtomicBool,
}

/// What the processor of a task now has to do.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Poll the future.
    Poll,
    /// Drop the future: the task has been aborted.
    End,
}

impl<'a> Life<'a> {
    #[inline]
    pub(crate) fn of(strand: &'a Strand) -> Self {
        Life::new(strand.state(), strand.flag())
    }

    #[inline]
    pub(crate) fn new(state: &'a State, ending: &'a AtomicBool) -> Self {
        Life { state, ending }
    }

    /// `TOKEN -> none`. By the processor that runs the task.
    #[inline]
    pub(crate) fn begin(self) -> Begin {
        // Acquires what the waker did, and the flag of an abort.
        self.state.take_token();
        if self.ending.load(Relaxed) { Begin::End } else { Begin::Poll }
    }

    /// Sets the flag and unparks, from any thread. Returns what `unpark` returns.
    pub(crate) fn abort(self) -> Woken {
        // Before the token, whose Release publishes it.
        self.ending.store(true, Relaxed);
        self.state.unpark()
    }

    /// Returns whether the task has been aborted.
    pub(crate) fn is_ending(self) -> bool {
        self.ending.load(Relaxed)
    }
}
