//! One who waits, step by step, for the models in `tests/loom`: what `block_within`
//! does for a fibre, with the bell of a kernel thread in place of a strand.
#![allow(unsafe_code, missing_docs)]

use super::{self as wait, End, KERNEL_THREAD, Limit, Node, Parker, Party, Queue, Wait, request, wait_in};
use crate::base::Deadline;
use crate::base::atomic::Relaxed;
use crate::base::spin::SpinLock;
use std::num::NonZeroU64;
use std::time::Duration;

#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Told,
    TimedOut,
    Cancelled,
}

impl Outcome {
    fn own(self) -> wait::Outcome {
        match self {
            Outcome::Told => wait::Outcome::Told,
            Outcome::TimedOut => wait::Outcome::TimedOut,
            Outcome::Cancelled => wait::Outcome::Cancelled,
        }
    }

    fn of(own: wait::Outcome) -> Outcome {
        match own {
            wait::Outcome::Told => Outcome::Told,
            wait::Outcome::TimedOut => Outcome::TimedOut,
            wait::Outcome::Cancelled => Outcome::Cancelled,
        }
    }
}

/// Not freed: whoever uses it after its end is to be found by loom.
pub struct Waiting<N: 'static> {
    bell: *mut Parker,
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
    pub fn new(note: N) -> Self {
        let bell = Box::into_raw(Box::new(Parker::new()));
        let wait = Box::into_raw(Box::new(Wait::new(Party::new(bell, KERNEL_THREAD))));
        Waiting { bell, wait, node: Box::into_raw(Box::new(Node::new(note))) }
    }

    fn state(&self) -> &Wait {
        // SAFETY: it is never freed.
        unsafe { &*self.wait }
    }

    fn node(&self) -> &Node<N> {
        // SAFETY: it is never freed; whoever writes to its note has it for itself.
        unsafe { &*self.node }
    }

    /// Enters `line`.
    pub fn enter(&self, line: &Line<N>) {
        let mut queue = line.0.lock();
        // SAFETY: the node is new, and never freed.
        unsafe { queue.enter(self.node(), self.state(), End::Back) };
    }

    /// Takes itself out of `line`.
    pub fn leave(&self, line: &Line<N>) {
        // SAFETY: the node was entered there.
        unsafe { line.0.lock().leave(self.node()) };
    }

    /// By the one who waits: nobody signals.
    pub fn settle(&self, outcome: Outcome) -> bool {
        self.state().settle(outcome.own()).is_some()
    }

    /// By another: whoever settles it signals.
    pub fn settle_and_signal(&self, outcome: Outcome) -> bool {
        let party = self.state().settle(outcome.own());
        // SAFETY: it was ours to settle.
        party.map(|party| unsafe { party.signal() }).is_some()
    }

    /// Until it is signalled.
    pub fn wait(&self) {
        // SAFETY: it is never freed.
        unsafe { &*self.bell }.wait(Deadline::NEVER);
    }

    /// As [`wait`](Waiting::wait), and uses the signal up.
    pub fn wait_again(&self) {
        self.wait();
        // SAFETY: it is never freed.
        unsafe { &*self.bell }.0.store(super::SILENT, Relaxed);
    }

    /// As one who does not leave before it has been told.
    pub fn number(&self) -> NonZeroU64 {
        Party::timed(self.state()).number()
    }

    /// See [`number`](Waiting::number).
    pub fn tell(number: NonZeroU64) {
        // SAFETY: it is never freed; if it is signalled twice the model fails.
        unsafe { Party::from_number(number).signal() };
    }

    pub fn await_told(&self) -> bool {
        self.state().await_told()
    }

    pub fn is_pending(&self) -> bool {
        self.state().is_pending()
    }

    pub fn outcome(&self) -> Outcome {
        Outcome::of(self.state().outcome())
    }

    /// What lay on the stack is gone: whoever uses it now, or has used it without the
    /// caller's knowing, fails the model.
    pub fn end(self) -> N {
        // SAFETY: if there is another who uses it, loom says so.
        unsafe { (*self.wait).outcome.with_mut(|_| ()) };
        // SAFETY: as above.
        unsafe { (*self.bell).0.with_mut(|_| ()) };
        // SAFETY: as above; what is left in its place is never dropped.
        unsafe { std::ptr::read(self.node) }.into_note()
    }
}

pub struct Cancel(request::Cancel);

// SAFETY: the runtime shares it the same way, as a part of a fibre's record.
unsafe impl Sync for Cancel {}
// SAFETY: as above.
unsafe impl Send for Cancel {}

impl Cancel {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Cancel(request::Cancel::new())
    }

    pub fn enter<N>(&self, waiting: &Waiting<N>) -> bool {
        self.0.enter(waiting.state())
    }

    pub fn leave(&self) {
        self.0.leave();
    }

    pub fn is_requested(&self) -> bool {
        self.0.is_requested()
    }

    /// Whether it ended a wait.
    pub fn cancel(&self) -> bool {
        let party = self.0.request();
        // SAFETY: it was ours to settle.
        party.map(|party| unsafe { party.signal() }).is_some()
    }
}

/// Those who wait.
pub struct Line<N>(SpinLock<Queue<N>>);

impl<N> Line<N> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Line(SpinLock::new(Queue::new()))
    }

    /// Tells the first one, whose note is written before it goes on. Whether there was
    /// one.
    pub fn tell(&self, write: impl FnOnce(&mut N)) -> bool {
        let told = self.0.lock().pop();
        told.map(|mut told| write(told.note())).is_some()
    }

    /// As a kernel thread, whose time may be up from the beginning.
    pub fn wait(&self, note: N, is_overdue: bool) -> (Outcome, N) {
        let limit = if is_overdue { Limit::until(Deadline::after(Duration::ZERO)) } else { Limit::NONE };
        let (outcome, note) = wait_in(&self.0, self.0.lock(), |queue| queue, End::Back, note, limit, || ());
        (Outcome::of(outcome), note)
    }
}
