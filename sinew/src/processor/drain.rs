//! How a runtime ends: nobody gets in any more, and the last strand to finish tells the one
//! that waits for it.
//!
//! Each post has a [`Tally`] of the strands that were spawned and that finished there. Its
//! processor alone writes it, so that spawning costs no shared line. Whoever is not a
//! strand of the runtime is counted here, on its way *in*: a kernel thread, a strand of
//! another runtime, a waker that a processor calls between two strands. The *drainer* is the
//! one that ends the runtime, once.
//!
//! ```text
//!   the word    OPEN --close--> AWAKE --enter--> a party --tell | withdraw--> AWAKE
//!
//!   one on its way in       1  let in + 1
//!                           2  light fence
//!                           3  OPEN: spawn. Else: refused + 1, tell
//!   a processor, when a     1  finished + 1
//!   strand has finished     2  light fence
//!                           3  OPEN: done. Else: tell
//!   to tell                 word = AWAKE; if that was a party, signal it
//!   the drainer             1  word = AWAKE
//!                           2  heavy fence
//!                           3  word = its party
//!                           4  count. None are live: take the party back, done
//!                           5  wait for the signal, go to 3
//! ```
//!
//! # Why nobody gets in after the end
//!
//! Of one on its way in and the drainer, each writes, then comes its fence, then it reads
//! what the other wrote. So the one on its way in finds that the word is not OPEN, or every
//! count of the drainer includes it. A strand that spawns is itself included.
//!
//! # Why a count of 0 is true
//!
//! All counters only grow, and those of ends are read first. Each end that is counted was
//! released after its beginning was counted, so its beginning is counted as well. If both
//! sums are equal, nobody was alive between the two readings; and after the close a strand
//! can only come from another one that is alive.
//!
//! # Why the last one is not missed
//!
//! A processor that finds OPEN in step 3 has counted its strand before the drainer's heavy
//! fence: all counts include it. One that tells exchanges the word, as the drainer does in
//! step 3. If it comes first, the drainer acquires what it released, and the count includes
//! it. If it comes second, it finds the party, and signals it. The same holds for one that is
//! refused, which is alive for a moment.
//!
//! The party is in the word or is not, and whoever takes it out owes the signal. So the
//! drainer leaves when it has taken its party back, or has been signalled: never while another
//! holds its address.

use crate::base::atomic::{AcqRel, Acquire, AtomicU64, Relaxed, Release};
use crate::base::fence;
use crate::strand::Owed;
use std::num::NonZeroU64;

/// Everybody may spawn.
const OPEN: u64 = 0;
/// Only strands of the runtime may, and the drainer looks for itself. Any other number is the
/// party of the drainer, which waits.
const AWAKE: u64 = 1;

/// The strands of a runtime that were spawned, and that finished, on one post.
pub(crate) struct Tally {
    /// Written by the post's processor only, as the next.
    spawned: AtomicU64,
    finished: AtomicU64,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Tally { spawned: AtomicU64::new(0), finished: AtomicU64::new(0) }
    }

    /// By the processor, while it runs a strand of the runtime.
    #[inline]
    pub(crate) fn count_spawned(&self) {
        self.spawned.store(self.spawned.load(Relaxed) + 1, Relaxed);
    }

    /// By the processor, before [`Drain::one_finished`].
    #[inline]
    pub(crate) fn count_finished(&self) {
        // Release pairs with the Acquire in `Drain::live`: whoever counts this end also counts
        // the spawns that came before it.
        self.finished.store(self.finished.load(Relaxed) + 1, Release);
    }
}

pub(crate) struct Drain {
    word: AtomicU64,
    /// Strands that were not spawned by a strand of the runtime.
    let_in: AtomicU64,
    /// Those of them that came too late.
    refused: AtomicU64,
}

/// What one who is on its way in may do.
#[must_use]
pub(crate) enum Way {
    /// Spawn: the strand is counted.
    Open,
    /// Nothing but signal this party, if there is one.
    Closed(Option<Owed>),
}

impl Drain {
    pub(crate) fn new() -> Self {
        Drain { word: AtomicU64::new(OPEN), let_in: AtomicU64::new(0), refused: AtomicU64::new(0) }
    }

    /// Counts a strand that somebody who is no strand of the runtime is about to spawn.
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

    /// By a processor, when a strand has finished and its tally says so. Returns the party to
    /// signal, if there is one.
    #[inline]
    pub(crate) fn one_finished(&self) -> Option<Owed> {
        // Pairs with the heavy fence in `close`.
        fence::light();
        if self.word.load(Relaxed) == OPEN { None } else { self.tell() }
    }

    /// `AWAKE | a party -> AWAKE`. The party is the caller's to signal.
    #[cold]
    fn tell(&self) -> Option<Owed> {
        // Release: what was counted, for `enter`. Acquire: what the party stands for, from there.
        let before = self.word.swap(AWAKE, AcqRel);
        NonZeroU64::new(before).filter(|before| before.get() > AWAKE).map(Owed::taken)
    }

    /// Returns the number of strands that are live, given the tallies of all posts. It is 0
    /// only if at some moment during the call none was.
    pub(crate) fn live<'a>(&self, tallies: impl Iterator<Item = &'a Tally> + Clone) -> u64 {
        // Acquire pairs with the Releases in `Tally::count_finished` and `let_in`.
        let finished =
            self.refused.load(Acquire) + tallies.clone().map(|tally| tally.finished.load(Acquire)).sum::<u64>();
        let spawned = self.let_in.load(Relaxed) + tallies.map(|tally| tally.spawned.load(Relaxed)).sum::<u64>();
        spawned.saturating_sub(finished)
    }

    /// `OPEN -> AWAKE`. Lets nobody in any more. By the drainer, once.
    pub(crate) fn close(&self) {
        self.word.store(AWAKE, Relaxed);
        // Pairs with the light fences in `let_in` and `one_finished`.
        fence::heavy();
    }

    /// Blocks the caller until `is_over`, which counts what is [live](Drain::live). By the drainer,
    /// after `close`. `block` blocks the caller as a party until it is signalled, if the function
    /// that it is given says that it will be.
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
        // Acquire pairs with the Release in `tell`. Release: the party, for `tell`.
        self.word.swap(party.get(), AcqRel);
    }

    /// `the party -> AWAKE`. Returns `false` if its signal is on its way.
    fn withdraw(&self, party: NonZeroU64) -> bool {
        // Relaxed: the drainer orders nothing here; a signal orders the rest.
        self.word.compare_exchange(party.get(), AWAKE, Relaxed, Relaxed).is_ok()
    }
}
