//! `memcached-skew`: the speedup of a memcached server by a second thread when half of the
//! connections are silent. memcached deals connections out to its threads in turn, so that all
//! that ask are one thread's.
//!
//! Requests for each second of CPU that the busiest thread used, with twice the threads over
//! the same with one for each processor: so a further CPU is not needed to see what it would be
//! worth. With single requests the figure is mostly how the kernel and the load share the CPUs
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
    good: "Two: the threads share the work however the connections were dealt out. One is none of it.",
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

/// Requests per second of CPU time of the busiest thread. The load has the last CPU.
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
