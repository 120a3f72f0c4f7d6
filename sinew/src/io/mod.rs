//! Waiting for descriptors, and for what the kernel has no way to wait for.

mod blocking;
mod budget;
mod poller;
mod slots;
mod source;

pub use blocking::{BLOCKING_THREADS, blocking, set_blocking_threads};

pub(crate) use poller::{Alarm, Poller};
pub(crate) use slots::{Shown, Side};
pub(crate) use source::{Done, Source};
