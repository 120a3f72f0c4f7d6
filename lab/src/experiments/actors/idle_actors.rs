//! `actors`: resident bytes for each idle actor with 16 bytes of state, and the work that they make.
//!
//! Each actor has had one message. The figure is the growth of `VmRSS` since before the first actor
//! was spawned, divided by their number. The addresses are the program's own, and not in it. Then
//! the runtime is watched for a while, as in `idle`: it should do nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::bars::Bar;
use crate::case::{Case, Outcome};
use crate::experiments::idle::watched;
use crate::experiments::{Depth, Experiment, Metric, PLAIN, Plot, Variant};
use crate::measure::countdown::Countdown;
use crate::measure::procfs::resident_bytes;
use crate::peers::DEFAULT;
use crate::peers::actors::{self, Behaviour, Benchmark, Flow, Promise, System};

const MILLION: &str = "1000000";

/// The actors that are spawned at once.
const PART: usize = 1000;

/// An actor may take 128 bytes. A runtime's own lists, in all, take less than half a byte for each of a million.
const MOST_BYTES: f64 = 128.5;

pub static ACTORS: Experiment = Experiment {
    name: "actors",
    source: "Sinew",
    measures: "Resident bytes for each idle actor with 16 bytes of state, without its address; CPU time, system calls and wake-ups per second of a runtime that has them.",
    good: "At most 128 bytes for each of a million, and zero of the rest: what is idle costs memory alone.",
    metrics: &[
        Metric::lower("bytes_per_actor", "bytes per actor", 1.0),
        Metric::beside("cpu_us_per_s", "CPU µs per second", 1.0),
        Metric::beside("calls_per_s", "system calls/s (strace)", 1.0),
        Metric::beside("wakeups_per_s", "wake-ups/s", 1.0),
    ],
    plots: &[Plot::Lines { metric: "bytes_per_actor" }],
    unit: "actors",
    most_repeats: 3,
    limit: |_| Duration::from_secs(60),
    concerns: actors::has_actors,
    others: "memory has the bytes for each of their strands",
    variants: |depth, _, _| {
        let sizes: &[usize] = match depth {
            Depth::Tour => &[10_000, 100_000],
            Depth::Full => &[10_000, 100_000, 1_000_000],
        };
        sizes.iter().map(|&size| Variant::new(size, size)).collect()
    },
    measure: actors::measure::<Idle>,
    bars: &[
        Bar::of(DEFAULT, MILLION, 1).at_most(MOST_BYTES),
        Bar::of(DEFAULT, MILLION, 1).metric("calls_per_s").at_most(0.0).in_every_run(),
        Bar::of(DEFAULT, MILLION, 1).metric("cpu_us_per_s").at_most(200.0).in_every_run(),
        Bar::of(DEFAULT, MILLION, 2).at_most(MOST_BYTES),
        Bar::of(DEFAULT, MILLION, 2).metric("calls_per_s").at_most(0.0).in_every_run(),
        Bar::of(DEFAULT, MILLION, 2).metric("cpu_us_per_s").at_most(200.0).in_every_run(),
    ],
    check: |_, reading| match reading.get("bytes_per_actor") {
        Some(bytes) if bytes >= 16.0 => Ok(()),
        other => Err(format!("{other:?} bytes are less than its state")),
    },
    ..PLAIN
};

struct Idle;

struct Part<S: System> {
    countdown: Countdown,
    over: Arc<Promise<S, ()>>,
}

/// An actor with 16 bytes of state.
struct Sleeper<S: System> {
    part: Arc<Part<S>>,
    messages: u64,
}

impl<S: System> Behaviour<S> for Sleeper<S> {
    /// The number of the actor in its part.
    type Message = usize;

    fn receive(&mut self, number: usize) -> Flow {
        self.messages += 1;
        if self.part.countdown.done(number) {
            self.part.over.keep(());
        }
        Flow::GoOn
    }
}

/// Spawns a part of the actors, and waits until each has had a message.
async fn spawn<S: System>(part: &Arc<Part<S>>, addresses: &mut Vec<S::Address<Sleeper<S>>>, actors: usize) {
    part.countdown.begin();
    for number in 0..actors {
        let address = S::spawn(Sleeper { part: Arc::clone(part), messages: 0 });
        S::tell(&address, number);
        addresses.push(address);
    }
    part.over.kept().await;
}

impl Benchmark for Idle {
    async fn root<S: System>(case: Case) -> Outcome {
        let number = case.amount();
        let over = Promise::<S, ()>::new();
        let one = Arc::new(Part::<S> { countdown: Countdown::new(1), over: Arc::clone(&over) });
        let part = Arc::new(Part::<S> { countdown: Countdown::new(PART), over });
        let mut addresses = Vec::with_capacity(number);
        // The runtime makes what all actors share, and the room for the addresses becomes resident.
        spawn(&one, &mut addresses, 1).await;
        let first = addresses.pop().expect("an address");
        addresses.extend((0..number).map(|_| first.clone()));
        addresses.clear();
        let before = resident_bytes();
        for _ in 0..number / PART {
            spawn(&part, &mut addresses, PART).await;
        }
        let after = resident_bytes();
        let mut reading = watched::<S::Strands>(case.window()).await;
        assert_eq!(addresses.len(), number);
        reading.set("bytes_per_actor", after.saturating_sub(before) as f64 / number as f64);
        Outcome::Measured(reading)
    }
}
