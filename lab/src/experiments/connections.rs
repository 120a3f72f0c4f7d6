//! `connections`: the memory that a server of `web` keeps for each connection that has been used
//! and is idle. The kernel's memory for the socket is not in the figure.
//!
//! The figure is the growth of the resident bytes that belong to no file, from ten connections
//! to all, divided by their number. File pages are left out: they exist once, and the kernel
//! takes them away as it likes. In the last variant all clients have been silent
//! for three seconds: the real servers give memory back by then.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use super::web::{self, serves_plaintext};
use super::{Bar, Depth, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::kernel;
use crate::load::connect;
use crate::load::http::{self, PLAINTEXT, Stay};
use crate::load::server::Server;

/// After this time a server has given back the memory that silent clients do not need.
pub const SILENCE: Duration = Duration::from_secs(3);
/// Connections that are not counted: the first ones also cost what exists once.
const FIRST: usize = 10;
/// Descriptors that are not connections of the case: a server keeps some free for others, and
/// for files.
const OTHERS: usize = 5000;

const FEW: usize = 1000;
const SILENT: &str = "silent for 3 s";

pub static CONNECTIONS: Experiment = Experiment {
    name: "connections",
    source: "Sinew",
    measures: "Resident bytes of a web server for each of 1,000 connections that has been used once and is idle; in full also of 10,000, at once and after three seconds of silence. What the kernel keeps for the socket is not in the figure.",
    good: "A page and a little for a thread with a stack; less for a server that lets silent clients wait without one.",
    metrics: &[Metric::lower("bytes_per_connection", "bytes per connection", 1.0)],
    plots: &[Plot::Bars { metric: "bytes_per_connection" }],
    most_repeats: 3,
    limit: |_| Duration::from_secs(60),
    is_pinned: false,
    concerns: serves_plaintext,
    variants: |depth, _, _| {
        let most = most_connections();
        let used = |connections: usize| Variant::new(format!("{connections} used once"), connections);
        let mut variants = vec![used(FEW.min(most))];
        if depth == Depth::Full {
            variants.push(used(most));
            variants.push(Variant::new(format!("{most} {SILENT}"), most));
        }
        variants
    },
    measure: |case| measure(case).into(),
    serve: Some(web::serve),
    bars: &[
        Bar::of("sinew/fair", "10000 used once", 1).at_most(5120.0),
        Bar::of("sinew/inverted", "10000 used once", 1).at_most(5120.0),
        Bar::of("sinew/shared", "10000 used once", 1).at_most(5120.0),
    ],
    ..PLAIN
};

/// Returns the number of connections that a process may have descriptors for, 10,000 at most.
pub fn most_connections() -> usize {
    kernel::raise_descriptor_limit().unwrap_or(1024).saturating_sub(OTHERS).clamp(100, 10_000)
}

fn measure(case: &Case) -> io::Result<Reading> {
    kernel::raise_descriptor_limit()?;
    let server = Server::start(case)?;
    let request = Stay::Open.request(PLAINTEXT);
    let silence = if case.variant.ends_with(SILENT) { SILENCE } else { Duration::ZERO };
    let bytes = bytes_each(&server, case.threads, silence, |address| {
        let mut stream = connect(address)?;
        http::ask(&mut stream, &request).map(|_| stream)
    })?;
    Ok(Reading::of([("bytes_per_connection", bytes)]))
}

/// Returns the bytes that each connection made by `connect` adds to a server's memory.
pub fn bytes_each(
    server: &Server,
    count: usize,
    silence: Duration,
    connect: impl Fn(SocketAddr) -> io::Result<TcpStream>,
) -> io::Result<f64> {
    let connect = |_| connect(server.address);
    let first = (0..FIRST).map(connect).collect::<io::Result<Vec<_>>>()?;
    let before = server.anonymous_bytes();
    let connections = (0..count).map(connect).collect::<io::Result<Vec<_>>>()?;
    thread::sleep(silence);
    let after = server.anonymous_bytes();
    drop((first, connections));
    Ok(after.saturating_sub(before) as f64 / count as f64)
}
