//! What an actor waits for: an answer of another actor, or room in its mailbox. By this a cycle is found.
//!
//! A handler that is about to wait for an actor:
//!
//! 1. writes the address of that actor into its own *edge*;
//! 2. reads the edge of that actor. Mostly there is none: then it waits;
//! 3. otherwise follows the edges from actor to actor. If they lead back to itself, it takes its edge back
//!    and returns an error that names the actors.
//!
//! **No cycle is missed.** Step 1 and step 2 are sequentially consistent. So of the handlers that make a cycle, the
//! one whose step 1 comes last sees the edges of all others.
//!
//! **No error for nothing.** While edges are followed, they change. So a cycle counts only if a second look finds each
//! edge of it unchanged: each wait has a number. Between the two looks all of these waits existed at the same time.
//!
//! **Memory.** A waiting handler holds an address of the actor that it waits for until it has taken its edge back. A
//! thread that follows an edge holds it (the flag HELD), counts a reference to the actor behind it, and lets go. To take an edge
//! back waits for such a thread.

use super::annex::Annex;
use super::cell::Cell;
use super::errors::ActorId;
use super::traits::Actor;
use super::untyped::Untyped;
use crate::base::atomic::{Acquire, AtomicU64, AtomicUsize, Relaxed, Release, SeqCst, spin_loop};
use crate::mailbox::Handle;
use std::collections::HashSet;

const HELD: usize = 1;

/// What an actor waits for.
pub(super) struct Edge {
    /// The address of the strand of the actor that it waits for, or 0; and HELD. Written by the waiting handler and
    /// by threads that hold it.
    target: AtomicUsize,
    /// The number of the wait. Written by the waiting handler.
    number: AtomicU64,
}

impl Default for Edge {
    fn default() -> Edge {
        Edge { target: AtomicUsize::new(0), number: AtomicU64::new(0) }
    }
}

impl Edge {
    /// `none -> target`. By the handler.
    fn enter(&self, target: usize) {
        self.number.store(self.number.load(Relaxed) + 1, Relaxed);
        // SeqCst: see the head of this file. It includes Release for the number; pairs with the Acquire in `read`.
        self.target.swap(target, SeqCst);
    }

    /// `target -> none`. By the handler.
    fn leave(&self) {
        let target = self.target.load(Relaxed) & !HELD;
        // Acquire pairs with the Release in `read`: the reader is done.
        while self.target.compare_exchange_weak(target, 0, Acquire, Relaxed).is_err() {
            spin_loop();
        }
    }

    fn is_none(&self) -> bool {
        // SeqCst: see the head of this file.
        self.target.load(SeqCst) == 0
    }

    /// Calls `f` with the target and the number of the wait, if there is one. The wait does not end meanwhile.
    fn read<T>(&self, f: impl FnOnce(usize, u64) -> T) -> Option<T> {
        loop {
            let target = self.target.load(Relaxed) & !HELD;
            if target == 0 {
                return None;
            }
            // Acquire pairs with the Release in `enter`.
            if self.target.compare_exchange_weak(target, target | HELD, Acquire, Relaxed).is_ok() {
                let result = f(target, self.number.load(Relaxed));
                // Release pairs with the Acquire in `leave`.
                self.target.store(target, Release);
                return Some(result);
            }
            spin_loop();
        }
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
    caller.annex_or_new().edge.enter(target.address());
    let waiting = Waiting(Some(caller));
    let Some(caller) = &waiting.0 else { unreachable!("set above") };
    let is_possible = caller == target || target.annex().is_some_and(|annex| !annex.edge.is_none());
    match is_possible.then(|| find_cycle(caller, target)).flatten() {
        Some(cycle) => Err(cycle),
        None => Ok(waiting),
    }
}

/// Returns the actors of the cycle that `caller` closes by waiting for `target`.
#[cold]
fn find_cycle(caller: &Untyped, target: &Untyped) -> Option<Vec<ActorId>> {
    loop {
        let mut path: Vec<(Untyped, u64)> = Vec::new();
        let mut seen = HashSet::new();
        let mut next = target.clone();
        while next != *caller {
            if !seen.insert(next.address()) {
                // A cycle without the caller: the actors that are in it find it.
                return None;
            }
            let (behind, number) = next.annex()?.edge.read(|target, number| (Untyped::at(target), number))?;
            path.push((next, number));
            next = behind?;
        }
        let is_same = |(actor, number): &(Untyped, u64)| {
            actor.annex().and_then(|annex: &Annex| annex.edge.read(|_, now| now == *number)) == Some(true)
        };
        if path.iter().all(is_same) {
            return Some(std::iter::once(caller).chain(path.iter().map(|(actor, _)| actor)).map(Untyped::id).collect());
        }
    }
}
