//! `migrate`: a stress test of ready queues. Two clusters have half of the case's
//! processors each. Their strands do nothing but migrate from one cluster to the other
//! and back.

use super::{Experiment, MANY, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::measure::crowd::Crowd;
use crate::measure::window::{Audit, Tally, Window};
use crate::peers::{self, Body, Peer};

pub static MIGRATE: Experiment = Experiment {
    name: "migrate",
    source: "Barghi's thesis, 4.2",
    measures: "Migrations per second of strands that do nothing but go to and fro between two clusters with half of the processors each; of an odd number, one processor has nothing to do.",
    good: "High. Each migration puts a strand into a queue of another cluster, so the figure shows how fast a scheduler's queues are from outside; one shared queue for each cluster is the baseline.",
    metrics: &[
        Metric::higher("ops_per_s", "million migrations/s", 1e6),
        Metric::lower("cpu_ns_per_op", "CPU ns each", 1.0),
    ],
    plots: &[Plot::Bars { metric: "ops_per_s" }],
    least_processors: 2,
    variants: |_, processors, _| vec![Variant::new("-", MANY * processors)],
    cannot: |peer| match peer.has_clusters {
        true => None,
        false if peer.is_fibres() => Some("its fibres stay where they began"),
        false => Some("no clusters"),
    },
    measure: |case| peers::measure::<Migrate>(&Case { processors: case.processors / 2, ..case.clone() }),
    ..PLAIN
};

struct Migrate;

impl Body for Migrate {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        let strands = case.threads;
        let clusters = peer.clusters().expect("a peer with clusters");
        let (window, timekeeper) = Window::open(strands, case.window(), Audit::None);
        let shared = window.clone();
        let counts = peer.run(async move {
            Crowd::<P>::run(strands, move |place| {
                let (window, clusters) = (shared.clone(), clusters.clone());
                async move {
                    let mut tally = Tally::new(&window, place.number);
                    // All begin in the first one; every other goes ahead.
                    let mut side = place.number % 2;
                    loop {
                        P::migrate(&clusters[side]).await;
                        side = 1 - side;
                        if !tally.tick() {
                            // The root waits in the first cluster.
                            P::migrate(&clusters[0]).await;
                            return tally.close();
                        }
                    }
                }
            })
            .await
        });
        window.reading(&counts, timekeeper.span())
    }
}
