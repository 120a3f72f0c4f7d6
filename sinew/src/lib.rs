#![doc = include_str!("../../README.md")]
#![warn(missing_docs)]

mod base;
pub mod cancel;
mod fibre;
pub mod fs;
pub mod io;
pub mod net;
mod processor;
mod runtime;
pub mod sched;
#[doc = include_str!("../../docs/soundness.md")]
pub mod soundness {}
mod stack;
mod strand;
pub mod sync;
pub mod task;
pub mod thread;
pub mod time;
mod wait;

pub use fibre::{
    AccessError, Fibre, FibreBuilder, FibreId, JoinHandle, Joining, LocalKey, Memory, Scope, ScopedJoinHandle,
    SelfJoin, SpawnError, current, memory, park, park_timeout, pinned, scope, sleep, sleep_until, spawn, trim,
    yield_now,
};
pub use io::blocking;
pub use processor::cluster::{Cluster, MigrateError, ResizeError, migrate_to};
pub use runtime::{BuildError, Builder, Leftovers, Runtime, run, run_migrating};
pub use strand::Priority;
pub use task::block_on;
