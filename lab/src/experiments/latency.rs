//! `latency`: how long the clients of a plaintext server wait, on Sinew with and without io_uring.
//!
//! Requests come at a moderate rate whatever the server does. In the second variant one request of
//! a hundred computes for 10 ms and does not give way. Only the times of the other requests count.
//! Replies that wait to be sent as a batch behind such a request would be late.

use std::io;
use std::time::{Duration, Instant};

use super::{Bar, Depth, Experiment, Metric, PLAIN, Plot, Variant, serving};
use crate::case::{Case, Outcome, Reading};
use crate::load::http::{self, PLAINTEXT, ROOM, Stay, requests};
use crate::load::{Load, Shape, Traffic, server};
use crate::peers::{self, Body, Peer};

const CONNECTIONS: usize = 64;

const QUICK: &str = "all quick";
const COMPUTING: &str = "1 % compute 10 ms";

/// The requests that compute, of a hundred.
const PERCENT: usize = 1;
const COMPUTE: Duration = Duration::from_millis(10);
const COMPUTE_PATH: &str = "/compute";
const COMPUTE_BEGIN: &[u8] = b"GET /compute ";

/// Requests per second with those that compute, which take a fifth of a CPU.
const COMPUTING_RATE: f64 = 2_000.0;

const NAMES: [&str; 6] =
    ["sinew/default", "sinew/fair", "sinew/default/epoll", "sinew/fair/epoll", "tokio", "tokio/current"];

pub static LATENCY: Experiment = Experiment {
    name: "latency",
    source: "Sinew",
    measures: "How long a reply of a plaintext server with 64 connections takes when requests come at 10,000 per second whatever the server does; and, in full, at 2,000 per second when one request of a hundred computes for 10 ms: the times of the others.",
    good: "Sinew with io_uring is no worse than without it.",
    metrics: &[
        Metric::lower("p99_us", "µs, p99", 1.0),
        Metric::beside("p50_us", "median", 1.0),
        Metric::beside("p90_us", "p90", 1.0),
        Metric::beside("p999_us", "p99.9", 1.0),
        Metric::beside("p9999_us", "p99.99", 1.0),
        Metric::beside("max_us", "max", 1.0),
        Metric::beside("lost", "requests without a reply", 1.0),
    ],
    plots: &[Plot::Bars { metric: "p99_us" }, Plot::Quantiles],
    is_pinned: false,
    others: "the experiment compares Sinew with io_uring and without it; web has all servers at a fixed rate",
    concerns: |peer| NAMES.contains(&peer.name),
    variants: |depth, _, _| {
        let names = if depth == Depth::Tour { &[QUICK][..] } else { &[QUICK, COMPUTING] };
        names.iter().map(|name| Variant::new(name, CONNECTIONS)).collect()
    },
    measure: |case| measure(case).into(),
    serve: Some(serve),
    bars: &[
        at_most("sinew/default", QUICK, 1, 1.05).over_peers(&["sinew/default/epoll"]),
        at_most("sinew/default", QUICK, 2, 1.05).over_peers(&["sinew/default/epoll"]),
        at_most("sinew/default", COMPUTING, 1, 1.1).over_peers(&["sinew/default/epoll"]),
        at_most("sinew/default", COMPUTING, 2, 1.1).over_peers(&["sinew/default/epoll"]),
        at_most("sinew/fair", QUICK, 1, 1.05).over_peers(&["sinew/fair/epoll"]),
        at_most("sinew/fair", QUICK, 2, 1.05).over_peers(&["sinew/fair/epoll"]),
        at_most("sinew/fair", COMPUTING, 1, 1.1).over_peers(&["sinew/fair/epoll"]),
        at_most("sinew/fair", COMPUTING, 2, 1.1).over_peers(&["sinew/fair/epoll"]),
    ],
    ..PLAIN
};

const fn at_most(peer: &'static str, variant: &'static str, processors: usize, bound: f64) -> Bar {
    Bar::of(peer, variant, processors).at_most(bound)
}

fn measure(case: &Case) -> io::Result<Reading> {
    let server = serving::start(case)?;
    let (traffic, rate): (Traffic, f64) = match case.variant == COMPUTING {
        true => (computing(), COMPUTING_RATE),
        false => (http::traffic(server.address, Stay::Open.request(PLAINTEXT))?, serving::RATE),
    };
    let mut load = Load::connect(server.address, Shape::plain(case.threads), traffic)?;
    load.count_only(|request| !request.starts_with(COMPUTE_BEGIN));
    let mut reading = Reading::default();
    // Warms up: the first requests of all connections.
    load.open(WARM_UP, rate)?;
    serving::open(&mut load, case.window(), rate, &mut reading)?;
    Ok(reading)
}

const WARM_UP: Duration = Duration::from_millis(50);

/// Returns traffic in which some requests compute. All replies are the same.
fn computing() -> Traffic {
    let (quick, slow) = (Stay::Open.request(PLAINTEXT), Stay::Open.request(COMPUTE_PATH));
    Box::new(move |random, bytes| {
        bytes.extend_from_slice(if random.below(100) < PERCENT { &slow } else { &quick });
        Stay::Open.reply().len()
    })
}

/// Runs in the server's process.
fn serve(case: &Case) -> io::Result<()> {
    match peers::measure::<Serve>(case) {
        Outcome::Measured(_) => Ok(()),
        other => Err(io::Error::other(format!("{other:?}"))),
    }
}

/// A server with one strand for each connection.
struct Serve;

impl Body for Serve {
    fn measure<P: Peer>(peer: P, _: &Case) -> Reading {
        peer.run(async {
            let listener = server::listener().expect("a port");
            let mut listener = P::listener(listener).expect("a listener");
            while let Ok(stream) = P::accept(&mut listener).await {
                P::spawn(session::<P>(stream));
            }
        });
        Reading::default()
    }
}

/// Answers one request at a time. Clients send no request before they have the reply.
async fn session<P: Peer>(mut stream: P::Stream) -> u64 {
    let (mut buffer, mut filled) = ([0; ROOM], 0);
    loop {
        filled += match P::read(&mut stream, &mut buffer[filled..]).await {
            Ok(0) | Err(_) => return 0,
            Ok(count) => count,
        };
        if requests(&buffer[..filled]).0 == 0 {
            continue;
        }
        if buffer.starts_with(COMPUTE_BEGIN) {
            compute();
        }
        if P::write_all(&mut stream, Stay::Open.reply()).await.is_err() {
            return 0;
        }
        filled = 0;
    }
}

/// Computes, without giving way.
fn compute() {
    let begun = Instant::now();
    while begun.elapsed() < COMPUTE {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::random::Random;

    #[test]
    fn one_request_of_a_hundred_computes() {
        let (mut traffic, mut random) = (computing(), Random::of(1));
        let mut computing = 0;
        for _ in 0..10_000 {
            let mut request = Vec::new();
            traffic(&mut random, &mut request);
            computing += usize::from(request.starts_with(COMPUTE_BEGIN));
        }
        assert!((70..130).contains(&computing), "{computing}");
    }
}
