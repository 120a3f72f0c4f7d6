//! `uncontended`: a lock without contention, locked and unlocked by one strand, beside
//! std's lock in the same process.
//!
//! Rounds of the two alternate, so that both see the same machine. The ratio is the median
//! of the rounds' ratios. Sinew's lock is also locked by a plain kernel thread, outside of
//! any runtime (`thread`).

use std::hint::black_box;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{Bar, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Outcome, Reading};
use crate::peers::fibres::Fibres;
use crate::peers::{self, Body, Peer, blocking};
use crate::rows::median;

const STRAND: &str = "strand";
const THREAD: &str = "thread";
/// Locks in a round: 1 to 3 ms.
const LOCKS: u64 = 200_000;
const LEAST_ROUNDS: usize = 3;

pub static UNCONTENDED: Experiment = Experiment {
    name: "uncontended",
    source: "Sinew",
    measures: "Nanoseconds to lock and unlock a lock without contention, by a strand or by a kernel thread outside of the runtime, and the ratio to std's lock in the same process.",
    good: "A ratio of 1: std's lock is two atomic instructions, and a runtime's lock needs no more.",
    metrics: &[
        Metric::lower("std_ratio", "times std's", 1.0),
        Metric::lower("lock_ns", "ns to lock and unlock", 1.0),
        Metric::beside("std_ns", "ns of std's", 1.0),
    ],
    plots: &[Plot::Bars { metric: "std_ratio" }],
    variants: |_, _, peer| match peer.is_fibres() {
        true => vec![Variant::new(STRAND, 1), Variant::new(THREAD, 1)],
        false => vec![Variant::new(STRAND, 1)],
    },
    measure: |case| match case.variant.as_str() {
        THREAD => Outcome::Measured(reading(&blocking(rounds::<Fibres>(case.window())))),
        _ => peers::measure::<Uncontended>(case),
    },
    bars: &[Bar::of("sinew/fair", STRAND, 1).at_most(1.1), Bar::of("sinew/fair", THREAD, 1).at_most(1.1)],
    ..PLAIN
};

/// Nanoseconds for each lock and unlock.
struct Round {
    own: f64,
    std: f64,
}

fn per_lock(begun: Instant) -> f64 {
    begun.elapsed().as_nanos() as f64 / LOCKS as f64
}

async fn own_round<P: Peer>(mutex: &P::Mutex) -> f64 {
    let mut count = 0_u64;
    let begun = Instant::now();
    for _ in 0..LOCKS {
        P::locked(black_box(mutex), || count = black_box(count + 1)).await;
    }
    assert_eq!(count, LOCKS);
    per_lock(begun)
}

fn std_round(mutex: &Mutex<()>) -> f64 {
    let mut count = 0_u64;
    let begun = Instant::now();
    for _ in 0..LOCKS {
        let guard = black_box(mutex).lock().expect("no poison");
        count = black_box(count + 1);
        drop(guard);
    }
    assert_eq!(count, LOCKS);
    per_lock(begun)
}

/// Runs rounds of both in turns. The first of them warms up.
async fn rounds<P: Peer>(window: Duration) -> Vec<Round> {
    let (own, std) = (P::mutex(""), Mutex::new(()));
    let mut rounds = Vec::new();
    let begun = Instant::now();
    while rounds.len() <= LEAST_ROUNDS || begun.elapsed() < window {
        rounds.push(Round { own: own_round::<P>(&own).await, std: std_round(&std) });
    }
    rounds.split_off(1)
}

fn reading(rounds: &[Round]) -> Reading {
    let middle = |figure: fn(&Round) -> f64| {
        let figures: Vec<f64> = rounds.iter().map(figure).collect();
        median(&figures).expect("rounds")
    };
    Reading::of([
        ("std_ratio", middle(|round| round.own / round.std)),
        ("lock_ns", middle(|round| round.own)),
        ("std_ns", middle(|round| round.std)),
    ])
}

struct Uncontended;

impl Body for Uncontended {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        let window = case.window();
        reading(&peer.run(rounds::<P>(window)))
    }
}
