//! What became slower from one file of results to another, beyond the noise.
//!
//! A figure counts as slower when all of this holds:
//!
//! 1. Its median is worse by more than [`LEAST_EFFECT`].
//! 2. The shift is more than [`SIGMAS`] times its noise. That has two parts. The
//!    spread of the repeats says how far a median of so many can be off within one
//!    run. The other peers say what changed between the two runs although nobody
//!    touched their code: the middle of their shifts is taken off as the machine's,
//!    and how they scatter around it is the noise between runs.
//! 3. Every new run is worse than the old median, and every old run is better than
//!    the new one.
//!
//! What disturbs a run only ever makes it worse. So of runs that are many, the best
//! [`BESTS`] stand for all in the above: many short runs tell more than few long ones.
//!
//! Peers take turns, so that each run has runs of other families at its side that
//! met the machine in nearly the same state. Where the runs' ratios to those scatter
//! less than the runs themselves, they are what is compared. A ratio has two sides:
//! a figure counts only if at least half of the shift is its own.
//!
//! What slows a family's runtime rarely slows one figure alone. So the figures of a
//! family by one metric of an experiment are looked at together, too, run by run:
//! their mean has less noise than each of them, and counts by the same measure.
//!
//! The peers of the same family as the figure's own (`sinew` of `sinew/fair`) are
//! never its control: what slows one of them may slow them all.

use std::fmt;

use crate::experiments::Better;
use crate::peers::family;
use crate::rows::{Row, median};
use crate::table::figure;

const LEAST_EFFECT: f64 = 0.05;
/// With a hundred figures in a file, three would raise a false alarm in every
/// eighth comparison.
const SIGMAS: f64 = 4.0;

/// Figures of other families below which their scatter says nothing.
const LEAST_CONTROLS: usize = 6;
/// Then this is taken for the noise between runs. Seen on a shared virtual machine.
const ASSUMED_BETWEEN: f64 = 0.05;
/// The same for the best of several runs: five files of one build, on a machine with
/// five times as much to do as it has CPUs, had bests of CPU time that scattered by 0.02.
const ASSUMED_BETWEEN_BESTS: f64 = 0.025;

/// Runs from which on only the best count, and how many these are. On a machine where
/// seven of eight runs were disturbed, the second best of forty scattered by 0.02 and the
/// fifth best by 0.06.
const MANY_RUNS: usize = 12;
const BESTS: usize = 3;
/// The further the median lies from the best, the less has the best been left alone. It is
/// taken to be off by this part of the distance: files of one build whose medians were 7 %
/// and 55 % above their bests had bests 13 % apart.
const DISTURBED: f64 = 0.06;
/// What a single run is taken to be off by.
const ASSUMED_WITHIN: f64 = 0.10;

/// One figure in both files.
struct Pair<'a> {
    old: &'a Row,
    new: &'a Row,
    /// Of the figure itself, and how much worse its median became.
    plain: Logs,
    worse: f64,
    /// Of its ratio to other families' runs of the same rounds.
    paired: Option<Logs>,
}

/// The logarithms of a figure's runs, greater the worse they are.
#[derive(Clone)]
struct Logs {
    old: Vec<f64>,
    new: Vec<f64>,
    /// How far the bests can be off, if these are bests.
    disturbed: Option<f64>,
}

/// From some runs to others, as logarithms: 0.1 is about a tenth.
#[derive(Clone, Copy)]
struct Shift {
    /// How much worse the median became.
    worse: f64,
    /// How far that can be off by the repeats alone.
    within: f64,
    /// Whether the runs lie on two sides.
    is_apart: bool,
}

/// A figure that changed beyond the noise.
struct Change {
    what: String,
    old: f64,
    new: f64,
    worse: f64,
    noise: f64,
}

pub struct Comparison {
    compared: usize,
    only_old: usize,
    only_new: usize,
    slower: Vec<Change>,
    faster: Vec<Change>,
    lost: Vec<String>,
    regained: Vec<String>,
    /// For the family that most figures are of.
    drift: Option<Drift>,
}

/// What changed between the runs for those whom nobody changed.
#[derive(Clone, Copy)]
struct Drift {
    /// Worse for everybody.
    centre: f64,
    scatter: f64,
    controls: usize,
}

fn values(row: &Row) -> Vec<f64> {
    match row.values.is_empty() {
        true => [row.min, row.median, row.max].into_iter().flatten().collect(),
        false => row.values.clone(),
    }
}

/// How far the median of these logarithms may be off.
fn error_of_median(logs: &[f64]) -> f64 {
    /// What the range of that many normal values is in standard deviations.
    const RANGES: [f64; 9] = [1.13, 1.69, 2.06, 2.33, 2.53, 2.70, 2.85, 2.97, 3.08];
    if logs.len() < 2 {
        return ASSUMED_WITHIN;
    }
    let (least, most) = (logs.iter().copied().fold(f64::MAX, f64::min), logs.iter().copied().fold(f64::MIN, f64::max));
    let deviation = (most - least) / RANGES[(logs.len() - 2).min(RANGES.len() - 1)];
    1.25 * deviation / (logs.len() as f64).sqrt()
}

impl Logs {
    fn shift(&self) -> Option<Shift> {
        let (before, after) = (median(&self.old)?, median(&self.new)?);
        let rises = after > before;
        Some(Shift {
            worse: after - before,
            within: self.disturbed.unwrap_or_else(|| error_of_median(&self.old).hypot(error_of_median(&self.new))),
            is_apart: self.new.iter().all(|&log| (log > before) == rises && log != before)
                && self.old.iter().all(|&log| (log < after) == rises && log != after),
        })
    }

    /// Run by run. All must have as many.
    fn mean(all: &[&Logs]) -> Option<Logs> {
        let mean = |side: fn(&Logs) -> &[f64]| {
            let runs = all.iter().map(|logs| side(logs).len()).max()?;
            let column = |run: usize| all.iter().map(|logs| side(logs).get(run).copied()).sum::<Option<f64>>();
            (0..runs).map(|run| Some(column(run)? / all.len() as f64)).collect::<Option<Vec<f64>>>()
        };
        let squares = all.iter().map(|logs| logs.disturbed.map(|off| off * off)).sum::<Option<f64>>();
        let disturbed = squares.map(|sum| sum.sqrt() / all.len() as f64);
        Some(Logs { old: mean(|logs| &logs.old)?, new: mean(|logs| &logs.new)?, disturbed })
    }
}

/// Of each run, or of the best, from the best on.
fn logs(row: &Row) -> Option<Vec<f64>> {
    let sign = match row.better {
        Better::Higher => -1.0,
        Better::Lower => 1.0,
        Better::Neither => return None,
    };
    let values = values(row);
    if values.iter().any(|&value| value <= 0.0) {
        return None;
    }
    let mut logs: Vec<f64> = values.iter().map(|value| sign * value.ln()).collect();
    if has_many(row) {
        logs.sort_by(f64::total_cmp);
        logs.truncate(BESTS);
    }
    Some(logs)
}

/// How far the bests of a figure can be off; `None` if all of its runs count.
fn disturbed(row: &Row) -> Option<f64> {
    let best = if row.better == Better::Higher { row.max } else { row.min };
    has_many(row).then_some(DISTURBED * (row.median? / best?).ln().abs())
}

fn has_many(row: &Row) -> bool {
    row.values.len() >= MANY_RUNS
}

/// Other families' figures of the same configuration, of whom every round is there.
fn controls<'a>(rows: &'a [Row], row: &Row) -> Vec<&'a Row> {
    fn configuration(row: &Row) -> (&str, usize, usize, &str, &str) {
        (&row.experiment, row.processors, row.threads, &row.variant, &row.metric)
    }
    let is_control = |other: &&Row| {
        family(&other.peer) != family(&row.peer)
            && configuration(other) == configuration(row)
            && !row.values.is_empty()
            && other.values.len() == row.values.len()
    };
    rows.iter().filter(is_control).collect()
}

/// What is left of a figure's runs when those of its controls are taken off, round by
/// round.
fn relative(row: &Row, controls: &[&Row]) -> Option<Vec<f64>> {
    let mut left = logs(row)?;
    for control in controls {
        for (log, theirs) in left.iter_mut().zip(logs(control)?) {
            *log -= theirs / controls.len() as f64;
        }
    }
    Some(left)
}

impl<'a> Pair<'a> {
    fn of(old: &'a Row, new: &'a Row, old_rows: &[Row], new_rows: &[Row]) -> Option<Pair<'a>> {
        let off = disturbed(old).zip(disturbed(new)).map(|(old, new)| old.hypot(new));
        let plain = Logs { old: logs(old)?, new: logs(new)?, disturbed: off };
        let worse = plain.shift()?.worse;
        let (mut before, mut after) = (controls(old_rows, old), controls(new_rows, new));
        before.retain(|control| after.iter().any(|other| other.peer == control.peer));
        after.retain(|control| before.iter().any(|other| other.peer == control.peer));
        let paired = match before.is_empty() {
            true => None,
            false => {
                let theirs = before.iter().chain(&after).map(|control| disturbed(control));
                let theirs = theirs.map(|off| off.map(|off| off * off)).sum::<Option<f64>>();
                let disturbed = off.zip(theirs).map(|(off, theirs)| off.hypot(theirs.sqrt() / before.len() as f64));
                relative(old, &before).zip(relative(new, &after)).map(|(old, new)| Logs { old, new, disturbed })
            }
        };
        Some(Pair { old, new, plain, worse, paired })
    }

    fn judge(&self, drift: Drift) -> Option<Change> {
        let shift = less_noisy(&self.plain, self.paired.as_ref(), drift.centre)?;
        let noise = shift.within.hypot(drift.scatter);
        (counts(shift.worse, noise) && shift.is_apart).then(|| Change {
            what: what(self.new),
            old: typical(self.old, &self.plain.old),
            new: typical(self.new, &self.plain.new),
            worse: shift.worse,
            noise,
        })
    }
}

/// What is left when the machine's part is taken off, by whichever way has less noise.
/// `None` if more of it is the others' move than the figure's own: it is not they who
/// are judged.
fn less_noisy(plain: &Logs, paired: Option<&Logs>, centre: f64) -> Option<Shift> {
    let plain = plain.shift()?;
    let paired = paired.and_then(Logs::shift).filter(|paired| paired.within < plain.within);
    let left = paired.unwrap_or(Shift { worse: plain.worse - centre, ..plain });
    (plain.worse * left.worse.signum() >= left.worse.abs() / 2.0).then_some(left)
}

/// The figure whose logarithm is the middle of these.
fn typical(row: &Row, logs: &[f64]) -> f64 {
    let middle = median(logs).unwrap_or(f64::NAN);
    if row.better == Better::Higher { (-middle).exp() } else { middle.exp() }
}

fn counts(worse: f64, noise: f64) -> bool {
    worse.abs() > LEAST_EFFECT.ln_1p().max(SIGMAS * noise)
}

/// All figures of a family by one metric of an experiment, together.
fn judge_together(pairs: &[Pair], experiment: &str, metric: &str, own: &str) -> Option<Change> {
    let is_member =
        |pair: &&Pair| pair.new.experiment == experiment && pair.new.metric == metric && family(&pair.new.peer) == own;
    let members: Vec<&Pair> = pairs.iter().filter(is_member).collect();
    let drifts: Vec<Drift> = members.iter().map(|pair| drift(pairs, pair.new)).collect();
    let many = members.len() as f64;
    let centre = drifts.iter().map(|drift| drift.centre).sum::<f64>() / many;
    let plain = Logs::mean(&members.iter().map(|pair| &pair.plain).collect::<Vec<_>>())?;
    let paired = members.iter().map(|pair| pair.paired.as_ref()).collect::<Option<Vec<_>>>();
    let shift = less_noisy(&plain, paired.and_then(|paired| Logs::mean(&paired)).as_ref(), centre)?;
    // What is only assumed to differ between runs may differ for all of them alike.
    let scatter = match drifts.iter().all(|drift| drift.controls >= LEAST_CONTROLS) {
        true => drifts.iter().map(|drift| drift.scatter.powi(2)).sum::<f64>().sqrt() / many,
        false => drifts.iter().map(|drift| drift.scatter).fold(0.0, f64::max),
    };
    let noise = shift.within.hypot(scatter);
    let is_found = members.len() > 1 && counts(shift.worse, noise) && shift.is_apart;
    let worse = shift.worse;
    let what = format!("{experiment}, {own}: {metric}, all {} together", members.len());
    is_found.then_some(Change { what, old: 0.0, new: 0.0, worse, noise })
}

fn what(row: &Row) -> String {
    let variant = if row.variant == "-" { String::new() } else { format!(" {}", row.variant) };
    format!("{}{variant}, {} on {}: {}", row.experiment, row.peer, row.processors, row.metric)
}

/// Of a figure's controls: those of all other families, on as many processors if there
/// are enough of them. What others do on the machine is not in CPU time, so that such
/// figures have only their like.
fn drift(pairs: &[Pair], row: &Row) -> Drift {
    let others = |narrow: bool| -> Vec<f64> {
        let others = pairs.iter().filter(|pair| family(&pair.new.peer) != family(&row.peer));
        let others = others.filter(|pair| is_cpu_time(pair.new) == is_cpu_time(row));
        others.filter(|pair| !narrow || pair.new.processors == row.processors).map(|pair| pair.worse).collect()
    };
    let mut shifts = others(true);
    if shifts.len() < LEAST_CONTROLS {
        shifts = others(false);
    }
    let controls = shifts.len();
    if controls < LEAST_CONTROLS {
        let scatter = if has_many(row) { ASSUMED_BETWEEN_BESTS } else { ASSUMED_BETWEEN };
        return Drift { centre: 0.0, scatter, controls };
    }
    let centre = median(&shifts).expect("enough of them");
    let distances: Vec<f64> = shifts.iter().map(|shift| (shift - centre).abs()).collect();
    // The factor makes a standard deviation of it, were they normal.
    let scatter = 1.48 * median(&distances).expect("enough of them");
    Drift { centre, scatter, controls }
}

fn is_cpu_time(row: &Row) -> bool {
    row.metric.contains("cpu")
}

impl Comparison {
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
            lost: both.iter().filter(|(old, new)| old.completed && !new.completed).map(|(_, new)| what(new)).collect(),
            regained: both
                .iter()
                .filter(|(old, new)| !old.completed && new.completed)
                .map(|(_, new)| what(new))
                .collect(),
            drift: pairs.first().map(|pair| drift(&pairs, pair.new)),
        };
        let mut families: Vec<(&str, &str, &str)> = Vec::new();
        for pair in &pairs {
            let own = (pair.new.experiment.as_str(), pair.new.metric.as_str(), family(&pair.new.peer));
            if !families.contains(&own) {
                families.push(own);
            }
        }
        for (experiment, metric, own) in families {
            match judge_together(&pairs, experiment, metric, own) {
                Some(change) if change.worse > 0.0 => comparison.slower.push(change),
                Some(change) => comparison.faster.push(change),
                None => {}
            }
        }
        for pair in &pairs {
            let drift = drift(&pairs, pair.new);
            match pair.judge(drift) {
                Some(change) if change.worse > 0.0 => comparison.slower.push(change),
                Some(change) => comparison.faster.push(change),
                None => {}
            }
        }
        comparison.slower.sort_by(|a, b| b.worse.total_cmp(&a.worse));
        comparison.faster.sort_by(|a, b| a.worse.total_cmp(&b.worse));
        Ok(comparison)
    }

    pub fn is_slower(&self) -> bool {
        !self.slower.is_empty() || !self.lost.is_empty()
    }
}

fn percent(logarithm: f64) -> String {
    format!("{:.0} %", 100.0 * logarithm.abs().exp_m1())
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} figures compared", self.compared)?;
        if self.only_old + self.only_new > 0 {
            write!(f, "; {} are only in the old file, {} only in the new", self.only_old, self.only_new)?;
        }
        writeln!(f)?;
        match self.drift {
            Some(drift) if drift.controls >= LEAST_CONTROLS => {
                let which = if drift.centre > 0.0 { "slower" } else { "faster" };
                let (centre, scatter) = (percent(drift.centre), percent(drift.scatter));
                writeln!(
                    f,
                    "by the other peers, the machine was {centre} {which} (taken off), and noise between runs is {scatter}"
                )?;
            }
            Some(drift) => {
                let scatter = percent(drift.scatter);
                writeln!(f, "too few other peers for a control: noise between runs is taken to be {scatter}")?;
            }
            None => {}
        }
        for (title, changes) in [("slower", &self.slower), ("faster", &self.faster)] {
            for Change { what, old, new, worse, noise } in changes {
                let (by, noise) = (percent(*worse), percent(*noise));
                write!(f, "{title} by {by} (noise {noise}): {what}")?;
                match *old == 0.0 {
                    true => writeln!(f)?,
                    false => writeln!(f, ", {} -> {}", figure(*old), figure(*new))?,
                }
            }
        }
        self.lost.iter().try_for_each(|what| writeln!(f, "no longer completes: {what}"))?;
        self.regained.iter().try_for_each(|what| writeln!(f, "completes now: {what}"))?;
        if !self.is_slower() {
            writeln!(f, "nothing became slower beyond the noise")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::random::Random;

    const PEERS: [&str; 6] = ["sinew/fair", "sinew/inverted", "sinew/shared", "tokio", "may", "threads"];
    const EXPERIMENTS: [&str; 8] = ["yield", "cycle", "churn", "locality", "spawn", "channel", "mutex", "skew"];

    /// Results of a machine whose runs scatter by `within` and whose every figure is
    /// off by `between` in a whole file.
    fn results(seed: usize, within: f64, between: f64, slowed: impl Fn(&str, &str) -> f64) -> Vec<Row> {
        let mut random = Random::of(seed);
        // The sum of three is near enough to normal, with deviation 1.
        let mut normal = move || (0..3).map(|_| random.fraction() - 0.5).sum::<f64>() * 2.0;
        let mut rows = Vec::new();
        for experiment in EXPERIMENTS {
            for peer in PEERS {
                for processors in [1, 2] {
                    let level = 1e7 * slowed(experiment, peer) * (between * normal()).exp();
                    let values: Vec<f64> = (0..5).map(|_| level * (within * normal()).exp()).collect();
                    rows.push(Row {
                        experiment: experiment.into(),
                        peer: peer.into(),
                        processors,
                        threads: 100,
                        variant: "-".into(),
                        metric: "ops_per_s".into(),
                        median: median(&values),
                        min: values.iter().copied().reduce(f64::min),
                        max: values.iter().copied().reduce(f64::max),
                        runs: 5,
                        completed: true,
                        better: Better::Higher,
                        values,
                        trouble: None,
                    });
                }
            }
        }
        rows
    }

    /// Two files of the same build, a hundred times, with 96 figures each.
    #[test]
    fn the_same_build_is_not_slower_than_itself() {
        let wrong = (0..100).filter(|seed| {
            let (old, new) = (results(2 * seed, 0.04, 0.04, |_, _| 1.0), results(2 * seed + 1, 0.04, 0.04, |_, _| 1.0));
            Comparison::of(&old, &new).unwrap().is_slower()
        });
        let wrong = wrong.count();
        assert!(wrong <= 3, "{wrong} of 100");
    }

    #[test]
    fn a_fifth_slower_yield_is_found() {
        let slowed = |experiment: &str, peer: &str| match experiment == "yield" && peer.starts_with("sinew") {
            true => 1.0 / 1.2,
            false => 1.0,
        };
        let found = (0..100).filter(|seed| {
            let (old, new) = (results(2 * seed, 0.04, 0.04, |_, _| 1.0), results(2 * seed + 1, 0.04, 0.04, slowed));
            let comparison = Comparison::of(&old, &new).unwrap();
            comparison.slower.iter().any(|change| change.what.starts_with("yield, sinew: "))
        });
        let found = found.count();
        assert!(found >= 95, "{found} of 100");
    }

    /// Forty runs, three of four slowed by up to a half: other work on the machine.
    #[test]
    fn a_fifth_is_found_in_many_short_runs_on_a_busy_machine() {
        let yields = |seed: usize, cost: f64| -> Vec<Row> {
            let mut random = Random::of(seed);
            let mut rows = results(seed, 0.01, 0.0, |_, _| 1.0 / cost);
            rows.retain(|row| row.experiment == "yield" && ["sinew/fair", "tokio"].contains(&row.peer.as_str()));
            for row in &mut rows {
                let level = if row.peer == "tokio" { 3e6 } else { 1e7 / cost };
                let mut run = || level / (1.0 + (random.fraction() - 0.25).max(0.0) * 0.7 + 0.01 * random.fraction());
                row.values = (0..40).map(|_| run()).collect();
                row.median = median(&row.values);
                row.max = row.values.iter().copied().reduce(f64::max);
            }
            rows
        };
        for seed in 0..50 {
            let same = Comparison::of(&yields(3 * seed, 1.0), &yields(3 * seed + 1, 1.0)).unwrap();
            assert!(!same.is_slower(), "seed {seed}: {same}");
            let slow = Comparison::of(&yields(3 * seed, 1.0), &yields(3 * seed + 2, 1.2)).unwrap();
            assert!(slow.is_slower(), "seed {seed}: {slow}");
        }
    }

    #[test]
    fn a_machine_that_is_slower_for_all_is_no_news() {
        let (old, new) = (results(1, 0.02, 0.02, |_, _| 1.0), results(2, 0.02, 0.02, |_, _| 0.7));
        let comparison = Comparison::of(&old, &new).unwrap();
        assert!(!comparison.is_slower(), "{comparison}");
    }

    #[test]
    fn nobody_is_slower_because_others_became_faster() {
        let faster = |_: &str, peer: &str| if peer.starts_with("sinew") { 1.3 } else { 1.0 };
        for seed in 0..20 {
            let (old, new) = (results(2 * seed, 0.03, 0.02, |_, _| 1.0), results(2 * seed + 1, 0.03, 0.02, faster));
            let comparison = Comparison::of(&old, &new).unwrap();
            assert!(!comparison.is_slower() && !comparison.faster.is_empty(), "seed {seed}: {comparison}");
        }
    }

    #[test]
    fn what_no_longer_completes_is_slower() {
        let old = results(1, 0.02, 0.02, |_, _| 1.0);
        let mut new = old.clone();
        new[0] = Row { completed: false, median: None, min: None, max: None, values: Vec::new(), ..new[0].clone() };
        let comparison = Comparison::of(&old, &new).unwrap();
        assert!(comparison.is_slower() && comparison.slower.is_empty());
    }

    #[test]
    fn files_without_a_common_figure_are_an_error() {
        assert!(Comparison::of(&results(1, 0.0, 0.0, |_, _| 1.0)[..1], &[]).is_err());
    }
}
