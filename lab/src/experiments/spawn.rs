//! `spawn`: the cost to spawn a strand that returns at once, and to join it. The caller
//! is a strand of the runtime, and the pools are warm. Strands are spawned and joined one
//! at a time, or a batch of 1000 is spawned and then joined.

use std::time::{Duration, Instant};

use super::{Bar, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::kernel::cpu_time;
use crate::peers::{self, Body, Peer};

pub static SPAWN: Experiment = Experiment {
    name: "spawn",
    source: "Sinew",
    measures: "Nanoseconds to spawn a strand that returns at once and to join it: one at a time (single), or a thousand spawned and then joined (batch).",
    good: "Low: so low that no program needs a pool of threads.",
    metrics: &[
        Metric::lower("spawn_join_ns", "ns per spawn and join", 1.0),
        Metric::lower("cpu_ns_per_op", "CPU ns each", 1.0),
    ],
    plots: &[Plot::Bars { metric: "spawn_join_ns" }],
    variants: |_, _, _| vec![Variant::new(SINGLE, 1), Variant::new(BATCH, STRANDS_PER_ROUND as usize)],
    measure: peers::measure::<Spawn>,
    bars: &[
        Bar::of("sinew/default", BATCH, 1).at_most(0.3).over_peers(&["tokio"]),
        Bar::of("sinew/default", SINGLE, 1).at_most(0.3).over_peers(&["tokio"]),
        Bar::of("sinew/fair", BATCH, 1).at_most(0.3).over_peers(&["tokio"]),
        Bar::of("sinew/fair", SINGLE, 1).at_most(0.3).over_peers(&["tokio"]),
        Bar::of("sinew/tasks", BATCH, 1).at_most(0.6).over_peers(&["tokio"]),
        Bar::of("sinew/tasks", SINGLE, 1).at_most(0.6).over_peers(&["tokio"]),
    ],
    check: |_, reading| match reading.get("spawn_join_ns") {
        Some(ns) if ns > 1.0 => Ok(()),
        other => Err(format!("a spawn and join in {other:?} ns")),
    },
    ..PLAIN
};

const SINGLE: &str = "single";
const BATCH: &str = "batch";

/// Strands between two looks at the clock, in both variants.
const STRANDS_PER_ROUND: u64 = 1000;

async fn round<P: Peer>(batch: u64, handles: &mut Vec<P::Handle>) {
    let mut sum = 0;
    for _ in 0..STRANDS_PER_ROUND / batch {
        handles.extend((0..batch).map(|number| P::spawn(async move { number })));
        for handle in handles.drain(..) {
            sum += P::join(handle).await;
        }
    }
    assert_eq!(sum, (STRANDS_PER_ROUND / batch) * (batch * (batch - 1) / 2), "every strand's number, once");
}

struct Spawn;

impl Body for Spawn {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        let batch = if case.variant == SINGLE { 1 } else { STRANDS_PER_ROUND };
        let window = case.window();
        let (ns, cpu_ns) = peer.run(async move {
            let mut handles = Vec::with_capacity(batch as usize);
            let (mut ns, mut cpu_ns) = (f64::NAN, f64::NAN);
            let warm_up = Duration::from_millis(50).min(window);
            for length in [warm_up, window] {
                let (begun, used) = (Instant::now(), cpu_time());
                let mut strands = 0;
                while begun.elapsed() < length {
                    round::<P>(batch, &mut handles).await;
                    strands += STRANDS_PER_ROUND;
                }
                ns = begun.elapsed().as_nanos() as f64 / strands as f64;
                cpu_ns = (cpu_time() - used).as_nanos() as f64 / strands as f64;
            }
            (ns, cpu_ns)
        });
        Reading::of([("spawn_join_ns", ns), ("cpu_ns_per_op", cpu_ns)])
    }
}
