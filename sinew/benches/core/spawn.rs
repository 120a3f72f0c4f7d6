//! `spawn`: what it costs to spawn a strand that returns at once, and to join
//! it, from inside the runtime.
//!
//! Two variants: a batch of 1000 is spawned, then joined; or each strand is
//! joined before the next is spawned. Measured: nanoseconds per spawn and join,
//! with warm pools.

use std::time::{Duration, Instant};

use crate::support::case::{Case, Contender};
use crate::support::child::Reading;
use crate::support::options::Options;
use crate::support::peers::{Experiment, Stackful, run_task};
use crate::support::report::{Bound, Column, Report};

pub const NAME: &str = "spawn";

pub const BATCHED: &str = "1000";
pub const SINGLE: &str = "1";
pub const WARM_UP: Duration = Duration::from_millis(50);
const LIMIT: Duration = Duration::from_secs(20);

/// Strands between two looks at the clock, in both variants.
pub const STRANDS_PER_ROUND: u64 = 1000;

pub struct Spawn;

fn batch(case: &Case) -> u64 {
    case.variant.parse().expect("the size of a batch")
}

fn round<P: Stackful>(batch: u64, handles: &mut Vec<P::Handle>) {
    let mut sum = 0;
    for _ in 0..STRANDS_PER_ROUND / batch {
        handles.extend((0..batch).map(|i| P::spawn(move || i)));
        sum += handles.drain(..).map(P::join).sum::<u64>();
    }
    check(sum, batch);
}

async fn task_round(batch: u64, handles: &mut Vec<tokio::task::JoinHandle<u64>>) {
    let mut sum = 0;
    for _ in 0..STRANDS_PER_ROUND / batch {
        handles.extend((0..batch).map(|i| tokio::spawn(async move { i })));
        for handle in handles.drain(..) {
            sum += handle.await.expect("a task that does not panic");
        }
    }
    check(sum, batch);
}

pub fn check(sum: u64, batch: u64) {
    assert_eq!(sum, (STRANDS_PER_ROUND / batch) * (batch * (batch - 1) / 2));
}

/// Whether a phase of that length is over; if so, the time per strand.
pub fn time_per_strand(begun: Instant, length: Duration, rounds: u64) -> Option<f64> {
    let elapsed = begun.elapsed();
    let strands = rounds * STRANDS_PER_ROUND;
    (elapsed >= length).then(|| elapsed.as_nanos() as f64 / strands as f64)
}

impl Experiment for Spawn {
    fn stackful<P: Stackful>(runtime: P, case: &Case) -> Reading {
        let (batch, window) = (batch(case), case.window());
        let ns = runtime.run(move || {
            let mut handles = Vec::with_capacity(batch as usize);
            let mut phase = |length| {
                let begun = Instant::now();
                (1..).find_map(|rounds| {
                    round::<P>(batch, &mut handles);
                    time_per_strand(begun, length, rounds)
                })
            };
            phase(WARM_UP);
            phase(window).expect("an end")
        });
        Reading::of([("ns", ns)])
    }

    fn tokio(case: &Case) -> Reading {
        let (batch, window) = (batch(case), case.window());
        let ns = run_task(case.processors, async move {
            let mut handles = Vec::with_capacity(batch as usize);
            let mut ns = f64::NAN;
            for length in [WARM_UP, window] {
                let begun = Instant::now();
                for rounds in 1.. {
                    task_round(batch, &mut handles).await;
                    if let Some(time) = time_per_strand(begun, length, rounds) {
                        ns = time;
                        break;
                    }
                }
            }
            ns
        });
        Reading::of([("ns", ns)])
    }
}

pub fn conduct(options: &Options, report: &mut Report) {
    let contenders = options.contenders(&Contender::PEERS);
    let configurations = [(1, BATCHED), (1, SINGLE), (2, BATCHED), (2, SINGLE)];
    let window_ms = options.window_ms() / 2;
    let cases = configurations.into_iter().flat_map(|(n, variant)| {
        let case = move |&who| Case::new(NAME, who, n, variant, window_ms);
        contenders.iter().map(case)
    });
    let results = report.measure(cases.collect(), options.repeats, LIMIT);

    report.heading("spawn: spawn and join from inside");
    for (n, variant) in configurations {
        report.table(
            &format!("ns per spawn and join, {variant} at a time, {n} processor(s)"),
            &results,
            |c| c.processors == n && c.variant == variant,
            Column { figure: "ns", unit: 1.0 },
        );
    }
    for sinew in results.sinews() {
        for variant in [BATCHED, SINGLE] {
            let ns = |who| results.median("ns", who, 1, variant);
            report.bar(
                &results,
                sinew,
                &format!("spawn, {variant} at a time, 1 processor, at most 0.3x Tokio"),
                ns(sinew) / ns(Contender::Tokio),
                Bound::AtMost(0.3),
            );
        }
    }
}
