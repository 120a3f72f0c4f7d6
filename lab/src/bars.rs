//! Bars: what Sinew's figures have to reach, and whether they do.
//!
//! A bar names one figure of Sinew's. It compares the figure with a number, or its ratio
//! to another figure with a number: that of a peer, or Sinew's own with another number
//! of processors or in another variant. `run --bars` prints a line for each bar.

use std::fmt::Write;

use crate::experiments::{Experiment, Metric};
use crate::rows::Row;
use crate::table::figure;

pub struct Bar {
    peer: &'static str,
    variant: &'static str,
    processors: usize,
    /// `None` for the experiment's first metric.
    metric: Option<&'static str>,
    /// Whether every run has to reach the bar; otherwise the median has to.
    every_run: bool,
    over: Option<Other>,
    bound: Bound,
}

/// The figure that a ratio is over. Each field that is not set is the bar's own.
#[derive(Clone, Copy)]
struct Other {
    /// The ratio is over the best of these.
    peers: &'static [&'static str],
    variant: Option<&'static str>,
    processors: Option<usize>,
}

const SAME: Other = Other { peers: &[], variant: None, processors: None };

/// A bound, in the unit that a table shows.
#[derive(Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// Whether a bar is met, and by which figure.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Verdict {
    Met(f64),
    Missed(f64),
    /// Sinew did not complete.
    Failed,
    NotMeasured,
}

impl Bar {
    /// A bar for the experiment's first metric.
    pub const fn of(peer: &'static str, variant: &'static str, processors: usize) -> Bar {
        Bar { peer, variant, processors, metric: None, every_run: false, over: None, bound: Bound::AtLeast(0.0) }
    }

    pub const fn metric(self, name: &'static str) -> Bar {
        Bar { metric: Some(name), ..self }
    }

    pub const fn at_least(self, bound: f64) -> Bar {
        Bar { bound: Bound::AtLeast(bound), ..self }
    }

    pub const fn at_most(self, bound: f64) -> Bar {
        Bar { bound: Bound::AtMost(bound), ..self }
    }

    /// Counts the worst run in place of the median.
    pub const fn in_every_run(self) -> Bar {
        Bar { every_run: true, ..self }
    }

    /// Takes the ratio to the best of these peers.
    pub const fn over_peers(self, peers: &'static [&'static str]) -> Bar {
        Bar { over: Some(Other { peers, ..self.other() }), ..self }
    }

    /// Takes the ratio to a figure of that variant.
    pub const fn over_variant(self, variant: &'static str) -> Bar {
        Bar { over: Some(Other { variant: Some(variant), ..self.other() }), ..self }
    }

    /// Takes the ratio to a figure with that number of processors.
    pub const fn over_processors(self, processors: usize) -> Bar {
        Bar { over: Some(Other { processors: Some(processors), ..self.other() }), ..self }
    }

    const fn other(&self) -> Other {
        match self.over {
            Some(other) => other,
            None => SAME,
        }
    }

    fn metric_of(&self, experiment: &Experiment) -> &'static Metric {
        match self.metric {
            Some(name) => experiment.metric(name).expect("a metric of its own"),
            None => &experiment.metrics[0],
        }
    }

    fn judge(&self, experiment: &Experiment, rows: &[Row]) -> Verdict {
        let of = |peer: &'static str, variant: &'static str, processors: usize| {
            rows.iter().filter(move |row| {
                row.experiment == experiment.name
                    && (row.peer.as_str(), row.variant.as_str(), row.processors) == (peer, variant, processors)
            })
        };
        let metric = self.metric_of(experiment);
        let shown = |row: &Row| {
            let value = match self.bound {
                _ if !self.every_run => row.median,
                Bound::AtLeast(_) => row.min,
                Bound::AtMost(_) => row.max,
            };
            value.map(|value| value / metric.scale)
        };
        let own = || of(self.peer, self.variant, self.processors);
        if own().any(|row| !row.completed) {
            return Verdict::Failed;
        }
        let Some(measured) = own().find(|row| row.metric == metric.name).and_then(shown) else {
            return Verdict::NotMeasured;
        };
        let Some(other) = self.over else { return self.compare(measured) };
        let peers = if other.peers.is_empty() { std::slice::from_ref(&self.peer) } else { other.peers };
        let (variant, processors) =
            (other.variant.unwrap_or(self.variant), other.processors.unwrap_or(self.processors));
        let figures = peers.iter().filter_map(|peer| {
            let row = of(peer, variant, processors).find(|row| row.completed && row.metric == metric.name)?;
            shown(row)
        });
        let best = match self.bound {
            Bound::AtLeast(_) => figures.reduce(f64::max),
            Bound::AtMost(_) => figures.reduce(f64::min),
        };
        best.map_or(Verdict::NotMeasured, |best| self.compare(measured / best))
    }

    fn compare(&self, measured: f64) -> Verdict {
        let is_met = match self.bound {
            Bound::AtLeast(bound) => measured >= bound,
            Bound::AtMost(bound) => measured <= bound,
        };
        if is_met { Verdict::Met(measured) } else { Verdict::Missed(measured) }
    }

    /// Returns a figure that misses the bar, with more digits if it would read as the bound.
    fn beside_bound(&self, measured: f64) -> String {
        let (Bound::AtLeast(bound) | Bound::AtMost(bound)) = self.bound;
        let short = figure(measured);
        if short.parse() == Ok(bound) { format!("{measured:.6}") } else { short }
    }

    /// Returns the demand of the bar, in words.
    fn claim(&self, experiment: &Experiment) -> String {
        let mut text = self.peer.to_owned();
        if self.variant != "-" {
            let _ = write!(text, ", {}", self.variant);
        }
        let _ = write!(text, ", on {}: {}", self.processors, self.metric_of(experiment).title);
        if self.every_run {
            text += " in every run";
        }
        let _ = match self.bound {
            Bound::AtLeast(bound) => write!(text, " at least {bound}"),
            Bound::AtMost(bound) => write!(text, " at most {bound}"),
        };
        let Some(other) = self.over else { return text };
        let _ = match other.peers {
            [] => write!(text, " times its own"),
            peers => write!(text, " times {}'s", peers.join("'s or ")),
        };
        if let Some(variant) = other.variant {
            let _ = write!(text, " in {variant}");
        }
        if let Some(processors) = other.processors {
            let _ = write!(text, " on {processors}");
        }
        text
    }
}

/// The numbers of bars that were met, missed and not measured.
#[derive(Default)]
pub struct Judgement {
    met: usize,
    missed: usize,
    not_measured: usize,
}

impl Judgement {
    /// Returns a line for each of the experiment's bars.
    pub fn judge(&mut self, experiment: &Experiment, rows: &[Row]) -> String {
        let mut text = String::new();
        for bar in experiment.bars {
            let (said, measured) = match bar.judge(experiment, rows) {
                Verdict::Met(measured) => {
                    self.met += 1;
                    ("met", format!(": {}", figure(measured)))
                }
                Verdict::Missed(measured) => {
                    self.missed += 1;
                    ("missed", format!(": {}", bar.beside_bound(measured)))
                }
                Verdict::Failed => {
                    self.missed += 1;
                    ("missed", ": did not complete".to_owned())
                }
                Verdict::NotMeasured => {
                    self.not_measured += 1;
                    ("not measured", String::new())
                }
            };
            let _ = writeln!(text, "    {said:<14}{}{measured}", bar.claim(experiment));
        }
        if text.is_empty() { text } else { format!("\n  bars\n{text}") }
    }

    pub fn is_missed(&self) -> bool {
        self.missed > 0
    }

    /// Returns the numbers of bars in a line.
    pub fn total(&self) -> String {
        format!("bars: {} met, {} missed, {} not measured\n", self.met, self.missed, self.not_measured)
    }
}

#[cfg(test)]
#[path = "bars/tests.rs"]
mod tests;
