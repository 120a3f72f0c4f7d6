//! `yield`: strands that do nothing but yield.
//!
//! A yield that finds no other strand to run is no switch. An audit finds the number of
//! those yields, and they are counted apart; for kernel threads the kernel counts the
//! switches itself. With one strand for each processor almost all yields are such.

use super::{Bar, Depth, Experiment, MANY, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::measure::crowd::Crowd;
use crate::measure::window::{Audit, Tally, Window};
use crate::peers::{self, Body, Peer};

pub static YIELD: Experiment = Experiment {
    name: "yield",
    source: "Delisle 2022, 7.4",
    measures: "How often per second strands that do nothing but yield let another one run: 100 strands for each processor (many) or one (few).",
    good: "High, twice as high with twice the processors, and all strands get about the same number of turns. Yields that found no other strand to run are not in the figure but beside it.",
    metrics: &[
        Metric::higher("ops_per_s", "million switches/s", 1e6),
        Metric::lower("cpu_ns_per_op", "CPU ns each", 1.0),
        Metric::beside("void_per_s", "million yields/s to no other strand", 1e6),
        Metric::beside("turns_max_min_ratio", "most/fewest turns of a strand", 1.0),
    ],
    plots: &[Plot::Bars { metric: "ops_per_s" }],
    variants: |depth, processors, _| match depth {
        Depth::Tour => vec![Variant::new("many", MANY * processors)],
        Depth::Full => vec![Variant::new("many", MANY * processors), Variant::new("few", processors)],
    },
    measure: peers::measure::<Yield>,
    check: |_, reading| match reading.get("turns_max_min_ratio") {
        Some(ratio) if ratio < 1.0 => Err(format!("the most turns are {ratio} of the fewest")),
        _ => Ok(()),
    },
    bars: &[
        Bar::of("sinew/default", "many", 1).at_least(0.95).over_peers(&["sinew/fair"]),
        Bar::of("sinew/default", "many", 2).at_least(1.7).over_processors(1),
        Bar::of("sinew/default", "many", 1).metric("turns_max_min_ratio").at_most(1.5),
        Bar::of("sinew/default", "many", 2).metric("turns_max_min_ratio").at_most(1.5),
        Bar::of("sinew/fair", "many", 1).at_least(2.2).over_peers(&["tokio"]),
        Bar::of("sinew/fair", "many", 2).at_least(1.8).over_processors(1),
        Bar::of("sinew/fair", "many", 1).metric("turns_max_min_ratio").at_most(1.5),
        Bar::of("sinew/fair", "many", 2).metric("turns_max_min_ratio").at_most(1.5),
        Bar::of("sinew/tasks", "many", 1).at_least(1.5).over_peers(&["tokio"]),
    ],
    ..PLAIN
};

struct Yield;

impl Body for Yield {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        let strands = case.threads;
        let audit = match P::kernel_switches() {
            Some(_) => Audit::Kernel(P::kernel_switches),
            None => Audit::Turns,
        };
        let (window, timekeeper) = Window::open(strands, case.window(), audit);
        let shared = window.clone();
        let counts = peer.run(async move {
            Crowd::<P>::run(strands, move |place| {
                let window = shared.clone();
                async move {
                    let mut tally = Tally::new(&window, place.number);
                    loop {
                        P::yield_now().await;
                        if !tally.tick() {
                            return tally.close();
                        }
                    }
                }
            })
            .await
        });
        let mut reading = window.reading(&counts, timekeeper.span());
        let (most, least) = (counts.iter().max().copied(), counts.iter().min().copied());
        reading.set("turns_max_min_ratio", most.unwrap_or(0) as f64 / least.unwrap_or(0) as f64);
        reading
    }
}
