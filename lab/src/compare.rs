//! Finds the figures that became slower from one file of results to another, beyond the noise.
//!
//! Sinew's figures are judged. The other peers are their *controls*: their code is the same in
//! both files, so if they moved, the machine moved them. A figure counts as slower if all of
//! this holds:
//!
//! 1. It is worse by more than [`LEAST_EFFECT`].
//! 2. It is worse by more than [`SIGMAS`] times its noise: how far its runs can be off by
//!    themselves (see [`runs`]), and how far two files of one build differ.
//! 3. If the runs are few, every new run is worse than the old median, and every old run is
//!    better than the new median.
//!
//! There are two ways to find by how much a figure is worse. The way with less noise counts
//! (see [`mod@judge`]):
//!
//! - *By itself*: the median of its runs, or of the best of many runs. If the controls of the
//!   same configuration moved beyond their own noise, the excess is noise of the figure. If
//!   the file has many controls, the median of their shifts is subtracted instead, and their
//!   scatter is the noise between files.
//! - *Beside its controls*: the median of its ratios to their runs, round by round. Peers take
//!   turns, so the runs of a round met the machine in nearly the same state. A ratio has two
//!   sides: at least half of the shift must be the figure's own.
//!
//! A change that slows the runtime rarely slows one figure alone. So all of Sinew's figures by
//! one metric of an experiment are also judged together, run by run. Their mean has less noise
//! than each of them, and the same conditions hold for it.

mod judge;
mod runs;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::rows::{Row, median};
use crate::table::figure;
use judge::{Change, Drift, Pair, drift, is_ours, judge, judge_together, what};

const LEAST_EFFECT: f64 = 0.05;
/// With three sigmas and a hundred figures in a file, every eighth comparison would raise a
/// false alarm.
const SIGMAS: f64 = 4.0;

pub struct Comparison {
    compared: usize,
    only_old: usize,
    only_new: usize,
    /// Changes of Sinew's figures.
    slower: Vec<Change>,
    faster: Vec<Change>,
    /// Figures of Sinew's that only the old file has completed.
    lost: Vec<String>,
    regained: Vec<String>,
    /// Changes of the other peers' figures, in both directions.
    moved: Vec<Change>,
    /// Figures of other peers that only one file has completed.
    strange: Vec<String>,
    machine: Machine,
}

/// How the machine changed from one file to the other.
enum Machine {
    /// Many figures of other peers show it.
    Known(Drift),
    /// Few figures of other peers show it.
    Seen { worse: f64, assumed: f64 },
    /// No other peer is in both files.
    Unknown { assumed: f64 },
    /// Sinew has no figure to judge.
    Irrelevant,
}

impl Machine {
    fn of(pairs: &[Pair]) -> Machine {
        let Some(first) = pairs.iter().find(|pair| is_ours(pair.new)) else { return Machine::Irrelevant };
        let drift = drift(pairs, first);
        let seen: Vec<f64> = pairs.iter().filter_map(|pair| Some(pair.host?.worse)).collect();
        match median(&seen) {
            _ if drift.is_measured => Machine::Known(drift),
            Some(worse) => Machine::Seen { worse, assumed: drift.scatter },
            None => Machine::Unknown { assumed: drift.scatter },
        }
    }
}

impl Comparison {
    /// Compares two files.
    ///
    /// # Errors
    /// The files have no figure in common.
    pub fn of(old: &[Row], new: &[Row]) -> Result<Comparison, String> {
        let partner = |rows: &'_ [Row], row: &Row| rows.iter().position(|other| other.key() == row.key());
        let both: Vec<(&Row, &Row)> = new.iter().filter_map(|row| Some((&old[partner(old, row)?], row))).collect();
        if both.is_empty() {
            return Err("the two files have no figure in common".to_owned());
        }
        let pairs: Vec<Pair> = both.iter().filter_map(|(one, other)| Pair::of(one, other, old, new)).collect();
        let mut comparison = Comparison {
            compared: pairs.len(),
            only_old: old.iter().filter(|row| row.completed && partner(new, row).is_none()).count(),
            only_new: new.iter().filter(|row| row.completed && partner(old, row).is_none()).count(),
            slower: Vec::new(),
            faster: Vec::new(),
            lost: Vec::new(),
            regained: Vec::new(),
            moved: Vec::new(),
            strange: Vec::new(),
            machine: Machine::of(&pairs),
        };
        for (old, new) in both {
            match (old.completed, new.completed, is_ours(new)) {
                (true, false, true) => comparison.lost.push(what(new)),
                (false, true, true) => comparison.regained.push(what(new)),
                (true, false, false) => comparison.strange.push(format!("no longer completes: {}", what(new))),
                (false, true, false) => comparison.strange.push(format!("completes now: {}", what(new))),
                _ => {}
            }
        }
        let mut metrics: Vec<(&str, &str)> = Vec::new();
        for pair in &pairs {
            let metric = (pair.new.experiment.as_str(), pair.new.metric.as_str());
            if !metrics.contains(&metric) {
                metrics.push(metric);
            }
        }
        let together = metrics.iter().filter_map(|(experiment, metric)| judge_together(&pairs, experiment, metric));
        let ours = pairs.iter().filter(|pair| is_ours(pair.new)).filter_map(|pair| judge(&pairs, pair));
        (comparison.slower, comparison.faster) = together.chain(ours).partition(|change| change.worse > 0.0);
        let others = pairs.iter().filter(|pair| !is_ours(pair.new));
        comparison.moved = others.filter_map(|pair| judge(&pairs, pair)).collect();
        comparison.slower.sort_by(|a, b| b.worse.total_cmp(&a.worse));
        comparison.faster.sort_by(|a, b| a.worse.total_cmp(&b.worse));
        comparison.moved.sort_by(|a, b| b.worse.total_cmp(&a.worse));
        Ok(comparison)
    }

    /// Returns whether a figure of Sinew's became slower, or no longer completes.
    pub fn is_slower(&self) -> bool {
        !self.slower.is_empty() || !self.lost.is_empty()
    }
}

fn percent(logarithm: f64) -> String {
    format!("{:.0} %", 100.0 * logarithm.abs().exp_m1())
}

fn direction(worse: f64) -> &'static str {
    if worse > 0.0 { "slower" } else { "faster" }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Machine::Known(drift) => {
                let (centre, which, scatter) = (percent(drift.centre), direction(drift.centre), percent(drift.scatter));
                writeln!(
                    f,
                    "by the other peers, the machine was {centre} {which} (subtracted), and the noise between files is {scatter}"
                )
            }
            Machine::Seen { worse, assumed } => {
                let (by, which, assumed) = (percent(*worse), direction(*worse), percent(*assumed));
                writeln!(
                    f,
                    "by few other peers, the machine was {by} {which}; the noise between files is assumed to be {assumed}, \
                     or more if they moved beyond their own noise"
                )
            }
            Machine::Unknown { assumed } => {
                let assumed = percent(*assumed);
                writeln!(f, "no other peer is in both files: the noise between files is assumed to be {assumed}")
            }
            Machine::Irrelevant => Ok(()),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Change { what, figures, worse, noise, .. } = self;
        write!(f, "{} by {} (noise {}): {what}", direction(*worse), percent(*worse), percent(*noise))?;
        match figures {
            Some((old, new)) => write!(f, ", {} -> {}", figure(*old), figure(*new)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} figures compared", self.compared)?;
        if self.only_old + self.only_new > 0 {
            write!(f, "; {} are only in the old file, {} only in the new", self.only_old, self.only_new)?;
        }
        writeln!(f)?;
        self.machine.fmt(f)?;
        for change in self.slower.iter().chain(&self.faster) {
            let lonely = if change.has_control { "" } else { " (no other peer tells whether it was the machine)" };
            writeln!(f, "{change}{lonely}")?;
        }
        self.lost.iter().try_for_each(|what| writeln!(f, "no longer completes: {what}"))?;
        self.regained.iter().try_for_each(|what| writeln!(f, "completes now: {what}"))?;
        self.moved.iter().try_for_each(|change| writeln!(f, "the machine or the peer changed: {change}"))?;
        self.strange.iter().try_for_each(|what| writeln!(f, "the machine or the peer changed: {what}"))?;
        if !self.is_slower() {
            writeln!(f, "nothing became slower beyond the noise")?;
        }
        Ok(())
    }
}
