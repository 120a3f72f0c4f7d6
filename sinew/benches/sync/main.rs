//! What is shared and waited for, against the peers': locks, semaphores,
//! channels, and time.
//!
//! `cargo bench -p sinew --bench sync -- [experiment ...] [options]`.

mod blocking;
mod channel;
mod churn;
mod mutex;
#[path = "../support/mod.rs"]
mod support;
mod timers;
mod uncontended;
mod waiters;

use std::process::ExitCode;

use blocking::measure;
use support::Entry;

const EXPERIMENTS: [Entry; 6] = [
    Entry {
        name: uncontended::NAME,
        summary: "a lock that nobody else wants, beside std's",
        measure: uncontended::measure,
        conduct: uncontended::conduct,
    },
    Entry {
        name: churn::NAME,
        summary: "100 strands per processor, each posts to a random semaphore and waits for it",
        measure: measure::<churn::Churn>,
        conduct: churn::conduct,
    },
    Entry {
        name: channel::NAME,
        summary: "round trips through unbounded channels, 1 pair and 100",
        measure: measure::<channel::Channel>,
        conduct: channel::conduct,
    },
    Entry {
        name: mutex::NAME,
        summary: "1024 loops, 32 locks, 1 µs of computing inside and outside of the lock",
        measure: measure::<mutex::Mutexes>,
        conduct: mutex::conduct,
    },
    Entry {
        name: timers::NAME,
        summary: "arming and cancelling one timer of a million; how late a sleep ends",
        measure: timers::measure,
        conduct: timers::conduct,
    },
    Entry {
        name: waiters::NAME,
        summary: "100,000 waiters notified, or cancelled, at once, and how long others wait meanwhile",
        measure: waiters::measure,
        conduct: waiters::conduct,
    },
];

fn main() -> ExitCode {
    support::run("sync", &EXPERIMENTS)
}
