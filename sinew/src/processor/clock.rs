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
    next_beat: Cell<u64>,
    beat: u64,
    short: u64,
}

impl Clock {
    pub(super) fn new() -> Clock {
        Clock {
            now: Cell::new(cycles()),
            until_reading: Cell::new(0),
            next_beat: Cell::new(0),
            beat: cycles_in_us(BEAT_US),
            short: cycles_in_us(SHORT_DISPATCHES_US),
        }
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
        self.until_reading.set(if is_brisk { DISPATCHES_PER_READING - 1 } else { 0 });
        true
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
        self.until_reading.set(0);
    }

    /// Makes a beat due after the strand that runs.
    pub(super) fn beat_next(&self) {
        self.until_reading.set(0);
        self.next_beat.set(0);
    }
}
