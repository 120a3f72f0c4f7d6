//! `burst`: thousands of strands spawned at once, their handles kept, then all joined.
//!
//! The first burst of a fresh process is *cold*: every stack or task is new memory. The
//! third to fifth bursts are *warm*; their median counts.

use std::time::{Duration, Instant};

use super::{Bar, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::peers::{self, Body, Peer};
use crate::rows::median;

const BURSTS: usize = 5;
const FIRST_WARM: usize = 2;

pub static BURST: Experiment = Experiment {
    name: "burst",
    source: "Sinew",
    measures: "Milliseconds to spawn 10,000 or 100,000 strands at once and then to join them: the first time in a process (cold), and when the memory is there (warm).",
    good: "Low. A cold burst shows what new stacks cost; a warm burst shows that they are kept.",
    metrics: &[Metric::lower("warm_ms", "ms, warm", 1.0), Metric::lower("cold_ms", "ms, cold", 1.0)],
    plots: &[Plot::Bars { metric: "warm_ms" }, Plot::Bars { metric: "cold_ms" }],
    unit: "strands",
    limit: |_| Duration::from_secs(30),
    variants: |_, _, peer| {
        let sizes = [10_000, 100_000].into_iter().filter(|&size| size <= peer.most_strands);
        sizes.map(|size| Variant::new(size, size)).collect()
    },
    measure: peers::measure::<Burst>,
    bars: &[
        Bar::of("sinew/fair", "100000", 1).at_most(1.0).over_peers(&["tokio"]),
        Bar::of("sinew/fair", "100000", 1).metric("cold_ms").at_most(3.0).over_peers(&["tokio"]),
    ],
    ..PLAIN
};

struct Burst;

impl Body for Burst {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        let strands = case.threads as u64;
        let times_ms = peer.run(async move {
            let mut times_ms = Vec::with_capacity(BURSTS);
            for _ in 0..BURSTS {
                let begun = Instant::now();
                let handles: Vec<_> = (0..strands).map(|number| P::spawn(async move { number })).collect();
                let mut sum = 0;
                for handle in handles {
                    sum += P::join(handle).await;
                }
                assert_eq!(sum, strands * (strands - 1) / 2, "every strand's number, once");
                times_ms.push(begun.elapsed().as_secs_f64() * 1e3);
            }
            times_ms
        });
        let warm_ms = median(&times_ms[FIRST_WARM..]).expect("warm bursts");
        Reading::of([("warm_ms", warm_ms), ("cold_ms", times_ms[0])])
    }
}
