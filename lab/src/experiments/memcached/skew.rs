//! `memcached-skew`: the speedup of a memcached server by a second thread when half of the
//! connections are silent. memcached gives connections to its threads in turn, so all active
//! connections belong to one thread.
//!
//! The figure is the requests for each second of CPU of the busiest thread, with two threads for
//! each processor over one thread: so the worth of a further CPU shows without that CPU. With single requests the figure is mostly how the kernel and the load share the CPUs
//! with the server; with 16 at a time it is the server's own work.

use std::io;
use std::time::Duration;

use super::{Experiment, SERVED, Variant};
use crate::case::{Case, Reading};
use crate::experiments::{Bar, Depth, Metric, Plot};
use crate::kernel;
use crate::load::memcached::{self, KEYS};
use crate::load::server::Server;
use crate::load::{Load, Shape};

const CONNECTIONS: usize = 100;
const PIPELINED: &str = "16 at a time";
const SINGLE: &str = "one at a time";
const SETS_PERCENT: usize = 10;

pub static SKEW: Experiment = Experiment {
    name: "memcached-skew",
    source: "Sinew",
    measures: "Requests per second of the busiest thread’s CPU of a memcached server with two threads for each processor, over those with one, while every second of 100 connections is silent: 16 requests at a time on each connection, or one.",
    good: "Two: the threads share the work, whichever thread has the connections. One means that a second thread does not help.",
    metrics: &[
        Metric::higher("speedup", "times the figure with half the threads", 1.0),
        Metric::beside("ops_per_busiest_s", "thousand requests per second of the busiest thread", 1e3),
    ],
    plots: &[Plot::Bars { metric: "speedup" }],
    variants: |depth, _, _| {
        let mut variants = vec![Variant::new(PIPELINED, CONNECTIONS)];
        if depth == Depth::Full {
            variants.push(Variant::new(SINGLE, CONNECTIONS));
        }
        variants
    },
    measure: |case| measure(case).into(),
    bars: &[Bar::of("sinew/fair", PIPELINED, 1).at_least(1.6), Bar::of("sinew/fair", SINGLE, 1).at_least(1.6)],
    ..SERVED
};

fn measure(case: &Case) -> io::Result<Reading> {
    kernel::raise_descriptor_limit()?;
    let single = per_busiest(case)?;
    let double = per_busiest(&Case { processors: 2 * case.processors, ..case.clone() })?;
    Ok(Reading::of([("speedup", double / single), ("ops_per_busiest_s", double)]))
}

/// Returns the requests per second of CPU time of the busiest thread. The load has the last CPU.
fn per_busiest(case: &Case) -> io::Result<f64> {
    let server = Server::start(case)?;
    let cpus = kernel::allowed_cpus()?;
    std::thread::scope(|scope| {
        // The affinity is a thread's own: the next server is started from the other one.
        let load = scope.spawn(|| -> io::Result<f64> {
            kernel::pin_to(cpus.len() - 1..cpus.len())?;
            memcached::fill(server.address, KEYS)?;
            let depth = if case.variant == PIPELINED { 16 } else { 1 };
            let shape = Shape { depth, is_skewed: true, ..Shape::plain(case.threads) };
            let mut load = Load::connect(server.address, shape, memcached::traffic(SETS_PERCENT))?;
            let before = server.cpu_by_thread();
            let rate = load.closed(case.window() / 2)?;
            let used = server.cpu_by_thread().into_iter().map(|(thread, cpu)| {
                let known = before.iter().find(|(known, _)| *known == thread);
                cpu - known.map_or(Duration::ZERO, |(_, cpu)| *cpu)
            });
            Ok(rate.all as f64 / used.max().unwrap_or_default().as_secs_f64())
        });
        load.join().expect("the load does not panic")
    })
}
