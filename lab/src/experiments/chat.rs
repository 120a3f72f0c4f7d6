//! `chat`: a chat server without its network. Sessions send messages to friends and to groups.
//! `lab/peers/erlang/README.md` has the details that every peer keeps to.
//!
//! | variant | messages |
//! | --- | --- |
//! | `closed` | 1,000 for each processor are in flight: the peak |
//! | `open` | come at half the rate of a peak that is measured first; times begin when a message is due |
//! | `timed` | each of 10,000 sessions sends one per second, by a timer of its own |
//! | `small` | as `closed`, with 10,000 sessions, which fit into the caches |
//! | `short`, `short open`, `short timed` | as `closed`, `open` and `timed`, with 1,000 or 100 sessions, and 20 messages in flight: for the tour and tests |

mod cipher;
mod members;
mod population;
mod serving;
mod tally;

use std::time::Duration;

use super::actors::{SCALE, SHORT};
use super::{Bar, Depth, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::Case;
use crate::peers::actors::{self, LOCAL, RACTOR};
use crate::peers::{DEFAULT, Kind, erlang};

const CLOSED: &str = "closed";
const OPEN: &str = "open";
const TIMED: &str = "timed";
const SMALL: &str = "small";
const SHORT_OPEN: &str = "short open";
const SHORT_TIMED: &str = "short timed";

/// The thesis's number of sessions.
const SESSIONS: usize = 1_000_000;
/// Sessions that can send a message per second each.
const FEW: usize = 10_000;
/// Sessions that can do so in a program that is not optimised, and for the other short variants.
const FEWEST: usize = 100;
const SHORT_SESSIONS: usize = 1000;

/// There is one group for this number of sessions.
const GROUP_SHARE: usize = 100;
const MOST_FRIENDS: usize = 100;
const MOST_GROUPS: usize = 10;
const MOST_BLOCKED: usize = 5;
/// The bytes of the longest message.
const LONGEST: usize = 1024;
const GROUP_PERCENT: u64 = 5;
/// Messages in flight for each processor.
const FLIGHT: usize = 1000;
/// The lines of a session's own log.
const CACHE: usize = 8;
/// The time between two messages of a session with a timer.
const PERIOD: Duration = Duration::from_secs(1);

/// The systems whose tour has all ways in which messages come.
const IN_TOUR: &[&str] = &[DEFAULT, LOCAL, RACTOR];

/// The systems that Sinew has to be three times as fast as.
const RIVALS: &[&str] = &[erlang::NAME, RACTOR];

/// Returns the messages in flight for each processor.
fn flight(case: &Case) -> usize {
    if [SHORT, SHORT_OPEN].contains(&case.variant.as_str()) { FLIGHT / SCALE as usize } else { FLIGHT }
}

pub static CHAT: Experiment = Experiment {
    name: "chat",
    source: "Barghi's thesis, 5.4.3",
    measures: "A chat server with a million sessions, or with 10,000 (small, timed) or fewer (short): messages to friends and to groups of about 550 sessions are decrypted, logged twice, forwarded, and encrypted by each receiver. 1,000 messages for each processor are in flight (closed, small), or they come at half that rate (open), or each session sends one per second (timed).",
    good: "Three times the deliveries of Erlang and ractor, at most 700 bytes for a session, and at half the peak a p99 of at most 10 ms.",
    metrics: &[
        Metric::higher("deliveries_per_s", "thousand deliveries/s", 1e3),
        Metric::beside("sent_per_s", "thousand messages/s", 1e3),
        Metric::lower("resident_bytes", "bytes per session", 1.0),
        Metric::beside("p1_us", "p1", 1.0),
        Metric::beside("p10_us", "p10", 1.0),
        Metric::beside("p25_us", "p25", 1.0),
        Metric::lower("p50_us", "µs, p50", 1.0),
        Metric::beside("p75_us", "p75", 1.0),
        Metric::beside("p90_us", "p90", 1.0),
        Metric::lower("p99_us", "µs, p99", 1.0),
        Metric::beside("p999_us", "p99.9", 1.0),
        Metric::beside("p9999_us", "p99.99", 1.0),
        Metric::beside("max_us", "max", 1.0),
    ],
    plots: &[
        Plot::Letters { beside: "deliveries_per_s" },
        Plot::Bars { metric: "deliveries_per_s" },
        Plot::Bars { metric: "resident_bytes" },
    ],
    most_repeats: 5,
    // A million sessions of another system take half a minute to set up.
    limit: |_| Duration::from_secs(240),
    variants: |depth, _, peer| {
        let is_language = peer.kind == Kind::Language;
        let sizes: &[(&str, usize)] = match depth {
            Depth::Tour if is_language || !IN_TOUR.contains(&peer.name) => &[(SHORT, SHORT_SESSIONS)],
            Depth::Tour => &[(SHORT, SHORT_SESSIONS), (SHORT_OPEN, SHORT_SESSIONS), (SHORT_TIMED, FEWEST)],
            Depth::Full if is_language => &[(CLOSED, SESSIONS), (SMALL, FEW)],
            Depth::Full => &[(CLOSED, SESSIONS), (OPEN, SESSIONS), (TIMED, FEW), (SMALL, FEW)],
        };
        sizes.iter().map(|&(name, sessions)| Variant::new(name, sessions)).collect()
    },
    concerns: |peer| actors::has_actors(peer) || peer.name == erlang::NAME,
    others: "the server is for actor systems, and is not written in the other languages",
    measure: actors::measure::<serving::Serving>,
    bars: &[
        Bar::of(DEFAULT, CLOSED, 1).at_least(3.0).over_peers(RIVALS),
        Bar::of(DEFAULT, CLOSED, 2).at_least(3.0).over_peers(RIVALS),
        Bar::of(DEFAULT, CLOSED, 1).metric("resident_bytes").at_most(700.0),
        Bar::of(DEFAULT, CLOSED, 2).metric("resident_bytes").at_most(700.0),
        Bar::of(DEFAULT, CLOSED, 1).metric("max_us").at_most(1e6).in_every_run(),
        Bar::of(DEFAULT, CLOSED, 2).metric("max_us").at_most(1e6).in_every_run(),
        Bar::of(DEFAULT, OPEN, 1).metric("p99_us").at_most(10_000.0),
        Bar::of(DEFAULT, OPEN, 2).metric("p99_us").at_most(10_000.0),
    ],
    check: |_, reading| match (reading.get("deliveries_per_s"), reading.get("sent_per_s")) {
        (Some(deliveries), Some(sent)) if deliveries > 0.0 && sent > 0.0 => Ok(()),
        other => Err(format!("deliveries and messages: {other:?}")),
    },
    ..PLAIN
};
