//! The queue behind everything that strands and threads wait for.
//!
//! Its nodes lie on the stacks of the waiters. The queue is part of a value under a [`SpinLock`], and
//! all that happens to a node happens under that lock:
//!
//! - A waiter enters its node.
//! - A teller, which has something for the waiter, takes the node out and settles its [`Wait`].
//! - A waiter whose wait was settled by a timer or a cancellation takes its node out before it leaves.
//!
//! So a node that is found in the queue exists. *Taken out and settled* is one step: a waiter that
//! leaves early has taken nothing that another needed.
//!
//! Each node has a *note*, of a type that the user of the queue chooses: the number of permits, the
//! message that is sent or received. While the node is in the queue, the note belongs to the holder of
//! the lock. From being taken out to the signal it belongs to the [`Told`], and then to the waiter.
#![allow(unsafe_code)]

use super::{Limit, Outcome, Party, Resumed, Wait, Why, block_within, call};
use crate::base::spin::{SpinGuard, SpinLock};
use crate::processor;
use std::cell::{Cell, UnsafeCell};
use std::ops::Deref;
use std::ptr::NonNull;

/// The largest number of waiters that are told at once: each costs one or two cache misses under the
/// lock.
pub(crate) const LARGEST_BATCH: usize = 64;

/// The waiters, first come, first served.
pub(crate) struct Queue<N> {
    ends: Option<(Link<N>, Link<N>)>,
}

/// A link to a node that is in a queue, or that belongs to a [`Told`] or to a [`Batch`]. There are no
/// others.
struct Link<N>(NonNull<Node<N>>);

/// A waiter.
pub(crate) struct Node<N> {
    wait: Cell<Option<NonNull<Wait>>>,
    ahead: Cell<Option<Link<N>>>,
    behind: Cell<Option<Link<N>>>,
    is_queued: Cell<bool>,
    /// Says that something else than being told may end the wait.
    is_limited: Cell<bool>,
    note: UnsafeCell<N>,
}

// SAFETY: the queue hands notes from thread to thread, which `N: Send` permits. The rest of a node is
// used under the queue's lock.
unsafe impl<N: Send> Send for Queue<N> {}

/// The end at which a node enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Behind all others.
    Back,
    /// Before all others: for a waiter that was the first before.
    Front,
}

/// Where a caller waits: the end of a queue, and what for.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(super) end: End,
    pub(super) why: Why,
}

impl End {
    /// Returns the place at this end of a queue for callers that wait for `why`.
    #[inline(always)]
    pub(crate) fn of(self, why: Why) -> Place {
        Place { end: self, why }
    }
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

    /// Returns a node for a wait that only being told ends.
    pub(crate) fn unlimited(note: N) -> Self {
        let node = Node::new(note);
        node.is_limited.set(false);
        node
    }

    /// Returns whether the node is in a queue. Under the queue's lock.
    pub(super) fn is_queued(&self) -> bool {
        self.is_queued.get()
    }

    /// Returns the note. By the waiter, when the node is in no queue; a waiter that was told has been
    /// signalled.
    pub(crate) fn note_mut(&mut self) -> &mut N {
        debug_assert!(!self.is_queued.get());
        self.note.get_mut()
    }

    /// Returns the note. By the waiter, as [`note_mut`](Node::note_mut).
    pub(crate) fn into_note(self) -> N {
        debug_assert!(!self.is_queued.get());
        self.note.into_inner()
    }
}

impl<N> Clone for Link<N> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<N> Copy for Link<N> {}

impl<N> PartialEq for Link<N> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<N> Deref for Link<N> {
    type Target = Node<N>;

    #[inline(always)]
    fn deref(&self) -> &Node<N> {
        // SAFETY: by the contract of `enter`, a node exists while it is in the queue. When it has been
        // taken out as told, its waiter leaves only after the signal, which the `Told` or `Batch` owes.
        unsafe { self.0.as_ref() }
    }
}

impl<N> Link<N> {
    #[inline(always)]
    fn wait(&self) -> &Wait {
        let wait = self.wait.get().expect("a node is entered with its wait");
        // SAFETY: by the contract of `enter`, a wait exists as long as its node.
        unsafe { &*wait.as_ptr() }
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
        let behind = |link: &Link<N>| link.behind.get();
        std::iter::successors(self.ends.map(|(first, _)| first), behind).count()
    }

    /// Enters a node.
    ///
    /// # Safety
    /// The node is in no queue. Neither the node nor `wait` is moved or dropped before the node has been
    /// taken out of this queue, and if it was taken out as told, before the waiter has been signalled.
    #[inline]
    pub(crate) unsafe fn enter(&mut self, node: &Node<N>, wait: &Wait, place: End) {
        let link = Link(NonNull::from(node));
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
                last.behind.set(Some(link));
                (first, link)
            }
            (Some((first, last)), End::Front) => {
                node.ahead.set(None);
                node.behind.set(Some(first));
                first.ahead.set(Some(link));
                (link, last)
            }
        });
    }

    /// Takes a node out, if it is in the queue.
    ///
    /// # Safety
    /// The node is in this queue or in none.
    pub(crate) unsafe fn leave(&mut self, node: &Node<N>) {
        if !node.is_queued.replace(false) {
            return;
        }
        let (first, last) = self.ends.expect("the node is in");
        if let Some(ahead) = node.ahead.get() {
            ahead.behind.set(node.behind.get());
        }
        if let Some(behind) = node.behind.get() {
            behind.ahead.set(node.ahead.get());
        }
        let link = Link(NonNull::from(node));
        self.ends = match (node.ahead.get(), node.behind.get()) {
            (None, None) => None,
            (ahead, behind) => Some((
                if first == link { behind.expect("the node was not alone") } else { first },
                if last == link { ahead.expect("the node was not alone") } else { last },
            )),
        };
    }

    /// Returns whether there is a pending wait besides `wait`.
    pub(crate) fn has_other_than(&self, wait: &Wait) -> bool {
        let mut next = self.ends.map(|(first, _)| first);
        while let Some(node) = next {
            if !std::ptr::eq(node.wait(), wait) && node.wait().is_pending() {
                return true;
            }
            next = node.behind.get();
        }
        false
    }

    /// Takes out the first node.
    #[inline]
    fn leave_first(&mut self) {
        let Some((first, last)) = self.ends else { return };
        first.is_queued.set(false);
        self.ends = first.behind.get().map(|behind| {
            behind.ahead.set(None);
            (behind, last)
        });
    }

    /// Takes out the first waiter whose wait is pending, and settles that as told. The waiter goes on
    /// when it is signalled.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Told<N>> {
        self.pop_if(|_| true)
    }

    /// Pops as [`pop`](Queue::pop) does, if `fits` returns `true` for the note of the first waiter.
    #[inline]
    pub(crate) fn pop_if(&mut self, mut fits: impl FnMut(&mut N) -> bool) -> Option<Told<N>> {
        loop {
            let (node, _) = self.ends?;
            let wait = node.wait();
            let is_limited = node.is_limited.get();
            // SAFETY: the caller holds the lock.
            if (!is_limited || wait.is_pending()) && !fits(unsafe { &mut *node.note.get() }) {
                return None;
            }
            self.leave_first();
            let owed = if is_limited { wait.settle(Outcome::Told) } else { Some(wait.settle_alone()) };
            if let Some(owed) = owed {
                return Some(Told { party: Party::of_owed(owed), node });
            }
        }
    }

    /// Pops all waiters that fit, as [`pop_if`](Queue::pop_if), but at most [`LARGEST_BATCH`]. That
    /// takes a few microseconds. Others may take the lock before the caller pops the rest.
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

    /// Takes out all waiters whose waits are pending.
    pub(crate) fn pop_all(&mut self) -> Batch<N> {
        let mut batch = Batch::new();
        while let Some(told) = self.pop() {
            batch.push(told);
        }
        batch
    }
}

/// A waiter that was told. It goes on when this is dropped.
#[must_use]
pub(crate) struct Told<N> {
    /// The waiter, to which a signal is owed.
    party: Party,
    node: Link<N>,
}

// SAFETY: the node belongs to the `Told` until the signal, on any thread. Its note is handed from
// thread to thread, which `N: Send` permits.
unsafe impl<N: Send> Send for Told<N> {}

impl<N> Told<N> {
    #[inline]
    pub(crate) fn note(&mut self) -> &mut N {
        // SAFETY: from being taken out to the signal, nobody else uses the note.
        unsafe { &mut *self.node.note.get() }
    }

    /// Signals the waiter. Leaves to the caller what may take a lock or run code of others.
    pub(crate) fn signal_later(self) -> Resumed {
        let owed = self.party.owed();
        std::mem::forget(self);
        Party::signal_owed_later(owed)
    }
}

impl<N> Drop for Told<N> {
    #[inline]
    fn drop(&mut self) {
        Party::signal_owed(self.party.owed());
    }
}

/// Waiters that were told, in the order in which they waited. They go on when this is dropped.
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
        let node = told.node;
        std::mem::forget(told);
        node.behind.set(None);
        self.ends = Some(match self.ends {
            None => (node, node),
            Some((first, last)) => {
                last.behind.set(Some(node));
                (first, node)
            }
        });
    }

    fn pop(&mut self) -> Option<Told<N>> {
        let (node, last) = self.ends?;
        self.ends = node.behind.get().map(|behind| (behind, last));
        Some(Told { party: node.wait().party, node })
    }
}

impl<N> Drop for Batch<N> {
    /// Signals all waiters before it calls the first waker. A waker may run any code: it may even drop
    /// another future of this batch.
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

/// Waits in a queue of the value that `lock` guards, within `limit`. Enters the caller, releases
/// `guard`, and calls `entered`. Returns the outcome and the note.
///
/// If the caller was told, the note is as the teller left it. If not, the note is as it was. Then the
/// caller has to serve the waiters behind it that could not be served because of it.
#[inline(always)]
pub(crate) fn wait_in<S, N>(
    lock: &SpinLock<S>,
    guard: SpinGuard<'_, S>,
    queue: impl Fn(&mut S) -> &mut Queue<N>,
    place: Place,
    note: N,
    limit: Limit,
    entered: impl FnOnce(),
) -> (Outcome, N) {
    let Place { end, why } = place;
    let node = Node::new(note);
    node.is_limited.set(!limit.is_none());
    let queue = &queue;
    let enter = |wait: &Wait| {
        let mut guard = guard;
        // SAFETY: neither moves before `block_within` returns. By then the teller or `leave` has taken
        // the node out.
        unsafe { queue(&mut guard).enter(&node, wait, end) };
        drop(guard);
        entered();
        true
    };
    let leave = |_: &Wait| {
        // SAFETY: the node was entered into this queue.
        unsafe { queue(&mut lock.lock()).leave(&node) };
        true
    };
    let outcome = block_within(limit, why, enter, leave);
    (outcome, node.into_note())
}
