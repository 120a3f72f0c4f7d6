//! `web`: a plaintext server with one strand for each connection, against a bare
//! epoll loop, nginx, and `sinew web`: a real server, which parses what it is asked
//! and says the date.
//!
//! Variants are the number of connections that stay, and one in which each request has a
//! connection of its own: accept, read, write, close. That one has no open loop.
//!
//! Tokio takes part twice: with its multi-thread runtime, as in other experiments, and with its
//! runtime of one thread, which is the faster one on a single core.
//!
//! Peers whose names end in `/epoll` are Sinew without io_uring. What io_uring is worth depends on
//! how many connections a server finds ready at once, so on whether its CPU is full: `foreign_busy`
//! is its share that `wrk` uses.

use std::io;

use super::serving::{self, METRICS, RATE, by_wrk, per_cpu};
use super::{Depth, Experiment, PLAIN, Plot, Variant};
use crate::case::{Case, Outcome, Reading};
use crate::load::http::{self, PLAINTEXT, ROOM, Stay, requests};
use crate::load::{Load, Shape, bare, monoio, server, sites, tokio_uring};
use crate::peers::{self, Body, Contender, Peer};

/// The variant with a connection for each request.
const ONE_EACH: &str = "a connection for each request";

pub static WEB: Experiment = Experiment {
    name: "web",
    source: "Karsten & Barghi 2020, 5.2; Delisle 2022, 8.2",
    measures: "Requests per second of a plaintext web server with a thread for each connection, as fast as it can and for each second of its CPU time, and how long a reply takes when requests come at 10,000 per second whatever the server does; in full also with a connection for each request.",
    good: "At least the bare epoll loop’s figure for each second of CPU: threads are then free.",
    metrics: METRICS,
    plots: &[Plot::Bars { metric: "ops_per_cpu_s" }, Plot::Bars { metric: "ops_per_s" }, Plot::Quantiles],
    is_pinned: false,
    concerns: |peer| serves_plaintext(peer) || FOR_RINGS.contains(&peer.name),
    variants: |depth, _, _| {
        let mut variants = serving::connections(depth);
        if depth == Depth::Full {
            variants.push(Variant::new(ONE_EACH, 64));
        }
        variants
    },
    measure: |case| measure(case).into(),
    serve: Some(serve),
    bars: &[
        per_cpu("sinew/default", "64 connections").at_least(1.0).over_peers(&["bare/epoll"]),
        per_cpu("sinew/default", "1000 connections").at_least(1.0).over_peers(&["bare/epoll"]),
        per_cpu("sinew/fair", "64 connections").at_least(1.0).over_peers(&["bare/epoll"]),
        per_cpu("sinew/inverted", "64 connections").at_least(1.0).over_peers(&["bare/epoll"]),
        per_cpu("sinew/shared", "64 connections").at_least(1.0).over_peers(&["bare/epoll"]),
        per_cpu("sinew/web", "64 connections").at_least(1.1).over_peers(&["nginx"]),
        per_cpu("sinew/fair", "1000 connections").at_least(1.0).over_peers(&["bare/epoll"]),
        per_cpu("sinew/inverted", "1000 connections").at_least(1.0).over_peers(&["bare/epoll"]),
        per_cpu("sinew/shared", "1000 connections").at_least(1.0).over_peers(&["bare/epoll"]),
        per_cpu("sinew/web", "1000 connections").at_least(1.1).over_peers(&["nginx"]),
        per_cpu("sinew/fair", ONE_EACH).at_least(1.0).over_peers(&["tokio/current"]),
        per_cpu("sinew/inverted", ONE_EACH).at_least(1.0).over_peers(&["tokio/current"]),
        per_cpu("sinew/shared", ONE_EACH).at_least(1.0).over_peers(&["tokio/current"]),
        per_cpu("sinew/web", ONE_EACH).at_least(0.95).over_peers(&["nginx"]),
        by_wrk("sinew/default", "64 connections").at_least(1.0).over_peers(&["bare/epoll"]),
        by_wrk("sinew/default", "64 connections").at_least(1.05).over_peers(&["tokio", "tokio/current"]),
        by_wrk("sinew/default", "64 connections").at_least(1.15).over_peers(&["tokio-uring"]),
        by_wrk("sinew/default", "64 connections").at_least(1.2).over_peers(&["nginx"]),
        by_wrk("sinew/default", "1000 connections").at_least(1.0).over_peers(&["bare/epoll"]),
        by_wrk("sinew/default", "1000 connections").at_least(1.05).over_peers(&["tokio", "tokio/current"]),
        by_wrk("sinew/default", "1000 connections").at_least(1.15).over_peers(&["tokio-uring"]),
        by_wrk("sinew/default", "1000 connections").at_least(1.2).over_peers(&["nginx"]),
        by_wrk("sinew/fair", "64 connections").at_least(1.0).over_peers(&["bare/epoll"]),
        by_wrk("sinew/fair", "64 connections").at_least(1.05).over_peers(&["tokio", "tokio/current"]),
        by_wrk("sinew/fair", "64 connections").at_least(1.15).over_peers(&["tokio-uring"]),
        by_wrk("sinew/fair", "64 connections").at_least(1.2).over_peers(&["nginx"]),
        by_wrk("sinew/fair", "1000 connections").at_least(1.0).over_peers(&["bare/epoll"]),
        by_wrk("sinew/fair", "1000 connections").at_least(1.05).over_peers(&["tokio", "tokio/current"]),
        by_wrk("sinew/fair", "1000 connections").at_least(1.15).over_peers(&["tokio-uring"]),
        by_wrk("sinew/fair", "1000 connections").at_least(1.2).over_peers(&["nginx"]),
    ],
    ..PLAIN
};

/// Further peers of `web`, which show what io_uring is worth.
const FOR_RINGS: [&str; 7] = [
    "sinew/default/epoll",
    "sinew/fair/epoll",
    "sinew/web/epoll",
    "bare/ring",
    "bare/ring/both",
    "tokio-uring",
    "monoio",
];

/// Returns whether a peer answers `/plaintext`.
pub fn serves_plaintext(peer: &Contender) -> bool {
    let is_server = || ["tokio/current", "bare/epoll", "sinew/web", "nginx"].contains(&peer.name);
    peer.is_runtime() || is_server()
}

fn stay(case: &Case) -> Stay {
    if case.variant == ONE_EACH { Stay::Close } else { Stay::Open }
}

/// Puts load on the server of a case that answers `/plaintext`.
pub fn measure(case: &Case) -> io::Result<Reading> {
    let stay = stay(case);
    let server = serving::start(case)?;
    let traffic = http::traffic(server.address, stay.request(PLAINTEXT))?;
    let shape = Shape { renews: stay == Stay::Close, ..Shape::plain(case.threads) };
    let mut load = Load::connect(server.address, shape, traffic)?;
    let half = case.window() / 2;
    let mut reading = Reading::default();
    serving::closed(&server, &mut load, half, &mut reading)?;
    serving::foreign(case, &server, PLAINTEXT, stay, half, &mut reading);
    if stay == Stay::Open {
        serving::open(&mut load, half, RATE, &mut reading)?;
    }
    Ok(reading)
}

/// Runs in the server's process.
pub fn serve(case: &Case) -> io::Result<()> {
    match case.peer.as_str() {
        bare if bare::NAMES.contains(&bare) => bare::serve(bare, server::listener()?, stay(case)),
        "tokio-uring" => tokio_uring::serve(server::listener()?, stay(case)),
        "monoio" => monoio::serve(server::listener()?, stay(case)),
        "nginx" | "sinew/web" | "sinew/web/epoll" => sites::serve(case, sites::Scheme::Http),
        _ => match peers::measure::<Serve>(case) {
            Outcome::Measured(_) => Ok(()),
            other => Err(io::Error::other(format!("{other:?}"))),
        },
    }
}

/// A server with one strand for each connection.
pub struct Serve;

impl Body for Serve {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        let stay = stay(case);
        peer.run(async move {
            let listener = server::listener().expect("a port");
            let mut listener = P::listener(listener).expect("a listener");
            while let Ok(stream) = P::accept(&mut listener).await {
                P::spawn(session::<P>(stream, stay));
            }
        });
        Reading::default()
    }
}

async fn session<P: Peer>(mut stream: P::Stream, stay: Stay) -> u64 {
    let (mut buffer, mut filled) = ([0; ROOM], 0);
    loop {
        filled += match P::read(&mut stream, &mut buffer[filled..]).await {
            Ok(0) | Err(_) => return 0,
            Ok(count) => count,
        };
        let (asked, end) = requests(&buffer[..filled]);
        for _ in 0..asked {
            if P::write_all(&mut stream, stay.reply()).await.is_err() {
                return 0;
            }
        }
        if asked > 0 && stay == Stay::Close {
            return 0;
        }
        buffer.copy_within(end..filled, 0);
        filled -= end;
        // A request that is longer than the buffer is refused.
        if filled == ROOM {
            return 0;
        }
    }
}
