#![doc = include_str!("README.md")]

mod alarm;
mod awaiting;
mod block;
pub(crate) mod budget;
mod enrolled;
mod handover;
mod lent;
mod limits;
#[cfg(all(test, sinew_loom))]
mod models;
mod parker;
mod party;
mod queue;
mod request;
mod signalled;
mod stackful;
mod timers;
#[allow(clippy::module_inception)]
mod wait;
mod why;

pub(crate) use alarm::Alarm;
pub(crate) use awaiting::{Awaiting, wait_in_async};
pub(crate) use block::{block, block_within, block_within_and, park_thread, park_until, refuse_tasks, sleep};
pub(crate) use enrolled::{Enrolled, Finishing};
pub(crate) use lent::Lent;
pub(crate) use limits::{Limit, Limits, carried, carrying};
pub(crate) use party::{Party, Resumed, call};
pub(crate) use queue::{Batch, End, LARGEST_BATCH, Node, Queue, Told, wait_in};
pub(crate) use request::Cancel;
pub(crate) use signalled::Signalled;
pub(crate) use stackful::{Stackful, Switches, suspend, with_stackful, yield_now};
pub use timers::TestClock;
pub(crate) use timers::{Expiry, Hold, Minder, Timer, TimerOwner, Timers};
pub(crate) use wait::{Outcome, Wait};
pub(crate) use why::{Owner, Reason, Why};

use crate::base::describe::Entry;

/// The entries of the description.
pub(crate) const ENTRIES: &[&[Entry]] = &[stackful::ENTRIES, why::REASONS, why::OWNERS];
