//! Work of a known length.

use crate::kernel::thread_cpu;
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

/// The least length of one calibration.
const CALIBRATION: Duration = Duration::from_millis(15);

/// The least number of rounds of one calibration.
const LEAST_ROUNDS: u32 = 5;

/// A piece of computing: a number of steps, each of which needs the one before.
#[derive(Clone, Copy)]
pub struct Unit {
    steps: u64,
}

impl Unit {
    /// Never inlined, and of steps that no compiler puts together: it takes the
    /// same time wherever it is called.
    #[inline(never)]
    pub fn compute(self) {
        let mut x = black_box(1_u64);
        for _ in 0..black_box(self.steps) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        black_box(x);
    }

    /// Returns the unit that takes `length` when that number of threads compute at once.
    pub fn calibrate(length: Duration, threads: usize) -> Unit {
        let mut unit = Unit { steps: (length.as_nanos() as u64 / 2).max(10) };
        for _ in 0..3 {
            let steps = unit.steps as f64 * length.as_nanos() as f64 / unit.measured_ns(threads);
            unit = Unit { steps: (steps.round() as u64).max(1) };
        }
        unit
    }

    /// Returns a unit that takes `factor` times as long.
    pub fn times(self, factor: f64) -> Unit {
        Unit { steps: ((self.steps as f64 * factor).round() as u64).max(1) }
    }

    /// Returns the CPU time of the unit: the mean over that number of threads at once. Each
    /// thread takes the shortest of its rounds, which nothing disturbed.
    pub fn measured_ns(self, threads: usize) -> f64 {
        let rounds = move || {
            let begun = Instant::now();
            let mut least = f64::INFINITY;
            let mut done = 0;
            // The host may have taken the CPU for all of that time.
            while done < LEAST_ROUNDS || begun.elapsed() < CALIBRATION {
                let (round, before) = (Instant::now(), thread_cpu());
                let mut turns = 0;
                while turns < 4 || round.elapsed() < Duration::from_micros(200) {
                    (0..4).for_each(|_| self.compute());
                    turns += 4;
                }
                least = least.min((thread_cpu() - before).as_nanos() as f64 / f64::from(turns));
                done += 1;
            }
            least
        };
        let at_once: Vec<_> = (0..threads).map(|_| thread::spawn(rounds)).collect();
        let sum: f64 = at_once.into_iter().map(|thread| thread.join().expect("rounds")).sum();
        sum / threads as f64
    }
}
