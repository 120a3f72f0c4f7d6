//! `chat`: a chat server without its network. Sessions send messages to friends and to groups, in
//! a closed loop: 1,000 messages for each processor are in flight. `lab/peers/erlang/README.md` has
//! the details that every peer keeps to.

use std::time::Duration;

use super::{Depth, Experiment, Metric, PLAIN, Plot, Variant};
use crate::peers::{erlang, language};

/// The thesis's number of sessions.
const CLOSED: &str = "closed";
const SESSIONS: usize = 1_000_000;

/// The same with sessions that fit into the caches.
const SMALL: &str = "small";
const FEW: usize = 10_000;

pub static CHAT: Experiment = Experiment {
    name: "chat",
    source: "Barghi's thesis, 5.4.3",
    measures: "A chat server with a million sessions, or with 10,000 (small): messages to friends and to groups of about 550 sessions are decrypted, logged twice, forwarded, and encrypted by each receiver. 1,000 messages for each processor are in flight.",
    good: "Many deliveries, and few bytes for a session that waits.",
    metrics: &[
        Metric::higher("deliveries_per_s", "thousand deliveries/s", 1e3),
        Metric::beside("sent_per_s", "thousand messages/s", 1e3),
        Metric::lower("p50_us", "µs, p50", 1.0),
        Metric::lower("p99_us", "µs, p99", 1.0),
        Metric::beside("max_ms", "ms, longest", 1.0),
        Metric::lower("resident_bytes", "bytes per session", 1.0),
    ],
    plots: &[Plot::Bars { metric: "deliveries_per_s" }, Plot::Bars { metric: "resident_bytes" }],
    most_repeats: 5,
    // A million sessions take half a minute to set up.
    limit: |_| Duration::from_secs(240),
    variants: |depth, _, _| match depth {
        Depth::Tour => vec![Variant::new(SMALL, FEW)],
        Depth::Full => vec![Variant::new(CLOSED, SESSIONS), Variant::new(SMALL, FEW)],
    },
    concerns: |peer| peer.name == erlang::NAME,
    others: "the server is not written for them",
    measure: |case| language::find(&case.peer).expect("no other peer takes part").replace_process(case),
    check: |_, reading| match (reading.get("deliveries_per_s"), reading.get("sent_per_s")) {
        (Some(deliveries), Some(sent)) if deliveries > 0.0 && sent > 0.0 => Ok(()),
        other => Err(format!("deliveries and messages: {other:?}")),
    },
    ..PLAIN
};
