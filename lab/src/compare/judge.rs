//! Judges figures beside their controls.

use super::runs::{Runs, Shift, has_many, logs, typical};
use super::{LEAST_EFFECT, SIGMAS};
use crate::case;
use crate::peers::family;
use crate::rows::{Row, median};

/// The scatter of fewer controls than this says nothing.
const LEAST_CONTROLS: usize = 6;
/// The noise between files that is assumed if there are fewer controls. Seen on a shared
/// virtual machine.
const ASSUMED_BETWEEN: f64 = 0.05;
/// The same for many runs. On a machine with five times more work than CPUs, the best CPU
/// times of five files of one build scattered by 0.02.
const ASSUMED_BETWEEN_MANY: f64 = 0.025;

/// One figure in both files.
pub struct Pair<'a> {
    pub old: &'a Row,
    pub new: &'a Row,
    alone: Runs,
    worse: f64,
    /// Its ratios to the controls of the same configuration.
    beside: Option<Runs>,
    /// The shift of these controls.
    pub host: Option<Host>,
}

/// How the controls of a figure's own configuration shifted.
#[derive(Clone, Copy)]
pub struct Host {
    pub worse: f64,
    /// The part of the shift that is beyond their own noise.
    credible: f64,
}

/// How the controls in the whole file shifted.
#[derive(Clone, Copy)]
pub struct Drift {
    /// The median of the shifts.
    pub centre: f64,
    /// The noise between files.
    pub scatter: f64,
    /// Whether there are enough controls. Otherwise the drift is assumed.
    pub is_measured: bool,
}

/// A figure that changed beyond the noise.
pub struct Change {
    pub what: String,
    /// The old and the new figure, if the change is that of one figure.
    pub figures: Option<(f64, f64)>,
    pub worse: f64,
    pub noise: f64,
    /// Whether a control shows what the machine did.
    pub has_control: bool,
}

/// Returns whether a figure is judged. All other figures are controls.
pub fn is_ours(row: &Row) -> bool {
    family(&row.peer) == "sinew"
}

/// Names a figure.
pub fn what(row: &Row) -> String {
    let case = case::named(&row.experiment, &row.variant, &row.peer, row.processors);
    format!("{case}: {}", row.metric)
}

/// Returns whether `control` has the configuration of `row` and each of its rounds.
fn is_beside(control: &Row, row: &Row) -> bool {
    fn configuration(row: &Row) -> (&str, usize, usize, &str, &str) {
        (&row.experiment, row.processors, row.threads, &row.variant, &row.metric)
    }
    !is_ours(control)
        && configuration(control) == configuration(row)
        && !row.values.is_empty()
        && control.values.len() == row.values.len()
}

/// Returns a figure's runs minus the median of its controls' runs, round by round.
fn relative(row: &Row, controls: &[Vec<f64>]) -> Option<Vec<f64>> {
    let round = |(number, log): (usize, f64)| {
        let theirs: Vec<f64> = controls.iter().map(|control| control[number]).collect();
        Some(log - median(&theirs)?)
    };
    logs(row)?.into_iter().enumerate().map(round).collect()
}

impl Host {
    fn of(controls: &[(&Row, &Row)]) -> Option<Host> {
        let shifts = controls.iter().filter_map(|(old, new)| {
            let runs = Runs::of(old, new)?;
            Some((runs.shift()?.worse, runs.most_noise().hypot(assumed_between(old, new))))
        });
        let (shifts, noises): (Vec<f64>, Vec<f64>) = shifts.unzip();
        let worse = median(&shifts)?;
        Some(Host { worse, credible: (worse.abs() - median(&noises)?).max(0.0) })
    }
}

fn assumed_between(old: &Row, new: &Row) -> f64 {
    if has_many(old, new) { ASSUMED_BETWEEN_MANY } else { ASSUMED_BETWEEN }
}

impl<'a> Pair<'a> {
    pub fn of(old: &'a Row, new: &'a Row, old_rows: &[Row], new_rows: &[Row]) -> Option<Pair<'a>> {
        let alone = Runs::of(old, new)?;
        let worse = alone.shift()?.worse;
        let both = new_rows.iter().filter(|control| is_ours(new) && is_beside(control, new)).filter_map(|after| {
            let before = old_rows.iter().find(|before| before.peer == after.peer && is_beside(before, old))?;
            Some(((before, after), (logs(before)?, logs(after)?)))
        });
        let (controls, (before, after)): (Vec<_>, (Vec<_>, Vec<_>)) = both.unzip();
        let beside = relative(old, &before).zip(relative(new, &after)).map(|(old, new)| Runs::of_rounds(old, new));
        Some(Pair { old, new, alone, worse, beside, host: Host::of(&controls) })
    }
}

/// Returns the shift without the machine's part, found by the way with less noise, and that
/// noise. Returns `None` if the shift is not beyond the noise.
fn beyond_noise(alone: &Runs, beside: Option<&Runs>, credible: f64, drift: Drift) -> Option<(f64, f64)> {
    let own = alone.shift()?;
    let alone = (Shift { worse: own.worse - drift.centre, ..own }, own.within.hypot(drift.scatter).hypot(credible));
    let beside = beside.and_then(Runs::shift).map(|beside| (beside, beside.within.hypot(drift.scatter)));
    let (shift, noise) = beside.filter(|beside| beside.1 < alone.1).unwrap_or(alone);
    let counts = shift.worse.abs() > LEAST_EFFECT.ln_1p().max(SIGMAS * noise);
    let is_own = own.worse * shift.worse.signum() >= shift.worse.abs() / 2.0;
    (counts && is_own && shift.is_apart).then_some((shift.worse, noise))
}

/// Returns how far a figure may be off because the machine changed, if the drift is not
/// subtracted. The controls beside the figure tell, or else all controls in the file. Returns
/// `None` without controls.
fn credible(pairs: &[Pair], of: &Pair, drift: Drift) -> Option<f64> {
    if drift.is_measured {
        return Some(0.0);
    }
    let anywhere = || Host::of(&controls(pairs, of).map(|pair| (pair.old, pair.new)).collect::<Vec<_>>());
    of.host.or_else(anywhere).map(|host| host.credible)
}

/// Judges one figure. Returns `None` if it did not change beyond the noise.
pub fn judge(pairs: &[Pair], pair: &Pair) -> Option<Change> {
    let drift = drift(pairs, pair);
    let credible = credible(pairs, pair, drift);
    let (worse, noise) = beyond_noise(&pair.alone, pair.beside.as_ref(), credible.unwrap_or(0.0), drift)?;
    let figures = Some((typical(pair.old, &pair.alone.old), typical(pair.new, &pair.alone.new)));
    Some(Change { what: what(pair.new), figures, worse, noise, has_control: credible.is_some() })
}

/// Judges the mean of all of Sinew's figures by one metric of an experiment.
pub fn judge_together(pairs: &[Pair], experiment: &str, metric: &str) -> Option<Change> {
    let is_member = |pair: &&Pair| is_ours(pair.new) && pair.new.experiment == experiment && pair.new.metric == metric;
    let members: Vec<&Pair> = pairs.iter().filter(is_member).collect();
    if members.len() < 2 {
        return None;
    }
    let many = members.len() as f64;
    let drifts: Vec<Drift> = members.iter().map(|pair| drift(pairs, pair)).collect();
    let is_measured = drifts.iter().all(|drift| drift.is_measured);
    // A difference between files that is only assumed may be the same for all figures.
    let scatter = match is_measured {
        true => drifts.iter().map(|drift| drift.scatter.powi(2)).sum::<f64>().sqrt() / many,
        false => drifts.iter().map(|drift| drift.scatter).fold(0.0, f64::max),
    };
    let drift = Drift { centre: drifts.iter().map(|drift| drift.centre).sum::<f64>() / many, scatter, is_measured };
    let alone = Runs::mean(&members.iter().map(|pair| &pair.alone).collect::<Vec<_>>())?;
    let beside = members.iter().map(|pair| pair.beside.as_ref()).collect::<Option<Vec<_>>>();
    let beside = beside.and_then(|beside| Runs::mean(&beside));
    let credible: Vec<f64> =
        members.iter().zip(&drifts).filter_map(|(pair, drift)| credible(pairs, pair, *drift)).collect();
    let most = credible.iter().copied().fold(0.0, f64::max);
    let (worse, noise) = beyond_noise(&alone, beside.as_ref(), most, drift)?;
    let what = format!("{experiment}, sinew: {metric}, all {} together", members.len());
    Some(Change { what, figures: None, worse, noise, has_control: credible.len() == members.len() })
}

/// Returns the controls of a figure in the whole file. Other programs on the machine change
/// elapsed time and not CPU time, so each of the two has only controls of its own kind.
fn controls<'a>(pairs: &'a [Pair<'a>], of: &'a Pair) -> impl Iterator<Item = &'a Pair<'a>> {
    let others = pairs.iter().filter(|pair| !is_ours(pair.new) && family(&pair.new.peer) != family(&of.new.peer));
    others.filter(|pair| is_cpu_time(pair.new) == is_cpu_time(of.new))
}

/// Returns the drift of a figure's controls: those with its number of processors, or all in
/// the file if there are too few of them.
pub fn drift(pairs: &[Pair], of: &Pair) -> Drift {
    let near = controls(pairs, of).filter(|pair| pair.new.processors == of.new.processors);
    let mut shifts: Vec<f64> = near.map(|pair| pair.worse).collect();
    if shifts.len() < LEAST_CONTROLS {
        shifts = controls(pairs, of).map(|pair| pair.worse).collect();
    }
    if shifts.len() < LEAST_CONTROLS {
        return Drift { centre: 0.0, scatter: assumed_between(of.old, of.new), is_measured: false };
    }
    let centre = median(&shifts).expect("enough controls");
    let distances: Vec<f64> = shifts.iter().map(|shift| (shift - centre).abs()).collect();
    // The factor makes it a standard deviation if the shifts are normal.
    let scatter = 1.48 * median(&distances).expect("enough controls");
    Drift { centre, scatter, is_measured: true }
}

fn is_cpu_time(row: &Row) -> bool {
    row.metric.contains("cpu")
}
