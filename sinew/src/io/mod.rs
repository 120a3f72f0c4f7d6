#![doc = include_str!("README.md")]

mod blocking;
mod copy;
pub(crate) mod descriptor;
mod pollable;
mod poller;
mod pollers;
pub(crate) mod pool;
mod scope;
mod scoped;
pub(crate) mod slots;
mod source;
mod stdio;

pub use blocking::{BLOCKING_THREADS, blocking, set_blocking_threads};
pub use copy::{copy, sendfile};
pub use pollable::Pollable;
pub use pollers::Polling;
pub use scope::{EventScope, OtherScope};
pub use stdio::{Stderr, Stdin, Stdout, stderr, stdin, stdout};

pub(crate) use poller::Poller;
pub(crate) use pollers::Pollers;
pub(crate) use scope::Home;
pub(crate) use scoped::Scoped;
pub(crate) use slots::{Shown, Side};
pub(crate) use source::{Done, Source};
