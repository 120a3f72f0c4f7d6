//! `spawn-actors`: the cost of a new actor with 16 bytes of state, and of an actor's whole life: it
//! is spawned, told one message, and ends.

use std::sync::Arc;
use std::time::Instant;

use super::of_peers;
use crate::bars::Bar;
use crate::case::{Case, Outcome, Reading};
use crate::experiments::{Experiment, Metric, PLAIN, Plot, Variant};
use crate::measure::countdown::Countdown;
use crate::measure::slices::Slices;
use crate::peers::DEFAULT;
use crate::peers::actors::{self, Behaviour, Benchmark, Flow, Promise, System};

/// The actors of a round.
const ROUND: usize = 1000;

pub static SPAWN_ACTORS: Experiment = Experiment {
    name: "spawn-actors",
    source: "Sinew",
    measures: "Nanoseconds to spawn an actor with 16 bytes of state, 1,000 at once. Beside it, the nanoseconds of an actor's life: it is spawned, told a message, and has ended.",
    good: "On one processor at most 60 ns, and a quarter of the cheapest other system's time.",
    metrics: &[Metric::lower("spawn_ns", "ns per actor", 1.0), Metric::lower("life_ns", "ns per life", 1.0)],
    plots: &[Plot::Bars { metric: "spawn_ns" }, Plot::Bars { metric: "life_ns" }],
    concerns: actors::has_actors,
    others: "the experiment is for actor systems",
    variants: |_, _, _| vec![Variant::new("-", ROUND)],
    measure: actors::measure::<Spawning>,
    bars: &[Bar::of(DEFAULT, "-", 1).at_most(60.0), of_peers("-", 1), of_peers("-", 2)],
    ..PLAIN
};

struct Spawning;

struct Round<S: System> {
    countdown: Countdown,
    over: Arc<Promise<S, ()>>,
}

/// An actor of 16 bytes. It counts when it is dropped.
struct Ephemeral<S: System> {
    round: Arc<Round<S>>,
    number: usize,
}

/// Ends an actor.
struct Last;

impl<S: System> Behaviour<S> for Ephemeral<S> {
    type Message = Last;

    fn receive(&mut self, Last: Last) -> Flow {
        Flow::End
    }
}

impl<S: System> Drop for Ephemeral<S> {
    fn drop(&mut self) {
        if self.round.countdown.done(self.number) {
            self.round.over.keep(());
        }
    }
}

impl Benchmark for Spawning {
    async fn root<S: System>(case: Case) -> Outcome {
        let over = Promise::<S, ()>::new();
        let round = Arc::new(Round { countdown: Countdown::new(ROUND), over: Arc::clone(&over) });
        let (mut spawns, mut lives) = (Slices::new(case.window()), Slices::new(case.window()));
        let mut actors = Vec::with_capacity(ROUND);
        while !spawns.is_over() {
            round.countdown.begin();
            let begun = Instant::now();
            for number in 0..ROUND {
                actors.push(S::spawn(Ephemeral { round: Arc::clone(&round), number }));
            }
            spawns.note(begun.elapsed(), ROUND);
            actors.drain(..).for_each(|actor| S::tell(&actor, Last));
            over.kept().await;
            lives.note(begun.elapsed(), ROUND);
        }
        Outcome::Measured(Reading::of([("spawn_ns", spawns.median_ns()), ("life_ns", lives.median_ns())]))
    }
}
