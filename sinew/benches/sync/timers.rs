//! `timers`: what it costs to arm a timer and cancel it while many others are
//! pending, and how late a sleep of 1 ms ends in a runtime with nothing else to
//! do.
//!
//! The pending ones are strands that wait for an hour or more. Beside them two
//! strands on the same processor take turns: each unparks the other and parks,
//! in one round with a timeout of an hour, in the next without one. The
//! difference is what arming and cancelling cost. Tokio's tasks take turns with
//! `Notify`, inside of `timeout` or not.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::blocking::{self, Blocking, Experiment};
use crate::support::case::{Case, Contender, Scheduler};
use crate::support::child::Reading;
use crate::support::options::Options;
use crate::support::peers::Stackful;
use crate::support::peers::fibres::Fibres;
use crate::support::peers::tasks::run_timed_task;
use crate::support::report::{Bound, Column, Report, Spread};

pub const NAME: &str = "timers";

const LATENESS: &str = "lateness";
const SLEEP: Duration = Duration::from_millis(1);
const SLEEPS: u64 = 200;
const SLEEPERS_PROCESSORS: usize = 2;

const HOUR: Duration = Duration::from_secs(3600);
/// Rounds with timeouts, and as many without.
const ROUNDS: usize = 21;
/// Times that each of the two has its turn in a round.
const TURNS: u64 = 20_000;
const LIMIT: Duration = Duration::from_secs(120);
/// A million strands take seconds to begin and to end.
const MOST_REPEATS: usize = 3;

/// The pending timers are due at different times, over another hour.
fn pending_for(number: u64, pending: u64) -> Duration {
    HOUR + HOUR.mul_f64(number as f64 / pending as f64)
}

/// The times of a turn in rounds with timeouts and in those without.
#[derive(Default)]
struct Times {
    timed_ns: Vec<f64>,
    plain_ns: Vec<f64>,
}

impl Times {
    fn note(&mut self, timed: bool, elapsed: Duration) {
        // Both have waited once in each turn.
        let ns = elapsed.as_nanos() as f64 / (2 * TURNS) as f64;
        if timed { self.timed_ns.push(ns) } else { self.plain_ns.push(ns) }
    }

    /// The first rounds warm up.
    fn reading(self) -> Reading {
        let pairs = self.timed_ns.iter().zip(&self.plain_ns).skip(1);
        let median = |times: Vec<f64>| Spread::of(times).expect("rounds").median;
        Reading::of([
            ("timed", median(pairs.clone().map(|(timed, _)| *timed).collect())),
            ("plain", median(pairs.clone().map(|(_, plain)| *plain).collect())),
            ("cost", median(pairs.map(|(timed, plain)| timed - plain).collect())),
        ])
    }
}

/// Two fibres that take turns.
struct Rally {
    /// Whose turn it is.
    turn: AtomicUsize,
    timed: AtomicBool,
    over: AtomicBool,
    players: [OnceLock<sinew::Fibre>; 2],
}

impl Rally {
    /// Lets the other have its turn, and waits for the next one.
    fn pass(&self, player: usize) {
        let other = 1 - player;
        // Pairs with the load below.
        self.turn.store(other, Ordering::Release);
        self.players[other].get().expect("set before the first turn").unpark();
        let timed = self.timed.load(Ordering::Relaxed);
        // Pairs with the store above.
        while self.turn.load(Ordering::Acquire) != player {
            if timed { sinew::park_timeout(HOUR) } else { sinew::park() }
        }
    }
}

fn sinew_cost(case: &Case, scheduler: Scheduler) -> Reading {
    let pending = case.amount;
    Fibres::new(case.processors, scheduler).run(move || {
        let over = Arc::new(AtomicBool::new(false));
        let standing = Arc::new(AtomicUsize::new(0));
        let spawn = |number| {
            let (over, standing) = (over.clone(), standing.clone());
            sinew::spawn(move || {
                standing.fetch_add(1, Ordering::Relaxed);
                while !over.load(Ordering::Relaxed) {
                    sinew::park_timeout(pending_for(number, pending));
                }
            })
        };
        let sleepers: Vec<_> = (0..pending).map(spawn).collect();
        // There is one processor: who has counted itself has parked.
        while standing.load(Ordering::Relaxed) < sleepers.len() {
            sinew::yield_now();
        }
        let reading = sinew_rally();
        over.store(true, Ordering::Relaxed);
        sleepers.iter().for_each(|sleeper| sleeper.fibre().unpark());
        sleepers.into_iter().for_each(|sleeper| sleeper.join().expect("a fibre that does not panic"));
        reading
    })
}

fn sinew_rally() -> Reading {
    let rally = Arc::new(Rally {
        turn: AtomicUsize::new(0),
        timed: AtomicBool::new(false),
        over: AtomicBool::new(false),
        players: [OnceLock::from(sinew::current()), OnceLock::new()],
    });
    let other = sinew::spawn({
        let rally = rally.clone();
        move || {
            rally.players[1].set(sinew::current()).expect("set once");
            while !rally.over.load(Ordering::Relaxed) {
                rally.pass(1);
            }
        }
    });
    while rally.players[1].get().is_none() {
        sinew::yield_now();
    }
    let mut times = Times::default();
    for round in 0..2 * ROUNDS {
        let timed = round % 2 == 0;
        rally.timed.store(timed, Ordering::Relaxed);
        let begun = Instant::now();
        (0..TURNS).for_each(|_| rally.pass(0));
        times.note(timed, begun.elapsed());
    }
    rally.over.store(true, Ordering::Relaxed);
    // Pairs with the load in `pass`.
    rally.turn.store(1, Ordering::Release);
    other.fibre().unpark();
    other.join().expect("a fibre that does not panic");
    times.reading()
}

fn tokio_cost(case: &Case) -> Reading {
    let pending = case.amount;
    run_timed_task(case.processors, async move {
        let standing = Arc::new(AtomicUsize::new(0));
        for number in 0..pending {
            let standing = standing.clone();
            // They end with the runtime.
            tokio::spawn(async move {
                standing.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(pending_for(number, pending)).await;
            });
        }
        while (standing.load(Ordering::Relaxed) as u64) < pending {
            tokio::task::yield_now().await;
        }
        let mut times = Times::default();
        for round in 0..2 * ROUNDS {
            let timed = round % 2 == 0;
            let notify = Arc::new([Notify::new(), Notify::new()]);
            let other = tokio::spawn({
                let notify = notify.clone();
                async move {
                    for _ in 0..TURNS {
                        turn(&notify[1], timed).await;
                        notify[0].notify_one();
                    }
                }
            });
            let begun = Instant::now();
            for _ in 0..TURNS {
                notify[1].notify_one();
                turn(&notify[0], timed).await;
            }
            times.note(timed, begun.elapsed());
            other.await.expect("a task that does not panic");
        }
        times.reading()
    })
}

async fn turn(notify: &Notify, timed: bool) {
    if timed {
        tokio::time::timeout(HOUR, notify.notified()).await.expect("not after an hour");
    } else {
        notify.notified().await;
    }
}

struct Lateness;

fn late(begun: Instant) -> f64 {
    begun.elapsed().as_nanos() as f64 - SLEEP.as_nanos() as f64
}

fn lateness(mut late_ns: Vec<f64>) -> Reading {
    late_ns.sort_by(f64::total_cmp);
    let quantile = |q: f64| late_ns[((late_ns.len() - 1) as f64 * q) as usize];
    Reading::of([("p50", quantile(0.5)), ("p99", quantile(0.99)), ("max", quantile(1.0))])
}

impl Experiment for Lateness {
    fn blocking<P: Blocking>(runtime: P, case: &Case) -> Reading {
        let sleeps = case.amount;
        lateness(runtime.run(move || {
            let sleep = |_| {
                let begun = Instant::now();
                P::sleep(SLEEP);
                late(begun)
            };
            (0..sleeps).map(sleep).collect()
        }))
    }

    fn tokio(case: &Case) -> Reading {
        let sleeps = case.amount;
        lateness(run_timed_task(case.processors, async move {
            let mut late_ns = Vec::new();
            for _ in 0..sleeps {
                let begun = Instant::now();
                tokio::time::sleep(SLEEP).await;
                late_ns.push(late(begun));
            }
            late_ns
        }))
    }
}

pub fn measure(case: &Case) -> Reading {
    match case.contender {
        _ if case.variant == LATENESS => blocking::measure::<Lateness>(case),
        Contender::Sinew(scheduler) => sinew_cost(case, scheduler),
        Contender::Tokio => tokio_cost(case),
        other => unreachable!("a million strands of {other}"),
    }
}

pub fn conduct(options: &Options, report: &mut Report) {
    conduct_cost(options, report);
    conduct_lateness(options, report);
}

fn conduct_cost(options: &Options, report: &mut Report) {
    // may cannot map that many stacks, and the kernel cannot have that many threads.
    let contenders = options.contenders(&[Contender::Tokio]);
    let many: u64 = if options.quick { 100_000 } else { 1_000_000 };
    let cases = [0, many].into_iter().flat_map(|pending| {
        let case = move |&who| Case::new(NAME, who, 1, &pending.to_string(), pending);
        contenders.iter().map(case)
    });
    let repeats = options.repeats.min(MOST_REPEATS);
    let results = report.measure(cases.collect(), repeats, LIMIT);

    report.heading("timers: arming and cancelling one, 1 processor");
    for pending in [0, many] {
        for (title, figure) in [
            ("ns, a turn with a timeout less one without", "cost"),
            ("ns per turn with a timeout", "timed"),
            ("ns per turn without", "plain"),
        ] {
            let title = format!("{title}, {pending} pending");
            report.table(&title, &results, |c| c.amount == pending, Column { figure, unit: 1.0 });
        }
    }
    for sinew in results.sinews() {
        let claim = format!("timers, arming and cancelling one of {many}, at most 100 ns");
        let cost = results.median("cost", sinew, 1, &many.to_string());
        report.bar(&results, sinew, &claim, cost, Bound::AtMost(100.0));
    }
}

fn conduct_lateness(options: &Options, report: &mut Report) {
    let contenders = options.contenders(&Contender::PEERS);
    let case = |&who| Case::new(NAME, who, SLEEPERS_PROCESSORS, LATENESS, SLEEPS);
    let cases = contenders.iter().map(case).collect();
    let results = report.measure(cases, options.repeats, LIMIT);

    report.heading("timers: lateness of a sleep of 1 ms, 2 idle processors, 200 sleeps");
    for figure in ["p50", "p99", "max"] {
        report.table(&format!("{figure}, µs"), &results, |_| true, Column { figure, unit: 1e3 });
    }
    for sinew in results.sinews() {
        let late_ms = results.median("p50", sinew, SLEEPERS_PROCESSORS, LATENESS) / 1e6;
        let claim = "timers, a sleep of 1 ms on an idle runtime, median at most 0.3 ms late";
        report.bar(&results, sinew, claim, late_ms, Bound::AtMost(0.3));
    }
}
