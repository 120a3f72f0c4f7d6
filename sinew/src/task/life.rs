//! The life of a task: who polls it, what a wake-up owes, what an abort owes.
//!
//! A task is a strand that parks and nothing else: its future says that it cannot go on,
//! the processor commits the park, and a waker unparks it. So the states are those of
//! [`State`], and beside them there is one flag, which says that the future is to be
//! dropped instead of polled. It is set once and stays.
//!
//! ```text
//!   the processor                       a waker                 who aborts
//!   1  begin: take the token;           1  unpark: PARKED?      1  flag = true
//!      flag? then drop the future          then make it ready   2  unpark, as a waker
//!   2  poll                                else leave a token
//!   3  not ready: commit the park;
//!      a token? then go to 1
//!   4  ready: hand the result over
//! ```
//!
//! A wake-up that comes after step 1 leaves a token that step 3 finds, or it finds the
//! task parked. One that comes before step 1 is taken there, and the poll sees what the
//! waker did before it. So none is lost, and a poll that nobody asked for comes only of
//! wake-ups that were more than needed. The flag is written before the token, so whoever
//! takes the token sees the flag: an abort is noticed unless the task ends before.

use crate::base::atomic::{AtomicBool, Relaxed};
use crate::strand::{State, Strand, Woken};

/// A task's part in its strand.
#[derive(Clone, Copy)]
pub(crate) struct Life<'a> {
    state: &'a State,
    /// Whether the task is to end. Written by who aborts it, read by its processor.
    ending: &'a AtomicBool,
}

/// What its processor now has to do with a task.
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
        // It acquires what the waker did, and the flag of one who aborts.
        self.state.take_token();
        if self.ending.load(Relaxed) { Begin::End } else { Begin::Poll }
    }

    /// By anyone. The result is that of an unpark.
    pub(crate) fn abort(self) -> Woken {
        // Before the token, whose Release makes it seen.
        self.ending.store(true, Relaxed);
        self.state.unpark()
    }
}
