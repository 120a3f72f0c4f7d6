//! `burst`: 100,000 strands spawned at once, their handles kept, then all
//! joined, on one processor.
//!
//! The first burst of a fresh process is *cold*: every stack or task is new
//! memory. The third to fifth are *warm*; their median counts. Measured:
//! milliseconds per burst.

use std::time::{Duration, Instant};

use crate::support::case::{Case, Contender};
use crate::support::child::Reading;
use crate::support::options::Options;
use crate::support::peers::{Experiment, Stackful, run_task};
use crate::support::report::{Bound, Column, Report, Spread};

pub const NAME: &str = "burst";

const STRANDS: u64 = 100_000;
const BURSTS: usize = 5;
const FIRST_WARM: usize = 2;
const LIMIT: Duration = Duration::from_secs(30);

pub struct Burst;

fn check(sum: u64, strands: u64) {
    assert_eq!(sum, strands * (strands - 1) / 2);
}

fn reading(times: Vec<Duration>) -> Reading {
    let ns = |time: &Duration| time.as_nanos() as f64;
    let warm = Spread::of(times[FIRST_WARM..].iter().map(ns).collect());
    Reading::of([("cold", ns(&times[0])), ("warm", warm.expect("warm bursts").median)])
}

impl Experiment for Burst {
    fn stackful<P: Stackful>(runtime: P, case: &Case) -> Reading {
        let strands = case.amount;
        let burst = move |_| {
            let begun = Instant::now();
            let handles: Vec<_> = (0..strands).map(|i| P::spawn(move || i)).collect();
            check(handles.into_iter().map(P::join).sum(), strands);
            begun.elapsed()
        };
        reading(runtime.run(move || (0..BURSTS).map(burst).collect()))
    }

    fn tokio(case: &Case) -> Reading {
        let strands = case.amount;
        let times = run_task(case.processors, async move {
            let mut times = Vec::with_capacity(BURSTS);
            for _ in 0..BURSTS {
                let begun = Instant::now();
                let spawn = |i| tokio::spawn(async move { i });
                let handles: Vec<_> = (0..strands).map(spawn).collect();
                let mut sum = 0;
                for handle in handles {
                    sum += handle.await.expect("a task that does not panic");
                }
                check(sum, strands);
                times.push(begun.elapsed());
            }
            times
        });
        reading(times)
    }
}

pub fn conduct(options: &Options, report: &mut Report) {
    // may cannot map that many stacks, and the kernel cannot have that many threads.
    let contenders = options.contenders(&[Contender::Tokio]);
    let case = |&who| Case::new(NAME, who, 1, "-", STRANDS);
    let cases = contenders.iter().map(case).collect();
    let results = report.measure(cases, options.repeats, LIMIT);

    report.heading("burst: 100,000 spawned, then joined, 1 processor");
    for figure in ["cold", "warm"] {
        let column = Column { figure, unit: 1e6 };
        report.table(&format!("ms, {figure}"), &results, |_| true, column);
    }
    for sinew in results.sinews() {
        let mut bar = |figure, claim, bound| {
            let time = |who| results.median(figure, who, 1, "-");
            let ratio = time(sinew) / time(Contender::Tokio);
            report.bar(&results, sinew, claim, ratio, Bound::AtMost(bound));
        };
        bar("warm", "burst, warm, at most Tokio's time", 1.0);
        bar("cold", "burst, cold, at most 3x Tokio's time", 3.0);
    }
}
