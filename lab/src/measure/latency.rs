//! Distributions of times.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::case::Reading;

/// The quantiles: the part of a metric's name, and the value.
pub const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("p9999", 0.9999), ("max", 1.0)];

/// The other quantiles that a plot of letter values has.
pub const LETTERS: [(&str, f64); 4] = [("p1", 0.01), ("p10", 0.1), ("p25", 0.25), ("p75", 0.75)];

/// Times up to a minute, to two digits.
pub struct Latency(Histogram<u64>);

impl Default for Latency {
    fn default() -> Latency {
        Latency(Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("bounds that are right"))
    }
}

impl Latency {
    #[inline]
    pub fn note(&mut self, time: Duration) {
        self.0.saturating_record(time.as_nanos().max(1) as u64);
    }

    /// Counts a time once for each of its microseconds. The distribution is then what an
    /// observer finds at a random moment, not at the end of a wait.
    #[inline]
    pub fn note_by_length(&mut self, time: Duration) {
        self.0.saturating_record_n(time.as_nanos().max(1) as u64, 1 + time.as_micros() as u64);
    }

    pub fn add(&mut self, other: &Latency) {
        self.0 += &other.0;
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    pub fn mean_us(&self) -> f64 {
        self.0.mean() / 1e3
    }

    /// Sets `p50_us` and so on. Does not set a quantile that fewer than ten times lie
    /// beyond, except for the maximum.
    pub fn read_into(&self, reading: &mut Reading) {
        if self.count() == 0 {
            return;
        }
        for (name, quantile) in QUANTILES {
            if quantile == 1.0 || self.count() as f64 * (1.0 - quantile) >= 10.0 || quantile <= 0.5 {
                let time = if quantile == 1.0 { self.0.max() } else { self.0.value_at_quantile(quantile) };
                reading.set(&format!("{name}_us"), time as f64 / 1e3);
            }
        }
    }

    /// Sets the metrics of [`LETTERS`].
    pub fn read_letters_into(&self, reading: &mut Reading) {
        for (name, quantile) in LETTERS.into_iter().filter(|_| self.count() > 0) {
            reading.set(&format!("{name}_us"), self.0.value_at_quantile(quantile) as f64 / 1e3);
        }
    }
}
