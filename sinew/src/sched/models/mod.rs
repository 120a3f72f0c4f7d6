//! Models of the schedulers' queues.
//!
//! | file | what is modelled | what is abstracted |
//! | --- | --- | --- |
//! | `coloured` | [`Coloured`](super::Coloured): growth, colours that are sent to their seats | as below; a steal takes no time |
//! | `queues` | [`Coloured`](super::Coloured), [`Fair`](super::Fair) and [`Shared`](super::Shared): a strand that goes in comes out once | strands are never run; all of them are old enough to be stolen; one cache |
//! | `inverted` | [`Inverted`](super::Inverted): its counter and the processors that wait | as above |
//!
//! The models of `processor` put schedulers and sleeping processors together.

mod coloured;
mod inverted;
mod queues;

use super::{Local, Placement, Ready, Scheduler, Topology};
use crate::strand::models::retire;
use std::sync::Arc;

/// Long after everything: no strand is too young to be taken.
pub(crate) const NOW: u64 = 1 << 40;

pub(crate) fn attach(scheduler: &dyn Scheduler, index: u16) -> Box<dyn Local> {
    scheduler.attach(Placement::simulated(index, Arc::new(Topology::flat(2)), index.into()))
}

/// Ends strands. Returns their numbers.
pub(crate) fn numbers(strands: impl IntoIterator<Item = Ready>) -> Vec<u64> {
    strands.into_iter().map(retire).collect()
}
