//! `memory`: resident bytes per parked strand, with default stacks.
//!
//! The growth of `VmRSS` from before the first strand is spawned until all are
//! parked, divided by their number. The handles that can unpark and join each
//! single strand are part of it. In the end all are unparked and joined.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::support::case::{Case, Contender};
use crate::support::child::Reading;
use crate::support::crowd::Crowd;
use crate::support::options::Options;
use crate::support::peers::{Experiment, Stackful, run_task};
use crate::support::procfs::resident_bytes;
use crate::support::report::{Bound, Column, Report};

pub const NAME: &str = "memory";

const LIMIT: Duration = Duration::from_secs(60);

/// Figures of memory hardly vary; more runs would only take time.
const MOST_REPEATS: usize = 3;

const BYTES_PER_STRAND: f64 = 4710.0;

pub struct Memory;

pub fn reading(before: u64, after: u64, strands: u64) -> Reading {
    Reading::of([("bytes", after.saturating_sub(before) as f64 / strands as f64)])
}

impl Experiment for Memory {
    fn stackful<P: Stackful>(runtime: P, case: &Case) -> Reading {
        let strands = case.amount;
        let (before, after) = runtime.run(move || {
            let before = resident_bytes();
            let crowd = Crowd::<P>::gather(strands as usize, |_| 1);
            let after = resident_bytes();
            crowd.release();
            assert_eq!(crowd.join().sum::<u64>(), strands);
            (before, after)
        });
        reading(before, after, strands)
    }

    fn tokio(case: &Case) -> Reading {
        let strands = case.amount;
        let (before, after) = run_task(case.processors, async move {
            let parked = Arc::new(AtomicU64::new(0));
            let before = resident_bytes();
            let spawn = |_| {
                let parked = parked.clone();
                let (release, released) = oneshot::channel();
                let handle = tokio::spawn(async move {
                    parked.fetch_add(1, Ordering::Relaxed);
                    released.await.expect("a release")
                });
                (release, handle)
            };
            let tasks: Vec<_> = (0..strands).map(spawn).collect();
            while parked.load(Ordering::Relaxed) < strands {
                tokio::task::yield_now().await;
            }
            let after = resident_bytes();
            let mut handles = Vec::with_capacity(tasks.len());
            for (release, handle) in tasks {
                release.send(1).expect("a task that waits");
                handles.push(handle);
            }
            let mut sum = 0;
            for handle in handles {
                sum += handle.await.expect("a task that does not panic");
            }
            assert_eq!(sum, strands);
            (before, after)
        });
        reading(before, after, strands)
    }
}

pub fn conduct(options: &Options, report: &mut Report) {
    let contenders = options.contenders(&[Contender::Tokio]);
    let sizes: &[u64] = if options.quick { &[100_000] } else { &[100_000, 1_000_000] };
    let cases = sizes.iter().flat_map(|&strands| {
        let case = move |&who| Case::new(NAME, who, 1, &strands.to_string(), strands);
        contenders.iter().map(case)
    });
    let repeats = options.repeats.min(MOST_REPEATS);
    let results = report.measure(cases.collect(), repeats, LIMIT);

    report.heading("memory: parked strands with default stacks");
    for &strands in sizes {
        report.table(
            &format!("resident bytes per strand, {strands} strands"),
            &results,
            |c| c.amount == strands,
            Column { figure: "bytes", unit: 1.0 },
        );
    }
    for sinew in results.sinews() {
        for strands in sizes {
            report.bar(
                &results,
                sinew,
                &format!("memory, {strands} strands, at most {BYTES_PER_STRAND} bytes each"),
                results.median("bytes", sinew, 1, &strands.to_string()),
                Bound::AtMost(BYTES_PER_STRAND),
            );
        }
    }
}
