//! `memory`: resident bytes per parked strand, with default stacks.
//!
//! The growth of `VmRSS` from before the first strand is spawned until all are
//! parked, divided by their number. What can unpark and join each single strand
//! is part of it. In the end all are unparked and joined.

use std::time::Duration;

use super::{Depth, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::measure::crowd::Crowd;
use crate::measure::procfs::resident_bytes;
use crate::peers::{self, Body, Peer};

pub static MEMORY: Experiment = Experiment {
    name: "memory",
    source: "Sinew",
    measures: "Resident bytes for each parked strand, with the handles that unpark and join it.",
    good: "Low, and the same for a million as for ten thousand. A thread with a stack needs one page at least, 4,096 bytes; a task only what it keeps across a wait. What the kernel keeps for a kernel thread, its other stack above all, is not in the figure.",
    metrics: &[Metric::lower("bytes_per_thread", "bytes per strand", 1.0)],
    plots: &[Plot::Lines { metric: "bytes_per_thread" }],
    unit: "strands",
    most_repeats: 3,
    limit: |_| Duration::from_secs(120),
    variants: |depth, _, peer| {
        let sizes: &[usize] = match depth {
            Depth::Tour => &[10_000, 100_000],
            Depth::Full => &[10_000, 100_000, 1_000_000],
        };
        sizes.iter().filter(|&&size| size <= peer.most_strands).map(|&size| Variant::new(size, size)).collect()
    },
    measure: peers::measure::<Memory>,
    check: |_, reading| match reading.get("bytes_per_thread") {
        Some(bytes) if bytes >= 8.0 => Ok(()),
        other => Err(format!("{other:?} bytes are less than the pointer to it")),
    },
    ..PLAIN
};

struct Memory;

impl Body for Memory {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        let strands = case.threads;
        let (before, after) = peer.run(async move {
            let before = resident_bytes();
            let crowd = Crowd::<P>::gather(strands, |_| async { 1 }).await;
            let after = resident_bytes();
            crowd.release();
            assert_eq!(crowd.join().await.iter().sum::<u64>(), strands as u64);
            (before, after)
        });
        Reading::of([("bytes_per_thread", after.saturating_sub(before) as f64 / strands as f64)])
    }
}
