//! `efficiency`: N² loops over N/4 locks on N processors, 20 µs outside and 20 µs
//! inside of the lock, and the CPU time that a turn costs.

use std::time::Duration;

use super::{Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::measure::loops::{Plan, run};
use crate::peers::{self, Body, Peer};

const WORK: Duration = Duration::from_micros(20);

pub static EFFICIENCY: Experiment = Experiment {
    name: "efficiency",
    source: "Karsten & Barghi 2020, 5.1.2",
    measures: "CPU microseconds per turn of N² loops over N/4 locks (at least one) on N processors, where a turn has 2 × 20 µs of work.",
    good: "Close to 40 µs: the rest is what locking, switching and looking for work cost. A runtime that spins while it has nothing to do shows it here.",
    metrics: &[
        Metric::lower("cpu_us_per_turn", "CPU µs per turn", 1.0),
        Metric::beside("overhead_us", "of it beyond the work", 1.0),
        Metric::beside("unit_ns", "ns of 20 µs of work", 1.0),
    ],
    plots: &[Plot::Bars { metric: "cpu_us_per_turn" }],
    variants: |_, processors, _| vec![Variant::new("-", processors * processors)],
    measure: peers::measure::<Efficiency>,
    check: |_, reading| match (reading.get("cpu_us_per_turn"), reading.get("unit_ns")) {
        (Some(us), Some(unit_ns)) if us * 1e3 > 1.4 * unit_ns => Ok(()),
        (us, unit_ns) => Err(format!("twice {unit_ns:?} ns of work in {us:?} µs")),
    },
    ..PLAIN
};

struct Efficiency;

impl Body for Efficiency {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        let locks = (case.processors / 4).max(1);
        let turns = run(peer, case, Plan { locks, work: WORK, policy: String::new() });
        Reading::of([
            ("cpu_us_per_turn", turns.cpu_ns() / 1e3),
            ("overhead_us", ((turns.cpu_ns() - 2.0 * turns.unit_ns) / 1e3).max(0.0)),
            ("unit_ns", turns.unit_ns),
        ])
    }
}
