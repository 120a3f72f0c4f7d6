//! `blocking`: a round trip to the pool of kernel threads for calls that block, one at a time.

use std::future::{Future, ready};

use super::{Bar, Experiment, Metric, PLAIN, Plot};
use crate::case::{Case, Outcome, Reading};
use crate::measure::window::{Audit, Tally, Window};
use crate::peers::Peer;
use crate::peers::fibres::Fibres;
use crate::peers::sinew_tasks::SinewTasks;
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
    others: "they have no pool for calls that block, or the lab has no program for it",
    concerns: |peer| peer.is_fibres() || ["sinew/tasks", "tokio"].contains(&peer.name),
    measure: |case| Outcome::Measured(measure(case)),
    bars: &[
        Bar::of("sinew/fair", "-", 2).at_least(1.0).over_peers(&["tokio"]),
        Bar::of("sinew/inverted", "-", 2).at_least(1.0).over_peers(&["tokio"]),
        Bar::of("sinew/shared", "-", 2).at_least(1.0).over_peers(&["tokio"]),
    ],
    ..PLAIN
};

fn measure(case: &Case) -> Reading {
    let (window, timekeeper) = Window::open(1, case.window(), Audit::None);
    let tally = Tally::new(&window, 0);
    let count = match case.peer.as_str() {
        "tokio" => TokioTasks::new(case.processors).run(repeat(tally, |number| async move {
            tokio::task::spawn_blocking(move || number).await.expect("the call does not panic")
        })),
        "sinew/tasks" => SinewTasks::of(case).run(repeat(tally, |number| sinew::blocking_async(move || number))),
        fibres => {
            Fibres::new(case.processors, fibres).run(repeat(tally, |number| ready(sinew::blocking(move || number))))
        }
    };
    window.reading(&[count], timekeeper.span())
}

/// Makes calls until the window is over. A call returns its number.
async fn repeat<F: Future<Output = u64>>(mut tally: Tally, call: impl Fn(u64) -> F) -> u64 {
    let mut number = 0;
    loop {
        number += 1;
        assert_eq!(call(number).await, number);
        if !tally.tick() {
            return tally.close();
        }
    }
}
