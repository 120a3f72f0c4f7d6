#![doc = include_str!("README.md")]

mod blocking;
mod copy;
pub(crate) mod descriptor;
mod event_scope;
mod in_scope;
#[cfg(all(test, sinew_loom))]
mod models;
mod pollable;
mod poller;
mod pollers;
mod pool;
mod slots;
mod source;
mod stdio;

pub use blocking::{BLOCKING_THREADS, blocking, set_blocking_threads};
pub use copy::{copy, sendfile};
pub use event_scope::{EventScope, OtherScope};
pub use pollable::Pollable;
pub use pollers::Polling;
pub use stdio::{Stderr, Stdin, Stdout, stderr, stdin, stdout};

pub(crate) use event_scope::Home;
pub(crate) use in_scope::Scoped;
pub(crate) use poller::Poller;
pub(crate) use pollers::Pollers;
pub(crate) use slots::{Shown, Side};
pub(crate) use source::{Done, Source};
