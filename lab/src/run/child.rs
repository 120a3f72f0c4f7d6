//! Measurements, each in a child process.
//!
//! The child pins itself to one CPU for each processor of the case, prints its outcome as one
//! line of JSON, and ends. The lab stops a child that has not ended within its limit, and
//! reports that the case did not complete.

use std::io::BufRead;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::interruption;
use super::plan::Planned;
use crate::case::Outcome;
use crate::process::Process;

/// The hidden command.
const COMMAND: &str = "measure";

/// The most characters of a child's complaint that are repeated.
const LONGEST_COMPLAINT: usize = 300;

/// Measures a case once.
pub fn measure(planned: &Planned, limit: Duration) -> Outcome {
    match outcome_of(planned, limit) {
        Outcome::Measured(reading) => match planned.experiment.check_all(&planned.case, &reading) {
            Ok(()) => Outcome::Measured(reading),
            Err(why) => Outcome::Failed(format!("impossible: {why}")),
        },
        other => other,
    }
}

fn outcome_of(planned: &Planned, limit: Duration) -> Outcome {
    let deadline = Instant::now() + limit;
    let mut child = match Process::start(COMMAND, &planned.case) {
        Ok(child) => child,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let stdout = child.output();
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut outcome = None;
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => outcome = serde_json::from_str(&line).ok().or(outcome),
            Err(RecvTimeoutError::Timeout) => return Outcome::DidNotComplete,
            // The pipe closes when the child ends.
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let ended = child.wait();
    interruption::stand_aside();
    match (outcome, ended) {
        (Some(outcome), Ok(status)) if status.success() => outcome,
        (_, Ok(status)) => {
            let complaint = child.complaints().lines().take(3).collect::<Vec<_>>().join(" ");
            Outcome::Failed(format!("{status}: {}", complaint.chars().take(LONGEST_COMPLAINT).collect::<String>()))
        }
        (_, Err(error)) => Outcome::Failed(error.to_string()),
    }
}
