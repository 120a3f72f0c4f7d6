//! How long letters of one sort take: a moving average, from samples.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

/// The first samples weigh a half each, so that a wrong guess is forgotten soon; later ones an eighth. Powers of
/// two, as shifts: a division takes as long as a short letter.
const EARLY_SAMPLES: u8 = 8;
const EARLY_SHIFT: u32 = 1;
const SHIFT: u32 = 3;

/// Letters that are expected to take at least this long are all timed: reading the clock twice takes 2 % of
/// it. Of shorter ones, one in [`SAMPLED`] is: with one in 16, a letter of a
/// batch took 0.6 ns more.
const LONG_NS: u32 = 1_000;
const SAMPLED: u32 = 64;

/// The average time of letters of one sort, and the number of those that panicked. Written by processors
/// that run such letters, read by threads that post them. Losing an update to another processor does no
/// harm.
#[derive(Debug)]
pub(crate) struct Meter {
    average_ns: AtomicU32,
    panics: AtomicU32,
    samples: AtomicU8,
    /// The marks of the mailbox that the meter belongs to. They are here because there is room.
    pub(super) marks: AtomicU8,
}

impl Meter {
    /// Makes a meter whose first guess is `average_ns`.
    pub(crate) const fn new(average_ns: u32) -> Meter {
        Meter {
            average_ns: AtomicU32::new(average_ns),
            panics: AtomicU32::new(0),
            samples: AtomicU8::new(0),
            marks: AtomicU8::new(0),
        }
    }

    /// Returns the time that a letter is expected to take.
    #[inline]
    pub(crate) fn average_ns(&self) -> u32 {
        self.average_ns.load(Relaxed)
    }

    /// Says whether the `turn`th letter that a processor runs is to be timed, if it is of this sort.
    #[inline]
    pub(crate) fn wants_sample(&self, turn: u32) -> bool {
        turn.is_multiple_of(SAMPLED) || self.average_ns() >= LONG_NS || self.samples.load(Relaxed) < EARLY_SAMPLES
    }

    /// Returns the number of letters that one sample stands for.
    pub(crate) fn letters_per_sample(&self) -> u32 {
        if self.wants_sample(1) { 1 } else { SAMPLED }
    }

    /// Returns the time that a letter is expected to take, as a power of two that is not greater; `None` if too few
    /// letters have been timed.
    #[inline]
    pub(crate) fn magnitude(&self) -> Option<u32> {
        (self.samples.load(Relaxed) >= EARLY_SAMPLES).then(|| (self.average_ns() | 1).ilog2())
    }

    /// Notes that a letter has taken this long.
    pub(crate) fn note(&self, ns: u64) {
        let (old, sample) = (i64::from(self.average_ns()), ns.min(u64::from(u32::MAX)) as i64);
        let samples = self.samples.load(Relaxed);
        let shift = if samples < EARLY_SAMPLES { EARLY_SHIFT } else { SHIFT };
        let new = (old + ((sample - old) >> shift)) as u32;
        // Not written if nothing has changed: other processors read it.
        if new != old as u32 {
            self.average_ns.store(new, Relaxed);
        }
        if samples < EARLY_SAMPLES {
            self.samples.store(samples + 1, Relaxed);
        }
    }

    #[cold]
    pub(crate) fn note_panic(&self) {
        self.panics.fetch_add(1, Relaxed);
    }

    pub(crate) fn panics(&self) -> u32 {
        self.panics.load(Relaxed)
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_guess_that_is_wrong_by_a_factor_of_a_hundred_is_forgotten_after_thirty_samples() {
        for guess in [20, 200_000] {
            let meter = Meter::new(guess);
            (0..30).for_each(|_| meter.note(2_000));
            assert!(meter.average_ns().abs_diff(2_000) < 100, "{}", meter.average_ns());
        }
    }

    #[test]
    fn long_letters_and_the_first_ones_are_all_timed() {
        let short = Meter::new(100);
        assert!(short.wants_sample(1));
        (0..EARLY_SAMPLES).for_each(|_| short.note(100));
        assert!(!short.wants_sample(1) && short.wants_sample(SAMPLED));
        assert!(Meter::new(LONG_NS).wants_sample(1));
    }
}
