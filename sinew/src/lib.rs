#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod actor;
mod base;
pub mod cancel;
pub mod event;
mod fibre;
pub mod fs;
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod identity;
#[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
#[path = "identity/absent.rs"]
mod identity;
pub mod inspect;
pub mod io;
mod mailbox;
pub mod memory;
pub mod net;
pub mod process;
mod processor;
mod runtime;
pub mod sched;
pub mod shutdown;
pub mod signal;
#[doc = include_str!("../docs/soundness.md")]
pub mod soundness {}
mod stack;
pub mod stand;
mod strand;
pub mod sync;
pub mod task;
pub mod thread;
pub mod time;
mod wait;

pub use fibre::{
    AccessError, Fibre, FibreBuilder, FibreId, Group, GroupJoinHandle, JoinHandle, Joining, LocalKey, Scope,
    ScopedJoinHandle, SelfJoin, context, current, migrate_to, park, park_timeout, pinned, scope, spawn, try_scope,
    yield_now,
};
pub use io::{blocking, blocking_async};
pub use processor::cluster::{BuildError, Cluster, HeldUp, MigrateError, ResizeError};
pub use processor::spawn::SpawnError;
pub use processor::stall::{Stall, StrandKind};
pub use runtime::{Builder, ClusterBuilder, Leftovers, Runtime, metrics, run, run_migrating};
pub use strand::Priority;
pub use task::block_on;
pub use time::{sleep, sleep_until};
