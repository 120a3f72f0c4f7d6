//! `transfer`: leadership over 100 strands per processor, by a leader that
//! spins. A coarse test of how soon every strand runs once.
//!
//! The leader spins, without yielding, until all others have acknowledged its term.
//! Then it picks the next leader at random and begins that leader's term. The others
//! acknowledge the term that they see and, by variant, park or yield. In the parking
//! variant the old leader unparks all others. Another processor must take over the
//! strands that are still queued where the new leader begins to spin. In `park` that
//! processor runs out of work and looks for some; in `yield` it never does.
//!
//! In the paper a leader begins its own term. Others may then already have woken up,
//! acknowledged the old term and parked for ever.
//!
//! A peer that leaves a ready strand behind the leader for ever does not complete.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{Bar, Depth, Experiment, MANY, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::measure::crowd::{Crowd, Place, Roster};
use crate::measure::latency::Latency;
use crate::measure::random::Random;
use crate::peers::{self, Body, Peer};

const PARK: &str = "park";
const YIELD: &str = "yield";
const NOBODY: usize = usize::MAX;
/// Why the default runtime does not complete.
const STAYING: &str = "this is by design. A fibre that has begun stays on its processor, so a fibre that never gives \
                       way keeps those that began beside it. Tasks and fibres that have not begun move to other \
                       processors; all fibres move in a runtime that migrates";
/// Transfers that warm up.
const WARM_UP: u64 = 10;

pub static TRANSFER: Experiment = Experiment {
    name: "transfer",
    source: "Delisle 2022, 7.7",
    measures: "Microseconds until a leader that spins without yielding has been acknowledged by all others, which then park or yield.",
    good: "It completes, and both variants take about the same time. A runtime that leaves ready strands behind a busy processor does not complete; preemption helps, by milliseconds. Sinew’s default runtime does not complete by design: a fibre that has begun stays on its processor.",
    metrics: &[
        Metric::lower("mean_us", "µs, mean", 1.0),
        Metric::beside("p50_us", "µs, median", 1.0),
        Metric::beside("p90_us", "p90", 1.0),
        Metric::beside("p99_us", "p99", 1.0),
        Metric::beside("p999_us", "p99.9", 1.0),
        Metric::beside("p9999_us", "p99.99", 1.0),
        Metric::beside("max_us", "max", 1.0),
    ],
    plots: &[Plot::Bars { metric: "mean_us" }, Plot::Quantiles],
    least_processors: 2,
    limit: |depth| match depth {
        Depth::Tour => Duration::from_millis(1500),
        Depth::Full => Duration::from_secs(5),
    },
    variants: |_, processors, _| {
        let strands = MANY * processors;
        vec![Variant::new(PARK, strands), Variant::new(YIELD, strands)]
    },
    measure: peers::measure::<Transfer>,
    incomplete: |peer| match peer.name {
        peers::DEFAULT => Some(STAYING),
        "threads" => Some("the kernel did not give each of the threads a CPU within the limit"),
        _ => Some("ready strands stay in the queue of the processor that the leader keeps"),
    },
    bars: &[
        Bar::of("sinew/fair", PARK, 2).at_most(200.0),
        Bar::of("sinew/fair", PARK, 2).metric("max_us").at_most(20_000.0).in_every_run(),
        Bar::of("sinew/fair", YIELD, 2).at_most(200.0),
        Bar::of("sinew/fair", YIELD, 2).metric("max_us").at_most(20_000.0).in_every_run(),
        Bar::of("sinew/tasks", YIELD, 2).at_most(200.0),
    ],
    ..PLAIN
};

/// The term that a member has acknowledged, on lines of its own: the leader
/// watches it. Written by the member.
#[repr(align(128))]
#[derive(Default)]
struct Seen(AtomicU64);

struct Election {
    seen: Vec<Seen>,
    parking: bool,
    length: Duration,
    /// Written by the leader, when its term is over.
    leader: AtomicUsize,
    /// As `leader`, before it.
    term: AtomicU64,
    done: AtomicBool,
    /// Locked by the leader only.
    ledger: Mutex<Ledger>,
}

struct Ledger {
    random: Random,
    begun: Instant,
    last: Instant,
    times: Latency,
}

impl Election {
    fn new(case: &Case) -> Election {
        let now = Instant::now();
        Election {
            seen: (0..case.threads).map(|_| Seen::default()).collect(),
            parking: case.variant == PARK,
            length: case.window(),
            leader: AtomicUsize::new(NOBODY),
            term: AtomicU64::new(0),
            done: AtomicBool::new(false),
            ledger: Mutex::new(Ledger { random: Random::of(0), begun: now, last: now, times: Latency::default() }),
        }
    }

    /// Called by the leader, or by the root before the first term.
    fn begin_term<P: Peer>(&self, leader: usize, by: usize, roster: &Roster<P>) {
        // Pairs with the load in `acknowledge`.
        self.term.store(self.term.load(Relaxed) + 1, Release);
        // Pairs with the load in `is_led_by`: the next leader sees its term.
        self.leader.store(leader, Release);
        self.wake_others(by, roster);
    }

    fn wake_others<P: Peer>(&self, own: usize, roster: &Roster<P>) {
        if self.parking {
            (0..self.seen.len()).filter(|&other| other != own).for_each(|other| P::unpark(roster.parker(other)));
        }
    }

    fn is_over(&self) -> bool {
        // Pairs with the store in `lead`.
        self.done.load(Acquire)
    }

    fn is_led_by(&self, member: usize) -> bool {
        // Pairs with the store in `begin_term`.
        self.leader.load(Acquire) == member
    }

    fn acknowledge(&self, member: usize) {
        // Pairs with the store in `begin_term`.
        let term = self.term.load(Acquire);
        // Pairs with the load in `lead`.
        self.seen[member].0.store(term, Release);
    }

    /// Leads one term. Does not suspend: no other strand runs on this processor meanwhile.
    fn lead<P: Peer>(&self, own: usize, roster: &Roster<P>) {
        let term = self.term.load(Relaxed);
        self.seen[own].0.store(term, Relaxed);
        for seen in &self.seen {
            // Pairs with the store in `acknowledge`.
            while seen.0.load(Acquire) != term {
                std::hint::spin_loop();
            }
        }
        let mut ledger = self.ledger.lock().expect("a ledger");
        ledger.note(term);
        let is_last = ledger.is_full(self.length);
        let next = (own + 1 + ledger.random.below(self.seen.len() - 1)) % self.seen.len();
        drop(ledger);
        if is_last {
            // Pairs with the load in `is_over`.
            self.done.store(true, Release);
            self.wake_others(own, roster);
        } else {
            self.begin_term(next, own, roster);
        }
    }
}

impl Ledger {
    fn note(&mut self, term: u64) {
        let now = Instant::now();
        if term > WARM_UP {
            self.times.note(now - self.last);
        } else {
            self.begun = now;
        }
        self.last = now;
    }

    fn is_full(&self, length: Duration) -> bool {
        self.times.count() > 0 && self.begun.elapsed() >= length
    }
}

async fn member<P: Peer>(election: Arc<Election>, place: Place<P>) -> u64 {
    while !election.is_over() {
        if election.is_led_by(place.number) {
            election.lead(place.number, &place.roster);
        } else {
            election.acknowledge(place.number);
            if election.parking {
                P::park(&place.own).await;
            } else {
                P::yield_now().await;
            }
        }
    }
    1
}

struct Transfer;

impl Body for Transfer {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        let election = Arc::new(Election::new(case));
        let root = election.clone();
        let ended = peer.run(async move {
            let shared = root.clone();
            let crowd = Crowd::<P>::gather(root.seen.len(), move |place| member(shared.clone(), place)).await;
            crowd.release();
            root.begin_term(0, NOBODY, crowd.roster());
            crowd.join().await.len()
        });
        assert_eq!(ended, case.threads);
        let ledger = election.ledger.lock().expect("a ledger");
        let mut reading = Reading::of([("mean_us", ledger.times.mean_us())]);
        ledger.times.read_into(&mut reading);
        reading
    }
}
