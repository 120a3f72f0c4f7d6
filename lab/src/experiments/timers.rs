//! `timers`: how late a sleep ends, and what it costs to arm a timer and cancel
//! it while many others are pending.
//!
//! - `sleep`: one strand sleeps for 1 ms again and again, in a runtime with
//!   nothing else to do.
//! - `crowd`: 1000 strands sleep for 1 to 10 ms each.
//! - `cost-N`: two strands take turns while N other strands wait for an hour or more.
//!   Each unparks the other and parks, in one round with a timeout of an hour, in the
//!   next without one. The difference of the two rounds is what arming and cancelling
//!   cost. The median of all differences counts: two rounds that follow each other see
//!   the same machine. The first two rounds warm up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::{Bar, Depth, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::measure::crowd::{Crowd, Place};
use crate::measure::latency::Latency;
use crate::measure::random::Random;
use crate::peers::{self, Body, Peer};
use crate::rows::median;

const CROWD: usize = 1000;
const HOUR: Duration = Duration::from_secs(3600);
const MILLISECOND: Duration = Duration::from_millis(1);
/// Turns in a round of `cost`.
const TURNS: usize = 2000;
/// Rounds of `cost` with timeouts, and without, that count at least.
const LEAST_ROUNDS: usize = 3;

pub static TIMERS: Experiment = Experiment {
    name: "timers",
    source: "Sinew",
    measures: "How late a sleep of 1 ms ends in an idle runtime (sleep) and sleeps of 1 to 10 ms among a thousand (crowd), and what arming and cancelling a timer costs while none or many others are pending (cost-N).",
    good: "Late by less than the kernel's own timer slack of 50 µs and a switch; a cost of some ten nanoseconds that does not grow with the timers that are pending.",
    metrics: &[
        Metric::beside("p50_us", "µs late, median", 1.0),
        Metric::beside("p90_us", "p90", 1.0),
        Metric::beside("p99_us", "p99", 1.0),
        Metric::beside("p999_us", "p99.9", 1.0),
        Metric::beside("p9999_us", "p99.99", 1.0),
        Metric::beside("max_us", "max", 1.0),
        Metric::lower("arm_cancel_ns", "ns to arm and cancel", 1.0),
        Metric::beside("timed_ns", "ns of a wait with a timeout", 1.0),
        Metric::beside("plain_ns", "without", 1.0),
    ],
    plots: &[Plot::Quantiles, Plot::Bars { metric: "arm_cancel_ns" }],
    limit: |_| Duration::from_secs(120),
    variants: |depth, _, peer| {
        let pending: &[usize] = match depth {
            Depth::Tour => &[0, 10_000],
            Depth::Full => &[0, 10_000, 100_000, 1_000_000],
        };
        let pending = pending.iter().filter(|&&pending| pending == 0 || pending < peer.most_strands);
        let costs = pending.map(|pending| Variant::new(format!("cost-{pending}"), pending + 2));
        [Variant::new("sleep", 1), Variant::new("crowd", CROWD)].into_iter().chain(costs).collect()
    },
    measure: peers::measure::<Timers>,
    bars: &[
        Bar::of("sinew/fair", "cost-1000000", 1).metric("arm_cancel_ns").at_most(100.0),
        Bar::of("sinew/fair", "sleep", 2).metric("p50_us").at_most(300.0),
    ],
    ..PLAIN
};

struct Timers;

impl Body for Timers {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        match case.variant.as_str() {
            "sleep" | "crowd" => lateness(peer, case),
            _ => cost(peer, case),
        }
    }
}

fn lateness<P: Peer>(peer: P, case: &Case) -> Reading {
    let (strands, window) = (case.threads, case.window());
    let late = Arc::new(std::sync::Mutex::new(Latency::default()));
    let all = late.clone();
    peer.run(async move {
        Crowd::<P>::run(strands, move |place| {
            let all = all.clone();
            async move {
                let mut random = Random::of(place.number);
                let begun = Instant::now();
                let mut sleeps = Vec::new();
                while begun.elapsed() < window || sleeps.is_empty() {
                    let length = match strands {
                        1 => MILLISECOND,
                        _ => MILLISECOND.mul_f64(1.0 + 9.0 * random.fraction()),
                    };
                    let began = Instant::now();
                    P::sleep(length).await;
                    sleeps.push(began.elapsed().saturating_sub(length));
                }
                let mut all = all.lock().expect("no poison");
                sleeps.iter().for_each(|&sleep| all.note(sleep));
                sleeps.len() as u64
            }
        })
        .await
    });
    let mut reading = Reading::default();
    late.lock().expect("no poison").read_into(&mut reading);
    reading
}

/// Two strands that take turns.
#[derive(Default)]
struct Rally {
    /// The player that has its turn.
    turn: AtomicUsize,
    timed: AtomicBool,
    over: AtomicBool,
}

impl Rally {
    /// Lets the other have its turn, and waits for the next one.
    async fn pass<P: Peer>(&self, place: &Place<P>) {
        let other = 1 - place.number;
        // Pairs with the load below.
        self.turn.store(other, Ordering::Release);
        P::unpark(place.roster.parker(other));
        let timed = self.timed.load(Ordering::Relaxed);
        // Pairs with the store above.
        while self.turn.load(Ordering::Acquire) != place.number && !self.over.load(Ordering::Relaxed) {
            if timed {
                P::park_timeout(&place.own, HOUR).await;
            } else {
                P::park(&place.own).await;
            }
        }
    }
}

/// Nanoseconds of a wait in two rounds that follow each other.
#[derive(Clone, Copy)]
struct Rounds {
    timed_ns: f64,
    plain_ns: f64,
}

/// Leads the rally. Returns the times of all rounds but the first two.
async fn lead<P: Peer>(rally: &Rally, place: &Place<P>, window: Duration) -> Vec<Rounds> {
    let mut rounds = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < window || rounds.len() <= LEAST_ROUNDS {
        let mut times_ns = [0.0; 2];
        for (is_timed, ns) in [true, false].into_iter().zip(&mut times_ns) {
            rally.timed.store(is_timed, Ordering::Relaxed);
            let round = Instant::now();
            for _ in 0..TURNS {
                rally.pass(place).await;
            }
            // Both players have waited once in each turn.
            *ns = round.elapsed().as_nanos() as f64 / (2 * TURNS) as f64;
        }
        let [timed_ns, plain_ns] = times_ns;
        rounds.push(Rounds { timed_ns, plain_ns });
    }
    rounds.split_off(1)
}

fn reading_of(rounds: &[Rounds]) -> Reading {
    let middle = |figure: fn(&Rounds) -> f64| {
        let figures: Vec<f64> = rounds.iter().map(figure).collect();
        median(&figures).expect("rounds")
    };
    Reading::of([
        ("arm_cancel_ns", middle(|round| round.timed_ns - round.plain_ns).max(0.0)),
        ("timed_ns", middle(|round| round.timed_ns)),
        ("plain_ns", middle(|round| round.plain_ns)),
    ])
}

fn cost<P: Peer>(peer: P, case: &Case) -> Reading {
    let (pending, window) = (case.threads - 2, case.window());
    let results = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = results.clone();
    peer.run(async move {
        let over = Arc::new(AtomicBool::new(false));
        let standing = Arc::new(AtomicUsize::new(0));
        let sleepers = Crowd::<P>::gather(pending, {
            let (over, standing) = (over.clone(), standing.clone());
            move |place| {
                let (over, standing) = (over.clone(), standing.clone());
                async move {
                    standing.fetch_add(1, Ordering::Relaxed);
                    // Due at different times, over another hour.
                    let due = HOUR + HOUR.mul_f64(place.number as f64 / pending as f64);
                    while !over.load(Ordering::Relaxed) {
                        P::park_timeout(&place.own, due).await;
                    }
                    0
                }
            }
        })
        .await;
        sleepers.release();
        while standing.load(Ordering::Relaxed) < pending {
            P::sleep(MILLISECOND).await;
        }
        let rally = Arc::new(Rally::default());
        let players = Crowd::<P>::gather(2, {
            let rally = rally.clone();
            move |place| {
                let (rally, noted) = (rally.clone(), noted.clone());
                async move {
                    if place.number == 1 {
                        while !rally.over.load(Ordering::Relaxed) {
                            rally.pass(&place).await;
                        }
                        return 0;
                    }
                    let rounds = lead(&rally, &place, window).await;
                    *noted.lock().expect("no poison") = rounds;
                    rally.over.store(true, Ordering::Relaxed);
                    P::unpark(place.roster.parker(1));
                    0
                }
            }
        })
        .await;
        players.release();
        players.join().await;
        over.store(true, Ordering::Relaxed);
        (0..pending).for_each(|number| P::unpark(sleepers.roster().parker(number)));
        sleepers.join().await;
    });
    reading_of(&results.lock().expect("no poison"))
}
