//! What the runs of a figure say, and how far that can be off.

use crate::experiments::Better;
use crate::rows::{Row, median};

/// Runs from which on there are many of them.
///
/// What disturbs a run only ever makes it worse. So of many, the best [`BESTS`] stand
/// for all. On a machine where seven of eight runs were disturbed, the second best of
/// forty scattered by 0.02 and the fifth best by 0.06.
pub const MANY_RUNS: usize = 12;
const BESTS: usize = 3;
/// The further the median lies from the best, the less has the best been left alone. It is
/// taken to be off by this part of the distance: files of one build whose medians were 7 %
/// and 55 % above their bests had bests 13 % apart.
const DISTURBED: f64 = 0.06;
/// What a single run is taken to be off by.
const ASSUMED_WITHIN: f64 = 0.10;
/// By how much more than a mean a median is off.
const MEDIAN_TO_MEAN: f64 = 1.25;

/// The logarithms of a figure's runs in both files, greater the worse they are.
#[derive(Clone)]
pub struct Runs {
    pub old: Vec<f64>,
    pub new: Vec<f64>,
    which: Which,
}

#[derive(Clone, Copy, PartialEq)]
enum Which {
    /// All of few.
    All,
    /// The best of many, and how far these can be off.
    Bests(f64),
    /// All rounds of many.
    Rounds,
}

/// From some runs to others, as logarithms: 0.1 is about a tenth.
#[derive(Clone, Copy)]
pub struct Shift {
    /// How much worse the middle became.
    pub worse: f64,
    /// How far that can be off by the runs alone.
    pub within: f64,
    /// Whether the runs lie on two sides. Of all rounds of many, some never do.
    pub is_apart: bool,
}

pub fn has_many(old: &Row, new: &Row) -> bool {
    old.values.len().min(new.values.len()) >= MANY_RUNS
}

/// Of each run, in their order. `None` if the figure is neither good nor bad.
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

/// The figure whose logarithm is the middle of these.
pub fn typical(row: &Row, logs: &[f64]) -> f64 {
    let middle = median(logs).unwrap_or(f64::NAN);
    if row.better == Better::Higher { (-middle).exp() } else { middle.exp() }
}

/// The best, and how far they can be off.
fn bests(mut logs: Vec<f64>) -> (Vec<f64>, f64) {
    logs.sort_by(f64::total_cmp);
    let distance = median(&logs).unwrap_or(f64::NAN) - logs[0];
    logs.truncate(BESTS);
    (logs, DISTURBED * distance)
}

/// How far the median of few may be off, by their range.
fn error_by_range(logs: &[f64]) -> f64 {
    /// What the range of that many normal values is in standard deviations.
    const RANGES: [f64; 9] = [1.13, 1.69, 2.06, 2.33, 2.53, 2.70, 2.85, 2.97, 3.08];
    if logs.len() < 2 {
        return ASSUMED_WITHIN;
    }
    let (least, most) = (logs.iter().copied().fold(f64::MAX, f64::min), logs.iter().copied().fold(f64::MIN, f64::max));
    let deviation = (most - least) / RANGES[(logs.len() - 2).min(RANGES.len() - 1)];
    MEDIAN_TO_MEAN * deviation / (logs.len() as f64).sqrt()
}

/// How far the median of many may be off, by the half of them that is in the middle:
/// some are always far out.
fn error_by_quartiles(logs: &[f64]) -> f64 {
    /// What the middle half of normal values spans in standard deviations.
    const MIDDLE_HALF: f64 = 1.35;
    let mut sorted = logs.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quarter = sorted.len() / 4;
    let deviation = (sorted[sorted.len() - 1 - quarter] - sorted[quarter]) / MIDDLE_HALF;
    MEDIAN_TO_MEAN * deviation / (logs.len() as f64).sqrt()
}

impl Runs {
    /// Of the figure itself.
    pub fn of(old: &Row, new: &Row) -> Option<Runs> {
        let (before, after) = (logs(old)?, logs(new)?);
        if !has_many(old, new) {
            return Some(Runs { old: before, new: after, which: Which::All });
        }
        let ((old, off), (new, also)) = (bests(before), bests(after));
        Some(Runs { old, new, which: Which::Bests(off.hypot(also)) })
    }

    /// Of ratios, each of one round.
    pub fn of_rounds(old: Vec<f64>, new: Vec<f64>) -> Runs {
        let which = if old.len().min(new.len()) >= MANY_RUNS { Which::Rounds } else { Which::All };
        Runs { old, new, which }
    }

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

    /// How far the shift can be off by how far the runs lie from each other.
    fn spread(&self) -> f64 {
        error_by_range(&self.old).hypot(error_by_range(&self.new))
    }

    /// The same, or by the spread of the bests if that is more.
    pub fn most_noise(&self) -> f64 {
        match self.which {
            Which::Bests(off) => off.max(self.spread()),
            _ => self.spread(),
        }
    }

    /// Run by run. `None` if not all have as many.
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
