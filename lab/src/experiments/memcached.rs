//! `memcached`: Sinew's server beside the real one, with nine reads to one write of 100,000
//! values of 100 bytes: more than the caches of a core hold.
//!
//! Variants are the number of connections; `16 at a time`, reads only, which each connection
//! pipelines; and `busy`, in which the open loop has 50,000 requests per second: more than half
//! of what one core can do.

pub mod beside;
pub mod memory;
pub mod skew;

use std::io;

use super::serving::{self, METRICS, RATE, per_cpu};
use super::{Bar, Depth, Experiment, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::load::memcached::{self, KEYS};
use crate::load::{Load, Shape, memcaslap};
use crate::peers::Contender;

const PIPELINED: &str = "16 at a time";
const BUSY: &str = "busy";
const BUSY_RATE: f64 = 50_000.0;
const SETS_PERCENT: usize = 10;

pub static MEMCACHED: Experiment = Experiment {
    name: "memcached",
    source: "Barghi's thesis, 4.6; Delisle 2022, 8.1",
    measures: "Requests per second of a memcached server, nine reads to one write of 100 bytes under one of 100,000 keys, as fast as it can and for each second of its CPU time, and how long a reply takes when requests come at 10,000 per second whatever the server does. In full also with reads that come 16 at a time, and (busy) when requests come at 50,000 per second.",
    good: "At least the real memcached’s throughput, and a p99 that is no worse.",
    metrics: METRICS,
    plots: &[
        Plot::Bars { metric: "ops_per_cpu_s" },
        Plot::Bars { metric: "ops_per_s" },
        Plot::Bars { metric: "p99_us" },
        Plot::Quantiles,
    ],
    concerns: |peer| is_memcached(peer) || ["sinew/default/epoll", "sinew/fair/epoll"].contains(&peer.name),
    variants: |depth, _, _| {
        let mut variants = serving::connections(depth);
        if depth == Depth::Full {
            variants.push(Variant::new(PIPELINED, 64));
            variants.push(Variant::new(BUSY, 64));
        }
        variants
    },
    measure: |case| measure(case).into(),
    bars: &[
        per_cpu("sinew/fair", "64 connections").at_least(1.0).over_peers(&["memcached"]),
        per_cpu("sinew/fair", "1000 connections").at_least(1.0).over_peers(&["memcached"]),
        per_cpu("sinew/fair", PIPELINED).at_least(1.0).over_peers(&["memcached"]),
        Bar::of("sinew/fair", BUSY, 1).metric("p99_us").at_most(1.1).over_peers(&["memcached"]),
    ],
    ..SERVED
};

/// The common part of all experiments with memcached servers.
const SERVED: Experiment = Experiment {
    is_pinned: false,
    command: Some("memcached"),
    others: "only Sinew’s fibres and memcached itself have such a server. sinew/default is sinew memcached with --no-migration",
    concerns: is_memcached,
    serve: Some(memcached::serve),
    ..PLAIN
};

/// Returns whether a peer is `sinew memcached` under a scheduler, or the real one.
fn is_memcached(peer: &Contender) -> bool {
    peer.is_fibres() || peer.name == "memcached"
}

fn measure(case: &Case) -> io::Result<Reading> {
    let server = serving::start(case)?;
    memcached::fill(server.address, KEYS)?;
    let (depth, sets) = if case.variant == PIPELINED { (16, 0) } else { (1, SETS_PERCENT) };
    let shape = Shape { depth, ..Shape::plain(case.threads) };
    let mut load = Load::connect(server.address, shape, memcached::traffic(sets))?;
    let half = case.window() / 2;
    let mut reading = Reading::default();
    serving::closed(&server, &mut load, half, &mut reading)?;
    if depth == 1 {
        // The number of requests that the lab's own loop had answered.
        let requests = (reading.get("ops_per_s").unwrap_or(0.0) * half.as_secs_f64()) as usize;
        if let Some(rate) = memcaslap::per_second(server.address, case.threads, requests.max(case.threads)) {
            reading.set("foreign_per_s", rate);
        }
        serving::open(&mut load, half, if case.variant == BUSY { BUSY_RATE } else { RATE }, &mut reading)?;
    }
    Ok(reading)
}
