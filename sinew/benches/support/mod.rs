//! What the benchmark programs share: child processes that measure one case
//! each, the contenders, and the report that the parent makes of it.
//!
//! `cargo bench -p sinew --bench PROGRAM -- [experiment ...] [options]`; see
//! [`options::usage`]. Every single measurement is a child process of the
//! program, pinned to as many CPUs as it has processors, and the children of one
//! experiment are interleaved (A B C A B C ...), so that a disturbance of the
//! machine hits all contenders alike.

// Each program uses its own part of this.
#![allow(dead_code)]

pub mod case;
pub mod child;
pub mod crowd;
pub mod options;
pub mod peers;
pub mod procfs;
pub mod random;
pub mod report;
pub mod window;

use std::process::ExitCode;

use case::Case;
use child::Reading;
use options::Options;
use report::Report;

/// An experiment's two halves: what a child does, and what the parent makes of
/// many children.
pub struct Entry {
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// Runs in the child.
    pub measure: fn(&Case) -> Reading,
    /// Runs in the parent.
    pub conduct: fn(&Options, &mut Report),
}

/// The whole of a benchmark program, both as parent and as child.
pub fn run(program: &str, experiments: &[Entry]) -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|a| a == child::FLAG) {
        let case = Case::from_arguments(&arguments[1..]).expect("arguments of a child");
        let entry = experiments.iter().find(|e| e.name == case.experiment).expect("experiment of a child");
        child::print_result(&(entry.measure)(&case));
        return ExitCode::SUCCESS;
    }

    // `cargo test --all-targets` starts this binary without any argument, and
    // must not wait minutes for it; `cargo bench` always passes `--bench`.
    if arguments.is_empty() {
        println!("{}", options::usage(program, experiments));
        return ExitCode::SUCCESS;
    }
    arguments.retain(|a| a != "--bench");
    let options = match Options::parse(&arguments, experiments) {
        Ok(options) => options,
        Err(complaint) => {
            eprintln!("{complaint}\n\n{}", options::usage(program, experiments));
            return ExitCode::FAILURE;
        }
    };

    let mut report = Report::begin(&options);
    for entry in experiments.iter().filter(|e| options.includes(e.name)) {
        (entry.conduct)(&options, &mut report);
    }
    report.end();
    ExitCode::SUCCESS
}
