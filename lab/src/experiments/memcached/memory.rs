//! `memcached-memory`: resident bytes of a memcached server for each item of 100 bytes, and for
//! each connection that has asked once and has been silent for three seconds.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use super::{Experiment, SERVED, Variant};
use crate::case::{Case, Reading};
use crate::experiments::connections::{SILENCE, bytes_each, most_connections};
use crate::experiments::{Bar, Depth, Metric, Plot};
use crate::kernel;
use crate::load::memcached;
use crate::load::server::Server;

const ITEMS: &str = "items";
const MANY_ITEMS: &str = "many items";

pub static MEMORY: Experiment = Experiment {
    name: "memcached-memory",
    source: "Sinew",
    measures: "Resident bytes of a memcached server for each of 100,000 or 1,000,000 items with a key of 12 bytes and a value of 100, and for each of up to 10,000 connections that has asked once and has been silent for three seconds since.",
    good: "At most 1.2 times the real memcached’s bytes for an item, and at most 2,048 bytes more for a connection.",
    metrics: &[Metric::lower("bytes_each", "bytes each", 1.0)],
    plots: &[Plot::Bars { metric: "bytes_each" }],
    most_repeats: 3,
    limit: |_| Duration::from_secs(60),
    variants: |depth, _, _| {
        let mut variants = vec![Variant::new(ITEMS, 100_000)];
        if depth == Depth::Full {
            variants.push(Variant::new(MANY_ITEMS, 1_000_000));
            variants.push(Variant::new("silent connections", most_connections()));
        }
        variants
    },
    measure: |case| measure(case).into(),
    check: |_, reading| match reading.get("bytes_each") {
        Some(bytes) if bytes > 0.0 => Ok(()),
        other => Err(format!("{other:?} bytes")),
    },
    bars: &[Bar::of("sinew/fair", MANY_ITEMS, 1).at_most(1.2).over_peers(&["memcached"])],
    ..SERVED
};

fn measure(case: &Case) -> io::Result<Reading> {
    kernel::raise_descriptor_limit()?;
    let bytes = if [ITEMS, MANY_ITEMS].contains(&case.variant.as_str()) {
        // One connection brings them all.
        let server = Server::start(&Case { threads: 1, ..case.clone() })?;
        let before = server.anonymous_bytes();
        memcached::fill(server.address, case.threads)?;
        server.anonymous_bytes().saturating_sub(before) as f64 / case.threads as f64
    } else {
        let server = Server::start(case)?;
        bytes_each(&server, case.threads, SILENCE, |address| {
            let mut stream = TcpStream::connect(address)?;
            memcached::greet(&mut stream).map(|()| stream)
        })?
    };
    Ok(Reading::of([("bytes_each", bytes)]))
}
