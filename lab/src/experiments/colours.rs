//! `colours`: resident bytes for each idle colour, and the work that they make.
//!
//! Each colour has run one event. The figure is the growth of `VmRSS` since before the first
//! colour was made, divided by their number. The handles, 8 bytes each, are the program's own
//! and not in it. Then the runtime is watched for a while, as in `idle`: it should do nothing.
//!
//! Tokio has a task for each colour, which waits for messages from its own channel. The
//! channels' senders are the handles there.

use std::time::Duration;

use sinew::event::Colour;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::idle::watched;
use super::{Bar, Depth, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Outcome, Reading};
use crate::measure::procfs::resident_bytes;
use crate::peers::events::{COLOURED, Events};
use crate::peers::fibres::Fibres;
use crate::peers::tokio_tasks::TokioTasks;
use crate::peers::{self, Peer, blocking};

const MILLION: &str = "1000000";

/// A colour takes 128 bytes. A runtime's own lists, in all, take less than half a byte for each of a million.
const MOST_BYTES: f64 = 128.5;

pub static COLOURS: Experiment = Experiment {
    name: "colours",
    source: "Sinew",
    measures: "Resident bytes for each idle colour, without the handle of 8 bytes; CPU time, system calls and wake-ups per second of a runtime that has them. Tokio has a task for each colour, fed by a channel.",
    good: "At most 128 bytes for each of a million, and zero of the rest: what is idle costs memory alone.",
    metrics: &[
        Metric::lower("bytes_per_colour", "bytes per colour", 1.0),
        Metric::beside("cpu_us_per_s", "CPU µs per second", 1.0),
        Metric::beside("calls_per_s", "system calls/s (strace)", 1.0),
        Metric::beside("wakeups_per_s", "wake-ups/s", 1.0),
    ],
    plots: &[Plot::Lines { metric: "bytes_per_colour" }],
    unit: "colours",
    most_repeats: 3,
    limit: |_| Duration::from_secs(60),
    concerns: |peer| [peers::DEFAULT, COLOURED, "tokio"].contains(&peer.name),
    others: "memory has the bytes for each of their strands",
    variants: |depth, _, _| {
        let sizes: &[usize] = match depth {
            Depth::Tour => &[10_000, 100_000],
            Depth::Full => &[10_000, 100_000, 1_000_000],
        };
        sizes.iter().map(|&size| Variant::new(size, size)).collect()
    },
    measure,
    bars: &[
        Bar::of(peers::DEFAULT, MILLION, 1).at_most(MOST_BYTES),
        Bar::of(COLOURED, MILLION, 1).at_most(MOST_BYTES),
        Bar::of(peers::DEFAULT, MILLION, 1).metric("calls_per_s").at_most(0.0).in_every_run(),
        Bar::of(peers::DEFAULT, MILLION, 1).metric("cpu_us_per_s").at_most(200.0).in_every_run(),
        Bar::of(COLOURED, MILLION, 1).metric("calls_per_s").at_most(0.0).in_every_run(),
        Bar::of(COLOURED, MILLION, 1).metric("cpu_us_per_s").at_most(200.0).in_every_run(),
    ],
    check: |_, reading| match reading.get("bytes_per_colour") {
        Some(bytes) if bytes >= 8.0 => Ok(()),
        other => Err(format!("{other:?} bytes are less than the pointer to it")),
    },
    ..PLAIN
};

fn measure(case: &Case) -> Outcome {
    let (number, window) = (case.amount(), case.window());
    Outcome::Measured(match case.peer.as_str() {
        "tokio" => TokioTasks::new(case.processors).run(tasks(number, window)),
        _ => Events::new(case).run(move || colours(number, window)),
    })
}

/// Returns room for the handles that is resident from the start.
fn room<T>(number: usize, filler: impl Fn() -> T) -> Vec<T> {
    let mut room = Vec::with_capacity(number);
    room.extend((0..number).map(|_| filler()));
    room.clear();
    room
}

fn reading(before: u64, number: usize, mut watched: Reading, after: u64) -> Reading {
    watched.set("bytes_per_colour", after.saturating_sub(before) as f64 / number as f64);
    watched
}

fn colours(number: usize, window: Duration) -> Reading {
    let one = Colour::new();
    // The runtime makes what all colours share.
    one.run(|| ()).expect("an open colour");
    let mut colours = room(number, || one.clone());
    let before = resident_bytes();
    for _ in 0..number {
        let colour = Colour::new();
        colour.run(|| ()).expect("an open colour");
        colours.push(colour);
    }
    let after = resident_bytes();
    let watched = blocking(watched::<Fibres>(window));
    assert!(colours.iter().all(Colour::is_idle));
    reading(before, number, watched, after)
}

async fn live(mut messages: UnboundedReceiver<UnboundedSender<()>>) {
    while let Some(reply) = messages.recv().await {
        let _ = reply.send(());
    }
}

async fn tasks(number: usize, window: Duration) -> Reading {
    let (one, _) = unbounded_channel();
    let mut senders = room(number, || one.clone());
    let (reply, mut replies) = unbounded_channel();
    let before = resident_bytes();
    for _ in 0..number {
        let (sender, messages) = unbounded_channel();
        tokio::spawn(live(messages));
        assert!(sender.send(reply.clone()).is_ok(), "a task that receives");
        replies.recv().await.expect("a reply");
        senders.push(sender);
    }
    let after = resident_bytes();
    let watched = watched::<TokioTasks>(window).await;
    reading(before, number, watched, after)
}
