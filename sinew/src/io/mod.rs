#![doc = include_str!("README.md")]

mod blocking;
mod copy;
pub(crate) mod descriptor;
mod event_scope;
mod event_scoped;
#[cfg(all(test, sinew_loom))]
mod models;
mod pollable;
mod poller;
mod pollers;
mod pool;
mod slots;
mod source;
mod stdio;

pub use blocking::{BLOCKING_THREADS, blocking, blocking_async, set_blocking_threads};
pub use copy::copy;
pub use event_scope::{EventScope, OtherScope};
pub use pollable::Pollable;
pub use pollers::Polling;
pub use stdio::{Stderr, Stdin, Stdout, stderr, stdin, stdout};

pub(crate) use blocking::run_aside;
pub(crate) use event_scope::Home;
pub(crate) use event_scoped::EventScoped;
pub(crate) use pollers::Pollers;
pub(crate) use slots::{Shown, Side};
pub(crate) use source::{Done, Source, limit_error};
