//! `ask`: the cost of a question to an actor, from a strand that waits for the answer.

use super::{of_peers, timed};
use crate::bars::Bar;
use crate::case::{Case, Outcome, Reading};
use crate::experiments::{Experiment, Metric, PLAIN, Plot};
use crate::peers::DEFAULT;
use crate::peers::actors::{self, Benchmark, System};

/// The questions of a round.
const ROUND: usize = 500;

pub static ASK: Experiment = Experiment {
    name: "ask",
    source: "Sinew",
    measures: "Nanoseconds for a strand to ask an actor and to have the answer, one question at a time.",
    good: "On one processor at most 80 ns, and a quarter of the cheapest other system's time.",
    metrics: &[Metric::lower("ask_ns", "ns per question", 1.0), Metric::lower("cpu_ns_per_op", "CPU ns each", 1.0)],
    plots: &[Plot::Bars { metric: "ask_ns" }],
    concerns: actors::has_actors,
    others: "the experiment is for actor systems",
    measure: actors::measure::<Asking>,
    bars: &[Bar::of(DEFAULT, "-", 1).at_most(80.0), of_peers("-", 1), of_peers("-", 2)],
    ..PLAIN
};

struct Asking;

impl Benchmark for Asking {
    async fn root<S: System>(case: Case) -> Outcome {
        let sum = S::spawn_sum();
        let (ask_ns, cpu_ns) = timed(case.window(), ROUND, || async {
            let first = S::ask(&sum, 0).await;
            for number in 1..ROUND as u64 {
                assert_eq!(S::ask(&sum, 1).await, first + number, "the sum");
            }
        })
        .await;
        Outcome::Measured(Reading::of([("ask_ns", ask_ns), ("cpu_ns_per_op", cpu_ns)]))
    }
}
