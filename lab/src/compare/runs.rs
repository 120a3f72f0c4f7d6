//! The runs of a figure in two files: how far they shifted, and how far that can be off.

use crate::experiments::Better;
use crate::rows::{Row, median};

/// The least number of runs that counts as many.
///
/// A disturbance only makes a run worse. So of many runs, the best [`BESTS`] stand for all.
/// On a machine where seven of eight runs were disturbed, the second best of
/// forty scattered by 0.02 and the fifth best by 0.06.
pub const MANY_RUNS: usize = 12;
const BESTS: usize = 3;
/// The further the median lies from the best run, the more was the best run disturbed, too.
/// It is taken to be off by this part of the distance: two files of one build had medians 7 %
/// and 55 % above their best runs, and these were 13 % apart.
const DISTURBED: f64 = 0.06;
/// How far a single run is assumed to be off.
const ASSUMED_WITHIN: f64 = 0.10;
/// The error of a median over the error of a mean.
const MEDIAN_TO_MEAN: f64 = 1.25;

/// The logarithms of a figure's runs in both files. A greater logarithm is worse.
#[derive(Clone)]
pub struct Runs {
    pub old: Vec<f64>,
    pub new: Vec<f64>,
    which: Which,
}

#[derive(Clone, Copy, PartialEq)]
enum Which {
    /// All of few runs.
    All,
    /// The best of many runs, and how far these can be off.
    Bests(f64),
    /// All of many rounds.
    Rounds,
}

/// The shift from the old runs to the new ones, as logarithms: 0.1 is about a tenth.
#[derive(Clone, Copy)]
pub struct Shift {
    /// How much worse the median became.
    pub worse: f64,
    /// How far that can be off by the runs alone.
    pub within: f64,
    /// Whether old and new runs lie on two sides. Not asked of many rounds: some of them never do.
    pub is_apart: bool,
}

/// Returns whether both files have many runs.
pub fn has_many(old: &Row, new: &Row) -> bool {
    old.values.len().min(new.values.len()) >= MANY_RUNS
}

/// Returns the logarithm of each run, in order. Returns `None` if the figure is neither good
/// nor bad, or if a run is not positive.
pub fn logs(row: &Row) -> Option<Vec<f64>> {
    let sign = match row.better {
        Better::Higher => -1.0,
        Better::Lower => 1.0,
        Better::Neither => return None,
    };
    let values = match row.values.is_empty() {
        true => [row.min, row.median, row.max].into_iter().flatten().collect(),
        false => row.values.clone(),
    };
    values.iter().all(|&value| value > 0.0).then(|| values.iter().map(|value| sign * value.ln()).collect())
}

/// Returns the figure whose logarithm is the median of these.
pub fn typical(row: &Row, logs: &[f64]) -> f64 {
    let middle = median(logs).unwrap_or(f64::NAN);
    if row.better == Better::Higher { (-middle).exp() } else { middle.exp() }
}

/// Returns the best runs, and how far they can be off.
fn bests(mut logs: Vec<f64>) -> (Vec<f64>, f64) {
    logs.sort_by(f64::total_cmp);
    let distance = median(&logs).unwrap_or(f64::NAN) - logs[0];
    logs.truncate(BESTS);
    (logs, DISTURBED * distance)
}

/// Returns how far the median of few runs may be off, by their range.
fn error_by_range(logs: &[f64]) -> f64 {
    /// The range of two and more normal values, in standard deviations.
    const RANGES: [f64; 9] = [1.13, 1.69, 2.06, 2.33, 2.53, 2.70, 2.85, 2.97, 3.08];
    if logs.len() < 2 {
        return ASSUMED_WITHIN;
    }
    let (least, most) = (logs.iter().copied().fold(f64::MAX, f64::min), logs.iter().copied().fold(f64::MIN, f64::max));
    let deviation = (most - least) / RANGES[(logs.len() - 2).min(RANGES.len() - 1)];
    MEDIAN_TO_MEAN * deviation / (logs.len() as f64).sqrt()
}

/// Returns how far the median of many runs may be off, by their middle half: some runs are
/// always far out.
fn error_by_quartiles(logs: &[f64]) -> f64 {
    /// The width of the middle half of normal values, in standard deviations.
    const MIDDLE_HALF: f64 = 1.35;
    let mut sorted = logs.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quarter = sorted.len() / 4;
    let deviation = (sorted[sorted.len() - 1 - quarter] - sorted[quarter]) / MIDDLE_HALF;
    MEDIAN_TO_MEAN * deviation / (logs.len() as f64).sqrt()
}

impl Runs {
    /// Returns the runs of a figure.
    pub fn of(old: &Row, new: &Row) -> Option<Runs> {
        let (before, after) = (logs(old)?, logs(new)?);
        if !has_many(old, new) {
            return Some(Runs { old: before, new: after, which: Which::All });
        }
        let ((old, off), (new, also)) = (bests(before), bests(after));
        Some(Runs { old, new, which: Which::Bests(off.hypot(also)) })
    }

    /// Returns the ratios of a figure, one for each round.
    pub fn of_rounds(old: Vec<f64>, new: Vec<f64>) -> Runs {
        let which = if old.len().min(new.len()) >= MANY_RUNS { Which::Rounds } else { Which::All };
        Runs { old, new, which }
    }

    /// Returns the shift from the old runs to the new ones.
    pub fn shift(&self) -> Option<Shift> {
        let (before, after) = (median(&self.old)?, median(&self.new)?);
        let rises = after > before;
        let within = match self.which {
            Which::All => self.spread(),
            Which::Bests(off) => off,
            Which::Rounds => error_by_quartiles(&self.old).hypot(error_by_quartiles(&self.new)),
        };
        let is_apart = self.new.iter().all(|&log| (log > before) == rises && log != before)
            && self.old.iter().all(|&log| (log < after) == rises && log != after);
        Some(Shift { worse: after - before, within, is_apart: is_apart || self.which == Which::Rounds })
    }

    /// Returns how far the shift can be off, by how far the runs lie from each other.
    fn spread(&self) -> f64 {
        error_by_range(&self.old).hypot(error_by_range(&self.new))
    }

    /// Returns the spread, or the error of the best runs if that is greater.
    pub fn most_noise(&self) -> f64 {
        match self.which {
            Which::Bests(off) => off.max(self.spread()),
            _ => self.spread(),
        }
    }

    /// Returns the mean of several figures, run by run. Returns `None` if their numbers of runs
    /// differ.
    pub fn mean(all: &[&Runs]) -> Option<Runs> {
        let mean = |side: fn(&Runs) -> &[f64]| {
            let runs = all.iter().map(|figure| side(figure).len()).max()?;
            let column = |run: usize| all.iter().map(|figure| side(figure).get(run).copied()).sum::<Option<f64>>();
            (0..runs).map(|run| Some(column(run)? / all.len() as f64)).collect::<Option<Vec<f64>>>()
        };
        let square = |figure: &&Runs| match figure.which {
            Which::Bests(off) => Some(off * off),
            _ => None,
        };
        let which = match all.iter().map(square).sum::<Option<f64>>() {
            Some(squares) => Which::Bests(squares.sqrt() / all.len() as f64),
            None if all.iter().all(|figure| figure.which == Which::Rounds) => Which::Rounds,
            None => Which::All,
        };
        Some(Runs { old: mean(|figure| &figure.old)?, new: mean(|figure| &figure.new)?, which })
    }
}
