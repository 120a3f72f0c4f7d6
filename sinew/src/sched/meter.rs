//! What steals cost, and what they bring in.

use crate::base::clock::cycles_in_us;
use crate::sched::Distance;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
// Not those of the models: nothing depends on these numbers but which colour is stolen first.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The time of a steal that is assumed before the first one has been measured. It is an upper estimate: to steal one
/// strand takes 0.15 to 0.3 µs on two CPUs under one cache.
const FIRST_GUESS_NS: u64 = 1_000;

/// What a steal costs besides the time that the thief takes for it. The stolen colour's header, its letters and
/// the first lines of its data come from the victim's cache, and the victim gets the lines of its queue back:
/// five lines, at the 100 ns that the look at another queue takes (see `Fair`).
const COLD_NS: u64 = 500;

/// A steal that took longer than this lost its CPU meanwhile. It says nothing about steals. To sleep and to be
/// woken takes half of this.
const LONGEST_NS: u64 = 20_000;

/// A new sample is one part in this many of the average. Unmeasured.
const SAMPLE_PARTS: u64 = 8;

/// Reads what the thieves of a scheduler have done.
#[derive(Clone)]
pub struct Meter {
    tally: Arc<Tally>,
}

impl Meter {
    pub(super) fn new(tally: &Arc<Tally>) -> Meter {
        Meter { tally: Arc::clone(tally) }
    }

    /// Returns the numbers at this moment.
    pub fn read(&self) -> Stolen {
        self.tally.read()
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Meter").field(&self.read()).finish()
    }
}

/// What the thieves of a cluster have done. All numbers count from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stolen {
    /// The number of steals. Each takes one colour, or some strands that are not colours.
    pub steals: u64,
    /// The number of times that strands were taken that were not to be stolen: their processor was held up or
    /// had left, or the thief would have slept otherwise while no processor keeps watch.
    pub rescues: u64,
    /// The number of strands that moved, by steals and rescues.
    pub strands: u64,
    /// The number of their letters.
    pub letters: u64,
    /// The time that these letters were expected to take, in nanoseconds, without penalties.
    pub expected_ns: u64,
    /// The time that the thieves took for all of this, in nanoseconds.
    pub spent_ns: u64,
    /// The number of steals and rescues between two CPUs that share a cache.
    pub near: u64,
    /// The number of all others.
    pub far: u64,
    /// The number of strands that moved by these.
    pub far_strands: u64,
    /// The number of times that thieves tried to take from a queue, up to the last steal of each.
    pub tries: u64,
    /// The number of times that thieves left a queue to others, up to the last steal of each. Only by
    /// [`Locality`](super::Locality).
    pub back_offs: u64,
    /// What a steal costs at present, in nanoseconds: a moving average.
    pub cost_ns: u64,
}

/// Whether the heuristics chose what a thief took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Steal,
    Rescue,
}

/// Written by thieves, read by anyone.
pub(super) struct Tally {
    steals: AtomicU64,
    rescues: AtomicU64,
    strands: AtomicU64,
    letters: AtomicU64,
    expected_ns: AtomicU64,
    spent_ns: AtomicU64,
    near: AtomicU64,
    far: AtomicU64,
    far_strands: AtomicU64,
    tries: AtomicU64,
    back_offs: AtomicU64,
    /// A moving average. Two thieves that write at once may lose a sample.
    cost_ns: AtomicU64,
    /// Whether the cost stays as it is, for simulations.
    is_fixed: AtomicBool,
    cycles_per_ms: u64,
}

impl Default for Tally {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Tally {
            steals: zero(),
            rescues: zero(),
            strands: zero(),
            letters: zero(),
            expected_ns: zero(),
            spent_ns: zero(),
            near: zero(),
            far: zero(),
            far_strands: zero(),
            tries: zero(),
            back_offs: zero(),
            cost_ns: AtomicU64::new(FIRST_GUESS_NS + COLD_NS),
            is_fixed: AtomicBool::new(false),
            cycles_per_ms: cycles_in_us(1000).max(1),
        }
    }
}

impl Tally {
    /// Returns what a steal costs at present.
    pub(super) fn cost_ns(&self) -> u64 {
        self.cost_ns.load(Relaxed)
    }

    /// Lets the cost be this, whatever steals take.
    #[cfg(test)]
    pub(super) fn fix_cost(&self, ns: u64) {
        self.cost_ns.store(ns, Relaxed);
        self.is_fixed.store(true, Relaxed);
    }

    /// Counts what a thief has taken within this number of cycles, and what it has tried before.
    pub(super) fn count(&self, haul: &Haul, attempts: &Attempts, took: u64, distance: Distance, cause: Cause) {
        let ns = took.saturating_mul(1_000_000) / self.cycles_per_ms;
        let add = |to: &AtomicU64, number| {
            to.fetch_add(number, Relaxed);
        };
        add(if cause == Cause::Steal { &self.steals } else { &self.rescues }, 1);
        add(if distance.is_near() { &self.near } else { &self.far }, 1);
        if !distance.is_near() {
            add(&self.far_strands, haul.strands);
        }
        add(&self.strands, haul.strands);
        add(&self.letters, haul.letters);
        add(&self.expected_ns, haul.nanoseconds);
        add(&self.spent_ns, ns);
        add(&self.tries, attempts.tries.take());
        add(&self.back_offs, attempts.back_offs.take());
        // One that moves many strands says little about one that moves a colour.
        if haul.strands == 1 && ns <= LONGEST_NS && !self.is_fixed.load(Relaxed) {
            let old = self.cost_ns();
            self.cost_ns.store(old - old / SAMPLE_PARTS + (ns + COLD_NS) / SAMPLE_PARTS, Relaxed);
        }
    }

    pub(super) fn read(&self) -> Stolen {
        let read = |of: &AtomicU64| of.load(Relaxed);
        Stolen {
            steals: read(&self.steals),
            rescues: read(&self.rescues),
            strands: read(&self.strands),
            letters: read(&self.letters),
            expected_ns: read(&self.expected_ns),
            spent_ns: read(&self.spent_ns),
            near: read(&self.near),
            far: read(&self.far),
            far_strands: read(&self.far_strands),
            tries: read(&self.tries),
            back_offs: read(&self.back_offs),
            cost_ns: read(&self.cost_ns),
        }
    }
}

/// The size of what a thief has taken.
#[derive(Clone, Copy)]
pub(super) struct Haul {
    pub(super) strands: u64,
    pub(super) letters: u64,
    pub(super) nanoseconds: u64,
}

/// What one thief has tried since its last steal. Owner: the thief.
#[derive(Default)]
pub(super) struct Attempts {
    tries: Cell<u64>,
    back_offs: Cell<u64>,
}

impl Attempts {
    /// Counts that the thief tries to take from a queue.
    pub(super) fn tries(&self) {
        self.tries.set(self.tries.get() + 1);
    }

    /// Counts that the thief backs off.
    pub(super) fn backs_off(&self) {
        self.back_offs.set(self.back_offs.get() + 1);
    }
}

/// Returns the time for measuring what a steal takes.
#[cfg(not(sinew_loom))]
pub(super) fn stopwatch() -> u64 {
    crate::base::clock::cycles()
}

/// No time passes in a model.
#[cfg(sinew_loom)]
pub(super) fn stopwatch() -> u64 {
    0
}
