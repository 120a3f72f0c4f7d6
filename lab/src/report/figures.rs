//! Figures with units that people read: 12.3 M/s, 45.0 ns, 4.62 KiB.

use crate::experiments::{Better, Metric};
use crate::measure::latency::QUANTILES;
use crate::table::figure;

/// The unit of a metric. The metric's name tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Events per second.
    Rate,
    /// A time: nanoseconds in one unit of the metric.
    Time(u64),
    Bytes,
    Percent,
    /// A part of one.
    Share,
    /// A ratio.
    Times,
    Number,
}

impl Unit {
    pub fn of(metric: &Metric) -> Unit {
        let name = metric.name;
        let has = |part: &str| name.split('_').any(|own| own == part);
        match name {
            _ if has("ns") => Unit::Time(1),
            _ if has("us") => Unit::Time(1_000),
            _ if has("ms") => Unit::Time(1_000_000),
            _ if has("bytes") => Unit::Bytes,
            _ if has("percent") => Unit::Percent,
            _ if has("ratio") || has("speedup") => Unit::Times,
            _ if has("share") || name == "of_alone" => Unit::Share,
            _ if has("per") && has("s") => Unit::Rate,
            _ => Unit::Number,
        }
    }

    /// Returns the number that a figure of this size is divided by, and what then follows it.
    pub fn scale(self, size: f64) -> (f64, &'static str) {
        let fitting = |scales: &[(f64, &'static str)]| {
            // A figure that rounds up to the next unit has the next unit.
            let fits = scales.iter().rev().find(|(least, _)| size.abs() >= 0.9995 * least);
            *fits.unwrap_or(&scales[0])
        };
        match self {
            Unit::Rate => fitting(&[(1.0, "/s"), (1e3, " k/s"), (1e6, " M/s"), (1e9, " G/s")]),
            Unit::Time(ns) => {
                let ns = ns as f64;
                let (divisor, suffix) = match size.abs() * ns {
                    0.0 => (ns, if ns > 1e3 { " ms" } else { " µs" }),
                    time if time >= 0.9995e9 => (1e9, " s"),
                    time if time >= 0.9995e6 => (1e6, " ms"),
                    time if time >= 0.9995e3 => (1e3, " µs"),
                    _ => (1.0, " ns"),
                };
                (divisor / ns, suffix)
            }
            Unit::Bytes => fitting(&[(1.0, " B"), (1024.0, " KiB"), (1_048_576.0, " MiB"), (1_073_741_824.0, " GiB")]),
            Unit::Percent => (1.0, " %"),
            Unit::Share => (0.01, " %"),
            Unit::Times => (1.0, "×"),
            Unit::Number => (1.0, ""),
        }
    }

    /// Returns the figure with its unit.
    pub fn said(self, value: f64) -> String {
        let (divisor, suffix) = self.scale(value);
        format!("{}{suffix}", figure(value / divisor))
    }

    /// As [`said`](Unit::said), without zeros at the end of the number: for the marks of an axis.
    pub fn marked(self, value: f64) -> String {
        let (divisor, suffix) = self.scale(value);
        format!("{}{suffix}", mark(value / divisor))
    }
}

/// Returns a number without zeros at its end.
pub fn mark(value: f64) -> String {
    let said = figure(value);
    if said.contains('.') && !said.contains('e') {
        said.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        said
    }
}

/// Whether more or less is better. Quantiles and an idle runtime's work are not compared between
/// files, but less of them is better.
pub fn better(metric: &Metric) -> Better {
    let is_work = ["cpu_us_per_s", "calls_per_s", "wakeups_per_s", "gap_ms"].contains(&metric.name);
    if quantile_of(metric).is_some() || is_work { Better::Lower } else { metric.better }
}

/// Returns the name of a metric whose figures carry their units, and which way is better.
pub fn head(metric: &Metric) -> String {
    format!("{}{}", label(metric), better(metric).arrow())
}

/// As [`head`], for a plot: says what a quantile means.
pub fn caption(metric: &Metric) -> String {
    match quantile_of(metric).filter(|(name, _)| metric.title.starts_with(name)) {
        Some((name, share)) if share < 1.0 => format!("{name}: {} % take at most this time ↓", mark(100.0 * share)),
        _ => head(metric),
    }
}

/// Returns the quantile that the metric is, if it is one.
fn quantile_of(metric: &Metric) -> Option<(&'static str, f64)> {
    QUANTILES.into_iter().find(|(name, _)| metric.name.strip_suffix("_us") == Some(*name))
}

/// Returns the metric's title without the unit at its beginning.
fn label(metric: &Metric) -> String {
    let title = metric.title;
    let units = [
        ("million ", ""),
        ("thousand ", ""),
        ("CPU ns ", "CPU time "),
        ("CPU µs ", "CPU time "),
        ("ns ", "time "),
        ("µs ", "time "),
        ("ms ", "time "),
        ("µs,", "time,"),
        ("ms,", "time,"),
        ("bytes ", "memory "),
        ("% ", "share of strands "),
    ];
    let unit = units.iter().find_map(|(unit, word)| Some(format!("{word}{}", title.strip_prefix(unit)?)));
    unit.unwrap_or_else(|| title.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_unit_that_fits_their_size() {
        let said = |name, value| Unit::of(&Metric::higher(name, "", 1.0)).said(value);
        assert_eq!(said("ops_per_s", 12.34e6), "12.3 M/s");
        assert_eq!(said("ops_per_s", 999_900.0), "1.00 M/s");
        assert_eq!(said("ops_per_cpu_s", 45_600.0), "45.6 k/s");
        assert_eq!(said("spawn_join_ns", 45.04), "45.0 ns");
        assert_eq!(said("p99_us", 0.5), "500 ns");
        assert_eq!(said("p99_us", 1234.0), "1.23 ms");
        assert_eq!(said("warm_ms", 2500.0), "2.50 s");
        assert_eq!(said("bytes_per_thread", 4710.0), "4.60 KiB");
        assert_eq!(said("fullest_percent", 54.0), "54.0 %");
        assert_eq!(said("ideal_share", 0.84), "84.0 %");
        assert_eq!(said("std_ratio", 1.02), "1.02×");
        assert_eq!(said("cpu_us_per_s", 0.0), "0 µs");
        assert_eq!(said("cores", 1.97), "1.97");
    }

    #[test]
    fn a_head_does_not_repeat_the_unit() {
        assert_eq!(head(&Metric::higher("ops_per_s", "million hops/s", 1e6)), "hops/s ↑");
        assert_eq!(head(&Metric::lower("cpu_ns_per_op", "CPU ns each", 1.0)), "CPU time each ↓");
        assert_eq!(head(&Metric::beside("p99_us", "p99", 1.0)), "p99 ↓");
        assert_eq!(caption(&Metric::beside("p99_us", "p99", 1.0)), "p99: 99 % take at most this time ↓");
        assert_eq!(head(&Metric::beside("max_us", "max", 1.0)), "max ↓");
    }
}
