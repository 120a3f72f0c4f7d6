//! The nine benchmarks of actors that the thesis compares schedulers with, and small ones for the
//! cost of a message, a question, a new actor and an idle one.
//!
//! Each of the nine does a fixed amount of work and checks its result: a run with a wrong result
//! has failed. The time is taken from just before the first actor is spawned until the last result
//! has arrived. The variant [`SHORT`] is the same with less work, for the tour and tests.

pub mod apsp;
pub mod asking;
pub mod bang;
pub mod big;
pub mod cdict;
pub mod csll;
pub mod idle_actors;
pub mod logm;
pub mod nqn;
pub mod pubsub;
mod requests;
pub mod spawning;
pub mod telling;
pub mod trapr;

use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::{Bar, Depth, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Outcome, Reading};
use crate::kernel::cpu_time;
use crate::measure::slices::Slices;
use crate::peers::actors::{self, AFFINE, Behaviour, Flow, IN_RUST, LOCAL, Promise, RANDOM, System};
use crate::peers::{DEFAULT, caf, erlang, go};

/// The variant with less work, and the number that the work is divided by where that is possible.
pub const SHORT: &str = "short";
pub const SCALE: u64 = 50;

/// The variant of the thesis.
pub const WHOLE: &str = "-";

/// The common part of the nine.
const NINE: Experiment = Experiment {
    source: "Barghi's thesis, 5.4.1",
    metrics: &[Metric::lower("run_ms", "ms for a run", 1.0), Metric::lower("cpu_ms", "CPU ms for a run", 1.0)],
    plots: &[Plot::Normalised { metric: "run_ms" }],
    limit: |_| Duration::from_secs(60),
    concerns: actors::is_written,
    others: "the benchmarks are for actor systems",
    bars: BARS,
    ..PLAIN
};

/// The other systems, in all languages.
const OTHERS: &[&str] =
    &[actors::CHANNELS, actors::RACTOR, actors::KAMEO, actors::ACTIX, go::NAME, erlang::NAME, caf::NAME];

/// The bars of the nine.
const BARS: &[Bar] = &[
    Bar::of(DEFAULT, WHOLE, 1).at_most(1.0).over_peers(OTHERS),
    Bar::of(DEFAULT, WHOLE, 2).at_most(1.0).over_peers(OTHERS),
    of_random(LOCAL, 1),
    of_random(LOCAL, 2),
    of_random(AFFINE, 1),
    of_random(AFFINE, 2),
];

/// The bar that locality costs at most a twentieth of the speed of random stealing.
const fn of_random(peer: &'static str, processors: usize) -> Bar {
    Bar::of(peer, WHOLE, processors).at_most(1.0 / 0.95).over_peers(&[RANDOM])
}

/// The bar that an operation takes at most a quarter of the time of the cheapest other system in Rust.
const fn of_peers(variant: &'static str, processors: usize) -> Bar {
    Bar::of(DEFAULT, variant, processors).at_most(0.25).over_peers(IN_RUST)
}

/// Times rounds of operations until the window is over. The first round warms up. Returns the
/// nanoseconds and the CPU nanoseconds of an operation.
async fn timed<F: Future<Output = ()> + Send>(
    window: Duration,
    operations: usize,
    mut round: impl FnMut() -> F + Send,
) -> (f64, f64) {
    round().await;
    let mut slices = Slices::new(window);
    let (used, mut rounds) = (cpu_time(), 0);
    while !slices.is_over() {
        let begun = Instant::now();
        round().await;
        slices.note(begun.elapsed(), operations);
        rounds += 1;
    }
    let cpu_ns = (cpu_time() - used).as_nanos() as f64 / (rounds * operations) as f64;
    (slices.median_ns(), cpu_ns)
}

/// Returns the variants of a benchmark that has no others: the whole of it, or a short one.
fn one_size(depth: Depth, actors: usize) -> Vec<Variant> {
    vec![Variant::new(if depth == Depth::Tour { SHORT } else { WHOLE }, actors)]
}

/// Returns a number of messages.
fn scaled(case: &Case, whole: u64) -> u64 {
    parameters(case, whole, whole / SCALE)
}

/// Returns a parameter that is no number of messages.
fn parameters<T>(case: &Case, whole: T, short: T) -> T {
    if case.variant == SHORT { short } else { whole }
}

/// The random numbers of all nine, in every language.
pub struct Random(u64);

impl Random {
    pub fn of(actor: usize) -> Random {
        Random(actor as u64 + 1)
    }

    /// Returns the generator that had this [`state`](Random::state).
    #[inline]
    pub fn in_state(state: u64) -> Random {
        Random(state)
    }

    #[inline]
    pub fn state(&self) -> u64 {
        self.0
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// The clock of a run.
struct Stopwatch {
    begun: Instant,
    used: Duration,
}

impl Stopwatch {
    fn start() -> Stopwatch {
        Stopwatch { used: cpu_time(), begun: Instant::now() }
    }

    /// Returns the time until now.
    fn stop(self) -> Reading {
        let elapsed = self.begun.elapsed();
        let used = cpu_time() - self.used;
        Reading::of([("run_ms", 1e3 * elapsed.as_secs_f64()), ("cpu_ms", 1e3 * used.as_secs_f64())])
    }
}

/// Returns the outcome of a run whose result has to be `right`.
fn checked<T: PartialEq + std::fmt::Debug>(result: T, right: T, reading: Reading) -> Outcome {
    if result == right {
        Outcome::Measured(reading)
    } else {
        Outcome::Failed(format!("the result is {result:?} in place of {right:?}"))
    }
}

/// Returns the outcome of a run whose result has to be near to `right`.
fn checked_near(result: f64, right: f64, error: f64, reading: Reading) -> Outcome {
    if (result - right).abs() <= error {
        Outcome::Measured(reading)
    } else {
        Outcome::Failed(format!("the result is {result} in place of {right}"))
    }
}

/// The addresses of a group of actors, which each of them has. It is filled before the first message.
struct Table<A>(Arc<OnceLock<Box<[A]>>>);

impl<A> Default for Table<A> {
    fn default() -> Table<A> {
        Table(Arc::new(OnceLock::new()))
    }
}

impl<A> Clone for Table<A> {
    fn clone(&self) -> Table<A> {
        Table(Arc::clone(&self.0))
    }
}

impl<A> Table<A> {
    fn fill(&self, addresses: impl Iterator<Item = A>) {
        assert!(self.0.set(addresses.collect()).is_ok(), "filled once");
    }
}

impl<A> Deref for Table<A> {
    type Target = [A];

    #[inline]
    fn deref(&self) -> &[A] {
        self.0.get().expect("filled before the first message")
    }
}

/// An actor that collects a report of each of some others, and gives all of them to the root.
struct Sink<S: System, T: Send> {
    /// By the number of the reporter.
    reports: Vec<Option<T>>,
    missing: usize,
    promise: Arc<Promise<S, Vec<T>>>,
}

impl<S: System, T: Send + Unpin + 'static> Sink<S, T> {
    fn new(reporters: usize, promise: &Arc<Promise<S, Vec<T>>>) -> Sink<S, T> {
        let reports = (0..reporters).map(|_| None).collect();
        Sink { reports, missing: reporters, promise: Arc::clone(promise) }
    }
}

impl<S: System, T: Send + Unpin + 'static> Behaviour<S> for Sink<S, T> {
    /// The reporter's number and its report.
    type Message = (usize, T);

    fn receive(&mut self, (reporter, report): (usize, T)) -> Flow {
        assert!(self.reports[reporter].replace(report).is_none(), "one report of each");
        self.missing -= 1;
        if self.missing == 0 {
            self.promise.keep(self.reports.drain(..).flatten().collect());
        }
        Flow::GoOn
    }
}
