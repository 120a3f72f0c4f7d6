//! The part of an actor that few need besides the value: a name, a bound, relations, restarts. It is made when it is first
//! needed, and stays as long as the actor's memory.

use super::edge::Edge;
use super::end::{Down, End, Failure, Relation};
use super::overflow::Overflow;
use super::restart::Supervision;
use super::timer::Ticking;
use super::untyped::Untyped;
use super::weak::{Anchor, Weak};
use crate::base::describe::Label;
use crate::strand::StrandArc;
use crate::sync::{Semaphore, oneshot};
use std::mem::offset_of;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

#[derive(Default)]
pub(super) struct Annex {
    pub(super) name: Option<Box<str>>,
    /// Where reports of this process find the name.
    label: Label,
    /// What the actor waits for.
    pub(super) edge: Edge,
    /// The permits for messages that wait, if their number is bounded.
    pub(super) room: Option<Semaphore>,
    /// The messages that wait, if the oldest one is dropped when there are too many.
    pub(super) overflow: Option<Overflow>,
    /// Made with the first weak address.
    pub(super) anchor: OnceLock<Arc<Anchor>>,
    shared: Mutex<Shared>,
}

/// No code of the program runs under its lock.
#[derive(Default)]
pub(super) struct Shared {
    /// Why the actor has failed, until that has been dealt with.
    pub(super) failure: Option<Failure>,
    /// Why the actor was ordered to stop, if not by a call of `stop`.
    pub(super) reason: Option<End>,
    /// Why the actor has ended.
    pub(super) end: Option<End>,
    pub(super) watchers: Vec<Watcher>,
    pub(super) children: Vec<Untyped>,
    pub(super) joiners: Vec<oneshot::Sender<End>>,
    pub(super) timers: Vec<Arc<dyn Ticking>>,
    pub(super) supervision: Option<Supervision>,
}

impl Shared {
    pub(super) fn add_watcher(&mut self, watcher: Watcher) {
        add(&mut self.watchers, watcher, |watcher| watcher.who.is_gone());
    }
}

/// An actor that is told of the end of another one.
#[derive(Clone)]
pub(super) struct Watcher {
    pub(super) who: Weak,
    pub(super) relation: Relation,
    /// Posts the notice to an actor of the watcher's type.
    pub(super) tell: fn(StrandArc, Down),
}

/// Adds an entry to a list. Entries that are over go when the list is full. After that at least half of it is free, so
/// that an entry costs the same however long the list is.
pub(super) fn add<T>(list: &mut Vec<T>, entry: T, is_over: impl Fn(&T) -> bool) {
    if list.len() == list.capacity() {
        list.retain(|entry| !is_over(entry));
        list.reserve(list.len() + 1);
    }
    list.push(entry);
}

impl Annex {
    /// Returns the address and the length of the name of the actor whose annex is at this address. By any thread, and
    /// by a signal handler.
    pub(super) fn peek_name(annex: usize) -> (usize, usize) {
        Label::peek(annex.wrapping_add(offset_of!(Annex, label)))
    }

    /// Makes the annex of an actor with this name.
    pub(super) fn named(name: Option<Box<str>>) -> Annex {
        let label = name.as_deref().map(Label::of).unwrap_or_default();
        Annex { name, label, ..Annex::default() }
    }

    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts the ties of an actor whose memory is about to be freed.
    pub(super) fn retire(&self) {
        self.anchor.get().into_iter().for_each(|anchor| anchor.clear());
        let timers = std::mem::take(&mut self.shared().timers);
        timers.into_iter().for_each(|timer| timer.cancel());
    }
}
