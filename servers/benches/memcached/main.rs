//! This server and the system's memcached under the same load, in turns.
//!
//! ```sh
//! cargo bench -p sinew-servers --bench memcached -- [EXPERIMENT...] [--repeat N] [--seconds S]
//! ```
//!
//! Each server has one thread, on one CPU; the load comes from another. What is compared is
//! operations for each second of CPU time that the server used, so that a generator that is
//! slower than the server does not matter. Experiments: `closed50`, `closed1000`, `pipelined`,
//! `open`, `idle`, `items`, `skewed`, `beside`; all of them if none is named. `idle` is what ten thousand
//! connections cost that have asked once, three seconds after the last of them did. `beside` is
//! what a client waits for single values while three others pipeline requests without end; where
//! other programs run, it is to be run by `chrt -f 1`, or its p99 is theirs.

mod beside;
mod load;
mod server;

use load::Load;
use server::{Kind, Server};
use std::time::Duration;

/// So long both servers have to give back what idle connections do not need.
const SETTLED: Duration = Duration::from_secs(3);

struct Plan {
    experiments: Vec<String>,
    repeat: usize,
    time: Duration,
}

fn plan() -> Plan {
    let mut plan = Plan { experiments: Vec::new(), repeat: 5, time: Duration::from_secs(3) };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|number| number.parse().ok()).expect("a number");
        match argument.as_str() {
            "--bench" => {}
            "--repeat" => plan.repeat = number(),
            "--seconds" => plan.time = Duration::from_secs(number() as u64),
            name => plan.experiments.push(name.to_owned()),
        }
    }
    plan
}

/// The middle one.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Medians for both servers, which take turns.
fn compare(name: &str, unit: &str, bar: &str, repeat: usize, measure: impl Fn(Kind) -> f64) -> [f64; 2] {
    let mut figures = [Vec::new(), Vec::new()];
    for _ in 0..repeat {
        for (kind, figures) in [Kind::Sinew, Kind::Memcached].into_iter().zip(&mut figures) {
            figures.push(measure(kind));
        }
    }
    let [ours, theirs] = figures.map(median);
    println!(
        "{name:<12} sinew {ours:>12.0} memcached {theirs:>12.0} {unit:<28} ratio {:.3} (bar: {bar})",
        ours / theirs
    );
    [ours, theirs]
}

/// Operations for each second of the server's CPU time.
fn throughput(kind: Kind, load: &Load) -> f64 {
    let server = Server::start(kind, &["-m", "1024", "-c", "4096", "-t", "1"]);
    load.fill(&server);
    let (before, operations) = (server.cpu_seconds(), load.run(&server).operations);
    operations as f64 / (server.cpu_seconds() - before)
}

fn main() {
    let plan = plan();
    if !server::is_installed() {
        println!("memcached is not installed: nothing to compare with");
        return;
    }
    server::pin_here();
    let wants = |name: &str| plan.experiments.is_empty() || plan.experiments.iter().any(|wanted| wanted == name);
    let base = Load { connections: 50, skewed: false, depth: 1, sets: 10, time: plan.time, rate: None };
    for (name, connections) in [("closed50", 50), ("closed1000", 1000)] {
        if wants(name) {
            let load = Load { connections, ..base };
            compare(name, "operations/CPU second", ">= 1", plan.repeat, |kind| throughput(kind, &load));
        }
    }
    if wants("pipelined") {
        let load = Load { depth: 16, sets: 0, ..base };
        compare("pipelined", "operations/CPU second", ">= 1", plan.repeat, |kind| throughput(kind, &load));
    }
    if wants("open") {
        open(&plan, base);
    }
    if wants("skewed") {
        skewed(&plan, base);
    }
    if wants("beside") {
        beside(&plan);
    }
    if wants("idle") {
        let resident = |kind| {
            let server = Server::start(kind, &["-c", "12000", "-t", "1"]);
            let connections = load::idle(&server, server::most_connections(10_000));
            std::thread::sleep(SETTLED);
            (server.resident() as f64, connections.len())
        };
        let count = resident(Kind::Memcached).1;
        let [ours, theirs] = compare("idle", "bytes resident", "see below", 1, |kind| resident(kind).0);
        println!(
            "             {:.0} bytes more for each of {count} connections that were idle for {} s (bar: 2048)",
            (ours - theirs) / count as f64,
            SETTLED.as_secs()
        );
    }
    if wants("items") {
        compare("items", "bytes resident", "<= 1.2", 1, |kind| {
            let server = Server::start(kind, &["-m", "1024", "-t", "1"]);
            load::fill(&server, 1_000_000);
            server.resident() as f64
        });
    }
}

/// Latency at 60 % of what memcached can do.
fn open(plan: &Plan, base: Load) {
    let most = {
        let server = Server::start(Kind::Memcached, &["-m", "1024", "-t", "1"]);
        base.fill(&server);
        base.run(&server).operations as f64 / base.time.as_secs_f64()
    };
    let load = Load { rate: Some(0.6 * most), ..base };
    let latency = |kind, part: f64| {
        let server = Server::start(kind, &["-m", "1024", "-t", "1"]);
        load.fill(&server);
        load.run(&server).latency(part) as f64
    };
    println!("open: {:.0} operations/s", 0.6 * most);
    compare("open p50", "ns", "", plan.repeat, |kind| latency(kind, 0.50));
    compare("open p99", "ns", "<= 1.1", plan.repeat, |kind| latency(kind, 0.99));
}

/// Half of the connections idle, the rest dealt out to one thread of two. What two threads make
/// of it: operations for each second that the busiest of them used, against those of one thread.
/// So a second CPU for the server is not needed to see what it would be worth. With single
/// requests, what is measured is mostly how the kernel and the load share the CPUs with them;
/// with 16 at a time it is the server's own work.
fn skewed(plan: &Plan, base: Load) {
    let figure = |kind, threads, depth| {
        let load = Load { connections: 100, skewed: true, depth, ..base };
        let server = Server::start_on("0,1", kind, &["-m", "1024", "-t", threads]);
        load.fill(&server);
        let before = server.thread_seconds();
        let operations = load.run(&server).operations as f64;
        let after = server.thread_seconds();
        let used = after.iter().map(|(thread, seconds)| seconds - before.get(thread).unwrap_or(&0.0));
        operations / used.fold(f64::MIN_POSITIVE, f64::max)
    };
    for (kind, depth) in [(Kind::Sinew, 1), (Kind::Sinew, 16), (Kind::Memcached, 1), (Kind::Memcached, 16)] {
        let speedups = (0..plan.repeat).map(|_| figure(kind, "2", depth) / figure(kind, "1", depth)).collect();
        println!(
            "skewed       {kind:?} with two threads, {depth} at a time: {:.2} of one (bar for sinew: >= 1.6)",
            median(speedups)
        );
    }
}

/// Measures the waits of one client beside three that pipeline, and the answers that these get.
fn beside(plan: &Plan) {
    let cases =
        [("stats", "stats\r\n", b'D'), ("get", "get key_00000001\r\n", b'D'), ("mg", "mg key_00000002 s v\r\n", b'A')];
    for (name, request, end) in cases {
        let seen = std::cell::RefCell::new([Vec::new(), Vec::new()]);
        compare(&format!("{name} p50"), "us", "<= 2", plan.repeat, |kind| {
            let server = Server::start(kind, &["-m", "1024", "-t", "1"]);
            let one = beside::run(&server, request, end, plan.time);
            let median = one.median;
            seen.borrow_mut()[usize::from(kind == Kind::Memcached)].push(one);
            median
        });
        let figures = |pick: fn(&beside::Seen) -> f64| {
            let [ours, theirs] =
                seen.borrow().each_ref().map(|seen| median(seen.iter().map(pick).collect::<Vec<f64>>()));
            (ours, theirs, ours / theirs)
        };
        let (ours, theirs, ratio) = figures(|seen| seen.p99);
        println!("{name:>8} p99 sinew {ours:>12.0} memcached {theirs:>12.0} us, ratio {ratio:.3} (bar: <= 2)");
        let (ours, theirs, ratio) = figures(|seen| seen.answers);
        println!("{name:>8} ans sinew {ours:>12.0} memcached {theirs:>12.0} answers/s to the others, ratio {ratio:.3}");
    }
}
