//! How a future waits: its wait and its waker lie in the future itself, which is pinned.
#![allow(unsafe_code)]

use super::handover::{Borrowed, Handover, PutBack, Taken};
use super::queue::{End, Node, Queue};
use super::{Party, Wait};
use crate::base::spin::{SpinGuard, SpinLock};
use crate::processor::waker::strand_of;
use std::cell::UnsafeCell;
use std::marker::PhantomPinned;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A waker that another may take out and call.
pub(super) struct WakerSlot {
    handover: Handover,
    /// Whose it is, `handover` says.
    waker: UnsafeCell<MaybeUninit<Waker>>,
}

impl WakerSlot {
    /// A slot for this waker. It holds the waker already if that is a task's; another's is
    /// cloned by the first `poll`, for the caller may have a lock.
    fn new(waker: &Waker) -> Self {
        if strand_of(waker).is_some() {
            let waker = MaybeUninit::new(waker.clone());
            return WakerSlot { handover: Handover::new(), waker: UnsafeCell::new(waker) };
        }
        WakerSlot { handover: Handover::borrowed(), waker: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Tells the future. Gives the waker if it is to be called.
    ///
    /// # Safety
    /// The slot is there until it is told, which happens once.
    #[inline]
    pub(super) unsafe fn tell(slot: *const WakerSlot) -> Option<Waker> {
        // SAFETY: by the contract.
        let slot = unsafe { &*slot };
        match slot.handover.take() {
            Taken::LeaveIt => None,
            Taken::Call => {
                // SAFETY: TAKEN makes it ours; what is left in its place is not used.
                let waker = unsafe { (*slot.waker.get()).assume_init_read() };
                slot.handover.tell();
                Some(waker)
            }
        }
    }

    /// Whether it has been told. If not, this waker will be called.
    fn poll(&self, waker: &Waker) -> bool {
        if self.handover.is_told() {
            return true;
        }
        if self.handover.is_borrowed() {
            return self.put(waker.clone());
        }
        // SAFETY: only who polls writes the slot. It may have been taken meanwhile, but
        // its bits stay, and `will_wake` compares nothing but these.
        if unsafe { (*self.waker.get()).assume_init_ref() }.will_wake(waker) {
            return false;
        }
        let new = waker.clone();
        match self.handover.borrow() {
            Borrowed::Told => true,
            Borrowed::Yes => {
                // SAFETY: BORROWED makes it ours.
                let old = unsafe { (*self.waker.get()).assume_init_read() };
                let is_told = self.put(new);
                drop(old);
                is_told
            }
        }
    }

    /// Puts a waker into the slot, which is borrowed and empty. Returns whether it has been
    /// told meanwhile.
    fn put(&self, waker: Waker) -> bool {
        // SAFETY: BORROWED makes it ours.
        unsafe { (*self.waker.get()).write(waker) };
        let is_told = self.handover.put_back() == PutBack::Told;
        if is_told {
            // SAFETY: nobody took it, nor will.
            unsafe { (*self.waker.get()).assume_init_drop() };
        }
        is_told
    }

    /// Takes the waker out of a slot that was not told and that nobody else reaches any more.
    fn retract(&self) -> Option<Waker> {
        // SAFETY: it is there, and what is left in its place is not used.
        self.handover.retract().then(|| unsafe { (*self.waker.get()).assume_init_read() })
    }
}

/// The wait of a future. Nobody is told twice, nor moves while another may tell it.
pub(crate) struct Awaiting {
    slot: Option<WakerSlot>,
    wait: Option<Wait>,
    _pinned: PhantomPinned,
}

// SAFETY: the slot is handed from thread to thread by its protocol, and wakers may be
// called anywhere.
unsafe impl Send for Awaiting {}

impl Awaiting {
    pub(crate) const fn new() -> Self {
        Awaiting { slot: None, wait: None, _pinned: PhantomPinned }
    }

    /// Begins a wait; the one before has ended. It runs no code of others', so the caller may
    /// have a lock. This waker is called if [`poll`](Awaiting::poll) has been since.
    pub(crate) fn begin(self: Pin<&mut Self>, waker: &Waker) -> &Wait {
        // SAFETY: nothing is moved out; who refers to the fields goes by the pin.
        let this = unsafe { self.get_unchecked_mut() };
        let slot = this.slot.insert(WakerSlot::new(waker));
        let party = Party::waker_slot(slot);
        this.wait.insert(Wait::new(party))
    }

    /// Ready when the wait has been signalled; else this waker will be.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let slot = self.slot.as_ref().expect("a wait was begun");
        if slot.poll(context.waker()) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Until the wait has been signalled, which somebody is about to do.
    pub(crate) fn await_signal(&self) {
        self.slot.as_ref().expect("a wait was begun").handover.await_told();
    }

    /// Ends a wait that nobody has signalled nor will, because it has been taken out of
    /// where it was entered. Returns the waker: to drop it may run any code, and is what the
    /// caller does last.
    #[must_use]
    pub(crate) fn retract(&self) -> Option<Waker> {
        self.slot.as_ref().expect("a wait was begun").retract()
    }
}

/// See [`wait_in_async`].
struct WaitIn<'a, S, N, Q, E, A>
where
    Q: Fn(&mut S) -> &mut Queue<N>,
    A: FnMut(bool, N),
{
    lock: &'a SpinLock<S>,
    /// Until it is entered.
    start: Option<(SpinGuard<'a, S>, N, E)>,
    place: End,
    queue: Q,
    abandoned: A,
    awaiting: Awaiting,
    /// While it is entered.
    node: Option<Node<N>>,
}

// SAFETY: what refers to the node does so under the lock or as the one who told it; what
// else is in the future may be sent, which is asked for.
unsafe impl<S: Send, N: Send, Q: Send, E: Send, A: Send> Send for WaitIn<'_, S, N, Q, E, A>
where
    Q: Fn(&mut S) -> &mut Queue<N>,
    A: FnMut(bool, N),
{
}

/// As [`wait_in`](super::wait_in), by a future, which nothing but being told ends. It is
/// to be awaited at once, for it has the lock. Gives the note.
///
/// If the future is dropped before, its node is taken out, and `abandoned` gets the note
/// and is told whether somebody had told it: what it was given then is to be passed on.
pub(crate) fn wait_in_async<'a, S, N>(
    lock: &'a SpinLock<S>,
    guard: SpinGuard<'a, S>,
    queue: impl Fn(&mut S) -> &mut Queue<N> + 'a,
    place: End,
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
        // SAFETY: neither `awaiting` nor the node is moved while it is entered.
        let this = unsafe { self.get_unchecked_mut() };
        if let Some((mut guard, note, entered)) = this.start.take() {
            // SAFETY: as above.
            let wait = unsafe { Pin::new_unchecked(&mut this.awaiting) }.begin(context.waker());
            let node = this.node.insert(Node::unlimited(note));
            // SAFETY: neither moves before it is told, or `drop` takes the node out.
            unsafe { (this.queue)(&mut guard).enter(node, wait, this.place) };
            drop(guard);
            entered();
        }
        if this.awaiting.poll(context).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(this.node.take().expect("it is polled until it is ready").into_note())
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
        let note = self.node.take().expect("it is there").into_note();
        (self.abandoned)(is_told, note);
    }
}
