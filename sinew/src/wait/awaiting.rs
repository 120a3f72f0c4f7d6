//! Waiting in a future: its wait and its waker lie in the future itself, which is pinned.
#![allow(unsafe_code)]

use super::handover::{Borrowed, Handover, Ours, PutBack, Taken};
use super::queue::{Node, Place, Queue};
use super::{Party, Wait};
use crate::base::spin::{SpinGuard, SpinLock};
use crate::processor::waker::strand_of;
use std::cell::UnsafeCell;
use std::marker::PhantomPinned;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A place for a waker, from which a teller takes it out to call it.
pub(super) struct WakerSlot {
    pub(super) handover: Handover,
    pub(super) waker: WakerCell,
}

/// The waker of a slot. The slot's `handover` says which side owns it.
pub(super) struct WakerCell(UnsafeCell<MaybeUninit<Waker>>);

impl WakerCell {
    /// Takes the waker out. Its bits stay, but they are not used as a waker again. `ours` comes from the
    /// `handover` of the same slot.
    #[inline]
    fn take(&self, _ours: Ours) -> Waker {
        // SAFETY: `ours` says that there is a waker, that it is ours, and that nobody takes it again.
        unsafe { (*self.0.get()).assume_init_read() }
    }
}

impl WakerSlot {
    /// Returns a slot for this waker. If the waker is a task's, the slot holds a clone. Another waker
    /// is cloned by the first `poll`, because the caller may hold a lock.
    fn new(waker: &Waker) -> Self {
        if strand_of(waker).is_some() {
            let waker = MaybeUninit::new(waker.clone());
            return WakerSlot { handover: Handover::new(), waker: WakerCell(UnsafeCell::new(waker)) };
        }
        WakerSlot { handover: Handover::borrowed(), waker: WakerCell(UnsafeCell::new(MaybeUninit::uninit())) }
    }

    /// Tells the future, by the parts of its slot. This happens once, and the slot may be gone
    /// afterwards. Returns the waker if it is to be called.
    #[inline]
    pub(super) fn tell(handover: &Handover, waker: &WakerCell) -> Option<Waker> {
        match handover.take() {
            Taken::LeaveIt => None,
            Taken::Call(ours) => {
                let waker = waker.take(ours);
                handover.tell();
                Some(waker)
            }
        }
    }

    /// Returns whether the future has been told. If not, this waker will be called.
    fn poll(&self, waker: &Waker) -> bool {
        if self.handover.is_told() {
            return true;
        }
        if self.handover.is_borrowed() {
            return self.put(waker.clone());
        }
        // SAFETY: only the polling side writes the slot. The waker may have been taken meanwhile, but
        // its bits stay, and `will_wake` compares nothing but these.
        if unsafe { (*self.waker.0.get()).assume_init_ref() }.will_wake(waker) {
            return false;
        }
        let new = waker.clone();
        match self.handover.borrow() {
            Borrowed::Told => true,
            Borrowed::Yes(ours) => {
                let old = self.waker.take(ours);
                let is_told = self.put(new);
                drop(old);
                is_told
            }
        }
    }

    /// Puts a waker into the slot, which is borrowed and empty. Returns whether the future has been told
    /// meanwhile.
    fn put(&self, waker: Waker) -> bool {
        // SAFETY: BORROWED makes the slot ours.
        unsafe { (*self.waker.0.get()).write(waker) };
        match self.handover.put_back() {
            PutBack::Held => false,
            PutBack::Told(ours) => {
                drop(self.waker.take(ours));
                true
            }
        }
    }

    /// Takes the waker out of a slot that was not told and that no teller can reach.
    fn retract(&self) -> Option<Waker> {
        self.handover.retract().map(|ours| self.waker.take(ours))
    }
}

/// The wait of a future.
pub(crate) struct Awaiting {
    slot: Option<WakerSlot>,
    wait: Option<Wait>,
    _pinned: PhantomPinned,
}

// SAFETY: the protocol hands the slot from thread to thread, and wakers may be called on any thread.
unsafe impl Send for Awaiting {}

impl Awaiting {
    pub(crate) const fn new() -> Self {
        Awaiting { slot: None, wait: None, _pinned: PhantomPinned }
    }

    /// Begins a wait; the wait before has ended. Runs no code of others, so the caller may hold a lock.
    /// The waker is called only if [`poll`](Awaiting::poll) has been called since.
    pub(crate) fn begin(self: Pin<&mut Self>, waker: &Waker) -> &Wait {
        // SAFETY: nothing is moved out.
        unsafe { self.get_unchecked_mut() }.begin_here(waker)
    }

    /// As [`begin`](Awaiting::begin), for a caller that promises where it enters the wait that nothing
    /// is moved.
    fn begin_here(&mut self, waker: &Waker) -> &Wait {
        let slot = self.slot.insert(WakerSlot::new(waker));
        let party = Party::waker_slot(slot);
        self.wait.insert(Wait::new(party))
    }

    /// Returns `Ready` if the wait has been signalled. If not, this waker will be called.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let slot = self.slot.as_ref().expect("a wait has begun");
        if slot.poll(context.waker()) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Waits for the signal of a teller that has settled the wait.
    pub(crate) fn await_signal(&self) {
        self.slot.as_ref().expect("a wait has begun").handover.await_told();
    }

    /// Ends a wait that has been taken out of where it was entered: nobody has signalled it, and nobody
    /// will. Returns the waker. The caller drops it last, because its drop may run any code.
    #[must_use]
    pub(crate) fn retract(&self) -> Option<Waker> {
        self.slot.as_ref().expect("a wait has begun").retract()
    }
}

/// The future of [`wait_in_async`].
struct WaitIn<'a, S, N, Q, E, A>
where
    Q: Fn(&mut S) -> &mut Queue<N>,
    A: FnMut(bool, N),
{
    lock: &'a SpinLock<S>,
    /// The parts that are needed to enter, until it has entered.
    start: Option<(SpinGuard<'a, S>, N, E)>,
    place: Place,
    queue: Q,
    abandoned: A,
    awaiting: Awaiting,
    /// The node, from entering to the result.
    node: Option<Node<N>>,
}

// SAFETY: the node is used under the lock, or by the teller that took it out. The bounds say that the
// rest may be sent.
unsafe impl<S: Send, N: Send, Q: Send, E: Send, A: Send> Send for WaitIn<'_, S, N, Q, E, A>
where
    Q: Fn(&mut S) -> &mut Queue<N>,
    A: FnMut(bool, N),
{
}

/// Waits as [`wait_in`](super::wait_in) does, in a future. Only being told ends the wait. The future
/// holds the lock, so it has to be awaited at once. Returns the note.
///
/// If the future is dropped before it is ready, it takes its node out and calls `abandoned` with the
/// note. The flag says whether it had been told: then what it was given has to be passed on.
pub(crate) fn wait_in_async<'a, S, N>(
    lock: &'a SpinLock<S>,
    guard: SpinGuard<'a, S>,
    queue: impl Fn(&mut S) -> &mut Queue<N> + 'a,
    place: Place,
    note: N,
    entered: impl FnOnce() + 'a,
    abandoned: impl FnMut(bool, N) + 'a,
) -> impl Future<Output = N> {
    let start = Some((guard, note, entered));
    WaitIn { lock, start, place, queue, abandoned, awaiting: Awaiting::new(), node: None }
}

impl<S, N, Q, E, A> Future for WaitIn<'_, S, N, Q, E, A>
where
    Q: Fn(&mut S) -> &mut Queue<N>,
    E: FnOnce(),
    A: FnMut(bool, N),
{
    type Output = N;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<N> {
        // SAFETY: neither `awaiting` nor the node is moved while the node is in the queue.
        let this = unsafe { self.get_unchecked_mut() };
        if let Some((mut guard, note, entered)) = this.start.take() {
            let wait = this.awaiting.begin_here(context.waker());
            let node = this.node.insert(Node::unlimited(note));
            // SAFETY: neither moves before a teller or `drop` takes the node out.
            unsafe { (this.queue)(&mut guard).enter(node, wait, this.place.end) };
            drop(guard);
            entered();
        }
        if this.awaiting.poll(context).is_pending() {
            this.place.why.leave_in_task();
            return Poll::Pending;
        }
        Poll::Ready(this.node.take().expect("a future is not polled after it was ready").into_note())
    }
}

impl<S, N, Q, E, A> Drop for WaitIn<'_, S, N, Q, E, A>
where
    Q: Fn(&mut S) -> &mut Queue<N>,
    A: FnMut(bool, N),
{
    fn drop(&mut self) {
        let Some(node) = &self.node else { return };
        let mut guard = self.lock.lock();
        let is_told = !node.is_queued();
        // SAFETY: the node was entered into this queue.
        unsafe { (self.queue)(&mut guard).leave(node) };
        drop(guard);
        let _waker = if is_told {
            self.awaiting.await_signal();
            None
        } else {
            self.awaiting.retract()
        };
        let note = self.node.take().expect("the node was found above").into_note();
        (self.abandoned)(is_told, note);
    }
}
