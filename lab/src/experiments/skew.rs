//! `skew`: one processor has too much to do.
//!
//! - `burst`: one strand spawns 1000 strands at a time, each with 10 µs of work, and
//!   joins them: all of the work arises on one processor.
//! - `hog`: 100 strands for each processor yield, while one strand computes for 5 ms at
//!   a stretch. The strands that are queued behind it wait unless another processor
//!   helps. Every gap between two turns of a strand counts by its length. The figure is
//!   then how long a strand waits that becomes ready at a random moment.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{Experiment, MANY, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::measure::crowd::Crowd;
use crate::measure::latency::Latency;
use crate::measure::window::{Audit, Tally, Window};
use crate::measure::work::Unit;
use crate::peers::{self, Body, Peer};

const BURST: usize = 1000;
const WORK: Duration = Duration::from_micros(10);
const STRETCH: Duration = Duration::from_millis(5);

pub static SKEW: Experiment = Experiment {
    name: "skew",
    source: "Sinew, after Delisle 2022, 7.7",
    measures: "One processor has too much to do: cores' worth of work done when all strands arise on one processor (burst), and how long strands wait for their turn while one strand computes for 5 ms at a stretch (hog).",
    good: "In burst, the number of processors; in hog, waiting times far below the 5 ms that the processor is lost.",
    metrics: &[
        Metric::higher("cores", "cores' worth of work", 1.0),
        Metric::beside("p50_us", "µs waited, median", 1.0),
        Metric::beside("p90_us", "p90", 1.0),
        Metric::beside("p99_us", "p99", 1.0),
        Metric::beside("p999_us", "p99.9", 1.0),
        Metric::beside("p9999_us", "p99.99", 1.0),
        Metric::beside("max_us", "max", 1.0),
    ],
    plots: &[Plot::Bars { metric: "cores" }, Plot::Quantiles],
    least_processors: 2,
    limit: |_| Duration::from_secs(10),
    variants: |_, processors, _| vec![Variant::new("burst", BURST), Variant::new("hog", MANY * processors + 1)],
    measure: peers::measure::<Skew>,
    check: |case, reading| match reading.get("cores") {
        Some(cores) if cores > 1.5 * case.processors as f64 => Err(format!("{cores} cores' worth of work")),
        _ => Ok(()),
    },
    ..PLAIN
};

struct Skew;

impl Body for Skew {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        if case.variant == "burst" { burst(peer, case) } else { hog(peer, case) }
    }
}

fn burst<P: Peer>(peer: P, case: &Case) -> Reading {
    let unit = Unit::calibrate(WORK, case.processors);
    let before_ns = unit.measured_ns(case.processors);
    let window = case.window();
    let (done, elapsed) = peer.run(async move {
        let begun = Instant::now();
        let mut done = 0;
        let mut handles = Vec::with_capacity(BURST);
        while begun.elapsed() < window {
            for _ in 0..BURST {
                handles.push(P::spawn(async move {
                    unit.compute();
                    1
                }));
            }
            for handle in handles.drain(..) {
                done += P::join(handle).await;
            }
        }
        (done, begun.elapsed())
    });
    let unit_ns = (before_ns + unit.measured_ns(case.processors)) / 2.0;
    Reading::of([("cores", done as f64 * unit_ns / elapsed.as_nanos() as f64)])
}

fn hog<P: Peer>(peer: P, case: &Case) -> Reading {
    let strands = case.threads;
    let unit = Unit::calibrate(WORK, case.processors);
    let (window, timekeeper) = Window::open(strands, case.window(), Audit::None);
    let gaps = Arc::new(Mutex::new(Latency::default()));
    let all = gaps.clone();
    peer.run(async move {
        Crowd::<P>::run(strands, move |place| {
            let (window, all) = (window.clone(), all.clone());
            async move {
                let mut tally = Tally::new(&window, place.number);
                if place.number == 0 {
                    while tally.goes_on() {
                        let begun = Instant::now();
                        while begun.elapsed() < STRETCH {
                            unit.compute();
                        }
                        P::yield_now().await;
                    }
                    return tally.close();
                }
                let mut waited = Latency::default();
                let mut last = Instant::now();
                while tally.goes_on() {
                    P::yield_now().await;
                    let now = Instant::now();
                    if window.is_open() {
                        waited.note_by_length(now - last);
                    }
                    last = now;
                }
                all.lock().expect("no poison").add(&waited);
                tally.close()
            }
        })
        .await
    });
    timekeeper.elapsed();
    let mut reading = Reading::default();
    gaps.lock().expect("no poison").read_into(&mut reading);
    reading
}
