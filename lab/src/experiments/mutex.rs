//! `mutex`: 1024 loops over 32 locks with 1 µs outside and 1 µs inside, under each policy
//! of a lock.
//!
//! The ideal is what kernel threads do at the same time without locks and with nothing
//! else to do. The locks are on cache lines of their own, and the ideal is measured in CPU
//! time, so that other programs do not change it. `cpu_share` says which share of the
//! processors' time the kernel gave to the loops: if it is far below 1, something else ran.

use std::time::Duration;

use super::{Bar, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::measure::loops::{Plan, run};
use crate::peers::{self, Body, Peer};

const LOOPS: usize = 1024;
const LOCKS: usize = 32;
const WORK: Duration = Duration::from_micros(1);

pub static MUTEX: Experiment = Experiment {
    name: "mutex",
    source: "Sinew, after Karsten & Barghi 2020, 5.1",
    measures: "The share of ideal throughput that 1024 loops reach which compute for 1 µs, take one of 32 locks, and compute for 1 µs more, under each of the lock's policies.",
    good: "Close to 1, and all loops get about the same number of turns. A lock that any running strand may take is fast and unfair; a lock that is handed over is fair and slow.",
    metrics: &[
        Metric::higher("ideal_share", "share of the ideal", 1.0),
        Metric::beside("turns_min", "fewest turns of a loop", 1.0),
        Metric::beside("turns_max_min_ratio", "most/fewest turns", 1.0),
        Metric::beside("unit_ns", "ns of 1 µs of work", 1.0),
        Metric::beside("cpu_share", "share of the processors' time", 1.0),
    ],
    plots: &[Plot::Bars { metric: "ideal_share" }],
    limit: |_| Duration::from_secs(30),
    variants: |_, _, peer| peer.policies.iter().map(|policy| Variant::new(policy, LOOPS)).collect(),
    measure: peers::measure::<Mutexes>,
    bars: &[
        Bar::of("sinew/fair", "default", 2).at_least(0.95),
        Bar::of("sinew/fair", "default", 2).metric("turns_min").at_least(1.0).in_every_run(),
        Bar::of("sinew/fair", "default", 2).metric("turns_max_min_ratio").at_most(5.0).in_every_run(),
    ],
    check: |_, reading| match reading.get("ideal_share") {
        Some(share) if share <= 1.5 => Ok(()),
        share => Err(format!("{share:?} of the ideal")),
    },
    ..PLAIN
};

struct Mutexes;

impl Body for Mutexes {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        let turns = run(peer, case, Plan { locks: LOCKS, work: WORK, policy: case.variant.clone() });
        let (most, fewest) = (turns.counts.iter().max(), turns.counts.iter().min());
        let (most, fewest) = (*most.expect("loops") as f64, *fewest.expect("loops") as f64);
        Reading::of([
            ("ideal_share", turns.cores() / case.processors as f64),
            ("turns_min", fewest),
            ("turns_max_min_ratio", most / fewest),
            ("unit_ns", turns.unit_ns),
            ("cpu_share", turns.cpu_share(case.processors)),
        ])
    }
}
