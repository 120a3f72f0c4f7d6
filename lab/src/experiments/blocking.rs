//! `blocking`: a round trip to the pool of kernel threads for calls that block, one at a time.

use super::{Experiment, Metric, PLAIN, Plot};
use crate::case::{Case, Outcome, Reading};
use crate::measure::window::{Audit, Tally, Window};
use crate::peers::Peer;
use crate::peers::fibres::Fibres;
use crate::peers::tokio_tasks::TokioTasks;

pub static BLOCKING: Experiment = Experiment {
    name: "blocking",
    source: "Sinew",
    measures: "How often per second a strand has a call that might block made by the runtime’s pool of kernel threads, one call at a time, there and back.",
    good: "High: such a call is two hand-overs between kernel threads, and little more.",
    metrics: &[
        Metric::higher("ops_per_s", "thousand calls/s", 1e3),
        Metric::lower("cpu_ns_per_op", "CPU ns each", 1.0),
    ],
    plots: &[Plot::Bars { metric: "ops_per_s" }],
    concerns: |peer| peer.is_fibres() || peer.name == "tokio",
    measure: |case| Outcome::Measured(measure(case)),
    ..PLAIN
};

fn measure(case: &Case) -> Reading {
    let (window, timekeeper) = Window::open(1, case.window(), Audit::None);
    let mut tally = Tally::new(&window, 0);
    let count = match case.peer.as_str() {
        "tokio" => TokioTasks::new(case.processors).run(async move {
            let mut number = 0_u64;
            loop {
                number += 1;
                let answer = tokio::task::spawn_blocking(move || number).await;
                assert_eq!(answer.expect("the call does not panic"), number);
                if !tally.tick() {
                    return tally.close();
                }
            }
        }),
        fibres => Fibres::new(case.processors, fibres).run(async move {
            let mut number = 0_u64;
            loop {
                number += 1;
                assert_eq!(sinew::blocking(move || number), number);
                if !tally.tick() {
                    return tally.close();
                }
            }
        }),
    };
    window.reading(&[count], timekeeper.span())
}
