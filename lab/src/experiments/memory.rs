//! `memory`: resident bytes for each parked strand, with default stacks.
//!
//! The figure is the growth of `VmRSS` from before the first strand is spawned until all
//! are parked, divided by their number. The handles that unpark and join each strand are
//! part of it. In the end all strands are unparked and joined. The growth of the page
//! tables is counted beside.
//!
//! In `bare` a strand has nothing but the handle that cancels and joins it, and a task's
//! future is empty: the least that a runtime keeps for a strand.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{Bar, Depth, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::measure::crowd::Crowd;
use crate::measure::procfs::{page_table_bytes, resident_bytes};
use crate::peers::cancelling::{self, Cancelling, CancellingBody};
use crate::peers::{self, Body, Peer};

const BARE: &str = "bare";
const MILLION: usize = 1_000_000;

pub static MEMORY: Experiment = Experiment {
    name: "memory",
    source: "Sinew",
    measures: "Resident bytes for each parked strand, with the handles that unpark and join it; in full also for a million strands with nothing but their join handles (bare).",
    good: "Low, and the same for a million as for ten thousand. A thread with a stack needs one page at least, 4,096 bytes; a task only what it keeps across a wait. What the kernel keeps for a kernel thread, its other stack above all, is not in the figure.",
    metrics: &[
        Metric::lower("bytes_per_thread", "bytes per strand", 1.0),
        Metric::beside("page_table_bytes", "bytes of page tables", 1.0),
    ],
    plots: &[Plot::Lines { metric: "bytes_per_thread" }],
    unit: "strands",
    most_repeats: 3,
    limit: |_| Duration::from_secs(120),
    variants: |depth, _, peer| {
        let sizes: &[usize] = match depth {
            Depth::Tour => &[10_000, 100_000],
            Depth::Full => &[10_000, 100_000, MILLION],
        };
        let fitting = sizes.iter().filter(|&&size| size <= peer.most_strands);
        let mut variants: Vec<Variant> = fitting.map(|&size| Variant::new(size, size)).collect();
        if depth == Depth::Full && cancelling::can(peer) {
            variants.push(Variant::new(BARE, MILLION));
        }
        variants
    },
    measure: |case| match case.variant.as_str() {
        BARE => cancelling::measure::<Bare>(case),
        _ => peers::measure::<Memory>(case),
    },
    check: |_, reading| match reading.get("bytes_per_thread") {
        Some(bytes) if bytes >= 8.0 => Ok(()),
        other => Err(format!("{other:?} bytes are less than the pointer to it")),
    },
    bars: &[
        Bar::of("sinew/default", "1000000", 1).at_most(4710.0),
        Bar::of("sinew/fair", "100000", 1).at_most(4710.0),
        Bar::of("sinew/fair", "1000000", 1).at_most(4710.0),
        Bar::of("sinew/fair", BARE, 1).at_most(4710.0),
        Bar::of("sinew/tasks", BARE, 1).at_most(200.0),
    ],
    ..PLAIN
};

/// The memory of this process, in bytes.
#[derive(Clone, Copy)]
struct Used {
    resident: u64,
    page_tables: u64,
}

impl Used {
    fn now() -> Used {
        Used { resident: resident_bytes(), page_tables: page_table_bytes() }
    }
}

fn reading([before, after]: [Used; 2], strands: usize) -> Reading {
    let each = |before: u64, after: u64| after.saturating_sub(before) as f64 / strands as f64;
    Reading::of([
        ("bytes_per_thread", each(before.resident, after.resident)),
        ("page_table_bytes", each(before.page_tables, after.page_tables)),
    ])
}

struct Memory;

impl Body for Memory {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        let strands = case.threads;
        let used = peer.run(async move {
            let before = Used::now();
            let crowd = Crowd::<P>::gather(strands, |_| async { 1 }).await;
            let after = Used::now();
            crowd.release();
            assert_eq!(crowd.join().await.iter().sum::<u64>(), strands as u64);
            [before, after]
        });
        reading(used, strands)
    }
}

/// Strands that have begun. Static, so that the future of a task is empty.
static BEGUN: AtomicUsize = AtomicUsize::new(0);

struct Bare;

impl CancellingBody for Bare {
    fn measure<P: Cancelling>(peer: P, case: &Case) -> Reading {
        let strands = case.threads;
        let used = peer.run(async move {
            let before = Used::now();
            let arrive = || {
                BEGUN.fetch_add(1, Ordering::Relaxed);
            };
            let handles: Vec<_> = (0..strands).map(|_| P::spawn(P::bare(arrive))).collect();
            while BEGUN.load(Ordering::Relaxed) < strands {
                P::yield_now().await;
            }
            let after = Used::now();
            handles.iter().for_each(P::dismiss);
            for handle in handles {
                P::join_cancelled(handle).await;
            }
            [before, after]
        });
        assert_eq!(BEGUN.load(Ordering::Relaxed), strands, "each began once");
        reading(used, strands)
    }
}
