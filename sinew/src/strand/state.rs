//! The state of a strand: who may touch it, and what a wake-up owes.
//!
//! A strand stops in one of two ways, and each is ended by its own kind of
//! wake-up. It *parks*, because a user's program called `park`: a **token** ends
//! that, which anyone may leave at any time, and which is remembered. Or it
//! *waits*, because the runtime made it wait for something: a **signal** ends
//! that, and whoever is to give it is known. So a user's token neither cuts a
//! wait short nor is it used up by one.
//!
//! ```text
//!              commit_park: neither            unpark or signal
//!      active -----------------------> PARKED ------------------> active
//!              commit_wait: no SIGNAL          signal
//!      active -----------------------> WAITING -----------------> active
//!
//!      active --unpark--> + TOKEN      active --signal--> + SIGNAL
//!      active --finish--> FINISHED     (unpark leaves that as it is)
//! ```
//!
//! *Active* (neither PARKED nor WAITING) covers a strand that runs and one that
//! is ready: whether it sits in a queue or on a processor is the scheduler's
//! matter. A commit that finds the flag it would be woken by takes the flag
//! instead. `unpark` of a waiting strand leaves the token for later. A park with
//! a time limit is ended by its timer, with a signal.
//!
//! The strand that stops does so in two steps. It gives up its stack first
//! (still active), and its processor commits afterwards, on its own stack. A
//! wake-up that comes between the two finds the strand active, leaves its flag,
//! and the commit fails: nothing is lost, and nobody resumes a stack that is
//! still in use.

use crate::base::atomic::{AcqRel, Acquire, AtomicU32, Relaxed, Release};

const TOKEN: u32 = 1;
const SIGNAL: u32 = 2;
const PARKED: u32 = 4;
const WAITING: u32 = 8;
const FINISHED: u32 = 16;

/// The state word. Written by the strand itself, by its processor when it
/// commits, and by whoever wakes it.
pub(crate) struct State(AtomicU32);

/// What whoever woke a strand now has to do.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The strand had stopped and is the caller's: make it ready.
    Enqueue,
    /// It is active and has been left a flag, or it has finished.
    LeaveIt,
}

/// What became of a stop that was to be committed.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    /// It has stopped: whoever wakes it owns it from now on.
    Stopped,
    /// It had been woken before: the strand is still the caller's.
    Woken,
}

impl State {
    pub(crate) fn new() -> Self {
        State(AtomicU32::new(0))
    }

    /// Takes the token if it is there. By the strand itself.
    #[inline]
    pub(crate) fn take_token(&self) -> bool {
        self.take(TOKEN)
    }

    /// Takes the signal of a timer that went off beside a park. By the strand
    /// itself, when the timer is out of the way.
    pub(crate) fn take_signal(&self) -> bool {
        self.take(SIGNAL)
    }

    #[inline]
    fn take(&self, flag: u32) -> bool {
        // Acquire pairs with the AcqRel in `wake`: what the waker wrote before is
        // seen. The load keeps the common case free of an exchange; a flag that
        // it misses is found by the commit.
        self.0.load(Relaxed) & flag != 0 && self.0.fetch_and(!flag, Acquire) & flag != 0
    }

    /// Parks the strand unless it has been woken. By its processor, when the
    /// strand has given up its stack.
    #[inline]
    pub(crate) fn commit_park(&self) -> Commit {
        self.commit(PARKED, TOKEN | SIGNAL)
    }

    /// Lets the strand wait unless it has been signalled. By its processor, when
    /// the strand has given up its stack.
    #[inline]
    pub(crate) fn commit_wait(&self) -> Commit {
        self.commit(WAITING, SIGNAL)
    }

    #[inline(always)]
    fn commit(&self, stop: u32, ended_by: u32) -> Commit {
        let mut seen = 0;
        while seen & ended_by == 0 {
            // Release: the thread that wakes and resumes the strand sees what it did up
            // to here; pairs with the Acquire half of `wake`. A token that stays is
            // acquired when it is taken.
            match self.0.compare_exchange(seen, seen | stop, Release, Relaxed) {
                Ok(_) => return Commit::Stopped,
                Err(now) => seen = now,
            }
        }
        // A read-modify-write: it acquires the newest waker of all.
        self.0.fetch_and(!ended_by, Acquire);
        Commit::Woken
    }

    /// Gives the strand a token, or ends its park. By anyone.
    #[inline]
    pub(crate) fn unpark(&self) -> Woken {
        self.wake(PARKED, TOKEN)
    }

    /// Gives the strand a signal, or ends its wait or its park. By the one who
    /// owes it; the strand has not finished.
    #[inline]
    pub(crate) fn signal(&self) -> Woken {
        self.wake(WAITING | PARKED, SIGNAL)
    }

    #[inline(always)]
    fn wake(&self, ends: u32, flag: u32) -> Woken {
        let mut seen = self.0.load(Relaxed);
        loop {
            if seen == FINISHED {
                return Woken::LeaveIt;
            }
            // A flag that is there already is written anew, so that the strand,
            // when it takes the flag, acquires what this waker wrote as well.
            let next = if seen & ends != 0 { seen & !ends } else { seen | flag };
            // Release pairs with the Acquire in `take` and `commit`; Acquire
            // pairs with the Release in `commit`.
            match self.0.compare_exchange_weak(seen, next, AcqRel, Relaxed) {
                Ok(_) if seen & ends != 0 => return Woken::Enqueue,
                Ok(_) => return Woken::LeaveIt,
                Err(now) => seen = now,
            }
        }
    }

    /// The strand will not run again. By its processor, once.
    pub(crate) fn finish(&self) {
        self.0.store(FINISHED, Relaxed);
    }
}

#[cfg(all(test, sinew_loom))]
impl State {
    /// See [`Strand::end_for_model`](super::Strand::end_for_model).
    pub(super) fn end_for_model(&mut self) {
        self.0.with_mut(|_| ());
    }
}
