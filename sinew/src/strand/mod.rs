#![doc = include_str!("README.md")]

pub(crate) mod blocks;
mod depot;
mod header;
mod ids;
pub(crate) mod join;
mod kind;
mod levels;
#[cfg(all(test, sinew_loom))]
pub(crate) mod models;
mod owed;
mod priority;
mod queues;
mod ready;
#[cfg(test)]
mod simulated;
mod state;

pub(crate) use header::{Strand, container};

pub(crate) use ids::fresh_ids;
pub(crate) use kind::{After, Class, Face, Kind, bound};
pub use kind::{Past, Weight};
pub use levels::Claim;
pub(crate) use levels::{Levels, PassedOver};
pub(crate) use owed::Owed;
pub use priority::Priority;
pub(crate) use queues::{Fifo, Inbox};
pub(crate) use ready::StrandArc;
pub use ready::{Grown, Ready};
#[cfg(test)]
pub(crate) use simulated::SimulatedColour;
pub(crate) use state::{State, Woken};

use crate::base::describe::Entry;

/// The entries of the description.
pub(crate) const ENTRIES: &[&[Entry]] =
    &[depot::ENTRIES, header::ENTRIES, kind::ENTRIES, priority::ENTRIES, state::ENTRIES];
