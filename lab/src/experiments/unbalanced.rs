//! `unbalanced`: all events of a round are posted on one processor. 98 % of them are so short
//! that a steal costs more than it saves; the others are long.
//!
//! After Gaud et al. (Mely), 5.2: 50,000 events a round, of 100 cycles, or of 10,000 to 50,000
//! cycles. The next round begins when all have run. A cycle is one of the paper's CPUs, which
//! had 2.33 GHz. Each event has a colour of its own, which is made before the clock of the
//! round starts: in the paper a colour is a number. The colours are new in each round, so that
//! no event goes back to the processor that stole its colour the last time.
//!
//! The figure comes from the median of the rounds. Tokio has a task in place of each event.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sinew::Fibre;
use sinew::event::{Colour, Handler};
use tokio::sync::Notify;

use super::{Bar, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Outcome, Reading};
use crate::measure::countdown::Countdown;
use crate::measure::random::Random;
use crate::measure::slices::Slices;
use crate::measure::work::Unit;
use crate::peers::Peer;
use crate::peers::events::{self, BASE, COLOURED, Events, OFF, TIME};
use crate::peers::tokio_tasks::TokioTasks;

pub const EVENTS: usize = 50_000;
const LONG_SHARE: f64 = 0.02;
const SHORT_CYCLES: f64 = 100.0;
const LEAST_LONG_CYCLES: f64 = 10_000.0;
const MOST_LONG_CYCLES: f64 = 50_000.0;
/// Of the paper's CPUs.
const CYCLES_PER_NS: f64 = 2.33;

pub const METRICS: &[Metric] = &[
    Metric::higher("ops_per_s", "thousand events/s", 1e3),
    Metric::beside("steals", "steals for 1000 events", 1.0),
    Metric::beside("stolen_ns", "ns of work in a steal", 1.0),
    Metric::beside("steal_cost_ns", "ns that a steal takes", 1.0),
    Metric::beside("first_ms", "ms, first round", 1.0),
];

pub static UNBALANCED: Experiment = Experiment {
    name: "unbalanced",
    source: "Gaud et al. 2010 (Mely), 5.2",
    measures: "Events per second if one processor posts 50,000 at a time, a colour each: 98 % take 43 ns, 2 % take 4 to 21 µs. The coloured scheduler steals nothing (off), steals as Libasync-smp does (base), or steals what is worth it (time, or all heuristics). Tokio has a task in place of each event.",
    good: "With the time-left heuristic, 1.7 times the rate without stealing on two processors: the thief takes the long events, and leaves the short ones alone.",
    metrics: METRICS,
    plots: &[Plot::Bars { metric: "ops_per_s" }, Plot::Bars { metric: "stolen_ns" }],
    least_processors: 2,
    concerns: |peer| events::ALL.contains(&peer.name) || peer.name == "tokio",
    others: "they have neither events nor a task that is as small",
    variants: |_, _, _| vec![Variant::new("-", EVENTS)],
    measure: |case| {
        Outcome::Measured(match case.peer.as_str() {
            "tokio" => on_tokio(case),
            _ => on_sinew(case, &RIGHT, Duration::ZERO),
        })
    },
    bars: &[
        Bar::of(TIME, "-", 2).at_least(1.7).over_peers(&[OFF]),
        Bar::of(COLOURED, "-", 2).at_least(1.7).over_peers(&[OFF]),
        Bar::of(COLOURED, "-", 2).at_least(1.0).over_peers(&[BASE]),
        Bar::of(COLOURED, "-", 2).at_least(1.0).over_peers(&["tokio"]),
    ],
    ..PLAIN
};

/// The handlers of short and of long events.
pub struct Hints {
    short: Handler<Event>,
    long: Handler<Event>,
}

/// A short event takes 0.04 µs, and a long one 13 µs in the mean.
pub static RIGHT: Hints = Hints { short: Handler::new("short", run), long: Handler::new("long", run).takes_us(13) };
/// Wrong by a factor of a hundred.
pub static WRONG: Hints = Hints { short: Handler::new("short", run).takes_us(4), long: Handler::new("long", run) };
pub static NONE: Hints = Hints { short: Handler::new("short", run), long: Handler::new("long", run) };

/// The length of an event.
#[derive(Clone, Copy)]
struct Work {
    unit: Unit,
    is_long: bool,
}

/// Returns the work of a round. It is the same in each round.
fn round(processors: usize) -> Vec<Work> {
    let length = |cycles: f64| Duration::from_nanos((cycles / CYCLES_PER_NS) as u64);
    let (short, long) =
        (Unit::calibrate(length(SHORT_CYCLES), processors), Unit::calibrate(length(LEAST_LONG_CYCLES), processors));
    let mut random = Random::of(0);
    let mut work = || match random.fraction() < LONG_SHARE {
        true => {
            let range = MOST_LONG_CYCLES / LEAST_LONG_CYCLES - 1.0;
            Work { unit: long.times(1.0 + range * random.fraction()), is_long: true }
        }
        false => Work { unit: short, is_long: false },
    };
    (0..EVENTS).map(|_| work()).collect()
}

struct Shared {
    countdown: Countdown,
    waiter: Fibre,
}

/// The argument of an event.
struct Event {
    shared: &'static Shared,
    unit: Unit,
    number: u32,
}

fn run(event: Event) {
    event.unit.compute();
    if event.shared.countdown.done(event.number as usize) {
        event.shared.waiter.unpark();
    }
}

/// Measures rounds after `settle`.
pub fn on_sinew(case: &Case, hints: &'static Hints, settle: Duration) -> Reading {
    let (works, window) = (round(case.processors), case.window());
    let runtime = Events::new(case);
    let thefts = runtime.thefts();
    let (slices, first, events) = runtime.run(move || {
        let shared: &'static Shared =
            Box::leak(Box::new(Shared { countdown: Countdown::new(EVENTS), waiter: sinew::current() }));
        let one = || {
            let colours: Vec<Colour> = works.iter().map(|_| Colour::new()).collect();
            shared.countdown.begin();
            let begun = Instant::now();
            for (number, (colour, work)) in colours.iter().zip(&works).enumerate() {
                let handler = if work.is_long { &hints.long } else { &hints.short };
                let event = Event { shared, unit: work.unit, number: number as u32 };
                handler.post(colour, event).unwrap_or_else(|_| panic!("an open colour"));
            }
            while !shared.countdown.is_over() {
                sinew::park();
            }
            begun.elapsed()
        };
        let (begun, first) = (Instant::now(), one());
        let mut rounds = 1;
        while begun.elapsed() < settle {
            one();
            rounds += 1;
        }
        let mut slices = Slices::new(window);
        while !slices.is_over() {
            slices.note(one(), EVENTS);
            rounds += 1;
        }
        (slices, first, rounds * EVENTS as u64)
    });
    let mut reading = Reading::of([("ops_per_s", 1e9 / slices.median_ns()), ("first_ms", first.as_secs_f64() * 1e3)]);
    thefts.read_into(&mut reading, events);
    reading
}

fn on_tokio(case: &Case) -> Reading {
    let (works, window) = (round(case.processors), case.window());
    let slices = TokioTasks::new(case.processors).run(async move {
        let shared = Arc::new((Countdown::new(EVENTS), Notify::new()));
        let mut slices = Slices::new(window);
        while !slices.is_over() {
            shared.0.begin();
            let begun = Instant::now();
            for (number, work) in works.iter().enumerate() {
                let (shared, unit) = (shared.clone(), work.unit);
                tokio::spawn(async move {
                    unit.compute();
                    if shared.0.done(number) {
                        shared.1.notify_one();
                    }
                });
            }
            while !shared.0.is_over() {
                shared.1.notified().await;
            }
            slices.note(begun.elapsed(), EVENTS);
        }
        slices
    });
    Reading::of([("ops_per_s", 1e9 / slices.median_ns())])
}
