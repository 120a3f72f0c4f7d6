//! Child processes: one measurement each.
//!
//! A child is this binary, started with [`FLAG`] and its case, pinned with
//! `taskset` where that exists. It prints one line, `result name=value ...`,
//! and ends. One that has not printed it within its limit is killed by its own
//! process id.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::case::Case;

/// First argument of a child.
pub const FLAG: &str = "--child";

const RESULT: &str = "result";

/// The named figures of one measurement.
#[derive(Clone, Debug, Default)]
pub struct Reading(BTreeMap<String, f64>);

impl Reading {
    pub fn of<const N: usize>(figures: [(&str, f64); N]) -> Reading {
        Reading(figures.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
    }

    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    fn parse(line: &str) -> Option<Reading> {
        let figures = line.strip_prefix(RESULT)?.split_whitespace();
        figures
            .map(|figure| {
                let (name, value) = figure.split_once('=')?;
                Some((name.to_owned(), value.parse().ok()?))
            })
            .collect::<Option<_>>()
            .map(Reading)
    }
}

pub fn print_result(reading: &Reading) {
    let figures: Vec<String> = reading.0.iter().map(|(k, v)| format!("{k}={v}")).collect();
    println!("{RESULT} {}", figures.join(" "));
}

/// How a child ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    Measured(Reading),
    /// Killed at its limit.
    DidNotComplete,
    /// Ended without a result: it crashed, or refused.
    Failed(String),
}

/// A child that has been started. Dropping it kills what is still running.
pub struct Running {
    process: Child,
    lines: Receiver<String>,
    deadline: Instant,
}

impl Running {
    pub fn start(case: &Case, limit: Duration) -> Running {
        let binary = std::env::current_exe().expect("the path of this binary");
        let mut command = if taskset_exists() {
            let mut command = Command::new("taskset");
            command.arg("-c").arg(cpus(case.processors)).arg(binary);
            command
        } else {
            Command::new(binary)
        };
        let mut process = command
            .arg(FLAG)
            .args(case.to_arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start a child");
        let stdout = BufReader::new(process.stdout.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Running { process, lines, deadline: Instant::now() + limit }
    }

    /// `taskset` becomes what it starts, so this is the measured process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Closing it is a message to a child that waits for its end.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.process.stdin.take()
    }

    /// Waits for a line that begins with `prefix`; gives the rest of it.
    pub fn wait_for_prefix(&self, prefix: &str) -> Result<String, Outcome> {
        loop {
            match self.next_line() {
                Ok(line) => {
                    if let Some(rest) = line.strip_prefix(prefix) {
                        return Ok(rest.to_owned());
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Err(Outcome::DidNotComplete),
                Err(RecvTimeoutError::Disconnected) => return Err(Outcome::Failed("ended early".to_owned())),
            }
        }
    }

    /// Waits for a line that is exactly `expected`.
    pub fn wait_for(&self, expected: &str) -> Result<(), Outcome> {
        loop {
            match self.next_line() {
                Ok(line) if line == expected => return Ok(()),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return Err(Outcome::DidNotComplete),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Outcome::Failed("ended early".to_owned()));
                }
            }
        }
    }

    /// Waits for the result and for the end of the process.
    pub fn finish(mut self) -> Outcome {
        let reading = loop {
            match self.next_line() {
                Ok(line) => {
                    if let Some(reading) = Reading::parse(&line) {
                        break Some(reading);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Outcome::DidNotComplete,
                Err(RecvTimeoutError::Disconnected) => break None,
            }
        };
        // The pipe closes when the process ends.
        loop {
            match self.next_line() {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return Outcome::DidNotComplete,
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        match (reading, self.process.wait()) {
            (Some(reading), Ok(status)) if status.success() => Outcome::Measured(reading),
            (_, Ok(status)) => Outcome::Failed(status.to_string()),
            (_, Err(error)) => Outcome::Failed(error.to_string()),
        }
    }

    fn next_line(&self) -> Result<String, RecvTimeoutError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        self.lines.recv_timeout(left)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail harmlessly on a child that has been waited for.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// All outcomes of one case.
pub struct Series {
    pub case: Case,
    pub outcomes: Vec<Outcome>,
}

impl Series {
    /// The readings' figures of that name.
    pub fn figures(&self, name: &str) -> Vec<f64> {
        let readings = self.outcomes.iter().filter_map(|outcome| match outcome {
            Outcome::Measured(reading) => reading.get(name),
            _ => None,
        });
        readings.collect()
    }

    /// The first outcome that is not a reading.
    pub fn trouble(&self) -> Option<&Outcome> {
        self.outcomes.iter().find(|o| !matches!(o, Outcome::Measured(_)))
    }
}

/// Measures every case `repeats` times, in turns. A case that did not complete
/// or failed is not tried again.
pub fn interleave(cases: Vec<Case>, repeats: usize, measure: impl Fn(&Case) -> Outcome) -> Vec<Series> {
    let mut all: Vec<Series> = cases.into_iter().map(|case| Series { case, outcomes: Vec::new() }).collect();
    for _ in 0..repeats {
        for series in all.iter_mut().filter(|s| s.trouble().is_none()) {
            series.outcomes.push(measure(&series.case));
        }
    }
    all
}

fn cpus(processors: usize) -> String {
    (0..processors).map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(",")
}

pub fn taskset_exists() -> bool {
    static EXISTS: OnceLock<bool> = OnceLock::new();
    *EXISTS.get_or_init(|| runs("taskset"))
}

/// Whether a command of that name can be started.
pub fn runs(command: &str) -> bool {
    Command::new(command)
        .arg("-V")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
