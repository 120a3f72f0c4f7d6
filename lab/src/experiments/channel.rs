//! `channel`: unbounded channels in three figures.
//!
//! - `ping-pong`: 100 pairs of strands with two channels between them. One strand
//!   sends and waits for the reply. `ping-pong-1` has one pair. A reply that arrives
//!   before its receiver waits for it is counted apart: that round trip had no wait.
//! - `fan-in`: 64 senders and one receiver. Every sender sends 64 messages and then
//!   waits until the receiver has taken them. This bounds the messages under way,
//!   which unbounded channels do not.
//! - `pipeline`: 50 stages. Each receives from the stage before and sends to the stage
//!   after it; ten messages go round.

use std::sync::{Arc, Mutex};

use super::{Bar, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::measure::crowd::Crowd;
use crate::measure::window::{Audit, Tally, Window};
use crate::peers::{self, Body, Peer};

const SENDERS: usize = 64;
const BATCH: u64 = 64;
const STAGES: usize = 50;
const TRAVELLERS: u64 = 10;

pub static CHANNEL: Experiment = Experiment {
    name: "channel",
    source: "Sinew",
    measures: "Round trips of 1 and of 100 pairs (ping-pong), messages from 64 senders to one receiver (fan-in), and hops of ten messages through 50 stages (pipeline), each per second.",
    good: "High: a message without a waiting receiver costs an atomic instruction or two; a message that wakes its receiver costs a switch.",
    metrics: &[
        Metric::higher("ops_per_s", "million/s", 1e6),
        Metric::lower("cpu_ns_per_op", "CPU ns each", 1.0),
        Metric::beside("void_per_s", "million/s without a wait", 1e6),
    ],
    plots: &[Plot::Bars { metric: "ops_per_s" }],
    variants: |_, _, _| {
        vec![
            Variant::new("ping-pong-1", 2),
            Variant::new("ping-pong", 200),
            Variant::new("fan-in", SENDERS + 1),
            Variant::new("pipeline", STAGES),
        ]
    },
    measure: peers::measure::<Channel>,
    bars: &[
        Bar::of("sinew/default", "ping-pong", 2).at_least(1.0).over_peers(&["tokio"]),
        // 0.6 and 0.8 of Tokio's time for a round trip.
        Bar::of("sinew/fair", "ping-pong-1", 1).at_least(1.67).over_peers(&["tokio"]),
        Bar::of("sinew/fair", "ping-pong", 2).at_least(1.25).over_peers(&["tokio"]),
    ],
    ..PLAIN
};

struct Channel;

impl Body for Channel {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        match case.variant.as_str() {
            "fan-in" => fan_in(peer, case),
            "pipeline" => pipeline(peer, case),
            _ => ping_pong(peer, case),
        }
    }
}

/// The parts that each strand takes when it begins.
struct Lots<T>(Vec<Mutex<Option<T>>>);

impl<T> Lots<T> {
    fn new(lots: impl Iterator<Item = T>) -> Arc<Lots<T>> {
        Arc::new(Lots(lots.map(|lot| Mutex::new(Some(lot))).collect()))
    }

    fn take(&self, number: usize) -> T {
        self.0[number].lock().expect("no poison").take().expect("taken once")
    }
}

fn ping_pong<P: Peer>(peer: P, case: &Case) -> Reading {
    let strands = case.threads;
    let (window, timekeeper) = Window::open(strands / 2, case.window(), Audit::Probes);
    let shared = window.clone();
    let counts = peer.run(async move {
        let lots = Lots::new((0..strands / 2).flat_map(|_| {
            let (request, requested) = P::channel();
            let (reply, replied) = P::channel();
            [(request, replied), (reply, requested)]
        }));
        Crowd::<P>::run(strands, move |place| {
            let (lots, window) = (lots.clone(), shared.clone());
            async move {
                let (sender, mut receiver) = lots.take(place.number);
                drop(lots);
                if place.number % 2 == 1 {
                    while let Some(request) = P::receive(&mut receiver).await {
                        P::send(&sender, request);
                    }
                    return 0;
                }
                let mut tally = Tally::new(&window, place.number);
                let mut request = 0;
                loop {
                    request += 1;
                    P::send(&sender, request);
                    let mut reply = None;
                    if tally.probe(|| {
                        reply = P::try_receive(&mut receiver);
                        reply.is_some()
                    }) {
                        assert_eq!(reply, Some(request));
                    } else {
                        assert_eq!(P::receive(&mut receiver).await, Some(request));
                    }
                    if !tally.tick() {
                        return tally.close();
                    }
                }
            }
        })
        .await
    });
    window.reading(&counts, timekeeper.span())
}

/// A semaphore for each sender: a permit lets it send more.
struct Credit<P: Peer>(Vec<P::Semaphore>);

fn fan_in<P: Peer>(peer: P, case: &Case) -> Reading {
    let (window, timekeeper) = Window::open(1, case.window(), Audit::None);
    let shared = window.clone();
    let counts = peer.run(async move {
        let (sender, receiver) = P::channel();
        let credit = Arc::new(Credit::<P>((0..SENDERS).map(|_| P::semaphore()).collect()));
        let senders = Lots::new((0..SENDERS).map(|_| sender.clone()));
        drop(sender);
        let receiver = Lots::new(std::iter::once(receiver));
        Crowd::<P>::run(SENDERS + 1, move |place| {
            let (senders, receiver, credit) = (senders.clone(), receiver.clone(), credit.clone());
            let window = shared.clone();
            async move {
                if place.number == SENDERS {
                    let mut receiver = receiver.take(0);
                    return count_messages::<P>(&mut receiver, &credit, Tally::new(&window, SENDERS)).await;
                }
                let own = senders.take(place.number);
                while !window.is_over() {
                    (0..BATCH).for_each(|_| P::send(&own, place.number as u64));
                    P::wait(&credit.0[place.number]).await;
                }
                0
            }
        })
        .await
    });
    window.reading(&counts, timekeeper.span())
}

async fn count_messages<P: Peer>(receiver: &mut P::Receiver, credit: &Credit<P>, mut tally: Tally) -> u64 {
    let mut outstanding = [0; SENDERS];
    while let Some(from) = P::receive(receiver).await {
        let from = from as usize;
        outstanding[from] += 1;
        if outstanding[from] == BATCH {
            outstanding[from] = 0;
            P::post(&credit.0[from], 1);
        }
        tally.tick();
    }
    assert_eq!(outstanding, [0; SENDERS], "whole batches only");
    tally.close()
}

fn pipeline<P: Peer>(peer: P, case: &Case) -> Reading {
    let (window, timekeeper) = Window::open(STAGES, case.window(), Audit::None);
    let shared = window.clone();
    let counts = peer.run(async move {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..STAGES).map(|_| P::channel()).unzip();
        (0..TRAVELLERS).for_each(|traveller| P::send(&senders[1], traveller));
        // Stage n receives from channel n and sends to the next one.
        let lots = Lots::new(
            receivers
                .into_iter()
                .enumerate()
                .map(|(stage, receiver)| (receiver, senders[(stage + 1) % STAGES].clone())),
        );
        drop(senders);
        Crowd::<P>::run(STAGES, move |place| {
            let (lots, window) = (lots.clone(), shared.clone());
            async move {
                let (mut receiver, sender) = lots.take(place.number);
                drop(lots);
                let mut tally = Tally::new(&window, place.number);
                while let Some(traveller) = P::receive(&mut receiver).await {
                    if tally.tick() {
                        P::send(&sender, traveller);
                    } else {
                        break;
                    }
                }
                // The next stage's channel closes, and so on round the ring.
                drop(sender);
                while P::receive(&mut receiver).await.is_some() {}
                tally.close()
            }
        })
        .await
    });
    window.reading(&counts, timekeeper.span())
}
