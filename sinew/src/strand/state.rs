//! The state of a strand: who may touch it, and what a wake-up has to do.
//!
//! A strand stops in one of two ways, and each is ended by its own kind of wake-up. It *parks*
//! because the program called `park`. A **token** ends that. Any thread may leave one at any time, and
//! the strand remembers it. Or the strand *waits* because the runtime made it wait for something. A
//! **signal** ends that, and exactly one thread owes it. So a token neither ends a wait nor is used up
//! by one.
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
//! *Active* (neither PARKED nor WAITING) is a strand that runs or is ready. Whether it is in a queue or
//! on a processor is the scheduler's matter. A commit that finds the flag that would wake the strand
//! takes the flag instead. `unpark` of a waiting strand leaves the token for later. A park with a time
//! limit is ended by its timer, with a signal.
//!
//! A strand stops in two steps:
//!
//! 1. The strand gives up its stack. It is still active.
//! 2. Its processor commits the stop, on its own stack.
//!
//! A wake-up between the two finds the strand active and leaves its flag, and the commit fails. So no
//! wake-up is lost, and no processor resumes a stack that is still in use.

use crate::base::atomic::{AcqRel, Acquire, AtomicU32, Relaxed, Release};
use crate::base::describe::Entry;

const TOKEN: u32 = 1;
const SIGNAL: u32 = 2;
const PARKED: u32 = 4;
const WAITING: u32 = 8;
const FINISHED: u32 = 16;

/// The entries of the description.
pub(crate) const ENTRIES: &[Entry] = &[
    Entry::number("state.token", TOKEN as usize),
    Entry::number("state.signal", SIGNAL as usize),
    Entry::number("state.parked", PARKED as usize),
    Entry::number("state.waiting", WAITING as usize),
    Entry::number("state.finished", FINISHED as usize),
];

/// The state word. Written by the strand itself, by its processor when it commits, and by threads that
/// wake the strand.
pub(crate) struct State(AtomicU32);

/// What a thread that woke a strand now has to do.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The strand had stopped and is the caller's: make it ready.
    Enqueue,
    /// Nothing: the strand is active and has got a flag, or it has finished.
    LeaveIt,
}

/// What became of a stop that was to be committed.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    /// It has stopped. The thread that wakes it owns it from now on.
    Stopped,
    /// It had been woken before. The strand is still the caller's.
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

    /// Takes the signal of a timer that went off beside a park. By the strand itself, when the timer
    /// has been removed.
    pub(crate) fn take_signal(&self) -> bool {
        self.take(SIGNAL)
    }

    #[inline]
    fn take(&self, flag: u32) -> bool {
        // Acquire pairs with the AcqRel in `wake`: the strand sees what the waker wrote before. The
        // load keeps the common case free of an exchange. The commit finds a flag that it misses.
        self.0.load(Relaxed) & flag != 0 && self.0.fetch_and(!flag, Acquire) & flag != 0
    }

    /// `active -> PARKED`, unless the strand has a token or a signal. By its processor, when the strand
    /// has given up its stack.
    #[inline]
    pub(crate) fn commit_park(&self) -> Commit {
        self.commit(PARKED, TOKEN | SIGNAL)
    }

    /// `active -> WAITING`, unless the strand has a signal. By its processor, when the strand has given
    /// up its stack.
    #[inline]
    pub(crate) fn commit_wait(&self) -> Commit {
        self.commit(WAITING, SIGNAL)
    }

    #[inline(always)]
    fn commit(&self, stop: u32, ended_by: u32) -> Commit {
        let mut seen = 0;
        while seen & ended_by == 0 {
            // Release: the thread that wakes the strand sees what it did up to here; pairs with the
            // Acquire half of `wake`. A token that stays is acquired when it is taken.
            match self.0.compare_exchange(seen, seen | stop, Release, Relaxed) {
                Ok(_) => return Commit::Stopped,
                Err(now) => seen = now,
            }
        }
        // A read-modify-write, so that it acquires the newest waker of all.
        self.0.fetch_and(!ended_by, Acquire);
        Commit::Woken
    }

    /// `PARKED -> active | active or WAITING -> + TOKEN`. By any thread.
    #[inline]
    pub(crate) fn unpark(&self) -> Woken {
        self.wake(PARKED, TOKEN)
    }

    /// `PARKED or WAITING -> active | active -> + SIGNAL`. By the thread that owes the signal. The
    /// strand has not finished.
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
            // A flag that is there already is written again, so that the strand acquires what this
            // waker wrote as well when it takes the flag.
            let next = if seen & ends != 0 { seen & !ends } else { seen | flag };
            // Release pairs with the Acquire in `take` and `commit`. Acquire pairs with the Release in
            // `commit`.
            match self.0.compare_exchange_weak(seen, next, AcqRel, Relaxed) {
                Ok(_) if seen & ends != 0 => return Woken::Enqueue,
                Ok(_) => return Woken::LeaveIt,
                Err(now) => seen = now,
            }
        }
    }

    /// `active -> FINISHED`. The strand will not run again. By its processor, once.
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
