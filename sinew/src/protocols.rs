//! The lock-free protocols, laid open for the models in `tests/loom`. Compiled
//! only with `--cfg sinew_loom`; each type here is the runtime's own with a
//! public face.
#![allow(unsafe_code, missing_docs)]

use crate::base::Deadline;
use crate::base::atomic::{AtomicBool, AtomicU64, Relaxed};
use crate::base::spin;
use crate::fibre::headcount;
use crate::io::{pool, slots};
use crate::processor::drain;
use crate::processor::idle;
use crate::sched::{ProcessorId, Ready, Wake};
use crate::strand::join;
use crate::strand::{self, After, Kind, Strand, StrandArc};
use crate::sync::Policy;
use crate::sync::{raw_mutex, raw_rwlock, raw_semaphore};
use crate::task::block_on;
use crate::task::life::{Begin, Life};
use crate::wait::{self, Limit, Party, handover};
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::num::NonZeroU64;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub use crate::wait::model::{Cancel, Line, Outcome, Waiting};

/// The number that stands for a processor.
pub fn processor(index: u16) -> ProcessorId {
    ProcessorId(index)
}

/// A strand that is never run: for queues. Its number is also the time at which
/// it became ready.
pub fn ready_strand(number: u64) -> Ready {
    static KIND: Kind = Kind { run: |_, _| crate::base::fatal("a model's strand was run"), free };
    /// # Safety
    /// The strand was made below, and no reference to it is left.
    unsafe fn free(strand: NonNull<Strand>) {
        // SAFETY: by the contract.
        drop(unsafe { Box::from_raw(strand.as_ptr()) });
    }
    let strand = NonNull::from(Box::leak(Box::new(Strand::for_model(&KIND))));
    // SAFETY: the strand is new, and `KIND` frees it.
    let (ready, handle) = unsafe { Ready::of_new(strand) };
    // Not freed: where the next strand lies must not depend on when this one
    // ends, or a model would not be the same each time.
    std::mem::forget(handle);
    ready.stamp(number);
    ready
}

/// Ends a model's strand; gives its number.
pub fn retire(ready: Ready) -> u64 {
    let number = ready.ready_at();
    ready.retire();
    number
}

pub struct State(strand::State);

impl State {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        State(strand::State::new())
    }

    pub fn take_token(&self) -> bool {
        self.0.take_token()
    }

    pub fn take_signal(&self) -> bool {
        self.0.take_signal()
    }

    /// Whether it is parked; else it had been woken.
    pub fn commit_park(&self) -> bool {
        self.0.commit_park() == strand::Commit::Stopped
    }

    /// Whether it waits; else it had been signalled.
    pub fn commit_wait(&self) -> bool {
        self.0.commit_wait() == strand::Commit::Stopped
    }

    /// Whether the caller has to make the strand ready.
    pub fn unpark(&self) -> bool {
        self.0.unpark() == strand::Woken::Enqueue
    }

    /// Whether the caller has to make the strand ready.
    pub fn signal(&self) -> bool {
        self.0.signal() == strand::Woken::Enqueue
    }

    pub fn finish(&self) {
        self.0.finish();
    }
}

#[derive(Default)]
pub struct Inbox(strand::Inbox);

// SAFETY: the runtime shares inboxes the same way, inside of types of which it
// says so.
unsafe impl Sync for Inbox {}
// SAFETY: as above.
unsafe impl Send for Inbox {}

impl Inbox {
    pub fn put(&self, ready: Ready) -> bool {
        self.0.put(ready)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes everything and ends it; gives the numbers in order.
    pub fn take_all(&self) -> Vec<u64> {
        let mut taken = self.0.take_all();
        std::iter::from_fn(|| taken.pop()).map(retire).collect()
    }
}

/// A task without a future, step by step: what its processor, its wakers and its handle do.
pub struct Task(StrandArc);

thread_local!(static FREED: Cell<u32> = const { Cell::new(0) });

/// How often the memory of this model's task was given back. It is not: whoever uses it
/// afterwards is to be found by loom.
pub fn freed() -> u32 {
    FREED.get()
}

/// A task that is ready for its first poll, and its handle.
pub fn task() -> (Ready, Task) {
    static KIND: Kind = Kind { run: |_, _| crate::base::fatal("a model's task was run"), free };
    /// # Safety
    /// The strand was made below, and no reference to it is left.
    unsafe fn free(mut strand: NonNull<Strand>) {
        FREED.set(FREED.get() + 1);
        // SAFETY: by the contract; if there is another who uses it, loom says so.
        unsafe { strand.as_mut() }.end_for_model();
    }
    FREED.set(0);
    let strand = NonNull::from(Box::leak(Box::new(Strand::for_model(&KIND))));
    // SAFETY: the strand is new, and `KIND` frees it.
    let (ready, handle) = unsafe { Ready::of_new(strand) };
    (ready, Task(handle))
}

/// By the processor: whether the future is to be polled, else it is to be dropped.
pub fn begin_poll(task: &Ready) -> bool {
    Life::of(task.strand()).begin() == Begin::Poll
}

/// By the processor: gives the task back if it was woken.
pub fn park(task: Ready) -> Option<Ready> {
    task.stop(After::Parking)
}

impl Task {
    pub fn waker(&self) -> Task {
        Task(self.0.clone())
    }

    /// Gives the task if it was parked.
    pub fn wake_by_ref(&self) -> Option<Ready> {
        self.0.strand().unpark()
    }

    pub fn abort(&self) -> Option<Ready> {
        let strand = self.0.strand();
        strand.woken(Life::of(strand).abort())
    }
}

pub struct Handover(handover::Handover);

impl Handover {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Handover(handover::Handover::new())
    }

    /// A slot that is still to be filled.
    pub fn borrowed() -> Self {
        Handover(handover::Handover::borrowed())
    }

    /// Whether the waker is still there, and the caller's.
    pub fn retract(&self) -> bool {
        self.0.retract()
    }

    pub fn is_told(&self) -> bool {
        self.0.is_told()
    }

    /// Whether the waker is the caller's; else it has been told.
    pub fn borrow(&self) -> bool {
        self.0.borrow() == handover::Borrowed::Yes
    }

    /// Whether the waker will be called; else it has been told.
    pub fn put_back(&self) -> bool {
        self.0.put_back() == handover::PutBack::Held
    }

    /// Whether the waker is the caller's, to be called after `tell`.
    pub fn take(&self) -> bool {
        self.0.take() == handover::Taken::Call
    }

    pub fn tell(&self) {
        self.0.tell();
    }

    pub fn await_told(&self) {
        self.0.await_told();
    }
}

/// What a call has shown.
#[derive(Clone, Copy)]
pub enum Shown {
    More,
    Short,
    Nothing,
}

/// The side of a descriptor that is read from.
pub struct Slot(ManuallyDrop<slots::Owned>);

// SAFETY: the runtime shares slots the same way.
unsafe impl Sync for Slot {}
// SAFETY: as above.
unsafe impl Send for Slot {}

impl Slot {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Slot(slots::Owned::for_model())
    }

    /// How many events there were, if it is worth trying.
    pub fn begin(&self) -> Option<u32> {
        self.0.begin(slots::Side::Read)
    }

    /// As a kernel thread. How many events there were when it became worth trying.
    pub fn wait(&self) -> u32 {
        self.0
            .wait(slots::Side::Read, Limit::NONE)
            .unwrap_or_else(|_| crate::base::fatal("a model's wait has no limit"))
    }

    /// As [`wait`](Slot::wait), by a future.
    pub fn wait_async(&self) -> impl Future<Output = u32> {
        self.0.wait_async(slots::Side::Read)
    }

    pub fn finish(&self, events: u32, shown: Shown) {
        let shown = match shown {
            Shown::More => slots::Shown::More,
            Shown::Short => slots::Shown::Short,
            Shown::Nothing => slots::Shown::Nothing,
        };
        self.0.finish(slots::Side::Read, events, shown);
    }

    /// A poller has seen an event.
    pub fn announce(&self, is_closed: bool) {
        self.0.announce(slots::Event { ready: [true, false], closed: [is_closed, false] });
    }

    /// A poller is about to report.
    pub fn adopt(&self) {
        self.0.adopt(1, slots::Side::Read);
    }

    pub fn is_reported(&self) -> bool {
        self.0.is_reported()
    }

    /// Nobody polls any more.
    pub fn disown(&self) {
        self.0.disown();
    }
}

/// The threads and the jobs of a pool for calls that block.
pub struct Pool<J>(pool::Pool<J>);

// SAFETY: the runtime shares pools the same way.
unsafe impl<J: Send> Sync for Pool<J> {}

/// The part of one of its threads that others see.
pub struct Worker<J>(std::sync::Arc<pool::Worker<J>>);

pub use pool::{Next, Placed};

impl<J: Send> Pool<J> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Pool(pool::Pool::new())
    }

    pub fn place(&self, job: J, bound: usize, may_queue: bool) -> Placed<J> {
        self.0.place(job, bound, may_queue)
    }

    pub fn leave_to_another(&self, job: J, may_queue: bool) -> Placed<J> {
        self.0.leave_to_another(job, may_queue)
    }

    pub fn next(&self, worker: &Worker<J>, bound: usize) -> Next<J> {
        self.0.next(&worker.0, bound)
    }

    pub fn dismiss(&self, bound: usize) {
        self.0.dismiss(bound);
    }

    pub fn recruit(&self, bound: usize) -> Option<J> {
        self.0.recruit(bound)
    }

    /// The number of threads that are counted.
    pub fn threads(&self) -> usize {
        self.0.load().threads
    }
}

impl<J: Send> Worker<J> {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Worker(pool::Worker::new())
    }

    /// As a thread whose time to be idle may be up from the beginning.
    pub fn wait(&self, pool: &Pool<J>, is_overdue: bool) -> Option<J> {
        let longest = if is_overdue { Duration::ZERO } else { Duration::from_secs(3600) };
        self.0.wait(&pool.0, longest)
    }
}

pub struct SpinLock<T>(spin::SpinLock<T>);

pub struct SpinGuard<'a, T>(spin::SpinGuard<'a, T>);

impl<T> SpinLock<T> {
    pub fn new(value: T) -> Self {
        SpinLock(spin::SpinLock::new(value))
    }

    pub fn lock(&self) -> SpinGuard<'_, T> {
        SpinGuard(self.0.lock())
    }

    pub fn lock_at_once(&self) -> Option<SpinGuard<'_, T>> {
        self.0.lock_at_once().map(SpinGuard)
    }

    pub fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
        self.0.try_lock().map(SpinGuard)
    }
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

pub struct Join(AtomicU64);

#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Completed {
    Kept,
    Unwanted,
    Wake(NonZeroU64),
}

impl Join {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Join(AtomicU64::new(0))
    }

    fn word(&self) -> join::Join<'_> {
        join::Join::of(&self.0)
    }

    pub fn is_done(&self) -> bool {
        self.word().is_done()
    }

    /// Whether the waiter has been entered; else the result is there.
    pub fn wait(&self, waiter: NonZeroU64) -> bool {
        self.word().wait(waiter) == join::Wait::Entered
    }

    pub fn withdraw(&self, waiter: NonZeroU64) -> bool {
        self.word().withdraw(waiter)
    }

    pub fn complete(&self) -> Completed {
        match self.word().complete() {
            join::Completed::Kept => Completed::Kept,
            join::Completed::Unwanted => Completed::Unwanted,
            join::Completed::Wake(waiter) => Completed::Wake(waiter),
        }
    }

    /// Whether the result is there, and the caller's to drop.
    pub fn detach(&self) -> bool {
        self.word().detach() == join::Detached::Done
    }
}

/// What rings in a model's poller.
#[derive(Default)]
pub struct Bell(AtomicBool);

impl Bell {
    /// Whether it has rung. By the processor that waits in the poller, which thereby
    /// stops it.
    pub fn take(&self) -> bool {
        let rings = self.0.load(Relaxed);
        if rings {
            self.0.store(false, Relaxed);
        }
        rings
    }
}

impl idle::Bell for Bell {
    fn ring(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

pub struct Headcount(headcount::Headcount);

impl Headcount {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Headcount(headcount::Headcount::new())
    }

    pub fn enter(&self) {
        self.0.enter();
    }

    /// Gives the owner if that is to be signalled.
    pub fn leave(&self) -> Option<NonZeroU64> {
        match self.0.leave() {
            headcount::Left::Others => None,
            headcount::Left::Last(owner) => Some(owner),
        }
    }

    /// Whether the owner will be signalled; else all have left.
    pub fn wait(&self, owner: NonZeroU64) -> bool {
        self.0.wait(owner) == headcount::Wait::Entered
    }
}

/// The drain of a runtime with two seats.
pub struct Drain {
    drain: drain::Drain,
    seats: [drain::Tally; 2],
}

impl Drain {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Drain { drain: drain::Drain::new(), seats: [drain::Tally::new(), drain::Tally::new()] }
    }

    /// Whether a strand may be spawned, by somebody who is none.
    pub fn let_in(&self) -> bool {
        match self.drain.let_in() {
            drain::Way::Open => true,
            drain::Way::Closed(drainer) => {
                signal(drainer);
                false
            }
        }
    }

    /// A strand that runs on this seat spawns another.
    pub fn spawn(&self, seat: usize) {
        self.seats[seat].count_spawned();
    }

    /// A strand finishes on this seat.
    pub fn finish(&self, seat: usize) {
        self.seats[seat].count_finished();
        signal(self.drain.one_finished());
    }

    /// Ends the runtime; returns when all strands have finished.
    pub fn end(&self) {
        self.drain.close();
        self.drain.wait(|| self.drain.live(self.seats.iter()) == 0);
    }
}

fn signal(party: Option<Party>) {
    if let Some(party) = party {
        // SAFETY: it entered itself, and the drain gave it to us alone.
        unsafe { party.signal() };
    }
}

pub struct Idle(idle::Idle);

#[must_use]
pub struct Lingering<'a>(idle::Lingering<'a>);

#[must_use]
pub struct Announced<'a>(idle::Announced<'a>);

#[must_use]
pub enum Slept<'a> {
    Notified,
    TimedOut(Announced<'a>),
}

impl Idle {
    pub fn new(capacity: usize) -> Self {
        Idle(idle::Idle::new(capacity))
    }

    pub fn notify(&self, wake: Wake) {
        self.0.notify(wake);
    }

    pub fn notify_processor(&self, id: ProcessorId) {
        self.0.notify_processor(id);
    }

    pub fn rouse(&self, id: ProcessorId) {
        self.0.wake_processor(id);
    }

    pub fn wake_sentinel(&self) {
        self.0.wake_sentinel();
    }

    pub fn relieve(&self) {
        self.0.relieve();
    }

    pub fn sleeping(&self) -> u32 {
        self.0.sleeping()
    }

    pub fn linger(&self, id: ProcessorId) -> Lingering<'_> {
        Lingering(self.0.linger(id))
    }

    pub fn hide(&self, id: ProcessorId) -> Announced<'_> {
        Announced(self.0.hide(id))
    }
}

impl<'a> Lingering<'a> {
    pub fn found(self) {
        self.0.found();
    }

    pub fn announce(self) -> Announced<'a> {
        Announced(self.0.announce())
    }
}

impl<'a> Announced<'a> {
    pub fn is_sentinel(&self) -> bool {
        self.0.is_sentinel()
    }

    pub fn is_watched(&self) -> bool {
        self.0.is_watched()
    }

    pub fn keep_watch(&self, watch: bool) {
        self.0.keep_watch(watch);
    }

    pub fn sleep(self, timeout: Option<Duration>) -> Slept<'a> {
        match self.0.sleep(timeout) {
            idle::Slept::Notified => Slept::Notified,
            idle::Slept::TimedOut(still) => Slept::TimedOut(Announced(still)),
        }
    }

    /// Sleeps in `poll`, where `bell` rings.
    pub fn sleep_polling(self, bell: &Arc<Bell>, poll: impl FnOnce(&dyn Fn())) -> Slept<'a> {
        match self.0.sleep_polling(bell, poll) {
            idle::Slept::Notified => Slept::Notified,
            idle::Slept::TimedOut(still) => Slept::TimedOut(Announced(still)),
        }
    }

    pub fn deputise(&mut self) -> bool {
        self.0.deputise()
    }

    pub fn resign(&mut self) {
        self.0.resign();
    }

    pub fn take_seat(&mut self) {
        self.0.become_sentinel();
    }

    pub fn retract(self) {
        self.0.retract();
    }

    pub fn depart(self) {
        self.0.depart();
    }
}

fn overdue() -> Limit {
    Limit::until(Deadline::after(Duration::ZERO))
}

pub struct RawMutex(raw_mutex::RawMutex);

impl RawMutex {
    pub fn new(policy: Policy) -> Self {
        RawMutex(raw_mutex::RawMutex::new(policy))
    }

    pub fn lock(&self) {
        self.0.lock();
    }

    pub fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    /// With a limit that has ended already.
    pub fn lock_overdue(&self) -> bool {
        self.0.lock_within(overdue())
    }

    pub async fn lock_async(&self) {
        self.0.lock_async().await;
    }

    pub fn unlock(&self) {
        self.0.unlock();
    }
}

pub struct RawRwLock(raw_rwlock::RawRwLock);

impl RawRwLock {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        RawRwLock(raw_rwlock::RawRwLock::new())
    }

    pub fn read(&self) {
        self.0.read(Limit::NONE);
    }

    pub fn write(&self) {
        self.0.write(Limit::NONE);
    }

    pub fn try_read(&self) -> bool {
        self.0.try_read()
    }

    pub fn try_write(&self) -> bool {
        self.0.try_write()
    }

    /// With a limit that has ended already.
    pub fn write_overdue(&self) -> bool {
        self.0.write(overdue())
    }

    pub fn unlock_read(&self) {
        self.0.unlock_read();
    }

    pub fn unlock_write(&self) {
        self.0.unlock_write();
    }

    pub fn downgrade(&self) {
        self.0.downgrade();
    }
}

pub struct RawSemaphore(raw_semaphore::RawSemaphore);

impl RawSemaphore {
    pub fn new(permits: usize) -> Self {
        RawSemaphore(raw_semaphore::RawSemaphore::new(permits))
    }

    pub fn permits(&self) -> usize {
        self.0.permits()
    }

    pub fn take(&self, count: usize) {
        let _ = self.0.take(count, Limit::NONE);
    }

    pub fn try_take(&self, count: usize) -> bool {
        self.0.try_take(count)
    }

    /// With a limit that has ended already.
    pub fn take_overdue(&self, count: usize) -> bool {
        self.0.take(count, overdue()) == wait::Outcome::Told
    }

    pub fn give(&self, count: usize) {
        self.0.give(count, raw_semaphore::MOST);
    }
}

/// What a future that joins has left in the word.
#[derive(Default)]
pub struct Enrolled(wait::Enrolled);

impl Enrolled {
    /// Whether the strand has finished; else the waker will be called then.
    pub fn poll(&mut self, join: &Join, waker: &Waker) -> bool {
        self.0.poll(join.word(), &Context::from_waker(waker)) == Poll::Ready(())
    }

    pub fn leave(&mut self, join: &Join) {
        self.0.leave(join.word());
    }
}

/// One who blocks in `block_on`.
pub struct Blocked(Arc<block_on::Blocked>);

impl Blocked {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Blocked(Arc::new(block_on::Blocked::new()))
    }

    pub fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.0))
    }

    /// Waits between two polls, with a timer that is due. Whether it was woken.
    pub fn wait_overdue(&self) -> bool {
        let enter = |wait: &wait::Wait| self.0.enter(Party::timed(wait));
        let outcome = wait::block_within(overdue(), enter, |_| self.0.withdraw());
        self.0.begin_poll();
        outcome == wait::Outcome::Told
    }
}
