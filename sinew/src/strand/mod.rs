#![doc = include_str!("README.md")]

pub(crate) mod blocks;
mod fifo;
mod header;
mod ids;
mod inbox;
pub(crate) mod join;
mod kind;
#[cfg(all(test, sinew_loom))]
pub(crate) mod models;
mod owed;
mod priority;
mod ready;
mod state;

pub use fifo::Claim;
pub(crate) use fifo::{Fifo, Levels, PassedOver};
pub(crate) use header::{Strand, container};
pub(crate) use ids::fresh_ids;
pub(crate) use inbox::Inbox;
pub(crate) use kind::{After, Kind, bound};
pub(crate) use owed::Owed;
pub use priority::Priority;
pub use ready::Ready;
pub(crate) use ready::StrandArc;
pub(crate) use state::{State, Woken};
