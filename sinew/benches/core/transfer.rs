//! `transfer`: leadership over 100 strands per processor, by a leader that
//! spins. A coarse test of how soon every strand runs once.
//!
//! The leader spins, without yielding, until all others have acknowledged its term;
//! then it begins the next one, under another leader that it picks at random. The
//! others acknowledge the term that they see and, by variant, park or yield. In the
//! parking variant the old leader unparks everybody. Whoever is still queued where
//! the new leader begins to spin must be taken over by another processor.
//!
//! Measured: the time from one completed transfer to the next. A contender that
//! leaves a ready strand behind the leader for ever does not complete.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::{Barrier, Notify};

use crate::support::case::{Case, Contender};
use crate::support::child::Reading;
use crate::support::crowd::Crowd;
use crate::support::options::Options;
use crate::support::peers::{Experiment, Stackful, run_task};
use crate::support::random::Random;
use crate::support::report::{Bound, Column, Report};

pub const NAME: &str = "transfer";

const STRANDS_PER_PROCESSOR: usize = 100;
const PROCESSORS: usize = 2;
pub const PARKING: &str = "parking";
pub const YIELDING: &str = "yielding";
const NOBODY: usize = usize::MAX;

/// A contender that needs longer has not completed.
const LIMIT: Duration = Duration::from_secs(10);

/// The others' transfers take up to 10 ms each, so they get fewer of them.
pub const PEERS_TRANSFERS: u64 = 200;

/// What wakes one member in the parking variant.
pub trait Wake {
    fn wake(&self);
}

impl Wake for Notify {
    fn wake(&self) {
        self.notify_one();
    }
}

/// Wakes a strand with a stack; set by the root before the first term.
struct UnparkLater<P: Stackful>(OnceLock<P::Unparker>);

impl<P: Stackful> Wake for UnparkLater<P> {
    fn wake(&self) {
        P::unpark(self.0.get().expect("set before the first term"));
    }
}

/// On lines of its own: the leader watches it.
#[repr(align(128))]
pub struct Member<W> {
    /// The term it has acknowledged. Written by the member.
    seen: AtomicU64,
    pub waker: W,
}

pub struct Election<W> {
    pub members: Vec<Member<W>>,
    pub parking: bool,
    /// Terms to complete after the first, which warms up.
    transfers: u64,
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
    last: Instant,
    times_ns: Vec<u64>,
}

impl<W: Wake> Election<W> {
    pub fn new(case: &Case, waker: impl Fn() -> W) -> Election<W> {
        let member = |_| Member { seen: AtomicU64::new(0), waker: waker() };
        Election {
            members: (0..case.processors * STRANDS_PER_PROCESSOR).map(member).collect(),
            parking: case.variant == PARKING,
            transfers: case.amount,
            leader: AtomicUsize::new(NOBODY),
            term: AtomicU64::new(0),
            done: AtomicBool::new(false),
            ledger: Mutex::new(Ledger {
                random: Random::of(0),
                last: Instant::now(),
                times_ns: Vec::with_capacity(case.amount as usize),
            }),
        }
    }

    pub fn begin(&self) {
        self.begin_term(0, NOBODY);
    }

    /// By the leader, or by the root before the first term.
    fn begin_term(&self, leader: usize, by: usize) {
        // Pairs with the load in `acknowledge`.
        self.term.store(self.term.load(Relaxed) + 1, Release);
        // Pairs with the load in `is_led_by`: the next leader sees its term.
        self.leader.store(leader, Release);
        self.wake_others(by);
    }

    fn wake_others(&self, own: usize) {
        if self.parking {
            let others = self.members.iter().enumerate().filter(|(member, _)| *member != own);
            others.for_each(|(_, other)| other.waker.wake());
        }
    }

    pub fn is_over(&self) -> bool {
        // Pairs with the store in `lead`.
        self.done.load(Acquire)
    }

    pub fn is_led_by(&self, member: usize) -> bool {
        // Pairs with the store in `begin_term`.
        self.leader.load(Acquire) == member
    }

    pub fn acknowledge(&self, member: usize) {
        // Pairs with the store in `begin_term`.
        let term = self.term.load(Acquire);
        // Pairs with the load in `lead`.
        self.members[member].seen.store(term, Release);
    }

    /// One term. Does not suspend: this is the strand that nobody gets past.
    pub fn lead(&self, own: usize) {
        let term = self.term.load(Relaxed);
        self.members[own].seen.store(term, Relaxed);
        for member in &self.members {
            // Pairs with the store in `acknowledge`.
            while member.seen.load(Acquire) != term {
                std::hint::spin_loop();
            }
        }
        let mut ledger = self.ledger.lock().expect("a ledger");
        ledger.note(term > 1);
        let next = (own + 1 + ledger.random.below(self.members.len() - 1)) % self.members.len();
        drop(ledger);
        if term <= self.transfers {
            return self.begin_term(next, own);
        }
        // Pairs with the load in `is_over`.
        self.done.store(true, Release);
        self.wake_others(own);
    }

    pub fn reading(&self) -> Reading {
        let mut times = std::mem::take(&mut self.ledger.lock().expect("a ledger").times_ns);
        times.sort_unstable();
        let quantile = |q: f64| times[((times.len() - 1) as f64 * q) as usize] as f64;
        let mean = times.iter().sum::<u64>() as f64 / times.len() as f64;
        Reading::of([("mean", mean), ("p50", quantile(0.5)), ("p99", quantile(0.99)), ("max", quantile(1.0))])
    }
}

impl Ledger {
    fn note(&mut self, counts: bool) {
        let now = Instant::now();
        if counts {
            let time = now - self.last;
            self.times_ns.push(time.as_nanos() as u64);
        }
        self.last = now;
    }
}

pub struct Transfer;

impl Experiment for Transfer {
    fn stackful<P: Stackful>(runtime: P, case: &Case) -> Reading {
        let waker = || UnparkLater::<P>(OnceLock::new());
        let election = Arc::new(Election::new(case, waker));
        let root = election.clone();
        runtime.run(move || {
            let shared = root.clone();
            let crowd = Crowd::<P>::gather(root.members.len(), move |member| {
                while !shared.is_over() {
                    if shared.is_led_by(member) {
                        shared.lead(member);
                    } else {
                        shared.acknowledge(member);
                        if shared.parking {
                            P::park();
                        } else {
                            P::yield_now();
                        }
                    }
                }
                0
            });
            for (member, handle) in root.members.iter().zip(&crowd.handles) {
                assert!(member.waker.0.set(P::unparker(handle)).is_ok());
            }
            crowd.release();
            root.begin();
            crowd.join().sum::<u64>()
        });
        election.reading()
    }

    fn tokio(case: &Case) -> Reading {
        let election = Arc::new(Election::new(case, Notify::new));
        let root = election.clone();
        run_task(case.processors, async move {
            let gate = Arc::new(Barrier::new(root.members.len() + 1));
            let spawn = |member: usize| {
                let (election, gate) = (root.clone(), gate.clone());
                tokio::spawn(async move {
                    gate.wait().await;
                    while !election.is_over() {
                        if election.is_led_by(member) {
                            election.lead(member);
                        } else {
                            election.acknowledge(member);
                            if election.parking {
                                election.members[member].waker.notified().await;
                            } else {
                                tokio::task::yield_now().await;
                            }
                        }
                    }
                })
            };
            let handles: Vec<_> = (0..root.members.len()).map(spawn).collect();
            gate.wait().await;
            root.begin();
            for handle in handles {
                handle.await.expect("a task that does not panic");
            }
        });
        election.reading()
    }
}

pub fn conduct(options: &Options, report: &mut Report) {
    let contenders = options.contenders(&Contender::PEERS);
    let own_transfers = if options.quick { 1_000 } else { 10_000 };
    let cases = [PARKING, YIELDING].into_iter().flat_map(|variant| {
        let case = move |&who: &Contender| {
            let transfers = if who.is_sinew() { own_transfers } else { PEERS_TRANSFERS };
            Case::new(NAME, who, PROCESSORS, variant, transfers)
        };
        contenders.iter().map(case)
    });
    let results = report.measure(cases.collect(), options.repeats, LIMIT);

    report.heading(&format!(
        "transfer: 100 strands per processor, 2 processors, {own_transfers} transfers \
         (peers: {PEERS_TRANSFERS}), at most {} s",
        LIMIT.as_secs()
    ));
    for variant in [PARKING, YIELDING] {
        for figure in ["mean", "p50", "p99", "max"] {
            report.table(
                &format!("{variant}: {figure} of the time per transfer, µs"),
                &results,
                |c| c.variant == variant,
                Column { figure, unit: 1e3 },
            );
        }
    }
    for sinew in results.sinews() {
        for variant in [PARKING, YIELDING] {
            let mean_us = results.median("mean", sinew, PROCESSORS, variant) / 1e3;
            let max_ms = results.max("max", sinew, PROCESSORS, variant) / 1e6;
            let completed = if mean_us.is_nan() { f64::NAN } else { 1.0 };
            let mut bar = |claim: &str, measured, bound| {
                let claim = format!("transfer, {variant}, {claim}");
                report.bar(&results, sinew, &claim, measured, bound);
            };
            bar("completes (1)", completed, Bound::AtLeast(1.0));
            bar("mean at most 200 µs", mean_us, Bound::AtMost(200.0));
            bar("max of all runs below 20 ms", max_ms, Bound::Below(20.0));
        }
    }
}
