//! A clock that is read seldom.

use crate::base::clock::{cycles, cycles_in_us};
use crate::sched::BEAT_US;
use std::cell::Cell;

/// The processor reads the clock at every dispatch while dispatches are long, and at every 16th while
/// they are short: one reading takes 6 to 11 ns, a third of a yield.
const DISPATCHES_PER_READING: u32 = 16;

/// Dispatches are short while the time between two readings is shorter than this.
const SHORT_DISPATCHES_US: u64 = 4;

/// What a processor knows of the time. All times are in cycles. Owner: the processor.
pub(super) struct Clock {
    /// The last reading.
    now: Cell<u64>,
    /// The number of dispatches until the clock is read again.
    until_reading: Cell<u32>,
    /// The value of `until_reading` when the dispatches were last taken.
    taken_at: Cell<u32>,
    /// The dispatches before that which have not been taken.
    dispatches: Cell<u32>,
    next_beat: Cell<u64>,
    beat: u64,
    short: u64,
}

impl Clock {
    pub(super) fn new() -> Clock {
        Clock {
            now: Cell::new(cycles()),
            until_reading: Cell::new(0),
            taken_at: Cell::new(0),
            dispatches: Cell::new(0),
            next_beat: Cell::new(0),
            beat: cycles_in_us(BEAT_US),
            short: cycles_in_us(SHORT_DISPATCHES_US),
        }
    }

    /// Returns the address of the number of dispatches until the next reading.
    pub(super) fn until_reading_word(&self) -> usize {
        self.until_reading.as_ptr().addr()
    }

    /// Returns the last reading.
    #[inline(always)]
    pub(super) fn now(&self) -> u64 {
        self.now.get()
    }

    /// Reads the clock. Returns the reading.
    pub(super) fn read(&self) -> u64 {
        self.now.set(cycles());
        self.now.get()
    }

    /// Counts a dispatch, and reads the clock if a reading is due. Returns whether it did.
    #[inline(always)]
    pub(super) fn count_dispatch(&self) -> bool {
        let left = self.until_reading.get();
        if left > 0 {
            self.until_reading.set(left - 1);
            return false;
        }
        let now = cycles();
        let is_brisk = now.saturating_sub(self.now.replace(now)) < self.short;
        self.dispatches.set(self.dispatches.get() + self.taken_at.get() + 1);
        let next = if is_brisk { DISPATCHES_PER_READING - 1 } else { 0 };
        self.until_reading.set(next);
        self.taken_at.set(next);
        true
    }

    /// Returns the number of dispatches since the last call.
    pub(super) fn take_dispatches(&self) -> u64 {
        let left = self.until_reading.get();
        u64::from(self.dispatches.take() + self.taken_at.replace(left) - left)
    }

    /// Says whether a beat is due, as of the last reading.
    #[inline]
    pub(super) fn is_beat_due(&self) -> bool {
        self.now.get() >= self.next_beat.get()
    }

    /// Notes that the beat happens now; the next one is due in 16 µs.
    pub(super) fn beat(&self) {
        self.next_beat.set(self.now.get() + self.beat);
    }

    /// Makes a reading due after the strand that runs.
    pub(super) fn read_next(&self) {
        self.taken_at.set(self.taken_at.get() - self.until_reading.take());
    }

    /// Makes a beat due after the strand that runs.
    pub(super) fn beat_next(&self) {
        self.read_next();
        self.next_beat.set(0);
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_dispatch_is_taken_once() {
        let clock = Clock::new();
        let (mut counted, mut taken) = (0, 0);
        for turn in 0..1000 {
            clock.count_dispatch();
            counted += 1;
            match turn % 37 {
                3 => clock.read_next(),
                7 => clock.beat_next(),
                11 | 12 | 30 => taken += clock.take_dispatches(),
                _ => {}
            }
        }
        assert_eq!(taken + clock.take_dispatches(), counted);
        assert_eq!(clock.take_dispatches(), 0);
    }
}
