//! What an actor waits for: an answer of another actor, or room in its mailbox. By this a cycle is found: see
//! [`edge`].

use super::cell::Cell;
use super::edge::{self, Edge, Node};
use super::errors::ActorId;
use super::traits::Actor;
use super::untyped::Untyped;
use crate::mailbox::Handle;

impl Node for Untyped {
    fn address(&self) -> usize {
        Untyped::address(self)
    }

    fn edge(&self) -> Option<&Edge> {
        self.annex().map(|annex| &annex.edge)
    }

    fn behind(&self, target: usize) -> Option<Untyped> {
        Untyped::at(target)
    }
}

/// A wait of the calling actor. Dropped when the wait is over.
pub(super) struct Waiting(Option<Untyped>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(caller) = &self.0 {
            caller.annex().into_iter().for_each(|annex| annex.edge.leave());
        }
    }
}

/// Notes that the caller waits for `target`. Does nothing if the caller is no actor.
///
/// # Errors
/// The caller would wait for ever: the actors of the cycle, the caller first.
#[inline]
pub(super) fn begin<A: Actor>(target: &Handle<Cell<A>>) -> Result<Waiting, Vec<ActorId>> {
    match Untyped::caller() {
        None => Ok(Waiting(None)),
        Some(caller) => begin_as(caller, &Untyped::new(target.strand())),
    }
}

fn begin_as(caller: Untyped, target: &Untyped) -> Result<Waiting, Vec<ActorId>> {
    let cycle = edge::enter(&caller, &caller.annex_or_new().edge, target);
    let waiting = Waiting(Some(caller));
    match cycle {
        Some(cycle) => Err(cycle.iter().map(Untyped::id).collect()),
        None => Ok(waiting),
    }
}
