//! `cycle`: rings of five strands. Each unparks the next one and then parks.
//!
//! One token goes round each ring, so that every hop is one unpark of a parked strand,
//! one park, and one dispatch. A token visits four other strands before it is back. A
//! strand has parked by then, unless its processor was held up.
//!
//! A strand may return from `park` for no reason; std says so of kernel threads. So the
//! token is a flag beside the wake-up, as good as a binary semaphore. Bare `park` and
//! `unpark`, as in the paper, would leave out one store and one load, but a single
//! wake-up without a reason would break the ring. A strand that finds the token before it
//! has parked does not wait: such hops are counted apart. A check at the end shows that
//! every hop was counted once: the counts of a ring's members differ by one at most.
//!
//! In `mixed`, which only Sinew has, fibres and tasks take turns in each ring.

mod mixed;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{Bar, Depth, Experiment, MANY, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::measure::crowd::{Crowd, Place, Roster};
use crate::measure::window::{Audit, Tally, Timekeeper, Window};
use crate::peers::{self, Body, Peer};

const RING: usize = 5;
const MIXED: &str = "mixed";

pub static CYCLE: Experiment = Experiment {
    name: "cycle",
    source: "Delisle 2022, 7.3",
    measures: "Hops per second in rings of five strands, where each unparks the next and then parks: 100 rings for each processor (many) or one (few); in full also 100 rings of Sinew's fibres and tasks in turn (mixed).",
    good: "High, and twice as high with twice the processors. With few rings the ready queues run empty, and what counts is how a processor that finds nothing waits.",
    metrics: &[
        Metric::higher("ops_per_s", "million hops/s", 1e6),
        Metric::lower("cpu_ns_per_op", "CPU ns each", 1.0),
        Metric::beside("void_per_s", "million hops/s without a wait", 1e6),
    ],
    plots: &[Plot::Bars { metric: "ops_per_s" }],
    variants: |depth, processors, peer| {
        let many = RING * MANY * processors;
        let mut variants = vec![Variant::new("many", many), Variant::new("few", RING * processors)];
        if depth == Depth::Full && peer.is_fibres() {
            variants.push(Variant::new(MIXED, many));
        }
        variants
    },
    measure: |case| match case.variant.as_str() {
        MIXED => mixed::measure(case),
        _ => peers::measure::<Cycle>(case),
    },
    bars: &[
        Bar::of("sinew/default", "many", 1).at_least(0.95).over_peers(&["sinew/fair"]),
        Bar::of("sinew/default", "many", 2).at_least(1.7).over_processors(1),
        Bar::of("sinew/default", "many", 2).at_least(1.3).over_peers(&["tokio"]),
        Bar::of("sinew/fair", "many", 1).at_least(2.0).over_peers(&["tokio"]),
        Bar::of("sinew/fair", "many", 2).at_least(1.7).over_processors(1),
        Bar::of("sinew/fair", "few", 2).at_least(1.2).over_peers(&["tokio", "may"]),
        Bar::of("sinew/fair", MIXED, 1).at_least(1.0).over_peers(&["tokio"]).over_variant("many"),
        Bar::of("sinew/fair", MIXED, 2).at_least(1.0).over_peers(&["tokio"]).over_variant("many"),
    ],
    ..PLAIN
};

#[derive(Default)]
struct Ring {
    members: [Member; RING],
    /// Members that have seen the end.
    seen_end: AtomicUsize,
}

/// On lines of its own: a member is written by its predecessor.
#[repr(align(128))]
#[derive(Default)]
struct Member {
    /// Whether this member has the token, which tells a true wake-up from a
    /// spurious one. Set by the predecessor, cleared by the member.
    token: AtomicBool,
}

impl Ring {
    /// A hop.
    #[inline(always)]
    fn pass(&self, member: usize, unpark: impl FnOnce()) {
        // Pairs with the load in `take`.
        self.members[member].token.store(true, Ordering::Release);
        unpark();
    }

    /// Takes the token. Returns whether it was there.
    #[inline(always)]
    fn take(&self, member: usize) -> bool {
        let token = &self.members[member].token;
        // Pairs with the store in `pass`.
        let is_there = token.load(Ordering::Acquire);
        if is_there {
            token.store(false, Ordering::Relaxed);
        }
        is_there
    }

    /// Waits for the token. Returns whether it was there already.
    #[inline(always)]
    async fn wait<P: Peer>(&self, member: usize, own: &P::Parker) -> bool {
        let was_there = self.take(member);
        if !was_there {
            P::park(own).await;
            while !self.take(member) {
                P::park(own).await;
            }
        }
        was_there
    }
}

fn next_of<P: Peer>(roster: &Roster<P>, number: usize) -> P::Parker {
    let ring = number / RING * RING;
    roster.parker(ring + (number + 1) % RING).clone()
}

async fn strand<P: Peer>(place: Place<P>, rings: Arc<[Ring]>, mut tally: Tally) -> u64 {
    let (ring, member) = (&rings[place.number / RING], place.number % RING);
    let next = next_of(&place.roster, place.number);
    let own = place.own;
    loop {
        if ring.wait::<P>(member, &own).await {
            tally.was_void();
        }
        if !tally.tick() {
            break;
        }
        ring.pass((member + 1) % RING, || P::unpark(&next));
    }
    if ring.seen_end.fetch_add(1, Ordering::Relaxed) < RING - 1 {
        ring.pass((member + 1) % RING, || P::unpark(&next));
    }
    tally.close()
}

struct Cycle;

impl Body for Cycle {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        let strands = case.threads;
        let (window, timekeeper) = Window::open(strands, case.window(), Audit::Counted);
        let shared = window.clone();
        let counts = peer.run(async move {
            let rings: Arc<[Ring]> = (0..strands / RING).map(|_| Ring::default()).collect();
            let crowd = Crowd::<P>::gather(strands, {
                let rings = rings.clone();
                move |place| {
                    let (rings, window) = (rings.clone(), shared.clone());
                    async move {
                        let tally = Tally::new(&window, place.number);
                        strand(place, rings, tally).await
                    }
                }
            })
            .await;
            crowd.release();
            for (number, ring) in rings.iter().enumerate() {
                ring.pass(0, || P::unpark(crowd.roster().parker(number * RING)));
            }
            crowd.join().await
        });
        reading(&window, &counts, timekeeper)
    }
}

/// Checks that every hop was counted once.
fn reading(window: &Window, counts: &[u64], timekeeper: Timekeeper) -> Reading {
    for ring in counts.chunks(RING) {
        let (least, most) = (ring.iter().min(), ring.iter().max());
        assert!(most <= least.map(|least| least + 1).as_ref(), "hops of a ring that differ: {ring:?}");
    }
    window.reading(counts, timekeeper.span())
}
