//! `locality`: `churn`, with an array of data for each strand. The strand increments some
//! random cells of the array before each V.
//!
//! In `noshare` each strand keeps its array. In `share` the array goes with the V to
//! the strand that it wakes: a queue beside each semaphore has one array for each permit.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::churn::Field;
use super::{Experiment, MANY, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::measure::random::Random;
use crate::measure::window::{Audit, Tally, Window};
use crate::peers::{self, Body, Peer};

const SHARE: &str = "share";
/// 32 KiB: the arrays of two strands do not fit into a first-level cache.
const CELLS: usize = 4096;
/// Cells incremented in each turn. Unmeasured: enough that the data counts.
const TOUCHED: usize = 100;

pub static LOCALITY: Experiment = Experiment {
    name: "locality",
    source: "Delisle 2022, 7.6",
    measures: "Turns per second of churn with a data array, 100 random cells of which each turn increments: kept by its strand (noshare), or handed to the strand that is woken (share).",
    good: "High. A runtime that unparks on the local processor should do better in share, one that unparks where a strand last ran should do better in noshare.",
    metrics: &[
        Metric::higher("ops_per_s", "million blocking operations/s", 1e6),
        Metric::lower("cpu_ns_per_op", "CPU ns each", 1.0),
        Metric::beside("void_per_s", "million operations/s that did not block", 1e6),
    ],
    plots: &[Plot::Bars { metric: "ops_per_s" }],
    variants: |_, processors, _| {
        let strands = MANY * processors;
        vec![Variant::new(SHARE, strands), Variant::new("noshare", strands)]
    },
    measure: peers::measure::<Locality>,
    ..PLAIN
};

type Data = Box<[u64]>;

fn data() -> Data {
    vec![0; CELLS].into()
}

fn work(data: &mut Data, random: &mut Random) {
    for _ in 0..TOUCHED {
        let cell = &mut data[random.below(CELLS)];
        *cell = cell.wrapping_add(1);
    }
}

/// The arrays that go with permits.
#[repr(align(128))]
#[derive(Default)]
struct Shadow(Mutex<VecDeque<Data>>);

impl Shadow {
    fn push(&self, data: Data) {
        self.0.lock().expect("no poison").push_back(data);
    }

    /// Returns `None` for a permit of the end, which comes without an array.
    fn pop(&self) -> Option<Data> {
        self.0.lock().expect("no poison").pop_front()
    }
}

struct Shared<P: Peer> {
    field: Arc<Field<P>>,
    /// Empty in `noshare`.
    shadows: Vec<Shadow>,
}

impl<P: Peer> Shared<P> {
    async fn strand(&self, number: usize, mut tally: Tally) -> u64 {
        let field = &self.field;
        let mut random = Random::of(number);
        let stands = number < field.spots.len();
        if stands {
            field.stand();
            P::wait(&field.spots[number].0).await;
        }
        let mut own = match self.shadows.get(number) {
            Some(shadow) if stands => shadow.pop(),
            _ => Some(data()),
        };
        loop {
            let at = field.pick(&mut random);
            let spot = &field.spots[at].0;
            if let Some(data) = &mut own {
                work(data, &mut random);
            }
            if let (Some(shadow), Some(data)) = (self.shadows.get(at), own.take_if(|_| !self.shadows.is_empty())) {
                shadow.push(data);
            }
            P::post(spot, 1);
            if !tally.probe(|| P::try_wait(spot)) {
                P::wait(spot).await;
            }
            if let Some(shadow) = self.shadows.get(at) {
                own = shadow.pop();
            }
            if !tally.tick() {
                field.dissolve();
                return tally.close();
            }
        }
    }
}

struct Locality;

impl Body for Locality {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        let strands = case.threads;
        let spots = strands / 2;
        let shadows = if case.variant == SHARE { spots } else { 0 };
        let (window, timekeeper) = Window::open(strands, case.window(), Audit::Probes);
        let opened = window.clone();
        let counts = peer.run(async move {
            let shared = Arc::new(Shared {
                field: Field::<P>::new(strands, spots),
                shadows: (0..shadows).map(|_| Shadow::default()).collect(),
            });
            let field = shared.field.clone();
            let begin = move |number| {
                let (shared, window) = (shared.clone(), opened.clone());
                async move {
                    let tally = Tally::new(&window, number);
                    shared.strand(number, tally).await
                }
            };
            field.run(begin).await
        });
        window.reading(&counts, timekeeper.span())
    }
}
