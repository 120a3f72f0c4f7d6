#![doc = include_str!("README.md")]

pub(crate) mod batches;
mod blocking;
mod copy;
pub(crate) mod descriptor;
mod engine;
mod event_scope;
mod event_scoped;
#[cfg(all(test, sinew_loom))]
mod models;
mod pollable;
mod poller;
mod pollers;
mod pool;
pub mod ring;
mod select;
mod slots;
mod source;
mod stdio;

pub use batches::Batched;
pub use blocking::{BLOCKING_THREADS, blocking, blocking_async, set_blocking_threads};
pub use copy::copy;
pub use engine::{Engine, Means};
pub use event_scope::{EventScope, OtherScope};
pub use pollable::Pollable;
pub use pollers::Polling;
pub use stdio::{Stderr, Stdin, Stdout, stderr, stdin, stdout};

pub(crate) use batches::Batches;
pub(crate) use blocking::{load as blocking_load, run_aside};
pub(crate) use event_scope::Home;
pub(crate) use event_scoped::EventScoped;
pub(crate) use pollers::Pollers;
pub(crate) use ring::{ring_read, ring_read_owned, ring_sync, ring_sync_owned};
pub(crate) use slots::{Shown, Side};
pub(crate) use source::{Done, Source, limit_error};
