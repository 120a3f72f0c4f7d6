//! How a runtime ends: no strand gets in any more, and the last strand to finish signals the thread
//! or fibre that waits for it.
//!
//! Each post has a [`Tally`] of the strands that were spawned and that finished there. Only the
//! post's processor writes it, so spawning costs no shared cache line. A strand whose spawner is not
//! a strand of the runtime is counted in [`Drain`], on its way *in*. Such a spawner is a kernel
//! thread, a strand of another runtime, or a waker that a processor calls between two strands. The
//! *drainer* is the thread or fibre that ends the runtime; there is one.
//!
//! ```text
//!   the word    OPEN --close--> AWAKE --enter--> a party --tell | withdraw--> AWAKE
//!
//!   a spawner from outside  1  let_in + 1
//!                           2  light fence
//!                           3  OPEN: spawn. Else: refused + 1, tell
//!   a processor, when a     1  finished + 1
//!   strand has finished     2  light fence
//!                           3  OPEN: done. Else: tell
//!   tell                    word = AWAKE; if that was a party, signal it
//!   the drainer             1  word = AWAKE
//!                           2  heavy fence
//!                           3  word = its party
//!                           4  count. No strand is live: take the party back, done
//!                           5  wait for the signal, go to 3
//! ```
//!
//! # Why no strand gets in after the end
//!
//! The spawner from outside and the drainer each write, then execute a fence, then read what the
//! other wrote. So either the spawner finds that the word is not OPEN, or every count of the drainer
//! includes the new strand. A strand of the runtime that spawns is itself included.
//!
//! # Why a count of 0 is true
//!
//! All counters only grow, and the drainer reads the counters of ends first. Each end that it counts
//! was released after the strand's beginning was counted, so it counts that beginning as well. If
//! both sums are equal, no strand was alive between the two readings. After the close a strand can
//! only come from another strand that is alive.
//!
//! # Why the last strand is not missed
//!
//! A processor that finds OPEN in step 3 has counted its strand before the drainer's heavy fence:
//! all counts include it. A processor that tells exchanges the word, as the drainer does in step 3.
//! If the processor comes first, the drainer acquires what it released, and the count includes the
//! strand. If the processor comes second, it finds the party and signals it. The same holds for a
//! spawner that is refused: its strand is counted as live for a moment.
//!
//! The side that takes the party out of the word owes the signal. So the drainer leaves when it has
//! taken its party back, or has been signalled: never while another thread holds the party's address.

use crate::base::atomic::{AcqRel, Acquire, AtomicU64, Relaxed, Release};
use crate::base::fence;
use crate::strand::Owed;
use std::num::NonZeroU64;

/// Every caller may spawn.
const OPEN: u64 = 0;
/// Only strands of the runtime may spawn, and the drainer is not waiting. Any larger number is the
/// party of the drainer, which waits.
const AWAKE: u64 = 1;

/// The strands of a runtime that were spawned, and that finished, on one post.
#[repr(C)]
pub(crate) struct Tally {
    /// Both are written by the post's processor only, and read by [`Drain::live`].
    spawned: AtomicU64,
    finished: AtomicU64,
}

impl Tally {
    /// The offsets of its counters.
    pub(super) const SPAWNED: usize = std::mem::offset_of!(Tally, spawned);
    pub(super) const FINISHED: usize = std::mem::offset_of!(Tally, finished);

    pub(crate) fn new() -> Self {
        Tally { spawned: AtomicU64::new(0), finished: AtomicU64::new(0) }
    }

    pub(crate) fn spawned(&self) -> u64 {
        self.spawned.load(Relaxed)
    }

    pub(crate) fn finished(&self) -> u64 {
        self.finished.load(Relaxed)
    }

    /// Counts a strand that a strand of the runtime spawns. By the post's processor.
    #[inline]
    pub(crate) fn count_spawned(&self) {
        self.spawned.store(self.spawned.load(Relaxed) + 1, Relaxed);
    }

    /// Counts a strand that has finished. By the post's processor, before [`Drain::one_finished`].
    #[inline]
    pub(crate) fn count_finished(&self) {
        // Release pairs with the Acquire in `Drain::live`: a count that includes this end also
        // includes the spawns that came before it.
        self.finished.store(self.finished.load(Relaxed) + 1, Release);
    }
}

/// The word that says whether a runtime ends, and the counts of spawns from outside.
pub(crate) struct Drain {
    /// OPEN, AWAKE, or the number of the drainer's party.
    word: AtomicU64,
    /// The number of spawns by callers that are no strands of the runtime. Written by any thread.
    let_in: AtomicU64,
    /// The number of those spawns that came too late. Written by any thread.
    refused: AtomicU64,
}

/// What a spawner from outside may do.
#[must_use]
pub(crate) enum Way {
    /// Spawn: the strand is counted.
    Open,
    /// It must not spawn. It signals this party, if there is one.
    Closed(Option<Owed>),
}

impl Drain {
    pub(crate) fn new() -> Self {
        Drain { word: AtomicU64::new(OPEN), let_in: AtomicU64::new(0), refused: AtomicU64::new(0) }
    }

    /// Counts a strand that a caller from outside is about to spawn.
    pub(crate) fn let_in(&self) -> Way {
        self.let_in.fetch_add(1, Relaxed);
        // Pairs with the heavy fence in `close`.
        fence::light();
        if self.word.load(Relaxed) == OPEN {
            return Way::Open;
        }
        // Release pairs with the Acquire in `live`, as in `Tally::count_finished`. A model does not
        // need it: its light fence orders this as well.
        self.refused.fetch_add(1, Release);
        Way::Closed(self.tell())
    }

    /// Takes back a count of `let_in`: the caller does not spawn after all. Returns the party to signal, if
    /// there is one.
    pub(crate) fn take_back(&self) -> Option<Owed> {
        // Release as in `let_in`.
        self.refused.fetch_add(1, Release);
        self.one_finished()
    }

    /// Returns the number of strands that callers from outside have spawned.
    pub(crate) fn spawned_outside(&self) -> u64 {
        let refused = self.refused.load(Relaxed);
        self.let_in.load(Relaxed).saturating_sub(refused)
    }

    /// Returns the party to signal, if there is one. By a processor, after it has counted a strand
    /// that has finished.
    #[inline]
    pub(crate) fn one_finished(&self) -> Option<Owed> {
        // Pairs with the heavy fence in `close`.
        fence::light();
        if self.word.load(Relaxed) == OPEN { None } else { self.tell() }
    }

    /// `AWAKE | a party -> AWAKE`. Returns the party, which the caller has to signal.
    #[cold]
    fn tell(&self) -> Option<Owed> {
        // Release: what was counted; pairs with the Acquire in `enter`. Acquire: what the party's
        // number stands for; pairs with the Release in `enter`.
        let before = self.word.swap(AWAKE, AcqRel);
        NonZeroU64::new(before).filter(|before| before.get() > AWAKE).map(Owed::taken)
    }

    /// Returns the number of live strands, given the tallies of all posts. The number is 0 only if
    /// at some moment during the call no strand was live.
    pub(crate) fn live<'a>(&self, tallies: impl Iterator<Item = &'a Tally> + Clone) -> u64 {
        // Acquire pairs with the Releases in `Tally::count_finished` and `let_in`.
        let finished =
            self.refused.load(Acquire) + tallies.clone().map(|tally| tally.finished.load(Acquire)).sum::<u64>();
        let spawned = self.let_in.load(Relaxed) + tallies.map(|tally| tally.spawned.load(Relaxed)).sum::<u64>();
        spawned.saturating_sub(finished)
    }

    /// `OPEN -> AWAKE`. Refuses spawns from outside from now on. By the drainer, once.
    pub(crate) fn close(&self) {
        self.word.store(AWAKE, Relaxed);
        // Pairs with the light fences in `let_in` and `one_finished`.
        fence::heavy();
    }

    /// Blocks the caller until `is_over` returns `true`; that function counts what is
    /// [live](Drain::live). By the drainer, after `close`. `block` passes the caller's party to the
    /// function that it gets. If that function returns `true`, `block` blocks until the party is
    /// signalled.
    pub(crate) fn wait(&self, is_over: impl Fn() -> bool, block: impl Fn(&dyn Fn(NonZeroU64) -> bool)) {
        while !is_over() {
            block(&|party| {
                self.enter(party);
                !(is_over() && self.withdraw(party))
            });
        }
    }

    /// `AWAKE -> the party`.
    fn enter(&self, party: NonZeroU64) {
        // Acquire pairs with the Release in `tell`, Release with the Acquire there.
        self.word.swap(party.get(), AcqRel);
    }

    /// `the party -> AWAKE`. Returns `false` if another thread has taken the party out and signals it.
    fn withdraw(&self, party: NonZeroU64) -> bool {
        // Relaxed: on success the word holds what the drainer wrote; on failure the signal orders.
        self.word.compare_exchange(party.get(), AWAKE, Relaxed, Relaxed).is_ok()
    }
}
