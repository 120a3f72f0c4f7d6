//! `uncontended`: a lock that nobody else wants, locked and unlocked by one
//! strand, beside std's in the same process.
//!
//! Rounds of the two alternate, so that both see the same machine. Measured:
//! nanoseconds per lock and unlock, and the median of the rounds' ratios.
//! Sinew's lock is used by a fibre and, in a variant, by a plain kernel thread.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::support::case::{Case, Contender};
use crate::support::child::Reading;
use crate::support::options::Options;
use crate::support::peers::coroutines::Coroutines;
use crate::support::peers::fibres::Fibres;
use crate::support::peers::{Stackful, run_task};
use crate::support::report::{Bound, Column, Report, Spread};

pub const NAME: &str = "uncontended";

const STRAND: &str = "strand";
const THREAD: &str = "thread";
/// Locks in a round: 1 to 3 ms.
const LOCKS: u64 = 200_000;
const LIMIT: Duration = Duration::from_secs(20);

/// The times of one round per lock, in nanoseconds.
struct Round {
    own: f64,
    std: f64,
}

fn ns_per_lock(mut lock: impl FnMut()) -> f64 {
    let begun = Instant::now();
    for _ in 0..LOCKS {
        lock();
    }
    begun.elapsed().as_nanos() as f64 / LOCKS as f64
}

fn std_round() -> f64 {
    let mutex = std::sync::Mutex::new(0_u64);
    ns_per_lock(|| *black_box(&mutex).lock().expect("no poison") += 1)
}

/// Rounds of both in turns. The first of them warms up.
fn rounds(rounds: u64, mut own: impl FnMut() -> f64) -> Vec<Round> {
    let round = |_| Round { own: own(), std: std_round() };
    (0..=rounds).map(round).skip(1).collect()
}

fn reading(rounds: Vec<Round>) -> Reading {
    let median = |figure: fn(&Round) -> f64| {
        let spread = Spread::of(rounds.iter().map(figure).collect());
        spread.expect("rounds").median
    };
    Reading::of([("own", median(|r| r.own)), ("std", median(|r| r.std)), ("ratio", median(|r| r.own / r.std))])
}

fn sinew_rounds(count: u64) -> Vec<Round> {
    let mutex = sinew::sync::Mutex::new(0_u64);
    rounds(count, || ns_per_lock(|| *black_box(&mutex).lock().expect("no poison") += 1))
}

fn may_rounds(count: u64) -> Vec<Round> {
    let mutex = may::sync::Mutex::new(0_u64);
    rounds(count, || ns_per_lock(|| *black_box(&mutex).lock().expect("no poison") += 1))
}

async fn tokio_rounds(count: u64) -> Vec<Round> {
    let mutex = tokio::sync::Mutex::new(0_u64);
    let mut rounds = Vec::new();
    for _ in 0..=count {
        let begun = Instant::now();
        for _ in 0..LOCKS {
            *black_box(&mutex).lock().await += 1;
        }
        let own = begun.elapsed().as_nanos() as f64 / LOCKS as f64;
        rounds.push(Round { own, std: std_round() });
    }
    rounds.split_off(1)
}

/// The amount is the number of rounds.
pub fn measure(case: &Case) -> Reading {
    let count = case.amount;
    reading(match case.contender {
        Contender::Sinew(_) if case.variant == THREAD => sinew_rounds(count),
        Contender::Sinew(scheduler) => Fibres::new(case.processors, scheduler).run(move || sinew_rounds(count)),
        Contender::May => Coroutines::new(case.processors).run(move || may_rounds(count)),
        Contender::Tokio => run_task(case.processors, tokio_rounds(count)),
        Contender::Threads | Contender::Epoll => unreachable!("std's lock is in every case"),
    })
}

pub fn conduct(options: &Options, report: &mut Report) {
    let contenders = options.contenders(&[Contender::Tokio, Contender::May]);
    let rounds = if options.quick { 11 } else { 101 };
    let cases = contenders.iter().flat_map(|&who| {
        let variants: &[&str] = if who.is_sinew() { &[STRAND, THREAD] } else { &[STRAND] };
        variants.iter().map(move |variant| Case::new(NAME, who, 1, variant, rounds))
    });
    let results = report.measure(cases.collect(), options.repeats, LIMIT);

    report.heading("uncontended: lock and unlock by one strand");
    for (title, figure) in [
        ("ns per lock and unlock", "own"),
        ("ns per lock and unlock of std's Mutex in the same process", "std"),
        ("own time / std's", "ratio"),
    ] {
        report.table(title, &results, |_| true, Column { figure, unit: 1.0 });
    }
    for sinew in results.sinews() {
        for (variant, by) in [(STRAND, "a fibre"), (THREAD, "a kernel thread")] {
            let claim = format!("uncontended, by {by}, at most 1.1x std's time");
            let ratio = results.median("ratio", sinew, 1, variant);
            report.bar(&results, sinew, &claim, ratio, Bound::AtMost(1.1));
        }
    }
}
