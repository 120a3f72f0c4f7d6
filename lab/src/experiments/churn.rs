//! `churn`: strands and an array of semaphores. Each strand picks a semaphore at
//! random, does V on it, which lets another strand go on, and then P, which
//! blocks until a third one comes by.
//!
//! In the beginning one strand waits at each semaphore. A V and a P together leave the
//! number of waiters unchanged, so that every P blocks unless it finds another
//! processor's V. An audit finds the number of operations that did not block, and they
//! are counted apart. The semaphores of kernel threads are made of std's parts. With
//! them a running thread takes back what it has just posted: almost none of their
//! operations block.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use super::{Bar, Depth, Experiment, MANY, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::measure::crowd::Crowd;
use crate::measure::random::Random;
use crate::measure::window::{Audit, Tally, Window};
use crate::peers::{self, Body, Peer};

pub static CHURN: Experiment = Experiment {
    name: "churn",
    source: "Delisle 2022, 7.5",
    measures: "How often per second strands push each other out of random semaphores: 100 strands for each processor, with 50 semaphores (half of the strands are ready at any time) or 99 (the ready queues are all but empty); in full also two strands with one semaphore.",
    good: "High. More processors cost more communication, so twice the processors rarely give twice the figure. Operations that did not block are not in the figure but beside it.",
    metrics: &[
        Metric::higher("ops_per_s", "million blocking operations/s", 1e6),
        Metric::lower("cpu_ns_per_op", "CPU ns each", 1.0),
        Metric::beside("void_per_s", "million operations/s that did not block", 1e6),
    ],
    plots: &[Plot::Bars { metric: "ops_per_s" }],
    unit: "semaphores per processor",
    variants: |depth, processors, _| {
        let strands = MANY * processors;
        let mut variants = vec![Variant::new("50", strands), Variant::new("99", strands)];
        if depth == Depth::Full {
            variants.push(Variant::new("1", 2 * processors));
        }
        variants
    },
    measure: peers::measure::<Churn>,
    bars: &[
        Bar::of("sinew/default", "50", 2).at_least(1.0).over_peers(&["tokio"]),
        Bar::of("sinew/default", "99", 2).at_least(1.0).over_peers(&["tokio"]),
        Bar::of("sinew/fair", "50", 1).at_least(2.0).over_peers(&["tokio"]),
        Bar::of("sinew/fair", "50", 2).at_least(1.5).over_peers(&["tokio"]),
        Bar::of("sinew/fair", "99", 1).at_least(2.0).over_peers(&["tokio"]),
        Bar::of("sinew/fair", "99", 2).at_least(1.5).over_peers(&["tokio"]),
    ],
    ..PLAIN
};

/// Yields of the root after the last standing waiter is about to wait: it has blocked
/// by then.
const SETTLING_YIELDS: usize = 1000;

/// A semaphore on lines of its own.
#[repr(align(128))]
pub struct Spot<P: Peer>(pub P::Semaphore);

/// The part that the strands share, besides the window.
pub struct Field<P: Peer> {
    pub spots: Vec<Spot<P>>,
    strands: usize,
    /// Strands that begin by waiting and are about to wait.
    standing: AtomicUsize,
    /// Whether the waiters at the end have their permits.
    dissolved: AtomicBool,
}

impl<P: Peer> Field<P> {
    pub fn new(strands: usize, spots: usize) -> Arc<Field<P>> {
        Arc::new(Field {
            spots: (0..spots).map(|_| Spot(P::semaphore())).collect(),
            strands,
            standing: AtomicUsize::new(0),
            dissolved: AtomicBool::new(false),
        })
    }

    pub fn pick(&self, random: &mut Random) -> usize {
        random.below(self.spots.len())
    }

    /// Called by a strand that begins by waiting, just before it waits.
    pub fn stand(&self) {
        self.standing.fetch_add(1, Relaxed);
    }

    /// Starts one strand that waits at each spot, then the others. Returns the results of
    /// all strands.
    pub async fn run<F>(&self, strand: impl Fn(usize) -> F + Clone + Send + 'static) -> Vec<u64>
    where
        F: Future<Output = u64> + Send + 'static,
    {
        let spots = self.spots.len();
        let other = strand.clone();
        let standing = Crowd::<P>::gather(spots, move |place| strand(place.number)).await;
        let others = Crowd::<P>::gather(self.strands - spots, move |place| other(spots + place.number)).await;
        standing.release();
        self.settle().await;
        others.release();
        let mut counts = standing.join().await;
        counts.extend(others.join().await);
        counts
    }

    /// Waits until all strands that begin by waiting do wait.
    async fn settle(&self) {
        while self.standing.load(Relaxed) < self.spots.len() {
            P::yield_now().await;
        }
        for _ in 0..SETTLING_YIELDS {
            P::yield_now().await;
        }
    }

    /// Called by each strand that sees the end. The first call lets all waiters go on.
    pub fn dissolve(&self) {
        if !self.dissolved.swap(true, Relaxed) {
            self.spots.iter().for_each(|spot| P::post(&spot.0, self.strands));
        }
    }
}

async fn strand<P: Peer>(field: Arc<Field<P>>, number: usize, mut tally: Tally) -> u64 {
    let mut random = Random::of(number);
    if number < field.spots.len() {
        field.stand();
        P::wait(&field.spots[number].0).await;
    }
    loop {
        let spot = &field.spots[field.pick(&mut random)].0;
        P::post(spot, 1);
        if !tally.probe(|| P::try_wait(spot)) {
            P::wait(spot).await;
        }
        if !tally.tick() {
            field.dissolve();
            return tally.close();
        }
    }
}

struct Churn;

impl Body for Churn {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        let (strands, spots) = (case.threads, case.amount() * case.processors);
        let (window, timekeeper) = Window::open(strands, case.window(), Audit::Probes);
        let shared = window.clone();
        let counts = peer.run(async move {
            let field = Field::<P>::new(strands, spots);
            let own = field.clone();
            let begin = move |number| {
                let (field, window) = (own.clone(), shared.clone());
                async move {
                    let tally = Tally::new(&window, number);
                    strand(field, number, tally).await
                }
            };
            field.run(begin).await
        });
        window.reading(&counts, timekeeper.span())
    }
}
