//! The edges of waiting actors, and the cycles in them.
//!
//! A handler that is about to wait for an actor:
//!
//! 1. writes the address of that actor into its own *edge*;
//! 2. reads the edge of that actor. Mostly there is none: then it waits;
//! 3. otherwise follows the edges from actor to actor. If they lead back to itself, it takes its edge back
//!    and returns an error that names the actors.
//!
//! **No cycle is missed.** Between step 1 and step 2 there is a sequentially consistent fence. So of the handlers that
//! make a cycle, the one whose fence comes last sees the edges of all others.
//!
//! **No error for nothing.** While edges are followed, they change. So a cycle counts only if a second look finds each
//! edge of it unchanged: each wait has a number. Between the two looks all of these waits existed at the same time.
//!
//! **Memory.** A waiting handler holds an address of the actor that it waits for until it has taken its edge back. A
//! thread that follows an edge holds it (the flag HELD), counts a reference to the actor behind it, and lets go. To take
//! an edge back waits for such a thread.

use crate::base::atomic::{Acquire, AtomicU64, AtomicUsize, Relaxed, Release, SeqCst, fence, spin_loop};
use std::collections::HashSet;

/// A counted reference to an actor that may wait.
pub(super) trait Node: Clone + PartialEq {
    /// Returns the address that stands for the actor in edges: not 0, and even.
    fn address(&self) -> usize;

    /// Returns the actor's edge, if it has ever waited.
    fn edge(&self) -> Option<&Edge>;

    /// Makes a reference to the actor at this address, which is the target of this actor's edge. The caller holds the
    /// edge. `None` if nobody has a reference any more.
    fn behind(&self, target: usize) -> Option<Self>;
}

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
        // Release for the number; pairs with the Acquire in `read`. Nobody else writes while there is no target.
        self.target.store(target, Release);
        // See the head of this file. Every reader has such a fence behind it.
        fence(SeqCst);
    }

    /// `target -> none`. By the handler.
    pub(super) fn leave(&self) {
        let target = self.target.load(Relaxed) & !HELD;
        // Acquire pairs with the Release in `read`: the reader is done.
        while self.target.compare_exchange_weak(target, 0, Acquire, Relaxed).is_err() {
            spin_loop();
        }
    }

    /// Says whether the actor waits for none. The answer may be out of date.
    pub(super) fn is_none(&self) -> bool {
        self.target.load(Relaxed) == 0
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

/// Enters the edge of `caller`, which is about to wait for `target`. Returns the actors of the cycle that this closes,
/// the caller first.
#[inline]
pub(super) fn enter<N: Node>(caller: &N, edge: &Edge, target: &N) -> Option<Vec<N>> {
    edge.enter(target.address());
    let is_possible = caller == target || target.edge().is_some_and(|edge| !edge.is_none());
    is_possible.then(|| find_cycle(caller, target)).flatten()
}

/// Returns the actors of the cycle that `caller` closes by waiting for `target`.
#[cold]
fn find_cycle<N: Node>(caller: &N, target: &N) -> Option<Vec<N>> {
    loop {
        let mut path: Vec<(N, u64)> = Vec::new();
        let mut seen = HashSet::new();
        let mut next = target.clone();
        while next != *caller {
            if !seen.insert(next.address()) {
                // A cycle without the caller: the actors that are in it find it.
                return None;
            }
            let (behind, number) = next.edge()?.read(|target, number| (next.behind(target), number))?;
            path.push((next, number));
            next = behind?;
        }
        let is_same =
            |(actor, number): &(N, u64)| actor.edge().and_then(|edge| edge.read(|_, now| now == *number)) == Some(true);
        if path.iter().all(is_same) {
            return Some(std::iter::once(caller.clone()).chain(path.into_iter().map(|(actor, _)| actor)).collect());
        }
    }
}
