//! `cycle`: rings of five strands. Each unparks the next one and then parks.
//!
//! One token goes round each ring, so that every hop is one unpark of a parked
//! strand, one park, and one dispatch. A token has four others to visit before
//! it is back, so that a strand has parked by then, but for the rare case that
//! its processor was held up.
//!
//! That each return from `park` was a hop is checked at the end: the counts of
//! a ring's members differ by one at most, which a single wake-up without a
//! reason would upset. Only the first rounds are guarded by a flag, for a strand
//! may bring a wake-up along from the gate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{Experiment, MANY, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::measure::crowd::{Crowd, Place, Roster};
use crate::measure::window::{Audit, Tally, Window};
use crate::peers::{self, Body, Peer};

const RING: usize = 5;
/// Rounds until every strand has parked for its predecessor and nobody else.
const GUARDED_ROUNDS: usize = 3;

pub static CYCLE: Experiment = Experiment {
    name: "cycle",
    source: "Delisle 2022, 7.3",
    measures: "Hops per second in rings of five strands, where each unparks the next and then parks: 100 rings for each processor (many) or one (few).",
    good: "High, and twice as high with twice the processors. With few rings the ready queues run empty, and what counts is how a processor that finds nothing waits.",
    metrics: &[Metric::higher("ops_per_s", "million hops/s", 1e6)],
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
    /// Members that have not seen the end yet.
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
    /// A guarded hop.
    fn pass<P: Peer>(&self, member: usize, parker: &P::Parker) {
        // Pairs with the load in `wait`.
        self.members[member].token.store(true, Ordering::Release);
        P::unpark(parker);
    }

    async fn wait<P: Peer>(&self, member: usize, own: &P::Parker) {
        let token = &self.members[member].token;
        // Pairs with the store in `pass`.
        while !token.load(Ordering::Acquire) {
            P::park(own).await;
        }
        token.store(false, Ordering::Relaxed);
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
    for _ in 0..GUARDED_ROUNDS {
        ring.wait::<P>(member, &own).await;
        ring.pass::<P>((member + 1) % RING, &next);
    }
    P::park(&own).await;
    while tally.tick() {
        P::unpark(&next);
        P::park(&own).await;
    }
    if ring.seen_end.fetch_add(1, Ordering::Relaxed) < RING - 1 {
        P::unpark(&next);
    }
    tally.close()
}

struct Cycle;

impl Body for Cycle {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        let strands = case.threads;
        let (window, timekeeper) = Window::open(strands, case.window(), Audit::None);
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
            assert!(most <= least.map(|least| least + 1).as_ref(), "a wake-up without a reason: {ring:?}");
        }
        window.reading(&counts, timekeeper.elapsed())
    }
}
