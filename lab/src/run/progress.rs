//! The progress bar: which case runs, and how much time is left.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::plan::Plan;
use super::said;
use crate::case;

/// A guess at the time of a child beyond its window: to start, to warm up, to end.
const OVERHEAD: Duration = Duration::from_millis(200);

pub struct Progress {
    bar: ProgressBar,
    names: Vec<String>,
    /// The time of a run of each case: a guess before the first run, then the last run's time.
    takes: Vec<Duration>,
    /// Runs of each case that are still to come.
    left: Vec<usize>,
    repeats: usize,
    done: Duration,
    budget: Option<Duration>,
    /// Without a terminal, each experiment and round has a line: those of the last line.
    lines: Option<(&'static str, usize)>,
    experiments: Vec<&'static str>,
}

impl Progress {
    pub fn begin(plan: &Plan) -> Progress {
        let name = |planned: &super::plan::Planned| {
            let case = &planned.case;
            case::named(&case.experiment, &case.variant, &case.peer, case.processors)
        };
        let guess = |planned: &super::plan::Planned| Duration::from_secs_f64(planned.case.seconds) + OVERHEAD;
        let style = ProgressStyle::with_template("{bar:12.cyan/dim} {percent:>3}% {prefix} left  {wide_msg}");
        let bar = ProgressBar::new(1000).with_style(style.expect("a template that is right").progress_chars("━━─"));
        Progress {
            bar,
            names: plan.cases.iter().map(name).collect(),
            takes: plan.cases.iter().map(guess).collect(),
            left: plan.cases.iter().map(|planned| plan.repeats.min(planned.experiment.most_repeats)).collect(),
            repeats: plan.repeats,
            done: Duration::ZERO,
            budget: plan.budget,
            lines: (!std::io::stderr().is_terminal()).then_some(("", 0)),
            experiments: plan.cases.iter().map(|planned| planned.experiment.name).collect(),
        }
    }

    pub fn start(&mut self, number: usize, round: usize) {
        let to_come = self.to_come(round, number);
        if let Some(last) = &mut self.lines {
            let now = (self.experiments[number], round);
            if std::mem::replace(last, now) != now {
                eprintln!("{}, run {} of {}, {} left", now.0, round + 1, self.repeats, said(to_come));
            }
        }
        let all = self.done + to_come;
        self.bar.set_position((1000.0 * self.done.as_secs_f64() / all.as_secs_f64().max(1e-9)) as u64);
        self.bar.set_prefix(said(to_come));
        self.bar.set_message(format!("{} (run {} of {})", self.names[number], round + 1, self.repeats));
    }

    /// Returns the time that is left. The first round is completed even beyond the budget.
    fn to_come(&self, round: usize, number: usize) -> Duration {
        let all: Duration = self.left.iter().zip(&self.takes).map(|(&left, &takes)| takes * left as u32).sum();
        let first_round: Duration = if round == 0 { self.takes[number..].iter().sum() } else { Duration::ZERO };
        match self.budget {
            Some(budget) => all.min(budget.saturating_sub(self.done)).max(first_round),
            None => all,
        }
    }

    pub fn finish(&mut self, number: usize, took: Duration) {
        self.takes[number] = took;
        self.left[number] = self.left[number].saturating_sub(1);
        self.done += took;
    }

    pub fn skip(&mut self, number: usize) {
        self.left[number] = 0;
    }

    pub fn end(self) {
        self.bar.finish_and_clear();
    }
}
