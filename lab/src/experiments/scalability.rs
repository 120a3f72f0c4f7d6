//! `scalability`: 1024 loops over 32 locks, with more and more work between two
//! points at which the runtime is called.

use std::time::Duration;

use super::{Depth, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::measure::loops::{Plan, run};
use crate::peers::{self, Body, Peer};

const LOOPS: usize = 1024;
const LOCKS: usize = 32;

pub static SCALABILITY: Experiment = Experiment {
    name: "scalability",
    source: "Karsten & Barghi 2020, 5.1.1",
    measures: "How many cores' worth of work 1024 loops over 32 locks get done, as the work outside and inside of the locks grows.",
    good: "A line that is close to the number of processors from the left on: work of a microsecond is enough to use them all.",
    metrics: &[
        Metric::higher("cores", "cores' worth of work", 1.0),
        Metric::beside("unit_ns", "ns of a unit of work", 1.0),
    ],
    plots: &[Plot::Lines { metric: "cores" }],
    unit: "µs of work",
    limit: |_| Duration::from_secs(30),
    variants: |depth, _, _| {
        let sweep: &[u64] = match depth {
            Depth::Tour => &[1, 5, 20],
            Depth::Full => &[1, 2, 5, 10, 20, 50],
        };
        sweep.iter().map(|work_us| Variant::new(work_us, LOOPS)).collect()
    },
    measure: peers::measure::<Scalability>,
    check: |case, reading| match reading.get("cores") {
        Some(cores) if cores <= 1.5 * case.processors as f64 => Ok(()),
        cores => Err(format!("{cores:?} cores' worth of work on {}", case.processors)),
    },
    ..PLAIN
};

struct Scalability;

impl Body for Scalability {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        let work = Duration::from_micros(case.amount() as u64);
        let turns = run(peer, case, Plan { locks: LOCKS, work, policy: String::new() });
        Reading::of([("cores", turns.cores()), ("unit_ns", turns.unit_ns)])
    }
}
