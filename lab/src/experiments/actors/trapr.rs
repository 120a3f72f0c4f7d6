//! `trapr`: an integral in 100 parts. A master spawns a worker for each part, which computes it by
//! the trapezoid rule, answers and ends.

use std::sync::Arc;

use super::{NINE, Stopwatch, checked_near, one_size, scaled};
use crate::case::{Case, Outcome};
use crate::experiments::Experiment;
use crate::peers::actors::{self, Behaviour, Benchmark, Flow, Promise, System};

const WORKERS: usize = 100;
/// Of all workers.
const PIECES: u64 = 10_000_000;

const FROM: f64 = 1.0;
const TO: f64 = 5.0;
const ERROR: f64 = 1e-6;

pub static TRAPR: Experiment = Experiment {
    name: "trapr",
    measures: "An integral of 10,000,000 pieces by the trapezoid rule: a master spawns 100 workers, each of which computes a part, answers and ends.",
    good: "Faster than every other actor system, or as fast: the figure is mostly the integral.",
    variants: |depth, _, _| one_size(depth, WORKERS + 1),
    measure: actors::measure::<Trapezoids>,
    ..NINE
};

struct Trapezoids;

fn function(x: f64) -> f64 {
    1.0 / (x + 1.0) * (1.0 + (2.0 * x).sqrt().exp()).sqrt() * (x.powi(3) - 1.0).sin()
}

/// A part of the integral.
#[derive(Clone, Copy)]
struct Part {
    from: f64,
    width: f64,
    pieces: u64,
}

impl Part {
    fn integral(self) -> f64 {
        let at = |piece: u64| function(self.from + piece as f64 * self.width);
        let inner: f64 = (1..self.pieces).map(at).sum();
        self.width * (inner + (at(0) + at(self.pieces)) / 2.0)
    }
}

struct Master<S: System> {
    pieces: u64,
    /// By the number of the part.
    parts: Vec<f64>,
    missing: usize,
    promise: Arc<Promise<S, f64>>,
}

enum Message<S: System> {
    /// Has the master's own address.
    Begin(S::Address<Master<S>>),
    /// The number of a part, and its integral.
    Done(u32, f64),
}

impl<S: System> Behaviour<S> for Master<S> {
    type Message = Message<S>;
    const IS_HUB: bool = true;

    fn receive(&mut self, message: Message<S>) -> Flow {
        match message {
            Message::Begin(own) => {
                let pieces = self.pieces / WORKERS as u64;
                let width = (TO - FROM) / self.pieces as f64;
                for number in 0..WORKERS {
                    let from = FROM + number as f64 * pieces as f64 * width;
                    let worker = S::spawn(Worker::<S> { number: number as u32, master: own.clone() });
                    S::tell(&worker, Part { from, width, pieces });
                }
            }
            Message::Done(number, integral) => {
                self.parts[number as usize] = integral;
                self.missing -= 1;
                if self.missing == 0 {
                    self.promise.keep(self.parts.iter().sum());
                    return Flow::End;
                }
            }
        }
        Flow::GoOn
    }
}

struct Worker<S: System> {
    number: u32,
    master: S::Address<Master<S>>,
}

impl<S: System> Behaviour<S> for Worker<S> {
    type Message = Part;

    fn receive(&mut self, part: Part) -> Flow {
        S::tell(&self.master, Message::Done(self.number, part.integral()));
        Flow::End
    }
}

impl Benchmark for Trapezoids {
    async fn root<S: System>(case: Case) -> Outcome {
        let pieces = scaled(&case, PIECES);
        let promise = Promise::<S, _>::new();
        let watch = Stopwatch::start();
        let (parts, promised) = (vec![0.0; WORKERS], Arc::clone(&promise));
        let master = S::spawn(Master::<S> { pieces, parts, missing: WORKERS, promise: promised });
        S::tell(&master, Message::Begin(master.clone()));
        let integral = promise.kept().await;
        let reading = watch.stop();
        let right = Part { from: FROM, width: (TO - FROM) / pieces as f64, pieces }.integral();
        checked_near(integral, right, ERROR, reading)
    }
}
