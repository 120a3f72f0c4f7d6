//! Waiting for descriptors.

mod budget;
mod poller;
mod slots;
mod source;

pub(crate) use poller::{Alarm, Poller};
pub(crate) use slots::{Shown, Side};
pub(crate) use source::{Done, Source};
