//! A party that waits, step by step.
#![allow(unsafe_code)]

use crate::base::Deadline;
use crate::base::atomic::Relaxed;
use crate::base::spin::SpinLock;
use crate::wait::parker::{Parker, SILENT};
use crate::wait::party::KERNEL_THREAD;
use crate::wait::{Cancel, End, Node, Outcome, Party, Queue, Wait};
use std::num::NonZeroU64;

/// Never freed: loom finds a use after its end.
pub(super) struct Waiting<N: 'static> {
    parker: *mut Parker,
    wait: *mut Wait,
    node: *mut Node<N>,
}

impl<N> Clone for Waiting<N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N> Copy for Waiting<N> {}

impl<N: 'static> Waiting<N> {
    pub(super) fn new(note: N) -> Self {
        let parker = Box::into_raw(Box::new(Parker::new()));
        let wait = Box::into_raw(Box::new(Wait::new(Party::new(parker, KERNEL_THREAD))));
        Waiting { parker, wait, node: Box::into_raw(Box::new(Node::new(note))) }
    }

    fn parker(&self) -> &Parker {
        // SAFETY: it is never freed.
        unsafe { &*self.parker }
    }

    fn state(&self) -> &Wait {
        // SAFETY: it is never freed.
        unsafe { &*self.wait }
    }

    fn node(&self) -> &Node<N> {
        // SAFETY: it is never freed; a thread that writes to its note has it for itself.
        unsafe { &*self.node }
    }

    /// Enters `line`.
    pub(super) fn enter(&self, line: &Line<N>) {
        let mut queue = line.0.lock();
        // SAFETY: the node is new, and never freed.
        unsafe { queue.enter(self.node(), self.state(), End::Back) };
    }

    /// Takes itself out of `line`.
    pub(super) fn leave(&self, line: &Line<N>) {
        // SAFETY: the node was entered there.
        unsafe { line.0.lock().leave(self.node()) };
    }

    /// Lets others cancel the wait. Returns whether that was requested already.
    pub(super) fn enter_cancel(&self, cancel: &Cancel) -> bool {
        cancel.enter(self.state())
    }

    /// Ends its own wait, without a signal. Returns whether it was first.
    pub(super) fn settle(&self, outcome: Outcome) -> bool {
        self.state().settle(outcome).is_some()
    }

    /// Ends the wait of another, and signals it. Returns whether it was first.
    pub(super) fn settle_and_signal(&self, outcome: Outcome) -> bool {
        self.state().settle(outcome).map(Party::signal_owed).is_some()
    }

    /// Waits until it is signalled.
    pub(super) fn wait(&self) {
        self.parker().wait(Deadline::NEVER);
    }

    /// As [`wait`](Waiting::wait), and uses the signal up.
    pub(super) fn wait_again(&self) {
        self.wait();
        self.parker().0.store(SILENT, Relaxed);
    }

    /// The number of its party, for a wait that does not leave before it has been told.
    pub(super) fn number(&self) -> NonZeroU64 {
        Party::timed(self.state()).number()
    }

    pub(super) fn await_told(&self) -> bool {
        self.state().await_told()
    }

    pub(super) fn is_pending(&self) -> bool {
        self.state().is_pending()
    }

    pub(super) fn outcome(&self) -> Outcome {
        self.state().outcome()
    }

    /// Says to loom that what lay on the stack is gone. A thread that uses it later, or whose last
    /// use is not ordered before this, fails the model.
    pub(super) fn end(self) -> N {
        // SAFETY: if another thread uses it, loom says so.
        unsafe { (*self.wait).outcome.with_mut(|_| ()) };
        // SAFETY: as above.
        unsafe { (*self.parker).0.with_mut(|_| ()) };
        // SAFETY: as above; what is left in its place is never dropped.
        unsafe { std::ptr::read(self.node) }.into_note()
    }
}

/// Cancels what waits. Returns whether that ended a wait.
pub(super) fn cancel(cancel: &Cancel) -> bool {
    cancel.request().map(Party::signal_owed).is_some()
}

/// A queue of those that wait, under a lock.
pub(super) struct Line<N>(SpinLock<Queue<N>>);

impl<N> Line<N> {
    pub(super) fn new() -> Self {
        Line(SpinLock::new(Queue::new()))
    }

    /// Tells the first one, whose note is written before it goes on. Returns whether there was
    /// one.
    pub(super) fn tell(&self, write: impl FnOnce(&mut N)) -> bool {
        let told = self.0.lock().pop();
        told.map(|mut told| write(told.note())).is_some()
    }
}
