//! `memcached-beside`: how long one client of a memcached server waits for a single value while
//! three others pipeline requests without end. Where other programs run, run the lab by
//! `chrt -f 1`, or the p99 is theirs.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use super::{Experiment, SERVED, Variant};
use crate::case::{Case, Reading};
use crate::experiments::{Bar, Depth, Metric, Plot, serving};
use crate::load::connect;
use crate::load::flood::Flood;
use crate::load::memcached::{self, HIT};
use crate::measure::latency::Latency;

/// Clients that pipeline.
const HEAVY: usize = 3;
const KEYS: usize = 1000;

/// The client pauses this long between two requests, so that it meets the others at any moment
/// of their work.
const PAUSE: Duration = Duration::from_micros(300);

/// A p99 needs this number of replies. A short window goes on for them, but not for longer than
/// this.
const LEAST_REPLIES: u64 = 1000;
const LONGEST: Duration = Duration::from_secs(2);

/// The requests of the others: a name, the bytes, and a byte that each reply has once.
const REQUESTS: [(&str, &str, u8); 3] =
    [("stats", "stats\r\n", b'D'), ("get", "get key_00000001\r\n", b'D'), ("mg", "mg key_00000002 s v\r\n", b'A')];

pub static BESIDE: Experiment = Experiment {
    name: "memcached-beside",
    source: "Sinew",
    measures: "How long one client of a memcached server waits for a single value while three others pipeline stats, gets, or meta gets without end, and how many replies those get.",
    good: "A median and a p99 that are at most twice the real memcached’s.",
    metrics: &[
        Metric::lower("p50_us", "µs, median", 1.0),
        Metric::beside("p90_us", "p90", 1.0),
        Metric::beside("p99_us", "p99", 1.0),
        Metric::beside("p999_us", "p99.9", 1.0),
        Metric::beside("p9999_us", "p99.99", 1.0),
        Metric::beside("max_us", "max", 1.0),
        Metric::beside("replies_per_s", "thousand replies/s to the others", 1e3),
    ],
    plots: &[Plot::Bars { metric: "p50_us" }, Plot::Bars { metric: "p99_us" }, Plot::Quantiles],
    variants: |depth, _, _| {
        let names = if depth == Depth::Tour { &REQUESTS[1..2] } else { &REQUESTS[..] };
        names.iter().map(|(name, ..)| Variant::new(format!("beside {name}"), HEAVY + 1)).collect()
    },
    measure: |case| measure(case).into(),
    bars: &[
        at_most_twice("beside stats", "p50_us"),
        at_most_twice("beside stats", "p99_us"),
        at_most_twice("beside get", "p50_us"),
        at_most_twice("beside get", "p99_us"),
        at_most_twice("beside mg", "p50_us"),
        at_most_twice("beside mg", "p99_us"),
    ],
    ..SERVED
};

const fn at_most_twice(variant: &'static str, metric: &'static str) -> Bar {
    Bar::of("sinew/fair", variant, 1).metric(metric).at_most(2.0).over_peers(&["memcached"])
}

fn measure(case: &Case) -> io::Result<Reading> {
    let known = REQUESTS.iter().find(|(name, ..)| case.variant.ends_with(&format!(" {name}")));
    let (_, request, end) = known.ok_or_else(|| io::Error::other(format!("no request: {}", case.variant)))?;
    let server = serving::start(case)?;
    memcached::fill(server.address, KEYS)?;
    let flood = Flood::begin(server.address, HEAVY, request, *end);
    let mut reading = Reading::default();
    let seen = wait_beside(connect(server.address)?, &flood, case.window(), &mut reading);
    flood.end().and(seen).map(|()| reading)
}

fn wait_beside(mut stream: TcpStream, flood: &Flood, length: Duration, reading: &mut Reading) -> io::Result<()> {
    // The others have to be under way.
    while flood.replies() == 0 && !flood.has_ended() {
        thread::sleep(PAUSE);
    }
    let (begun, before) = (Instant::now(), flood.replies());
    let mut times = Latency::default();
    let mut reply = [0; HIT];
    let is_due = |replies| {
        let elapsed = begun.elapsed();
        elapsed < length || replies < LEAST_REPLIES && elapsed < LONGEST
    };
    while is_due(times.count()) && !flood.has_ended() {
        let asked = Instant::now();
        stream.write_all(b"get key_00000007\r\n")?;
        stream.read_exact(&mut reply)?;
        times.note(asked.elapsed());
        thread::sleep(PAUSE);
    }
    reading.set("replies_per_s", (flood.replies() - before) as f64 / begun.elapsed().as_secs_f64());
    times.read_into(reading);
    Ok(())
}
