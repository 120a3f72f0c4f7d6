//! The queue behind everything that somebody waits for.
//!
//! Its nodes lie on the stacks of those who wait. It is part of some value under
//! a [`SpinLock`], and everything about a node happens under that lock: who is to
//! wait enters its node, who has something for it takes the node out and settles
//! its [`Wait`], and whose wait was settled by a timer or a cancellation takes its
//! node out itself before it leaves. So a node that is found in the queue is there,
//! and *taken out and settled* is one step: whoever leaves early has taken nothing
//! that another needed.
//!
//! Each node has a *note*, of a type that the user of the queue chooses: how many
//! permits are wanted, the message that is sent or received. It belongs to whoever
//! has the lock while the node is in the queue, to the [`Told`] between being taken
//! out and being signalled, and to the one who waits after that.
#![allow(unsafe_code)]

use super::{Limit, Outcome, Party, Resumed, Wait, block_within, call};
use crate::base::spin::{SpinGuard, SpinLock};
use crate::processor;
use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;

/// So many are told at once: each is a cache miss or two under the lock.
pub(crate) const LARGEST_BATCH: usize = 64;

/// Those who wait, first come first.
pub(crate) struct Queue<N> {
    ends: Option<(Link<N>, Link<N>)>,
}

type Link<N> = NonNull<Node<N>>;

/// One who waits.
pub(crate) struct Node<N> {
    wait: Cell<Option<NonNull<Wait>>>,
    ahead: Cell<Option<Link<N>>>,
    behind: Cell<Option<Link<N>>>,
    is_queued: Cell<bool>,
    /// Whether something else than being told may end the wait.
    is_limited: Cell<bool>,
    note: UnsafeCell<N>,
}

// SAFETY: the queue hands notes from thread to thread, which `N: Send` permits;
// what else there is in a node is used under the queue's lock.
unsafe impl<N: Send> Send for Queue<N> {}

/// Which end to enter at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Behind all others.
    Back,
    /// Before all others: for one who had come first already.
    Front,
}

impl<N> Node<N> {
    pub(crate) fn new(note: N) -> Self {
        Node {
            wait: Cell::new(None),
            ahead: Cell::new(None),
            behind: Cell::new(None),
            is_queued: Cell::new(false),
            is_limited: Cell::new(true),
            note: UnsafeCell::new(note),
        }
    }

    /// As [`new`](Node::new), for a wait that only being told ends.
    pub(crate) fn unlimited(note: N) -> Self {
        let node = Node::new(note);
        node.is_limited.set(false);
        node
    }

    /// Whether it is in a queue. Under its lock.
    pub(super) fn is_queued(&self) -> bool {
        self.is_queued.get()
    }

    /// By the one who waits, when the node is in no queue and it has been signalled
    /// if it was told.
    pub(crate) fn note_mut(&mut self) -> &mut N {
        debug_assert!(!self.is_queued.get());
        self.note.get_mut()
    }

    /// As for [`note_mut`](Node::note_mut).
    pub(crate) fn into_note(self) -> N {
        debug_assert!(!self.is_queued.get());
        self.note.into_inner()
    }
}

impl<N> Queue<N> {
    pub(crate) const fn new() -> Self {
        Queue { ends: None }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_none()
    }

    /// Returns the number of nodes. Walks the queue: for `Debug` output.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: what is in the queue is there.
        let behind = |link: &Link<N>| unsafe { link.as_ref() }.behind.get();
        std::iter::successors(self.ends.map(|(first, _)| first), behind).count()
    }

    /// Enters a node.
    ///
    /// # Safety
    /// It is in no queue; it stays where it is until it has been taken out of this
    /// one, and so does `wait`.
    #[inline]
    pub(crate) unsafe fn enter(&mut self, node: &Node<N>, wait: &Wait, place: End) {
        let link = NonNull::from(node);
        node.wait.set(Some(NonNull::from(wait)));
        node.is_queued.set(true);
        self.ends = Some(match (self.ends, place) {
            (None, _) => {
                node.ahead.set(None);
                node.behind.set(None);
                (link, link)
            }
            (Some((first, last)), End::Back) => {
                node.ahead.set(Some(last));
                node.behind.set(None);
                // SAFETY: what is in the queue is there.
                unsafe { last.as_ref() }.behind.set(Some(link));
                (first, link)
            }
            (Some((first, last)), End::Front) => {
                node.ahead.set(None);
                node.behind.set(Some(first));
                // SAFETY: as above.
                unsafe { first.as_ref() }.ahead.set(Some(link));
                (link, last)
            }
        });
    }

    /// Takes a node out, if it is in.
    ///
    /// # Safety
    /// It is in this queue or in none.
    pub(crate) unsafe fn leave(&mut self, node: &Node<N>) {
        if !node.is_queued.replace(false) {
            return;
        }
        let (first, last) = self.ends.expect("the node is in");
        // SAFETY: what is in the queue is there.
        let neighbour = |link: Link<N>| unsafe { link.as_ref() };
        if let Some(ahead) = node.ahead.get() {
            neighbour(ahead).behind.set(node.behind.get());
        }
        if let Some(behind) = node.behind.get() {
            neighbour(behind).ahead.set(node.ahead.get());
        }
        let link = NonNull::from(node);
        self.ends = match (node.ahead.get(), node.behind.get()) {
            (None, None) => None,
            (ahead, behind) => Some((
                if first == link { behind.expect("the node was not alone") } else { first },
                if last == link { ahead.expect("the node was not alone") } else { last },
            )),
        };
    }

    /// Whether somebody waits here whose wait is not this one.
    pub(crate) fn has_other_than(&self, wait: &Wait) -> bool {
        let mut next = self.ends.map(|(first, _)| first);
        while let Some(link) = next {
            // SAFETY: what is in the queue is there.
            let node = unsafe { link.as_ref() };
            let its = node.wait.get().expect("it was entered with its wait");
            // SAFETY: a wait is there while its node is in the queue.
            if its != NonNull::from(wait) && unsafe { its.as_ref() }.is_pending() {
                return true;
            }
            next = node.behind.get();
        }
        false
    }

    /// Takes out the first.
    #[inline]
    fn leave_first(&mut self) {
        let Some((first, last)) = self.ends else { return };
        // SAFETY: what is in the queue is there.
        let node = unsafe { first.as_ref() };
        node.is_queued.set(false);
        self.ends = node.behind.get().map(|behind| {
            // SAFETY: as above.
            unsafe { behind.as_ref() }.ahead.set(None);
            (behind, last)
        });
    }

    /// Takes out the first one that still waits: it is told, and goes on when it is
    /// signalled.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Told<N>> {
        self.pop_if(|_| true)
    }

    /// As [`pop`](Queue::pop), if `fits` says so of the first one's note.
    #[inline]
    pub(crate) fn pop_if(&mut self, mut fits: impl FnMut(&mut N) -> bool) -> Option<Told<N>> {
        loop {
            let (first, _) = self.ends?;
            // SAFETY: what is in the queue is there.
            let node = unsafe { first.as_ref() };
            let wait = node.wait.get().expect("it was entered with its wait");
            // SAFETY: a wait is there while its node is in the queue, and whoever
            // leaves early has to get the lock first.
            let wait = unsafe { wait.as_ref() };
            let is_limited = node.is_limited.get();
            // SAFETY: we have the lock.
            if (!is_limited || wait.is_pending()) && !fits(unsafe { &mut *node.note.get() }) {
                return None;
            }
            self.leave_first();
            let party = if is_limited { wait.settle(Outcome::Told) } else { Some(wait.settle_alone()) };
            if let Some(party) = party {
                return Some(Told { party, node: first });
            }
        }
    }

    /// As [`pop_if`](Queue::pop_if), for as many as fit, but not more than can be had in
    /// a few microseconds: the rest is for when others had the lock.
    pub(crate) fn pop_some(&mut self, mut fits: impl FnMut(&mut N) -> bool) -> Batch<N> {
        let mut batch = Batch::new();
        for _ in 0..LARGEST_BATCH {
            match self.pop_if(&mut fits) {
                Some(told) => batch.push(told),
                None => break,
            }
        }
        batch
    }

    /// Takes out all that still wait.
    pub(crate) fn pop_all(&mut self) -> Batch<N> {
        let mut batch = Batch::new();
        while let Some(told) = self.pop() {
            batch.push(told);
        }
        batch
    }
}

/// One who was told. Goes on when this is dropped.
#[must_use]
pub(crate) struct Told<N> {
    party: Party,
    node: Link<N>,
}

// SAFETY: the node is the teller's until it signals, whichever thread that is; its note is
// handed from thread to thread, which `N: Send` permits.
unsafe impl<N: Send> Send for Told<N> {}

impl<N> Told<N> {
    #[inline]
    pub(crate) fn note(&mut self) -> &mut N {
        // SAFETY: the node is there until its party is signalled, and nobody else
        // uses it before that.
        unsafe { &mut *self.node.as_ref().note.get() }
    }

    /// Signals it, but leaves everything to the caller that may take a lock or run the code of
    /// others.
    pub(crate) fn signal_later(self) -> Resumed {
        let party = self.party;
        std::mem::forget(self);
        // SAFETY: as above.
        unsafe { party.signal_later() }
    }
}

impl<N> Drop for Told<N> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: it was ours to settle, and it is signalled once.
        unsafe { self.party.signal() };
    }
}

/// Several who were told, in the order in which they waited. They go on when this
/// is dropped.
pub(crate) struct Batch<N> {
    /// Linked by `behind`.
    ends: Option<(Link<N>, Link<N>)>,
}

impl<N> Batch<N> {
    pub(crate) const fn new() -> Self {
        Batch { ends: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_none()
    }

    pub(crate) fn push(&mut self, told: Told<N>) {
        let link = told.node;
        std::mem::forget(told);
        // SAFETY: the node is there until its party is signalled.
        unsafe { link.as_ref() }.behind.set(None);
        self.ends = Some(match self.ends {
            None => (link, link),
            Some((first, last)) => {
                // SAFETY: as above.
                unsafe { last.as_ref() }.behind.set(Some(link));
                (first, link)
            }
        });
    }

    fn pop(&mut self) -> Option<Told<N>> {
        let (first, last) = self.ends?;
        // SAFETY: the node is there until its party is signalled.
        let node = unsafe { first.as_ref() };
        self.ends = node.behind.get().map(|behind| (behind, last));
        let wait = node.wait.get().expect("it was entered with its wait");
        // SAFETY: as above.
        let party = unsafe { wait.as_ref() }.party;
        Some(Told { party, node: first })
    }
}

impl<N> Drop for Batch<N> {
    /// All are told before the first waker is called that may run any code: even the end
    /// of another future that is in this batch.
    fn drop(&mut self) {
        let mut wakers = Vec::new();
        while let Some(told) = self.pop() {
            match told.signal_later() {
                Resumed::Nobody => {}
                Resumed::Strand(ready) => processor::make_ready(ready),
                Resumed::Waker(waker) => wakers.push(waker),
            }
        }
        wakers.into_iter().for_each(call);
    }
}

/// Waits in a queue of what `lock` guards, within `limit`. `guard` is released when
/// the caller has been entered, and `entered` called then. Gives back the note.
///
/// A note whose owner was told is as whoever told it left it. One whose owner
/// ceased to wait is as it was; what others behind it could not get because of it
/// is the caller's to see to.
#[inline(always)]
pub(crate) fn wait_in<S, N>(
    lock: &SpinLock<S>,
    guard: SpinGuard<'_, S>,
    queue: impl Fn(&mut S) -> &mut Queue<N>,
    place: End,
    note: N,
    limit: Limit,
    entered: impl FnOnce(),
) -> (Outcome, N) {
    let node = Node::new(note);
    node.is_limited.set(!limit.is_none());
    let queue = &queue;
    let enter = |wait: &Wait| {
        let mut guard = guard;
        // SAFETY: neither moves before `block_within` returns, and by then the node
        // has been taken out by whoever told us, or by `leave`.
        unsafe { queue(&mut guard).enter(&node, wait, place) };
        drop(guard);
        entered();
        true
    };
    let leave = |_: &Wait| {
        // SAFETY: the node was entered into this queue.
        unsafe { queue(&mut lock.lock()).leave(&node) };
        true
    };
    let outcome = block_within(limit, enter, leave);
    (outcome, node.into_note())
}
