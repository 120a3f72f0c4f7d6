//! Child processes: one measurement each.
//!
//! A child is this program, started with a hidden command and its case as JSON.
//! It pins itself to as many CPUs as the case has processors, prints its outcome
//! as one line of JSON, and ends. One that has not done so within its limit is
//! stopped by its own number and reported as one that did not complete.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::interruption;
use super::plan::Planned;
use crate::case::Outcome;
use crate::kernel;
use crate::peers::go;

/// The hidden command.
pub const COMMAND: &str = "measure";

/// Characters of a child's last words that are worth repeating.
const LAST_WORDS: usize = 300;

/// Dropping it stops what still runs.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            kernel::kill_family(&self.0);
        }
        let _ = self.0.wait();
    }
}

pub fn measure(planned: &Planned, limit: Duration, program: Option<&PathBuf>) -> Outcome {
    match outcome_of(planned, limit, program) {
        Outcome::Measured(reading) => match planned.experiment.check_all(&planned.case, &reading) {
            Ok(()) => Outcome::Measured(reading),
            Err(why) => Outcome::Failed(format!("impossible: {why}")),
        },
        other => other,
    }
}

fn outcome_of(planned: &Planned, limit: Duration, program: Option<&PathBuf>) -> Outcome {
    let deadline = Instant::now() + limit;
    let case = serde_json::to_string(&planned.case).expect("a case is plain data");
    let binary = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(binary);
    command.args([COMMAND, &std::process::id().to_string(), &case]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(program) = program {
        go::hand_down(&mut command, program);
    }
    let mut running = match command.spawn() {
        Ok(child) => Running(child),
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let stdout = BufReader::new(running.0.stdout.take().expect("a pipe"));
    let mut stderr = running.0.stderr.take().expect("a pipe");
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let complaints = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stderr.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut outcome = None;
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => outcome = serde_json::from_str(&line).ok().or(outcome),
            Err(RecvTimeoutError::Timeout) => return Outcome::DidNotComplete,
            // The pipe closes when the process ends.
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let ended = running.0.wait();
    interruption::stand_aside();
    match (outcome, ended) {
        (Some(outcome), Ok(status)) if status.success() => outcome,
        (_, Ok(status)) => {
            let complaint = complaints.join().unwrap_or_default();
            let words: String = complaint.trim().lines().take(3).collect::<Vec<_>>().join(" ");
            Outcome::Failed(format!("{status}: {}", words.chars().take(LAST_WORDS).collect::<String>()))
        }
        (_, Err(error)) => Outcome::Failed(error.to_string()),
    }
}
