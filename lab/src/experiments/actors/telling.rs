//! `tell`: the cost of a message to an actor that only counts it.
//!
//! - `ping-pong`: two actors send one message back and forth.
//! - `batches`: a strand tells an actor 1,000 messages, and waits until the actor has had them.
//! - `many-to-one`: 100 actors send 100 messages each to one.
//! - `fan-out`: an actor sends ten messages to each of 1,000.

use std::sync::Arc;

use super::{Table, of_peers, timed};
use crate::bars::Bar;
use crate::case::{Case, Outcome, Reading};
use crate::experiments::{Experiment, Metric, PLAIN, Plot, Variant};
use crate::measure::countdown::Countdown;
use crate::peers::DEFAULT;
use crate::peers::actors::{self, Behaviour, Benchmark, Flow, Promise, System};

const PING_PONG: &str = "ping-pong";
const BATCHES: &str = "batches";
const MANY_TO_ONE: &str = "many-to-one";
const FAN_OUT: &str = "fan-out";

/// The messages of a round, in all variants but `batches`.
const ROUND: usize = 10_000;
const BATCH: usize = 1000;
const SENDERS: usize = 100;
const RECEIVERS: usize = 1000;

pub static TELL: Experiment = Experiment {
    name: "tell",
    source: "Sinew",
    measures: "Nanoseconds to tell an actor a message and to have it counted: back and forth between two actors (ping-pong), 1,000 at once from a strand (batches), from 100 actors to one (many-to-one), from one to 1,000 (fan-out).",
    good: "On one processor at most 12 ns in batches and 35 ns back and forth, and a quarter of the cheapest other system's time.",
    metrics: &[Metric::lower("tell_ns", "ns per message", 1.0), Metric::lower("cpu_ns_per_op", "CPU ns each", 1.0)],
    plots: &[Plot::Bars { metric: "tell_ns" }],
    concerns: actors::has_actors,
    others: "the experiment is for actor systems",
    variants: |_, _, _| {
        let actors = [(PING_PONG, 2), (BATCHES, 1), (MANY_TO_ONE, SENDERS + 1), (FAN_OUT, RECEIVERS + 1)];
        actors.map(|(name, actors)| Variant::new(name, actors)).to_vec()
    },
    measure: actors::measure::<Telling>,
    bars: &[
        Bar::of(DEFAULT, BATCHES, 1).at_most(12.0),
        Bar::of(DEFAULT, PING_PONG, 1).at_most(35.0),
        of_peers(BATCHES, 1),
        of_peers(BATCHES, 2),
        of_peers(PING_PONG, 1),
        of_peers(PING_PONG, 2),
        of_peers(MANY_TO_ONE, 1),
        of_peers(MANY_TO_ONE, 2),
        of_peers(FAN_OUT, 1),
        of_peers(FAN_OUT, 2),
    ],
    check: |_, reading| match reading.get("tell_ns") {
        Some(ns) if ns > 1.0 => Ok(()),
        other => Err(format!("a message in {other:?} ns")),
    },
    ..PLAIN
};

struct Telling;

/// One of the two that play.
struct Player<S: System> {
    other: usize,
    both: Table<S::Address<Player<S>>>,
    over: Arc<Promise<S, ()>>,
}

impl<S: System> Behaviour<S> for Player<S> {
    /// The messages that follow.
    type Message = u64;

    #[inline]
    fn receive(&mut self, left: u64) -> Flow {
        match left {
            0 => self.over.keep(()),
            _ => S::tell(&self.both[self.other], left - 1),
        }
        Flow::GoOn
    }
}

/// Counts messages to the end of a round.
struct Counter<S: System> {
    round: u64,
    count: u64,
    over: Arc<Promise<S, ()>>,
}

impl<S: System> Behaviour<S> for Counter<S> {
    /// The number that the message carries.
    type Message = u64;

    #[inline]
    fn receive(&mut self, one: u64) -> Flow {
        self.count += one;
        if self.count == self.round {
            self.count = 0;
            self.over.keep(());
        }
        Flow::GoOn
    }
}

/// Sends a number of messages when it is told that number.
struct Sender<S: System> {
    receiver: S::Address<Counter<S>>,
}

impl<S: System> Behaviour<S> for Sender<S> {
    type Message = usize;

    fn receive(&mut self, messages: usize) -> Flow {
        for _ in 0..messages {
            S::tell(&self.receiver, 1);
        }
        Flow::GoOn
    }
}

/// Receives a part of each round.
struct Receiver<S: System> {
    number: usize,
    part: u64,
    count: u64,
    round: Arc<Round<S>>,
}

struct Round<S: System> {
    countdown: Countdown,
    over: Arc<Promise<S, ()>>,
}

impl<S: System> Behaviour<S> for Receiver<S> {
    type Message = u64;

    #[inline]
    fn receive(&mut self, one: u64) -> Flow {
        self.count += one;
        if self.count == self.part {
            self.count = 0;
            if self.round.countdown.done(self.number) {
                self.round.over.keep(());
            }
        }
        Flow::GoOn
    }
}

/// Sends a number of messages to all receivers when it is told that number.
struct Hub<S: System> {
    receivers: Vec<S::Address<Receiver<S>>>,
}

impl<S: System> Behaviour<S> for Hub<S> {
    type Message = usize;

    fn receive(&mut self, messages: usize) -> Flow {
        for _ in 0..messages {
            self.receivers.iter().for_each(|receiver| S::tell(receiver, 1));
        }
        Flow::GoOn
    }
}

impl Benchmark for Telling {
    async fn root<S: System>(case: Case) -> Outcome {
        let (window, over) = (case.window(), Promise::<S, ()>::new());
        let (tell_ns, cpu_ns) = match case.variant.as_str() {
            PING_PONG => {
                let both = Table::default();
                both.fill(
                    [1, 0]
                        .into_iter()
                        .map(|other| S::spawn(Player::<S> { other, both: both.clone(), over: Arc::clone(&over) })),
                );
                timed(window, ROUND, || {
                    S::tell(&both[0], ROUND as u64 - 1);
                    over.kept()
                })
                .await
            }
            BATCHES => {
                let counter = S::spawn(Counter { round: BATCH as u64, count: 0, over: Arc::clone(&over) });
                timed(window, BATCH, || {
                    (0..BATCH).for_each(|_| S::tell(&counter, 1));
                    over.kept()
                })
                .await
            }
            MANY_TO_ONE => {
                let receiver = S::spawn(Counter { round: ROUND as u64, count: 0, over: Arc::clone(&over) });
                let senders: Vec<_> =
                    (0..SENDERS).map(|_| S::spawn(Sender::<S> { receiver: receiver.clone() })).collect();
                timed(window, ROUND, || {
                    senders.iter().for_each(|sender| S::tell(sender, ROUND / SENDERS));
                    over.kept()
                })
                .await
            }
            _ => {
                let round = Arc::new(Round { countdown: Countdown::new(RECEIVERS), over: Arc::clone(&over) });
                let part = (ROUND / RECEIVERS) as u64;
                let receiver = |number| S::spawn(Receiver::<S> { number, part, count: 0, round: Arc::clone(&round) });
                let hub = S::spawn(Hub::<S> { receivers: (0..RECEIVERS).map(receiver).collect() });
                timed(window, ROUND, || {
                    round.countdown.begin();
                    S::tell(&hub, ROUND / RECEIVERS);
                    over.kept()
                })
                .await
            }
        };
        Outcome::Measured(Reading::of([("tell_ns", tell_ns), ("cpu_ns_per_op", cpu_ns)]))
    }
}
