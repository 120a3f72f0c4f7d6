//! The runtime against its peers: what a yield, a hop, a spawn and a parked
//! strand cost, how fair the scheduler is, and what an idle runtime does.
//!
//! `cargo bench -p sinew --bench core -- [experiment ...] [options]`.

mod burst;
mod cycle;
mod idle;
mod memory;
mod spawn;
#[path = "../support/mod.rs"]
mod support;
mod tasks;
mod transfer;
mod yielding;

use std::process::ExitCode;

use support::Entry;
use support::peers::measure;

const EXPERIMENTS: [Entry; 8] = [
    Entry {
        name: yielding::NAME,
        summary: "100 strands per processor that only yield; fairness of their counts",
        measure: measure::<yielding::Yield>,
        conduct: yielding::conduct,
    },
    Entry {
        name: cycle::NAME,
        summary: "rings of five strands, each unparks the next and parks",
        measure: measure::<cycle::Cycle>,
        conduct: cycle::conduct,
    },
    Entry {
        name: transfer::NAME,
        summary: "a leader that spins until all others have acknowledged it",
        measure: measure::<transfer::Transfer>,
        conduct: transfer::conduct,
    },
    Entry {
        name: spawn::NAME,
        summary: "spawn and join, in batches of 1000 and one at a time",
        measure: measure::<spawn::Spawn>,
        conduct: spawn::conduct,
    },
    Entry {
        name: burst::NAME,
        summary: "100,000 spawned at once, then joined; cold and warm",
        measure: measure::<burst::Burst>,
        conduct: burst::conduct,
    },
    Entry {
        name: memory::NAME,
        summary: "resident bytes per parked strand",
        measure: measure::<memory::Memory>,
        conduct: memory::conduct,
    },
    Entry {
        name: tasks::NAME,
        summary: "yield, spawn, transfer, cycle and memory with tasks in place of fibres, or among them",
        measure: tasks::measure,
        conduct: tasks::conduct,
    },
    Entry {
        name: idle::NAME,
        summary: "CPU time and system calls of a runtime with nothing to do",
        measure: measure::<idle::Idle>,
        conduct: idle::conduct,
    },
];

fn main() -> ExitCode {
    support::run("core", &EXPERIMENTS)
}
