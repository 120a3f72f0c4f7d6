//! Operations in flight: submitted by one caller together, and not completed yet.
//!
//! ```text
//!   the caller                                   a reaper, for each entry that has landed
//!   1  depart: each operation is pending         1  an operation: done, and its result is kept
//!   2  submit                                    2  a helper: see below
//!   3  wait to be told                           3  nothing is left to land: tell the caller
//!   4  a limit ended the wait: withdraw, ask
//!      for cancels, submit them, wait again
//! ```
//!
//! A *helper* is an entry beside an operation: a cancel, or a timer that is followed by another cancel.
//! An operation has one helper at most. A cancel misses an operation that is on its way between two
//! places in the kernel. Then a timer of a millisecond is submitted, and after that the next cancel.
//!
//! ```text
//!   a helper:  None --ask--> Out(cancel) --found--> Spent
//!                            Out(cancel) --missed--> Out(timer) --> Out(cancel) ...
//! ```
//!
//! Linked operations run one after the other, so only the first that is pending is cancelled. If it
//! completes all the same, the reaper asks for a cancel of the next.
#![allow(unsafe_code)]

use super::plan::Plan;
use super::queues::Landing;
use crate::base::atomic::{AtomicPtr, AtomicU32, Relaxed};
use crate::base::spin::{SpinGuard, SpinLock};
use crate::wait::{Party, Resumed, Signalled};
use io_uring::squeue::{Entry, Flags};
use io_uring::{opcode, types};
use std::task::{Context, Poll, Waker};

/// An operation that the kernel knows by its address. Its words are used under the lock of its flight.
#[repr(align(8))]
struct Operation {
    /// The flight that the operation belongs to. Written before the operation is submitted.
    flight: AtomicPtr<Flight>,
    /// IDLE, PENDING or DONE.
    stage: AtomicU32,
    /// NONE, OUT or SPENT.
    helper: AtomicU32,
    /// The kernel's result, since the operation is DONE.
    result: AtomicU32,
}

/// To be submitted.
const IDLE: u32 = 0;
const PENDING: u32 = 1;
const DONE: u32 = 2;

/// There was no helper yet.
const NONE: u32 = 0;
/// A helper has been submitted, or is about to be.
const OUT: u32 = 1;
/// A cancel has found the operation.
const SPENT: u32 = 2;

/// The lowest bits of user data say what has landed: the operation, or one of its helpers.
const TAGS: u64 = 7;
const CANCEL: u64 = 1;
const TIMER: u64 = 2;

/// The user data of an entry that belongs to no operation: it cancels all of them.
const SWEEP: u64 = 0;

/// The time from a cancel that has missed its operation to the next. Unmeasured.
static PAUSE: types::Timespec = types::Timespec::new().nsec(1_000_000);

/// The room that an operation takes: for its completion, and for that of a helper.
pub(crate) const ROOM: usize = 2;

impl Operation {
    fn new() -> Operation {
        Operation {
            flight: AtomicPtr::new(std::ptr::null_mut()),
            stage: AtomicU32::new(IDLE),
            helper: AtomicU32::new(NONE),
            result: AtomicU32::new(0),
        }
    }

    fn user_data(&self) -> u64 {
        std::ptr::from_ref(self).expose_provenance() as u64
    }

    fn is(&self, stage: u32) -> bool {
        self.stage.load(Relaxed) == stage
    }

    fn result(&self) -> i32 {
        self.result.load(Relaxed) as i32
    }

    /// Returns the entry of a cancel or of a timer.
    fn help(&self, kind: u64) -> Entry {
        let entry = match kind {
            CANCEL => opcode::AsyncCancel::new(self.user_data()).build(),
            _ => opcode::Timeout::new(&raw const PAUSE).build(),
        };
        entry.user_data(self.user_data() | kind)
    }
}

enum Operations {
    One(Operation),
    Many(Box<[Operation]>),
}

/// Operations that one caller has submitted together.
pub(crate) struct Flight {
    state: SpinLock<State>,
    is_linked: bool,
    operations: Operations,
}

struct State {
    /// The number of entries that have not landed: operations and helpers.
    left: usize,
    /// Whether the operations are to be cancelled.
    asked: bool,
    /// The fibre or thread that waits.
    party: Option<Party>,
    /// The waker of the future that waits.
    waker: Option<Waker>,
    /// A reference to the record that this flight is part of. Its call drops it.
    kept: Option<Waker>,
    /// Whether the future has been dropped.
    abandoned: bool,
}

/// The duties of a reaper after a landing.
#[must_use]
pub(crate) struct Landed {
    /// Room that is free now.
    pub(crate) room: usize,
    /// A helper that is to be submitted.
    pub(crate) help: Option<Entry>,
}

/// Returns an entry that cancels all operations of a ring. The kernel knows it since Linux 5.19.
pub(crate) fn sweep() -> Entry {
    opcode::AsyncCancel2::new(types::CancelBuilder::any().all()).build().user_data(SWEEP)
}

impl Landing {
    /// Returns whether this is the kernel's refusal to [`sweep`].
    pub(crate) fn refuses_sweep(&self) -> bool {
        self.user_data() == SWEEP && self.result() == -libc::EINVAL
    }

    /// Counts the landing. Tells the caller, by `signalled`, if it was the last of its flight.
    pub(crate) fn land(self, signalled: &mut Signalled) -> Landed {
        if self.user_data() == SWEEP {
            return Landed { room: 0, help: None };
        }
        let address = (self.user_data() & !TAGS) as usize;
        // SAFETY: this is the address of an operation that was submitted by the contract of
        // `Flight::entries` or `Flight::ask`. The flight is not over before this landing has been
        // counted, so both are there.
        let (flight, operation) = unsafe {
            let operation = &*std::ptr::with_exposed_provenance::<Operation>(address);
            (&*operation.flight.load(Relaxed), operation)
        };
        match self.user_data() & TAGS {
            0 => flight.land(operation, self.result(), signalled),
            kind => flight.land_helper(operation, kind, self.result(), signalled),
        }
    }
}

impl Flight {
    pub(crate) fn new(count: usize, is_linked: bool) -> Flight {
        let operations = match count {
            1 => Operations::One(Operation::new()),
            _ => Operations::Many((0..count).map(|_| Operation::new()).collect()),
        };
        let state = State { left: 0, asked: false, party: None, waker: None, kept: None, abandoned: false };
        Flight { state: SpinLock::new(state), is_linked, operations }
    }

    fn operations(&self) -> &[Operation] {
        match &self.operations {
            Operations::One(operation) => std::slice::from_ref(operation),
            Operations::Many(operations) => operations,
        }
    }

    /// Returns the number of operations that are to be submitted.
    pub(crate) fn idle(&self) -> usize {
        self.operations().iter().filter(|operation| operation.is(IDLE)).count()
    }

    /// Makes the idle operations pending. `kept` is called when they have landed after the future that
    /// waits for them was dropped.
    pub(crate) fn depart(&self, kept: Option<Waker>) {
        let mut state = self.state.lock();
        debug_assert_eq!(state.left, 0, "a flight departs when the last one is over");
        (state.asked, state.kept) = (false, kept);
        for operation in self.operations().iter().filter(|operation| operation.is(IDLE)) {
            operation.flight.store(std::ptr::from_ref(self).cast_mut(), Relaxed);
            operation.stage.store(PENDING, Relaxed);
            operation.helper.store(NONE, Relaxed);
            state.left += 1;
        }
    }

    /// Returns the entries of the pending operations, by what is planned for each number. After
    /// [`depart`](Flight::depart). Neither the flight nor the buffers move before the flight is over.
    pub(crate) fn entries(&self, mut plan: impl FnMut(usize) -> Plan) -> impl Iterator<Item = Entry> {
        let pending = self.operations().iter().enumerate().filter(|(_, operation)| operation.is(PENDING));
        let last = self.operations().iter().rposition(|operation| operation.is(PENDING));
        pending.map(move |(number, operation)| {
            let is_followed = self.is_linked && Some(number) != last;
            let flags = if is_followed { Flags::IO_LINK } else { Flags::empty() };
            plan(number).entry().flags(flags).user_data(operation.user_data())
        })
    }

    /// Counts a completion.
    fn land(&self, operation: &Operation, result: i32, signalled: &mut Signalled) -> Landed {
        let mut state = self.state.lock();
        operation.result.store(result as u32, Relaxed);
        operation.stage.store(DONE, Relaxed);
        state.left -= 1;
        // The room of a helper that is out is given back when that lands.
        let room = if operation.helper.load(Relaxed) == OUT { ROOM - 1 } else { ROOM };
        // The kernel itself gives up what is linked behind an operation that failed.
        let help = if state.asked && result >= 0 { self.next_cancel(&mut state) } else { None };
        self.tell_if_over(state, signalled);
        Landed { room, help }
    }

    /// Counts the completion of a helper.
    fn land_helper(&self, operation: &Operation, kind: u64, result: i32, signalled: &mut Signalled) -> Landed {
        let mut state = self.state.lock();
        state.left -= 1;
        let mut landed = Landed { room: 0, help: None };
        if operation.is(DONE) {
            landed.room = 1;
        } else if kind == TIMER || result == -libc::ENOENT {
            state.left += 1;
            landed.help = Some(operation.help(if kind == TIMER { CANCEL } else { TIMER }));
        } else {
            operation.helper.store(SPENT, Relaxed);
        }
        self.tell_if_over(state, signalled);
        landed
    }

    /// Returns the next cancel that is to be submitted.
    fn next_cancel(&self, state: &mut State) -> Option<Entry> {
        let mut pending = self.operations().iter().filter(|operation| operation.is(PENDING));
        let has_no_helper = |operation: &&Operation| operation.helper.load(Relaxed) == NONE;
        let operation =
            if self.is_linked { pending.next().filter(has_no_helper) } else { pending.find(has_no_helper) }?;
        operation.helper.store(OUT, Relaxed);
        state.left += 1;
        Some(operation.help(CANCEL))
    }

    /// Tells the waiter if nothing is left to land. Afterwards the flight may be gone.
    fn tell_if_over(&self, mut state: SpinGuard<'_, State>, signalled: &mut Signalled) {
        if state.left > 0 {
            return;
        }
        let (party, waker) = (state.party.take(), state.waker.take());
        let kept = if state.abandoned { state.kept.take() } else { None };
        drop(state);
        if let Some(party) = party {
            signalled.add(Party::signal_owed_later(party.owed()));
        }
        if let Some(waker) = waker {
            signalled.add(Resumed::of(waker));
        }
        if let Some(kept) = kept {
            signalled.add(Resumed::Waker(kept));
        }
    }

    /// Asks for all operations to be cancelled. Returns the entries that are to be submitted, under the
    /// conditions of [`entries`](Flight::entries).
    pub(crate) fn ask(&self) -> Vec<Entry> {
        let mut state = self.state.lock();
        state.asked = true;
        std::iter::from_fn(|| self.next_cancel(&mut state)).collect()
    }

    /// Enters a party that is signalled when the flight is over. Returns `false` if it is over already.
    pub(crate) fn wait(&self, party: Party) -> bool {
        let mut state = self.state.lock();
        if state.left > 0 {
            state.party = Some(party);
        }
        state.left > 0
    }

    /// Takes the party out. Returns `false` if it has been taken, to be signalled.
    pub(crate) fn withdraw(&self) -> bool {
        self.state.lock().party.take().is_some()
    }

    /// Returns `Ready` if the flight is over. If not, this waker will be called. By a future.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let new = context.waker().clone();
        let mut state = self.state.lock();
        if state.left == 0 {
            let kept = state.kept.take();
            drop(state);
            drop((kept, new));
            return Poll::Ready(());
        }
        let old = state.waker.replace(new);
        drop(state);
        drop(old);
        Poll::Pending
    }

    /// Notes that the future which waits is dropped. Returns whether operations are still in flight:
    /// then the caller cancels them.
    pub(crate) fn abandon(&self) -> bool {
        let mut state = self.state.lock();
        let is_over = state.left == 0;
        state.abandoned = true;
        let waker = state.waker.take();
        let kept = if is_over { state.kept.take() } else { None };
        drop(state);
        drop((waker, kept));
        !is_over
    }

    /// Makes those operations idle which the kernel has cancelled though nobody had asked for it: it
    /// may do that when the kernel thread has ended that submitted them. Returns whether there are any. After
    /// the flight is over.
    pub(crate) fn renew(&self, mut plan: impl FnMut(usize) -> Plan) -> bool {
        let (mut is_broken, mut renewed) = (false, false);
        for (number, operation) in self.operations().iter().enumerate() {
            let result = operation.result();
            if is_broken {
                continue;
            }
            if is_cancelled(result) || (self.is_linked && renewed) {
                operation.stage.store(IDLE, Relaxed);
                renewed = true;
            } else {
                is_broken = self.is_linked && plan(number).breaks_link(result);
            }
        }
        renewed
    }

    /// Returns the result of each operation; `None` if it was not submitted. After the flight is over.
    pub(crate) fn results(&self) -> impl Iterator<Item = Option<i32>> {
        self.operations().iter().map(|operation| operation.is(DONE).then(|| operation.result()))
    }
}

/// Says whether the kernel has given up an operation before it did anything. `EFAULT` is its answer where
/// the submitting thread has ended and the operation was to be tried again: all buffers are valid, so the
/// error has no other cause.
pub(crate) fn is_cancelled(result: i32) -> bool {
    matches!(-result, libc::ECANCELED | libc::EINTR | libc::EFAULT)
}
