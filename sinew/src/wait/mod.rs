#![doc = include_str!("README.md")]
#![allow(unsafe_code)]

mod awaiting;
pub(crate) mod budget;
mod enrolled;
mod handover;
mod lent;
mod limits;
#[cfg(all(test, sinew_loom))]
mod models;
mod queue;
mod request;
mod signalled;
mod timers;

pub(crate) use awaiting::{Awaiting, wait_in_async};
pub(crate) use enrolled::Enrolled;
pub(crate) use lent::Lent;
pub(crate) use limits::{Limit, Limits, carried, carrying};
pub(crate) use queue::{Batch, End, LARGEST_BATCH, Node, Queue, Told, wait_in};
pub(crate) use request::Cancel;
pub(crate) use signalled::Signalled;
pub(crate) use timers::{Expiry, Timer, Timers};

use crate::base::Deadline;
use crate::base::atomic::{AcqRel, Acquire, AtomicU32, Relaxed};
use crate::base::fork;
use crate::fibre::suspend_on as suspend;
use crate::processor;
use crate::stack::{Stack, current_stack};
use crate::strand::{After, Ready, Strand, StrandArc};
use crate::task;
use awaiting::WakerSlot;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::task::Waker;

/// Whom to signal. Kinds are told apart by the lowest bits of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Party(NonZeroU64);

/// A [`Parker`], which a kernel thread waits for.
const KERNEL_THREAD: u64 = 1;
/// A [`Wait`] that is to be told before whoever waits in it.
const TIMED: u64 = 2;
/// A [`WakerSlot`], which a future waits with.
const FUTURE: u64 = 3;
/// A task, by a reference that is the party's own; it is unparked.
const TASK: u64 = 4;
/// Another's waker, in a box that is the party's own.
const WAKER: u64 = 5;
const TAGS: u64 = 7;

/// What goes on when a party is signalled, if it has not done so already.
#[must_use]
pub(crate) enum Resumed {
    Nobody,
    /// Make it ready.
    Strand(Ready),
    /// Call it, where no lock is held: it may run any code.
    Waker(Waker),
}

impl Resumed {
    /// What goes on when this waker is called.
    #[inline]
    pub(crate) fn of(waker: Waker) -> Resumed {
        match task::task_of(waker) {
            Ok(task) => task.strand().unpark().map_or(Resumed::Nobody, Resumed::Strand),
            Err(waker) => Resumed::Waker(waker),
        }
    }
}

impl Party {
    fn new<T>(address: *const T, tag: u64) -> Party {
        let number = NonZeroU64::new(address.expose_provenance() as u64 | tag);
        Party(number.expect("addresses are not 0"))
    }

    #[inline]
    fn strand(strand: &Strand) -> Party {
        Party::new(strand, 0)
    }

    /// The party of a wait that has an end of its own; see [`Wait::tell`].
    pub(crate) fn timed(wait: &Wait) -> Party {
        Party::new(wait, TIMED)
    }

    fn waker_slot(slot: &WakerSlot) -> Party {
        Party::new(slot, FUTURE)
    }

    /// A party that owns `waker`, and need not be there to be signalled.
    fn of_waker(waker: Waker) -> Party {
        match task::task_of(waker) {
            Ok(task) => Party::new(task.into_raw().as_ptr(), TASK),
            Err(waker) => Party::new(Box::into_raw(Box::new(waker)), WAKER),
        }
    }

    /// Whether this is [`of_waker`](Party::of_waker) of this one, if that is a task's. It
    /// may have been signalled already.
    fn is_of_task(self, waker: &Waker) -> bool {
        self.0.get() & TAGS == TASK && task::strand_of(waker) == Some(self.address())
    }

    /// Drops what the party owns, which will not be signalled.
    fn discard(self) {
        drop(self.into_owned());
    }

    /// What [`of_waker`](Party::of_waker) put in.
    fn into_owned(self) -> Result<StrandArc, Waker> {
        match self.0.get() & TAGS {
            TASK => {
                let strand = NonNull::new(self.address::<Strand>().cast_mut()).expect("addresses are not 0");
                // SAFETY: the reference is the party's own, and it is used once.
                Ok(unsafe { StrandArc::from_raw(strand) })
            }
            // SAFETY: as above.
            _ => Err(*unsafe { Box::from_raw(self.address::<Waker>().cast_mut()) }),
        }
    }

    /// As a number greater than 7, which [`from_number`](Party::from_number)
    /// takes back.
    pub(crate) fn number(self) -> NonZeroU64 {
        self.0
    }

    pub(crate) fn from_number(number: NonZeroU64) -> Party {
        Party(number)
    }

    fn address<T>(self) -> *const T {
        std::ptr::with_exposed_provenance((self.0.get() & !TAGS) as usize)
    }

    /// Signals the party, which goes on.
    ///
    /// # Safety
    /// It has entered itself, and has not been signalled since.
    #[inline]
    pub(crate) unsafe fn signal(self) {
        // SAFETY: the caller's promise is the same.
        if let Some(ready) = unsafe { self.signal_strand() } {
            processor::make_ready(ready);
        }
    }

    /// As [`signal`](Party::signal), but leaves it to the caller to make the
    /// strand ready that goes on, if it is one.
    ///
    /// # Safety
    /// As for `signal`.
    #[inline]
    pub(crate) unsafe fn signal_strand(self) -> Option<Ready> {
        // SAFETY: the caller's promise is the same.
        match unsafe { self.signal_later() } {
            Resumed::Nobody => None,
            Resumed::Strand(ready) => Some(ready),
            Resumed::Waker(waker) => {
                call(waker);
                None
            }
        }
    }

    /// As [`signal`](Party::signal), but leaves everything to the caller that may take
    /// a lock or run another's code.
    ///
    /// # Safety
    /// As for `signal`.
    #[inline]
    pub(crate) unsafe fn signal_later(self) -> Resumed {
        if self.0.get() & TAGS == 0 {
            // SAFETY: it waits for this signal, so it is alive.
            return unsafe { &*self.address::<Strand>() }.signal().map_or(Resumed::Nobody, Resumed::Strand);
        }
        // SAFETY: the caller's promise is the same.
        unsafe { self.signal_other() }
    }

    /// # Safety
    /// As for `signal`.
    unsafe fn signal_other(self) -> Resumed {
        match self.0.get() & TAGS {
            FUTURE => {
                // SAFETY: it does not leave before it has been told.
                unsafe { WakerSlot::tell(self.address()) }.map_or(Resumed::Nobody, Resumed::of)
            }
            KERNEL_THREAD => {
                // SAFETY: it waits for this signal, so its parker is there.
                unsafe { Parker::ring(self.address()) };
                Resumed::Nobody
            }
            TIMED => {
                // SAFETY: it does not leave before it has been told.
                match unsafe { Wait::tell(self.address()) } {
                    None => Resumed::Nobody,
                    // SAFETY: `tell` says that it waits for this.
                    Some(party) => unsafe { party.signal_later() },
                }
            }
            _ => match self.into_owned() {
                Ok(task) => task.strand().unpark().map_or(Resumed::Nobody, Resumed::Strand),
                Err(waker) => Resumed::Waker(waker),
            },
        }
    }
}

/// Calls a waker, which may run any code. If it panics, that is its owner's matter: whoever
/// tells has others to tell, or is a processor.
pub(crate) fn call(waker: Waker) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        // The hook has told of it, and to drop it might panic again.
        std::mem::forget(payload);
    }
}

/// What a kernel thread waits for: a word on its stack. Aligned so that there is room for
/// a party's tag.
#[repr(align(8))]
struct Parker(AtomicU32);

const SILENT: u32 = 0;
const RUNG: u32 = 1;

impl Parker {
    fn new() -> Self {
        Parker(AtomicU32::new(SILENT))
    }

    /// # Safety
    /// The parker is there until it rings.
    unsafe fn ring(parker: *const Parker) {
        // SAFETY: by the contract.
        let word = unsafe { &raw const (*parker).0 };
        // Release pairs with the Acquire in `wait`. The word may be gone after
        // this: the kernel takes its address for a key, and a thread that waits
        // for something else there by now looks again when it is woken.
        // SAFETY: by the contract.
        unsafe { &*word }.store(RUNG, crate::base::atomic::Release);
        kernel_wake(word);
    }

    /// Waits until it rings; not beyond `deadline`. Whether it rang.
    fn wait(&self, deadline: Deadline) -> bool {
        // Acquire pairs with the Release in `ring`.
        while self.0.load(Acquire) == SILENT {
            if deadline.is_past() {
                return false;
            }
            kernel_wait(&self.0, deadline);
        }
        true
    }
}

#[cfg(not(sinew_loom))]
fn kernel_wake(word: *const AtomicU32) {
    crate::base::kernel::futex_wake(word);
}

#[cfg(not(sinew_loom))]
fn kernel_wait(word: &AtomicU32, deadline: Deadline) {
    crate::base::kernel::futex_wait(word, SILENT, (!deadline.is_never()).then(|| deadline.remaining()));
}

#[cfg(sinew_loom)]
fn kernel_wake(_word: *const AtomicU32) {}

#[cfg(sinew_loom)]
fn kernel_wait(_word: &AtomicU32, _deadline: Deadline) {
    loom::thread::yield_now();
}

/// How a wait ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Outcome {
    /// What was waited for has come.
    Told = 1,
    /// The time was up first.
    TimedOut = 2,
    /// Whoever waits was cancelled first.
    Cancelled = 3,
}

const PENDING: u32 = 0;
/// The limit has ended it, but it is to be told before it may leave.
const AWAITING: u32 = 4;

/// A wait that several things may end, the first of which decides its outcome.
/// On the stack of whoever waits, or in its future. Aligned as `Parker` is.
#[repr(align(8))]
pub(crate) struct Wait {
    /// PENDING, AWAITING or an [`Outcome`].
    outcome: AtomicU32,
    party: Party,
}

/// ```text
///   PENDING --settle--> Told | TimedOut | Cancelled     (the settler signals)
///
///   PENDING ---------------------------tell--> Told     (the teller signals)
///   TimedOut | Cancelled --------------tell--> Told     (nobody signals)
///   TimedOut | Cancelled --await_told--> AWAITING --tell--> Told (the teller signals)
/// ```
impl Wait {
    pub(crate) fn new(party: Party) -> Self {
        Wait { outcome: AtomicU32::new(PENDING), party }
    }

    /// Ends the wait with this outcome, if nothing else has ended it: then the
    /// party is the caller's to signal. Whoever calls this has to know that the
    /// wait is still there.
    #[inline]
    pub(crate) fn settle(&self, outcome: Outcome) -> Option<Party> {
        // Read before: the wait may be gone when the party knows.
        let party = self.party;
        // Relaxed: the word only says who was first. What led to it is passed on by the
        // signal, and whoever was later leaves the wait alone.
        self.outcome.compare_exchange(PENDING, outcome as u32, Relaxed, Relaxed).is_ok().then_some(party)
    }

    /// As [`settle`](Wait::settle) as told, for a wait that nothing else can end.
    #[inline]
    fn settle_alone(&self) -> Party {
        // Relaxed: the signal orders it.
        self.outcome.store(Outcome::Told as u32, Relaxed);
        self.party
    }

    /// Whether nothing has ended it yet.
    #[inline]
    fn is_pending(&self) -> bool {
        self.outcome.load(Relaxed) == PENDING
    }

    /// Tells a wait that does not leave before that. Gives the party if it is to be
    /// signalled.
    ///
    /// # Safety
    /// As it says: the wait is there.
    unsafe fn tell(wait: *const Wait) -> Option<Party> {
        // SAFETY: by the contract.
        let wait = unsafe { &*wait };
        let party = wait.party;
        // Release pairs with `outcome` and `await_told`, which go on without a signal if
        // they see this. Acquire pairs with the Release in `await_told`: the signal of this
        // comes after the one of the limit, which has been used up. The wait may be gone
        // afterwards.
        let before = wait.outcome.swap(Outcome::Told as u32, AcqRel);
        matches!(before, PENDING | AWAITING).then_some(party)
    }

    /// After the limit has ended the wait: `true` if it will be signalled when it is
    /// told, `false` if it has been told. By the one who waits.
    fn await_told(&self) -> bool {
        // AcqRel: both pair with `tell`.
        self.outcome.swap(AWAITING, AcqRel) != Outcome::Told as u32
    }

    #[inline]
    fn outcome(&self) -> Outcome {
        const TIMED_OUT: u32 = Outcome::TimedOut as u32;
        const CANCELLED: u32 = Outcome::Cancelled as u32;
        // Acquire pairs with `tell`, which does not signal after a limit.
        let outcome = self.outcome.load(Acquire);
        debug_assert_ne!(outcome, PENDING, "a signal that nobody owed");
        match outcome {
            TIMED_OUT => Outcome::TimedOut,
            CANCELLED => Outcome::Cancelled,
            _ => Outcome::Told,
        }
    }
}

/// Blocks the caller until it is signalled, if `enter` says that it will be.
#[inline(always)]
pub(crate) fn block(enter: impl FnOnce(Party) -> bool) {
    match current_stack() {
        Some(stack) => {
            let lent = Lent::begin();
            if enter(Party::strand(stack.record().strand())) {
                suspend(stack, After::Waiting);
            }
            lent.returned();
        }
        None => block_thread(enter),
    }
}

/// # Panics
/// If the caller is a task: it would hold up its processor, and whoever is to signal it
/// may need just that one.
pub(crate) fn refuse_tasks() {
    if task::is_running() {
        panic!("a task may not block its processor: use the `_async` form, or a fibre");
    }
}

/// Parks a kernel thread that runs no fibre.
#[cold]
pub(crate) fn park_thread(park: impl FnOnce()) {
    refuse_tasks();
    park();
}

#[cold]
fn block_thread(enter: impl FnOnce(Party) -> bool) {
    refuse_tasks();
    fork::check();
    let parker = Parker::new();
    let lent = Lent::begin();
    if enter(Party::new(&parker, KERNEL_THREAD)) {
        parker.wait(Deadline::NEVER);
    }
    lent.returned();
}

/// Blocks the caller until its wait is ended by another, if `enter` says that it
/// will be, or by its `limit`. In the latter case `leave` withdraws the wait from
/// where it was entered; if it says that it did not, the caller goes on waiting, to
/// be told: that is for a wait that was entered as a [`Party::timed`].
#[inline(always)]
pub(crate) fn block_within(
    limit: Limit,
    enter: impl FnOnce(&Wait) -> bool,
    leave: impl FnOnce(&Wait) -> bool,
) -> Outcome {
    block_within_and(limit, enter, leave, || ())
}

/// As [`block_within`]. However the wait ends, `clear` is called while it is still
/// there: for a wait that was entered in several places, of which only one has told
/// it.
#[inline(always)]
pub(crate) fn block_within_and(
    limit: Limit,
    enter: impl FnOnce(&Wait) -> bool,
    leave: impl FnOnce(&Wait) -> bool,
    clear: impl FnOnce(),
) -> Outcome {
    let Some(stack) = current_stack() else {
        return block_thread_within(limit, enter, leave, clear);
    };
    let record = stack.record();
    let wait = Wait::new(Party::strand(record.strand()));
    let lent = Lent::begin();
    if !enter(&wait) {
        clear();
        lent.returned();
        return Outcome::Told;
    }
    let limit = limit.as_carried_by(record);
    let is_overdue = limit.may_be_cancelled() && record.cancel().enter(&wait);
    if is_overdue && wait.settle(Outcome::Cancelled).is_some() {
        // Nobody will signal, and the fibre has not given way.
        budget::spend(budget::MESSAGE);
    } else if limit.deadline().is_never() {
        suspend(stack, After::Waiting);
    } else {
        suspend_until(stack, &wait, limit.deadline());
    }
    if limit.may_be_cancelled() {
        record.cancel().leave();
    }
    let mut outcome = wait.outcome();
    if outcome != Outcome::Told && !leave(&wait) {
        if wait.await_told() {
            suspend(stack, After::Waiting);
        }
        outcome = Outcome::Told;
    }
    clear();
    lent.returned();
    outcome
}

#[inline(never)]
fn suspend_until(stack: Stack, wait: &Wait, deadline: Deadline) {
    let cluster = stack.record().strand().cluster();
    if cluster.timers().has_come(deadline) && wait.settle(Outcome::TimedOut).is_some() {
        return budget::spend(budget::MESSAGE);
    }
    cluster.with_alarm(wait, deadline, || suspend(stack, After::Waiting));
}

#[cold]
fn block_thread_within(
    limit: Limit,
    enter: impl FnOnce(&Wait) -> bool,
    leave: impl FnOnce(&Wait) -> bool,
    clear: impl FnOnce(),
) -> Outcome {
    refuse_tasks();
    fork::check();
    let parker = Parker::new();
    let wait = Wait::new(Party::new(&parker, KERNEL_THREAD));
    let lent = Lent::begin();
    if !enter(&wait) {
        clear();
        lent.returned();
        return Outcome::Told;
    }
    // Its own timer: whoever settled the wait before it will ring.
    let in_time = parker.wait(limit.as_carried_by_thread().deadline()) || wait.settle(Outcome::TimedOut).is_none();
    let mut outcome = Outcome::TimedOut;
    if in_time || !leave(&wait) {
        if in_time || wait.await_told() {
            parker.wait(Deadline::NEVER);
        }
        outcome = Outcome::Told;
    }
    clear();
    lent.returned();
    outcome
}

/// Lets time pass until `limit` ends it.
pub(crate) fn sleep(limit: Limit) -> Outcome {
    block_within(limit, |_| true, |_| true)
}

/// Parks the calling fibre until it has a token, or until `deadline`.
pub(crate) fn park_until(stack: Stack, deadline: Deadline) {
    let strand = stack.record().strand();
    let wait = Wait::new(Party::strand(strand));
    strand.cluster().with_alarm(&wait, deadline, || suspend(stack, After::Parking));
    // The timer is out of the way. If it went off although there was a token,
    // its signal is still there.
    strand.state().take_signal();
}
