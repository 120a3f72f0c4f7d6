//! `logm`: pairs of actors that call each other. Each of ten controllers has its computer make
//! 25,000 terms of a logistic map, one after the other.

use super::{NINE, Sink, Stopwatch, checked_near, one_size, scaled};
use crate::case::{Case, Outcome};
use crate::experiments::Experiment;
use crate::peers::actors::{self, Behaviour, Benchmark, Flow, Promise, System};

const PAIRS: usize = 10;
/// Of each pair.
const TERMS: u64 = 25_000;

/// A result may differ by this much.
const ERROR: f64 = 1e-12;

pub static LOGM: Experiment = Experiment {
    name: "logm",
    measures: "10 pairs of actors: one has the other compute 25,000 terms of a logistic map, one by one.",
    good: "Faster than every other actor system. A pair should stay together.",
    variants: |depth, _, _| one_size(depth, 2 * PAIRS),
    measure: actors::measure::<LogisticMaps>,
    ..NINE
};

struct LogisticMaps;

fn rate(pair: usize) -> f64 {
    3.46 + 0.0025 * pair as f64
}

fn first(pair: usize) -> f64 {
    0.0025 * (pair as f64 + 1.0)
}

#[inline]
fn next(rate: f64, x: f64) -> f64 {
    rate * x * (1.0 - x)
}

struct Controller<S: System> {
    pair: usize,
    x: f64,
    left: u64,
    computer: Option<S::Address<Computer<S>>>,
    sink: S::Address<Sink<S, f64>>,
}

enum Order<S: System> {
    Begin(S::Address<Computer<S>>),
    Term(f64),
}

impl<S: System> Behaviour<S> for Controller<S> {
    type Message = Order<S>;

    fn receive(&mut self, order: Order<S>) -> Flow {
        match order {
            Order::Begin(computer) => self.computer = Some(computer),
            Order::Term(x) => {
                self.x = x;
                self.left -= 1;
            }
        }
        match self.left {
            0 => S::tell(&self.sink, (self.pair, self.x)),
            _ => S::tell(self.computer.as_ref().expect("a computer"), self.x),
        }
        Flow::GoOn
    }
}

struct Computer<S: System> {
    rate: f64,
    controller: S::Address<Controller<S>>,
}

impl<S: System> Behaviour<S> for Computer<S> {
    type Message = f64;

    fn receive(&mut self, x: f64) -> Flow {
        S::tell(&self.controller, Order::Term(next(self.rate, x)));
        Flow::GoOn
    }
}

impl Benchmark for LogisticMaps {
    async fn root<S: System>(case: Case) -> Outcome {
        let terms = scaled(&case, TERMS);
        let promise = Promise::<S, _>::new();
        let watch = Stopwatch::start();
        let sink = S::spawn(Sink::new(PAIRS, &promise));
        let mut both = Vec::new();
        for pair in 0..PAIRS {
            let (x, sink) = (first(pair), sink.clone());
            let controller = S::spawn(Controller::<S> { pair, x, left: terms, computer: None, sink });
            let computer = S::spawn(Computer::<S> { rate: rate(pair), controller: controller.clone() });
            both.push((controller, computer));
        }
        for (controller, computer) in both {
            S::tell(&controller, Order::Begin(computer));
        }
        let sum: f64 = promise.kept().await.iter().sum();
        let reading = watch.stop();
        let right = (0..PAIRS).map(|pair| (0..terms).fold(first(pair), |x, _| next(rate(pair), x))).sum();
        checked_near(sum, right, ERROR, reading)
    }
}
