//! Runs the cases of the experiments, each in a process of its own.

mod child;
pub mod interruption;
pub mod plan;
mod progress;

use std::time::{Duration, Instant};

use crate::case::Outcome;
use crate::rows::{self, Row};

use plan::Plan;
use progress::Progress;

pub struct Results {
    pub rows: Vec<Row>,
    /// The number of child processes.
    pub measurements: usize,
}

/// Measures every case of the plan. A round measures all cases once, so a disturbance of the
/// machine hits all peers alike. A case that did not complete or failed is not tried again.
pub fn conduct(plan: &Plan) -> Results {
    let begun = Instant::now();
    let mut outcomes: Vec<Vec<Outcome>> = plan.cases.iter().map(|_| Vec::new()).collect();
    let mut progress = Progress::begin(plan);
    for round in 0..plan.repeats {
        for (number, planned) in plan.cases.iter().enumerate() {
            let is_due = round < planned.experiment.most_repeats.max(1)
                && outcomes[number].iter().all(|outcome| matches!(outcome, Outcome::Measured(_)))
                && (round == 0 || plan.budget.is_none_or(|budget| begun.elapsed() < budget));
            if !is_due {
                progress.skip(number);
                continue;
            }
            progress.start(number, round);
            let started = Instant::now();
            let outcome = child::measure(planned, plan.limit_of(planned));
            progress.finish(number, started.elapsed());
            outcomes[number].push(outcome);
        }
    }
    progress.end();
    let mut rows = Vec::new();
    for (planned, outcomes) in plan.cases.iter().zip(&outcomes) {
        rows.extend(rows::of_case(planned.experiment, &planned.case, outcomes));
    }
    for planned in plan.cases_with_models() {
        rows.extend(rows::of_models(planned.experiment, &planned.case));
    }
    Results { rows, measurements: outcomes.iter().map(Vec::len).sum() }
}

/// Returns a length of time in minutes and seconds.
pub fn said(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
