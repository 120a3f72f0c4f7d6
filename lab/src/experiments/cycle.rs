//! `cycle`: rings of five strands. Each unparks the next one and then parks.
//!
//! One token goes round each ring, so that every hop is one unpark of a parked
//! strand, one park, and one dispatch. A token has four others to visit before
//! it is back, so that a strand has parked by then, but for the rare case that
//! its processor was held up.
//!
//! A parked strand may be woken for no reason, and std says so of kernel threads;
//! so the token is a flag beside the wake-up, as good as a binary semaphore. A strand
//! that finds it there before it has parked did not have to wait: such hops are
//! counted apart. That every hop was counted once is checked at the end: the counts
//! of a ring's members differ by one at most.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{Experiment, MANY, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::measure::crowd::{Crowd, Place, Roster};
use crate::measure::window::{Audit, Tally, Window};
use crate::peers::{self, Body, Peer};

const RING: usize = 5;

pub static CYCLE: Experiment = Experiment {
    name: "cycle",
    source: "Delisle 2022, 7.3",
    measures: "Hops per second in rings of five strands, where each unparks the next and then parks: 100 rings for each processor (many) or one (few).",
    good: "High, and twice as high with twice the processors. With few rings the ready queues run empty, and what counts is how a processor that finds nothing waits.",
    metrics: &[
        Metric::higher("ops_per_s", "million hops/s", 1e6),
        Metric::lower("cpu_ns_per_op", "CPU ns each", 1.0),
        Metric::beside("void_per_s", "million hops/s without a wait", 1e6),
    ],
    plots: &[Plot::Bars { metric: "ops_per_s" }],
    variants: |_, processors, _| {
        vec![Variant::new("many", RING * MANY * processors), Variant::new("few", RING * processors)]
    },
    measure: peers::measure::<Cycle>,
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
    fn pass<P: Peer>(&self, member: usize, parker: &P::Parker) {
        // Pairs with the load in `wait`.
        self.members[member].token.store(true, Ordering::Release);
        P::unpark(parker);
    }

    /// Whether the token was there already.
    #[inline(always)]
    async fn wait<P: Peer>(&self, member: usize, own: &P::Parker) -> bool {
        let token = &self.members[member].token;
        // Pairs with the store in `pass`, as the next one.
        let was_there = token.load(Ordering::Acquire);
        if !was_there {
            P::park(own).await;
            while !token.load(Ordering::Acquire) {
                P::park(own).await;
            }
        }
        token.store(false, Ordering::Relaxed);
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
        ring.pass::<P>((member + 1) % RING, &next);
    }
    if ring.seen_end.fetch_add(1, Ordering::Relaxed) < RING - 1 {
        ring.pass::<P>((member + 1) % RING, &next);
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
                ring.pass::<P>(0, crowd.roster().parker(number * RING));
            }
            crowd.join().await
        });
        for ring in counts.chunks(RING) {
            let (least, most) = (ring.iter().min(), ring.iter().max());
            assert!(most <= least.map(|least| least + 1).as_ref(), "hops of a ring that differ: {ring:?}");
        }
        window.reading(&counts, timekeeper.span())
    }
}
