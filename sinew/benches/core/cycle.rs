//! `cycle`: rings of five strands. Each unparks the next one and then parks.
//!
//! One token goes round each ring, so that every hop is one unpark of a parked
//! strand, one park, and one dispatch. Measured: hops per second.
//!
//! A token has four others to visit before it is back, so that a strand has
//! parked by then, but for the rare case that its processor was held up.
//!
//! Strands with stacks use nothing but `park` and `unpark`, as the experiment is
//! published. That each return from `park` was a hop is checked at the end: the
//! counts of a ring's members differ by one at most, which a single wake-up
//! without a reason would upset. Only the first rounds are guarded by a flag,
//! for a strand may bring a wake-up along from the gate.
//!
//! Tokio's tasks pass the token with `Notify`. `Semaphore` (`add_permits`,
//! `acquire`, `forget`) was measured once and is slower throughout; million
//! hops per second, medians of three, `Notify` against `Semaphore`: 14.9 and
//! 11.3 (100 rings, 1 worker), 16.0 and 12.3 (1 ring, 1 worker), 19.6 and 14.3
//! (100 rings each, 2 workers), 32.2 and 26.0 (1 ring each, 2 workers).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{Barrier, Notify};

use crate::support::case::{Case, Contender};
use crate::support::child::Reading;
use crate::support::crowd::Crowd;
use crate::support::options::Options;
use crate::support::peers::{Experiment, Stackful, run_task};
use crate::support::report::{Bound, Column, Report};
use crate::support::window::{Audit, Tally, Window};

pub const NAME: &str = "cycle";

pub const RING: usize = 5;
/// Rounds until every strand has parked for its predecessor and nobody else.
pub const GUARDED_ROUNDS: usize = 3;
const LIMIT: Duration = Duration::from_secs(20);

/// Rings per processor, as the variant's name and as a number.
const MANY: &str = "100";
const ONE: &str = "1";

fn rings(case: &Case) -> usize {
    let per_processor: usize = case.variant.parse().expect("rings per processor");
    per_processor * case.processors
}

/// A ring of strands with stacks.
struct Ring<P: Stackful> {
    members: [Member<P>; RING],
    /// Members that have not seen the end yet.
    left: AtomicUsize,
}

/// On lines of its own: a member is written by its predecessor.
#[repr(align(128))]
struct Member<P: Stackful> {
    /// Whether this member has the token, which tells a true wake-up from a
    /// spurious one. Set by the predecessor, cleared by the member.
    token: AtomicBool,
    /// Set by the root before the token is first passed.
    unparker: OnceLock<P::Unparker>,
}

impl<P: Stackful> Ring<P> {
    fn new() -> Ring<P> {
        Ring {
            members: std::array::from_fn(|_| Member { token: AtomicBool::new(false), unparker: OnceLock::new() }),
            left: AtomicUsize::new(RING),
        }
    }

    /// A guarded hop.
    fn pass_to(&self, member: usize) {
        let next = &self.members[member];
        // Pairs with the load in `wait`.
        next.token.store(true, Ordering::Release);
        P::unpark(next.unparker.get().expect("set before the first pass"));
    }

    /// Parks until the token is there.
    fn wait(&self, member: usize) {
        let own = &self.members[member];
        // Pairs with the store in `pass_to`.
        while !own.token.load(Ordering::Acquire) {
            P::park();
        }
        own.token.store(false, Ordering::Relaxed);
    }

    fn strand(&self, member: usize, mut tally: Tally) -> u64 {
        let next = (member + 1) % RING;
        for _ in 0..GUARDED_ROUNDS {
            self.wait(member);
            self.pass_to(next);
        }
        let next_one = self.members[next].unparker.get().expect("set before the first pass").clone();
        P::park();
        while tally.tick() {
            P::unpark(&next_one);
            P::park();
        }
        if self.left.fetch_sub(1, Ordering::Relaxed) > 1 {
            P::unpark(&next_one);
        }
        tally.close()
    }
}

pub struct Cycle;

impl Experiment for Cycle {
    fn stackful<P: Stackful>(runtime: P, case: &Case) -> Reading {
        let rings = rings(case);
        let (window, timekeeper) = Window::open(rings * RING, case.window(), Audit::None);
        let hops: u64 = runtime.run(move || {
            let rings: Arc<[_]> = (0..rings).map(|_| Ring::<P>::new()).collect();
            let shared = rings.clone();
            let crowd = Crowd::<P>::gather(rings.len() * RING, move |strand| {
                let tally = Tally::new(window.clone(), strand);
                shared[strand / RING].strand(strand % RING, tally)
            });
            for (strand, handle) in crowd.handles.iter().enumerate() {
                let member = &rings[strand / RING].members[strand % RING];
                assert!(member.unparker.set(P::unparker(handle)).is_ok());
            }
            crowd.release();
            for ring in rings.iter() {
                ring.pass_to(0);
            }
            let hops: Vec<u64> = crowd.join().collect();
            for ring in hops.chunks(RING) {
                let (least, most) = (ring.iter().min(), ring.iter().max());
                assert!(most <= least.map(|least| least + 1).as_ref(), "a wake-up without a reason: {ring:?}");
            }
            hops.iter().sum()
        });
        let elapsed = timekeeper.join().expect("the timekeeper");
        Reading::of([("rate", hops as f64 / elapsed.as_secs_f64())])
    }

    fn tokio(case: &Case) -> Reading {
        let rings = rings(case);
        let (window, timekeeper) = Window::open(rings * RING, case.window(), Audit::None);
        let hops: u64 = run_task(case.processors, async move {
            let rings: Arc<[_]> = (0..rings).map(|_| TaskRing::new()).collect();
            let strands = rings.len() * RING;
            let gate = Arc::new(Barrier::new(strands + 1));
            let spawn = |strand| {
                let (rings, gate, window) = (rings.clone(), gate.clone(), window.clone());
                tokio::spawn(async move {
                    gate.wait().await;
                    let tally = Tally::new(window, strand);
                    rings[strand / RING].task(strand % RING, tally).await
                })
            };
            let handles: Vec<_> = (0..strands).map(spawn).collect();
            gate.wait().await;
            for ring in rings.iter() {
                ring.members[0].0.notify_one();
            }
            let mut hops = 0;
            for handle in handles {
                hops += handle.await.expect("a task that does not panic");
            }
            hops
        });
        let elapsed = timekeeper.join().expect("the timekeeper");
        Reading::of([("rate", hops as f64 / elapsed.as_secs_f64())])
    }
}

/// A ring of Tokio's tasks.
struct TaskRing {
    members: [TaskMember; RING],
    left: AtomicUsize,
}

#[repr(align(128))]
struct TaskMember(Notify);

impl TaskRing {
    fn new() -> TaskRing {
        TaskRing { members: std::array::from_fn(|_| TaskMember(Notify::new())), left: AtomicUsize::new(RING) }
    }

    async fn task(&self, member: usize, mut tally: Tally) -> u64 {
        let own = &self.members[member].0;
        let next = &self.members[(member + 1) % RING].0;
        own.notified().await;
        while tally.tick() {
            next.notify_one();
            own.notified().await;
        }
        if self.left.fetch_sub(1, Ordering::Relaxed) > 1 {
            next.notify_one();
        }
        tally.close()
    }
}

pub fn conduct(options: &Options, report: &mut Report) {
    let contenders = options.contenders(&Contender::PEERS);
    let configurations = [(1, MANY), (2, MANY), (1, ONE), (2, ONE)];
    let cases = configurations.into_iter().flat_map(|(n, variant)| {
        let case = move |&who| Case::new(NAME, who, n, variant, options.window_ms());
        contenders.iter().map(case)
    });
    let results = report.measure(cases.collect(), options.repeats, LIMIT);

    report.heading("cycle: rings of 5");
    for (n, variant) in configurations {
        report.table(
            &format!("million hops/s, {variant} ring(s) per processor, {n} processor(s)"),
            &results,
            |c| c.processors == n && c.variant == variant,
            Column { figure: "rate", unit: 1e6 },
        );
    }
    for sinew in results.sinews() {
        let rate = |who, n, variant| results.median("rate", who, n, variant);
        let mut bar = |claim, measured, bound| {
            report.bar(&results, sinew, claim, measured, Bound::AtLeast(bound));
        };
        let one = rate(sinew, 1, MANY);
        bar("cycle, 1 processor, 100 rings, at least 2x Tokio", one / rate(Contender::Tokio, 1, MANY), 2.0);
        bar("cycle, 2 processors, 100 rings each, at least 1.7x own figure for 1", rate(sinew, 2, MANY) / one, 1.7);
        // `max` passes over a peer that was not measured.
        let peers = rate(Contender::Tokio, 2, ONE).max(rate(Contender::May, 2, ONE));
        bar(
            "cycle, 2 processors, 1 ring each, at least 1.2x the faster of Tokio and may",
            rate(sinew, 2, ONE) / peers,
            1.2,
        );
    }
}
