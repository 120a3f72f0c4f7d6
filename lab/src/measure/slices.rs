//! Times of many short operations, by slices of a few hundred.
//!
//! The figure is the median over the slices: another program that takes the CPU spoils a slice, not
//! the figure.

use std::time::{Duration, Instant};

use crate::rows::median;

/// The least number of operations in a slice.
const SLICE: usize = 400;
const LEAST_SLICES: usize = 3;

pub struct Slices {
    begun: Instant,
    window: Duration,
    /// Nanoseconds for each operation, by slice.
    full: Vec<f64>,
    /// The time and the operations of the slice that is not full.
    time: Duration,
    operations: usize,
}

impl Slices {
    pub fn new(window: Duration) -> Slices {
        Slices { begun: Instant::now(), window, full: Vec::new(), time: Duration::ZERO, operations: 0 }
    }

    /// Notes the time of some operations.
    #[inline]
    pub fn note(&mut self, time: Duration, operations: usize) {
        self.time += time;
        self.operations += operations;
        if self.operations >= SLICE {
            self.full.push(self.time.as_nanos() as f64 / self.operations as f64);
            (self.time, self.operations) = (Duration::ZERO, 0);
        }
    }

    /// Returns whether the window is over and there are slices enough.
    pub fn is_over(&self) -> bool {
        self.full.len() > LEAST_SLICES && self.begun.elapsed() >= self.window
    }

    /// Returns the nanoseconds for each operation. The first slice warms up and does not count.
    pub fn median_ns(&self) -> f64 {
        median(self.full.get(1..).unwrap_or(&[])).unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_is_the_median_of_the_slices_after_the_first() {
        let mut slices = Slices::new(Duration::ZERO);
        for microseconds in [100, 1, 2, 900] {
            assert!(!slices.is_over());
            for _ in 0..SLICE / 8 {
                slices.note(Duration::from_micros(8 * microseconds), 8);
            }
        }
        assert!(slices.is_over());
        assert_eq!(slices.median_ns(), 2000.0);
    }
}
