#![doc = include_str!("../../README.md")]
#![warn(missing_docs)]

mod atomic;
mod budget;
pub mod cancel;
mod clock;
mod cluster;
mod drain;
mod fallback;
mod fence;
mod fibre;
mod fork;
pub mod fs;
mod here;
mod idle;
pub mod io;
mod kernel;
pub mod net;
mod prefetch;
mod processor;
mod runtime;
pub mod sched;
#[doc = include_str!("../../docs/soundness.md")]
pub mod soundness {}
mod spin;
mod strand;
pub mod sync;
pub mod task;
pub mod thread;
pub mod time;
mod wait;

pub use cluster::{Cluster, MigrateError, ResizeError, migrate_to};
pub use fibre::{
    AccessError, Fibre, FibreBuilder, FibreId, JoinHandle, Joining, LocalKey, Memory, Scope, ScopedJoinHandle,
    SelfJoin, SpawnError, current, memory, park, park_timeout, pinned, scope, sleep, sleep_until, spawn, trim,
    yield_now,
};
pub use io::blocking;
pub use runtime::{BuildError, Builder, Leftovers, Runtime, run, run_migrating};
pub use strand::Priority;
pub use task::block_on;

/// A broken invariant, or a state that cannot be left: one line, then the end.
#[cold]
fn fatal(message: &str) -> ! {
    use std::io::Write;
    // One write, for several threads may come here at once; and not `eprintln`, which panics
    // if it fails.
    let line = format!("sinew: fatal: {message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    std::process::abort()
}

#[cfg(sinew_loom)]
#[doc(hidden)]
pub mod protocols;
