//! Models of the lock-free protocols, which loom runs through all their
//! interleavings and all values that relaxed loads may see. One command:
//!
//! ```text
//! RUSTFLAGS="--cfg sinew_loom" cargo test -p sinew --release --test loom
//! ```
//!
//! A thread that waits for something that never comes shows as "exceeded
//! maximum number of branches": that is what a lost wake-up looks like here.
#![cfg(sinew_loom)]

mod cluster;
mod idle;
mod inbox;
mod inverted;
mod join;
mod queues;
mod sentinel;
mod spin;
mod state;
mod watched;

use watched::Watched;

/// Checks `model` with at most `preemptions` of a thread that could go on, or
/// as many as `LOOM_MAX_PREEMPTIONS` says. Most bugs need one or two.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.check(model);
}
