//! `yield`: 100 strands per processor that do nothing but yield.
//!
//! Measured: yields per second that let another strand run, and for Sinew how
//! evenly they are spread, as the ratio of the largest to the smallest count
//! of any fibre.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Barrier;

use crate::support::case::{Case, Contender};
use crate::support::child::Reading;
use crate::support::crowd::Crowd;
use crate::support::options::Options;
use crate::support::peers::{Experiment, Stackful, run_task};
use crate::support::report::{Bound, Column, Report};
use crate::support::window::{Audit, Tally, Window};

pub const NAME: &str = "yield";

pub const STRANDS_PER_PROCESSOR: usize = 100;
const LIMIT: Duration = Duration::from_secs(20);

pub struct Yield;

impl Experiment for Yield {
    fn stackful<P: Stackful>(runtime: P, case: &Case) -> Reading {
        let strands = case.processors * STRANDS_PER_PROCESSOR;
        let audit = if P::MULTIPLEXED { Audit::Turns } else { Audit::None };
        let (window, timekeeper) = Window::open(strands, case.window(), audit);
        let shared = window.clone();
        let counts = runtime.run(move || {
            let crowd = Crowd::<P>::gather(strands, move |strand| {
                let mut tally = Tally::new(shared.clone(), strand);
                loop {
                    P::yield_now();
                    if !tally.tick() {
                        return tally.close();
                    }
                }
            });
            crowd.release();
            crowd.join().collect()
        });
        let elapsed = timekeeper.join().expect("the timekeeper");
        reading(counts, elapsed.as_secs_f64(), &window)
    }

    fn tokio(case: &Case) -> Reading {
        let strands = case.processors * STRANDS_PER_PROCESSOR;
        let (window, timekeeper) = Window::open(strands, case.window(), Audit::Turns);
        let shared = window.clone();
        let counts = run_task(case.processors, async move {
            let gate = Arc::new(Barrier::new(strands));
            let spawn = |strand| {
                let (window, gate) = (shared.clone(), gate.clone());
                tokio::spawn(async move {
                    gate.wait().await;
                    let mut tally = Tally::new(window, strand);
                    loop {
                        tokio::task::yield_now().await;
                        if !tally.tick() {
                            return tally.close();
                        }
                    }
                })
            };
            let handles: Vec<_> = (0..strands).map(spawn).collect();
            let mut counts = Vec::with_capacity(strands);
            for handle in handles {
                counts.push(handle.await.expect("a task that does not panic"));
            }
            counts
        });
        let elapsed = timekeeper.join().expect("the timekeeper");
        reading(counts, elapsed.as_secs_f64(), &window)
    }
}

pub fn reading(counts: Vec<u64>, seconds: f64, window: &Arc<Window>) -> Reading {
    let sum: u64 = counts.iter().sum();
    let most = counts.iter().max().copied().unwrap_or(0);
    let least = counts.iter().min().copied().unwrap_or(0);
    let empty = window.void_share();
    Reading::of([
        ("rate", sum as f64 * (1.0 - empty.unwrap_or(0.0)) / seconds),
        ("max_min", most as f64 / least as f64),
        ("empty", empty.unwrap_or(f64::NAN)),
    ])
}

pub fn conduct(options: &Options, report: &mut Report) {
    let contenders = options.contenders(&Contender::PEERS);
    let cases = [1, 2].into_iter().flat_map(|processors| {
        let case = move |&who| Case::new(NAME, who, processors, "-", options.window_ms());
        contenders.iter().map(case)
    });
    let results = report.measure(cases.collect(), options.repeats, LIMIT);

    report.heading("yield: 100 strands per processor");
    for processors in [1, 2] {
        let table = |title: &str, figure, unit| {
            let title = format!("{title}, {processors} processor(s)");
            let select = |c: &Case| c.processors == processors;
            report.table(&title, &results, select, Column { figure, unit });
        };
        table("million switches/s", "rate", 1e6);
        table("largest/smallest count of a strand", "max_min", 1.0);
        table("% of yields that let nobody else run, not counted above", "empty", 0.01);
    }
    for sinew in results.sinews() {
        let rate = |who, n| results.median("rate", who, n, "-");
        let (one, two) = (rate(sinew, 1), rate(sinew, 2));
        let mut bar = |claim: &str, measured, bound| {
            report.bar(&results, sinew, claim, measured, bound);
        };
        bar("yield, 1 processor, at least 2.2x Tokio", one / rate(Contender::Tokio, 1), Bound::AtLeast(2.2));
        bar("yield, 2 processors, at least 1.8x own figure for 1", two / one, Bound::AtLeast(1.8));
        for n in [1, 2] {
            bar(
                &format!("yield, {n} processor(s), largest/smallest count at most 1.5"),
                results.median("max_min", sinew, n, "-"),
                Bound::AtMost(1.5),
            );
        }
    }
}
