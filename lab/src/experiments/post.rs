//! `post`: the cost to post an event and to run it. The handlers do nothing else.
//!
//! - `batches`: a strand posts many events to each colour, and waits until all have run. It
//!   posts 1000 events to a single colour, 100 to each of 100, and 10 to each of 100,000.
//! - `single`: each event posts the next one, to the next colour of its ring. A colour has no
//!   other event then, so it becomes ready and idle again each time. There are ten rings, or
//!   one if there is one colour.
//!
//! The peers do it without colours: a task for each colour receives messages from its own
//! channel.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sinew::Fibre;
use sinew::event::{Colour, Handler};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Bar, Depth, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Outcome, Reading};
use crate::kernel::cpu_time;
use crate::measure::countdown::Countdown;
use crate::measure::slices::Slices;
use crate::peers::events::{COLOURED, Events};
use crate::peers::tokio_tasks::TokioTasks;
use crate::peers::{self, Peer, blocking};

pub static POST: Experiment = Experiment {
    name: "post",
    source: "Sinew",
    measures: "Nanoseconds to post an event and to run it, if its handler is empty: many events at once to each of 1, 100 or 100,000 colours (batches), or each event posts the next one to another colour (single). Tokio has a task for each colour, fed by a channel.",
    good: "On one processor at most 12 ns in batches and 35 ns one at a time, and a third of the time of Tokio's tasks.",
    metrics: &[Metric::lower("event_ns", "ns per event", 1.0), Metric::lower("cpu_ns_per_op", "CPU ns each", 1.0)],
    plots: &[Plot::Bars { metric: "event_ns" }],
    limit: |_| Duration::from_secs(30),
    concerns: |peer| [peers::DEFAULT, COLOURED, "tokio", "tokio/current"].contains(&peer.name),
    cannot: |_| None,
    others: "they have neither events nor a task that is as small",
    variants: |depth, processors, peer| {
        let all = [BATCHES_1, BATCHES_100, BATCHES_100_000, SINGLE_1, SINGLE_100, SINGLE_100_000];
        let shown = |shape: &&Shape| depth == Depth::Full || shape.colours == 100;
        let fits = peer.name != "tokio/current" || processors == 1;
        all.iter().filter(shown).filter(|_| fits).map(|shape| Variant::new(shape.name, shape.colours)).collect()
    },
    measure,
    bars: &[
        Bar::of(peers::DEFAULT, "batches-1", 1).at_most(12.0),
        Bar::of(peers::DEFAULT, "batches-100", 1).at_most(12.0),
        Bar::of(peers::DEFAULT, "single-1", 1).at_most(35.0),
        Bar::of(peers::DEFAULT, "single-100", 1).at_most(35.0),
        Bar::of(COLOURED, "batches-1", 1).at_most(12.0),
        Bar::of(COLOURED, "batches-100", 1).at_most(12.0),
        Bar::of(COLOURED, "single-1", 1).at_most(35.0),
        Bar::of(COLOURED, "single-100", 1).at_most(35.0),
        third_of_tokio(peers::DEFAULT, "batches-1"),
        third_of_tokio(peers::DEFAULT, "batches-100"),
        third_of_tokio(peers::DEFAULT, "batches-100000"),
        third_of_tokio(peers::DEFAULT, "single-1"),
        third_of_tokio(peers::DEFAULT, "single-100"),
        third_of_tokio(peers::DEFAULT, "single-100000"),
        third_of_tokio(COLOURED, "batches-100"),
        third_of_tokio(COLOURED, "single-100"),
    ],
    check: |_, reading| match reading.get("event_ns") {
        Some(ns) if ns > 1.0 => Ok(()),
        other => Err(format!("an event in {other:?} ns")),
    },
    ..PLAIN
};

const fn third_of_tokio(peer: &'static str, variant: &'static str) -> Bar {
    Bar::of(peer, variant, 1).at_most(1.0 / 3.0).over_peers(&["tokio"])
}

/// One variant.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    colours: usize,
    /// Events for each colour at once; `None` if each event posts the next one.
    batch: Option<usize>,
}

const BATCHES_1: Shape = Shape { name: "batches-1", colours: 1, batch: Some(1000) };
const BATCHES_100: Shape = Shape { name: "batches-100", colours: 100, batch: Some(100) };
const BATCHES_100_000: Shape = Shape { name: "batches-100000", colours: 100_000, batch: Some(10) };
const SINGLE_1: Shape = Shape { name: "single-1", colours: 1, batch: None };
const SINGLE_100: Shape = Shape { name: "single-100", colours: 100, batch: None };
const SINGLE_100_000: Shape = Shape { name: "single-100000", colours: 100_000, batch: None };

/// The rings of `single`, and the least number of events of each in a round.
const RINGS: usize = 10;
const LEAST_STEPS: usize = 1000;

impl Shape {
    fn of(case: &Case) -> Shape {
        let all = [BATCHES_1, BATCHES_100, BATCHES_100_000, SINGLE_1, SINGLE_100, SINGLE_100_000];
        all.into_iter().find(|shape| shape.name == case.variant).expect("a variant")
    }

    fn rings(self) -> usize {
        RINGS.min(self.colours)
    }

    /// The parts of a round that end by themselves: one for each colour or ring.
    fn parts(self) -> usize {
        if self.batch.is_some() { self.colours } else { self.rings() }
    }

    /// The events of a ring in a round: once around it, or more.
    fn steps(self) -> usize {
        LEAST_STEPS.max(self.colours / self.rings())
    }

    fn events(self) -> usize {
        self.batch.map_or(self.rings() * self.steps(), |batch| batch * self.colours)
    }

    /// Returns the colour that follows each colour on its ring. A table: to divide takes longer than to post.
    fn followers(self) -> Vec<u32> {
        let length = self.colours / self.rings();
        let next = |colour: usize| if (colour + 1).is_multiple_of(length) { colour + 1 - length } else { colour + 1 };
        (0..self.colours).map(|colour| next(colour) as u32).collect()
    }

    /// Returns the first colour of a ring.
    fn first(self, ring: usize) -> usize {
        ring * (self.colours / self.rings())
    }
}

fn measure(case: &Case) -> Outcome {
    let (shape, window) = (Shape::of(case), case.window());
    let on_tokio = |runtime: TokioTasks| runtime.run(tasks(shape, window));
    let reading = match case.peer.as_str() {
        "tokio" => on_tokio(TokioTasks::new(case.processors)),
        "tokio/current" => on_tokio(TokioTasks::on_one_thread()),
        _ => Events::new(case).run(move || events(shape, window)),
    };
    Outcome::Measured(reading)
}

/// Times rounds until the window is over. The first round warms up.
async fn timed<F: Future<Output = ()> + Send>(
    shape: Shape,
    window: Duration,
    mut round: impl FnMut() -> F + Send,
) -> Reading {
    round().await;
    let mut slices = Slices::new(window);
    let (used, mut rounds) = (cpu_time(), 0);
    while !slices.is_over() {
        let begun = Instant::now();
        round().await;
        slices.note(begun.elapsed(), shape.events());
        rounds += 1;
    }
    let cpu_ns = (cpu_time() - used).as_nanos() as f64 / (rounds * shape.events()) as f64;
    Reading::of([("event_ns", slices.median_ns()), ("cpu_ns_per_op", cpu_ns)])
}

/// The part that all events share. It lives as long as the process.
struct Shared {
    colours: Vec<Colour>,
    /// The colour that follows each colour.
    followers: Vec<u32>,
    countdown: Countdown,
    waiter: Fibre,
}

/// An event that ends a part of a round, or leads to its end.
struct Step {
    shared: &'static Shared,
    /// The number of the part.
    part: u32,
    colour: u32,
    left: u32,
}

static EMPTY: Handler<()> = Handler::new("empty", |()| ());
static STEP: Handler<Step> = Handler::new("step", step);

fn step(step: Step) {
    let shared = step.shared;
    if step.left > 0 {
        let next = shared.followers[step.colour as usize];
        let step = Step { colour: next, left: step.left - 1, ..step };
        STEP.post(&shared.colours[next as usize], step).unwrap_or_else(|_| panic!("an open colour"));
    } else if shared.countdown.done(step.part as usize) {
        shared.waiter.unpark();
    }
}

fn events(shape: Shape, window: Duration) -> Reading {
    let shared: &'static Shared = Box::leak(Box::new(Shared {
        colours: (0..shape.colours).map(|_| Colour::new()).collect(),
        followers: shape.followers(),
        countdown: Countdown::new(shape.parts()),
        waiter: sinew::current(),
    }));
    let post = |colour: usize, part: usize, left: usize| {
        let step = Step { shared, part: part as u32, colour: colour as u32, left: left as u32 };
        STEP.post(&shared.colours[colour], step).unwrap_or_else(|_| panic!("an open colour"));
    };
    blocking(timed(shape, window, || {
        shared.countdown.begin();
        match shape.batch {
            Some(batch) => {
                for (number, colour) in shared.colours.iter().enumerate() {
                    for _ in 1..batch {
                        EMPTY.post(colour, ()).expect("an open colour");
                    }
                    post(number, number, 0);
                }
            }
            None => (0..shape.rings()).for_each(|ring| post(shape.first(ring), ring, shape.steps() - 1)),
        }
        while !shared.countdown.is_over() {
            sinew::park();
        }
        std::future::ready(())
    }))
}

/// A message to a task that stands for a colour.
enum Message {
    Empty,
    Step { part: u32, left: u32 },
}

/// The part that all tasks share.
struct Tasks {
    colours: Vec<UnboundedSender<Message>>,
    followers: Vec<u32>,
    countdown: Countdown,
    over: Notify,
}

impl Tasks {
    fn send(&self, colour: usize, message: Message) {
        assert!(self.colours[colour].send(message).is_ok(), "a task that receives");
    }

    async fn live(self: Arc<Tasks>, colour: usize, mut messages: UnboundedReceiver<Message>) {
        while let Some(message) = messages.recv().await {
            match message {
                Message::Empty => {}
                Message::Step { part, left: 0 } => {
                    if self.countdown.done(part as usize) {
                        self.over.notify_one();
                    }
                }
                Message::Step { part, left } => {
                    self.send(self.followers[colour] as usize, Message::Step { part, left: left - 1 });
                }
            }
        }
    }
}

async fn tasks(shape: Shape, window: Duration) -> Reading {
    let (colours, receivers): (Vec<_>, Vec<_>) = (0..shape.colours).map(|_| unbounded_channel()).unzip();
    let countdown = Countdown::new(shape.parts());
    let shared = Arc::new(Tasks { colours, followers: shape.followers(), countdown, over: Notify::new() });
    for (colour, messages) in receivers.into_iter().enumerate() {
        tokio::spawn(Arc::clone(&shared).live(colour, messages));
    }
    timed(shape, window, || {
        let shared = Arc::clone(&shared);
        async move {
            shared.countdown.begin();
            match shape.batch {
                Some(batch) => {
                    for colour in 0..shape.colours {
                        (1..batch).for_each(|_| shared.send(colour, Message::Empty));
                        shared.send(colour, Message::Step { part: colour as u32, left: 0 });
                    }
                }
                None => {
                    for ring in 0..shape.rings() {
                        let first = Message::Step { part: ring as u32, left: shape.steps() as u32 - 1 };
                        shared.send(shape.first(ring), first);
                    }
                }
            }
            while !shared.countdown.is_over() {
                shared.over.notified().await;
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_leads_through_all_its_colours_and_back() {
        for shape in [SINGLE_1, SINGLE_100] {
            let followers = shape.followers();
            for ring in 0..shape.rings() {
                let length = shape.colours / shape.rings();
                let mut seen = vec![shape.first(ring)];
                while let next = followers[*seen.last().expect("a colour")] as usize
                    && next != seen[0]
                {
                    seen.push(next);
                }
                assert_eq!(seen.len(), length);
                assert!(seen.iter().all(|colour| colour / length == ring));
            }
        }
    }
}
