//! `files`: `sinew web` and nginx serve files of several sizes and a listing.
//!
//! The load is the lab's closed loop, by TLS that of `wrk`. There is no open loop. With files of
//! a megabyte, look at requests per second of time: the client's CPU does much of the work of
//! moving them.

use std::io;
use std::time::Duration;

use super::serving::{self, METRICS, per_cpu};
use super::{Bar, Depth, Experiment, PLAIN, Plot, Variant};
use crate::case::{Case, Reading};
use crate::load::http::{self, Stay};
use crate::load::server::Server;
use crate::load::sites::{self, LISTED, Scheme};
use crate::load::{Load, Shape, wrk};
use crate::peers::{self, Contender};

/// The variant by HTTPS.
const BY_TLS: &str = "16 KiB by TLS";

/// The least time under load by HTTPS, within which all connections of `wrk` shake hands.
const HANDSHAKES: Duration = Duration::from_secs(1);

/// The variants: what is asked for, and the number of connections.
const VARIANTS: [(&str, &str, usize); 4] =
    [("1 KiB", "/1k.bin", 64), ("16 KiB", "/16k.bin", 64), ("1 MiB", "/1m.bin", 16), (BY_TLS, "/16k.bin", 64)];

pub static FILES: Experiment = Experiment {
    name: "files",
    source: "Sinew",
    measures: "Requests per second for files of 1 KiB, 16 KiB and 1 MiB and for the listing of 100 files, as fast as the server can and for each second of its CPU time. By TLS, if wrk and openssl are installed, too.",
    good: "At least nginx’s figure for each second of CPU; with files of a megabyte, for each second.",
    metrics: METRICS,
    plots: &[Plot::Bars { metric: "ops_per_cpu_s" }, Plot::Bars { metric: "ops_per_s" }],
    is_pinned: false,
    others: "only real web servers serve files. sinew/web migrates, sinew/default is the same server with --no-migration",
    concerns: is_real,
    command: Some("web"),
    variants: |depth, _, _| {
        let has_tls = wrk::is_installed() && sites::has_openssl();
        let known = VARIANTS.iter().filter(|(name, ..)| *name != BY_TLS || has_tls);
        let mut variants: Vec<_> = known.map(|(name, _, connections)| Variant::new(name, *connections)).collect();
        variants.push(Variant::new("listing", 64));
        variants.truncate(if depth == Depth::Tour { 1 } else { usize::MAX });
        variants
    },
    measure: |case| measure(case).into(),
    serve: Some(|case| sites::serve(case, scheme(case))),
    bars: &[
        per_cpu("sinew/web", "1 KiB").at_least(1.0).over_peers(&["nginx"]),
        per_cpu("sinew/web", "16 KiB").at_least(1.0).over_peers(&["nginx"]),
        Bar::of("sinew/web", "1 MiB", 1).metric("ops_per_s").at_least(1.0).over_peers(&["nginx"]),
    ],
    ..PLAIN
};

/// Returns whether a peer serves files.
pub fn is_real(peer: &Contender) -> bool {
    ["sinew/web", "nginx", peers::DEFAULT].contains(&peer.name)
}

fn scheme(case: &Case) -> Scheme {
    if case.variant == BY_TLS { Scheme::Https } else { Scheme::Http }
}

fn path(case: &Case) -> String {
    let known = VARIANTS.iter().find(|(name, ..)| *name == case.variant);
    known.map_or_else(|| format!("/{}/", LISTED.0), |(_, path, _)| (*path).to_owned())
}

fn measure(case: &Case) -> io::Result<Reading> {
    let server = serving::start(case)?;
    let half = case.window() / 2;
    let path = path(case);
    let mut reading = Reading::default();
    if scheme(case) == Scheme::Https {
        by_wrk(case, &server, &path, &mut reading)?;
        return Ok(reading);
    }
    let traffic = http::traffic(server.address, Stay::Open.request(&path))?;
    let mut load = Load::connect(server.address, Shape::plain(case.threads), traffic)?;
    serving::closed(&server, &mut load, half, &mut reading)?;
    serving::foreign(case, &server, &path, Stay::Open, half, &mut reading);
    Ok(reading)
}

fn by_wrk(case: &Case, server: &Server, path: &str, reading: &mut Reading) -> io::Result<()> {
    let url = format!("https://{}{path}", server.address);
    let run = || {
        let rate = wrk::run(&url, Stay::Open, case.threads, HANDSHAKES.max(case.window() / 2));
        rate.ok_or_else(|| io::Error::other("wrk got no replies, or wrong ones"))
    };
    // Warms up.
    run()?;
    let before = server.cpu();
    let rate = run()?;
    let used = server.cpu() - before;
    reading.set("ops_per_s", rate.per_second);
    reading.set("ops_per_cpu_s", rate.requests / used.as_secs_f64());
    Ok(())
}
