//! The runtime against its peers: what a yield, a hop, a spawn and a parked
//! strand cost, how fair the scheduler is, and what an idle runtime does.
//!
//! `cargo bench -p sinew --bench core -- [experiment ...] [options]`; see
//! [`options::USAGE`]. Every single measurement is a child process of this
//! binary, pinned to as many CPUs as it has processors, and the children of one
//! experiment are interleaved (A B C A B C ...), so that a disturbance of the
//! machine hits all contenders alike.

mod burst;
mod case;
mod child;
mod crowd;
mod cycle;
mod idle;
mod memory;
mod options;
mod peers;
mod procfs;
mod report;
mod spawn;
mod transfer;
mod window;
mod yielding;

use std::process::ExitCode;

use case::Case;
use child::Reading;
use options::Options;
use report::Report;

/// An experiment's two halves: what a child does, and what the parent makes of
/// many children.
struct Entry {
    name: &'static str,
    /// Runs in the child.
    measure: fn(&Case) -> Reading,
    /// Runs in the parent.
    conduct: fn(&Options, &mut Report),
}

const EXPERIMENTS: [Entry; 7] = [
    Entry { name: yielding::NAME, measure: peers::measure::<yielding::Yield>, conduct: yielding::conduct },
    Entry { name: cycle::NAME, measure: peers::measure::<cycle::Cycle>, conduct: cycle::conduct },
    Entry { name: transfer::NAME, measure: peers::measure::<transfer::Transfer>, conduct: transfer::conduct },
    Entry { name: spawn::NAME, measure: peers::measure::<spawn::Spawn>, conduct: spawn::conduct },
    Entry { name: burst::NAME, measure: peers::measure::<burst::Burst>, conduct: burst::conduct },
    Entry { name: memory::NAME, measure: peers::measure::<memory::Memory>, conduct: memory::conduct },
    Entry { name: idle::NAME, measure: peers::measure::<idle::Idle>, conduct: idle::conduct },
];

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|a| a == child::FLAG) {
        let case = Case::from_arguments(&arguments[1..]).expect("arguments of a child");
        let entry = EXPERIMENTS.iter().find(|e| e.name == case.experiment).expect("experiment of a child");
        child::print_result(&(entry.measure)(&case));
        return ExitCode::SUCCESS;
    }

    // `cargo test --all-targets` starts this binary without any argument, and
    // must not wait minutes for it; `cargo bench` always passes `--bench`.
    if arguments.is_empty() {
        println!("{}", options::USAGE);
        return ExitCode::SUCCESS;
    }
    arguments.retain(|a| a != "--bench");
    let names = EXPERIMENTS.map(|e| e.name);
    let options = match Options::parse(&arguments, &names) {
        Ok(options) => options,
        Err(complaint) => {
            eprintln!("{complaint}\n\n{}", options::USAGE);
            return ExitCode::FAILURE;
        }
    };

    let mut report = Report::begin(&options);
    for entry in EXPERIMENTS.iter().filter(|e| options.includes(e.name)) {
        (entry.conduct)(&options, &mut report);
    }
    report.end();
    ExitCode::SUCCESS
}
