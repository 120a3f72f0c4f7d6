//! The common parts of the experiments with servers.
//!
//! A server is a process of its own with one CPU for each processor of the case; the load comes
//! from the other CPUs, if there are any. The figure that counts is requests per second of the
//! server's CPU time. The number of requests depends on the generator, but the CPU time that the
//! server needs for one does not.
//!
//! First all connections ask as fast as they get replies, then those of a foreign generator if
//! one is installed, then requests come at a fixed rate. The rate is the same for all peers: a
//! share of what each server can do would be another load for each.

use std::io;
use std::time::Duration;

use super::{Bar, Depth, Metric, Variant};
use crate::case::{Case, Reading};
use crate::kernel;
use crate::load::http::Stay;
use crate::load::server::Server;
use crate::load::{Load, wrk};

/// Requests per second of the open loop: a fraction of what one core can do.
pub const RATE: f64 = 10_000.0;

/// The longest warm-up. First touches of memory are not what a request costs.
const WARM_UP: Duration = Duration::from_millis(50);

pub const METRICS: &[Metric] = &[
    Metric::higher("ops_per_s", "thousand requests/s, closed loop", 1e3),
    Metric::higher("ops_per_cpu_s", "thousand requests per second of server CPU", 1e3),
    Metric::beside("foreign_per_s", "thousand requests/s by wrk or memcaslap", 1e3),
    Metric::higher("foreign_per_cpu_s", "thousand by wrk per second of server CPU", 1e3),
    Metric::beside("foreign_busy", "share of the server’s CPUs that wrk uses", 1.0),
    Metric::beside("p50_us", "µs at a fixed rate, median", 1.0),
    Metric::beside("p90_us", "p90", 1.0),
    Metric::beside("p99_us", "p99", 1.0),
    Metric::beside("p999_us", "p99.9", 1.0),
    Metric::beside("p9999_us", "p99.99", 1.0),
    Metric::beside("max_us", "max", 1.0),
    Metric::beside("lost", "requests without a reply", 1.0),
];

/// A bar for requests per second of the server's CPU time, on one processor.
pub const fn per_cpu(peer: &'static str, variant: &'static str) -> Bar {
    Bar::of(peer, variant, 1).metric("ops_per_cpu_s")
}

/// A bar for requests of `wrk` per second of the server's CPU time, on one processor.
pub const fn by_wrk(peer: &'static str, variant: &'static str) -> Bar {
    Bar::of(peer, variant, 1).metric("foreign_per_cpu_s")
}

/// Returns the variants by the number of connections that stay.
pub fn connections(depth: Depth) -> Vec<Variant> {
    let numbers: &[usize] = if depth == Depth::Tour { &[64] } else { &[64, 1000] };
    numbers.iter().map(|&number| Variant::new(format!("{number} connections"), number)).collect()
}

/// Starts the server of a case, and moves this thread to the CPUs that the server has not.
pub fn start(case: &Case) -> io::Result<Server> {
    kernel::raise_descriptor_limit()?;
    let server = Server::start(case)?;
    let cpus = kernel::allowed_cpus()?.len();
    if cpus > case.processors {
        kernel::pin_to(case.processors..cpus)?;
    }
    Ok(server)
}

/// Runs a closed loop after a warm-up. Sets `ops_per_s` and `ops_per_cpu_s`.
pub fn closed(server: &Server, load: &mut Load, length: Duration, reading: &mut Reading) -> io::Result<()> {
    load.closed(length.min(WARM_UP))?;
    let before = server.cpu();
    let rate = load.closed(length)?;
    let used = server.cpu() - before;
    reading.set("ops_per_s", rate.per_second);
    reading.set("ops_per_cpu_s", rate.all as f64 / used.as_secs_f64());
    Ok(())
}

/// Runs `wrk`, if it is installed. Sets `foreign_per_s`, `foreign_per_cpu_s` and `foreign_busy`.
pub fn foreign(case: &Case, server: &Server, path: &str, stay: Stay, length: Duration, reading: &mut Reading) {
    let url = format!("http://{}{path}", server.address);
    let before = server.cpu();
    let Some(rate) = wrk::run(&url, stay, case.threads, length) else { return };
    let used = (server.cpu() - before).as_secs_f64();
    reading.set("foreign_per_s", rate.per_second);
    reading.set("foreign_per_cpu_s", rate.requests / used);
    reading.set("foreign_busy", used * rate.per_second / rate.requests / case.processors as f64);
}

/// A p99 needs this number of requests.
const LEAST_REQUESTS: f64 = 1200.0;

/// Runs an open loop, for a p99 at least. Sets `lost`, `p50_us` and so on.
pub fn open(load: &mut Load, length: Duration, rate: f64, reading: &mut Reading) -> io::Result<()> {
    let length = length.max(Duration::from_secs_f64(LEAST_REQUESTS / rate));
    let served = load.open(length, rate)?;
    reading.set("lost", served.lost as f64);
    served.times.read_into(reading);
    Ok(())
}
