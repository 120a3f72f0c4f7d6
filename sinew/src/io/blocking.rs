//! Kernel threads for calls that block: a pool that the whole process shares. (Each event
//! scope has one, to be exact: what a call opens is to be open for the fibre.)
//!
//! ```text
//!   a fibre     1  a thread is idle: take it out of the idle ones, tell it the job
//!               2  else, below the bound: start a thread with the job
//!               3  else: append the job to the queue
//!               4  wait; if the job has been in the queue for long, say so once
//!   a thread    1  run the job
//!               2  take the next one from the queue; if there is none, enter among the idle
//!               3  signal the fibre whose job was run
//!               4  without a next one: wait to be told; after a while leave the idle, and end
//! ```
//!
//! A thread enters among the idle before it signals, so a fibre that makes one call
//! after the other finds the thread that served it last, and needs no second one. A job
//! is handed to a thread under no lock but the pool's, once; the idle thread that was
//! used last, whose caches are warm, comes first, and the others get to be idle long
//! enough to end. It does not spin before it sleeps: on an idle machine of two CPUs that
//! makes a call take 1.6 µs instead of 6, but on a busy one 11 or 50, for the thread that
//! spins is in the way of the processor that has something for it.
//!
//! Jobs are in the queue only while threads are counted and none is idle: a thread
//! looks into the queue under the lock before it becomes idle or ends. A thread that
//! the kernel has refused was counted until then, so whoever finds that no other is left
//! runs what is in the queue.
#![allow(unsafe_code)]

use super::scope::{Home, for_all_workers};
use crate::fibre::stack::current_stack;
use crate::kernel::{futex_wait, futex_wake};
use crate::processor;
use crate::time::Deadline;
use crate::wait::{self, Limit, Party};
use std::cell::Cell;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed,
};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// As many kernel threads as [`blocking`] uses at the most, unless
/// [`set_blocking_threads`] says otherwise. Unmeasured: it is to be more than calls are
/// ever worth making at a time, and no more than a process can afford.
pub const BLOCKING_THREADS: usize = 512;

/// A thread that has had nothing to do for as long ends. Unmeasured.
const LONGEST_IDLE: Duration = Duration::from_secs(10);

/// A call that has waited for a thread for as long is worth a line on standard error. Unmeasured.
const LONGEST_QUEUED: Duration = Duration::from_secs(5);

/// The number of calls that have waited for that long: for whoever reports on stalls.
static OVERDUE: AtomicU64 = AtomicU64::new(0);

/// Runs `f`, which blocks its kernel thread, on a thread that is there for that; the
/// calling fibre waits until `f` has ended, and its processor runs others meanwhile.
///
/// For system calls that have no other form, for C libraries, and for long
/// computations. `f` may borrow from the caller. If it panics, so does the caller.
///
/// The pool of kernel threads grows when none is idle, up to [`BLOCKING_THREADS`] or
/// what [`set_blocking_threads`] said; beyond that calls wait for a thread, first come,
/// first served. Idle threads end after ten seconds. If the kernel refuses a thread,
/// the call waits for one that exists; if none does, `f` runs in place and blocks the
/// processor.
///
/// A kernel thread that runs no fibre calls `f` directly, and so does `f` itself if it
/// gets here again.
///
/// The wait is not ended by [cancellation](crate::cancel): `f` cannot be stopped.
///
/// # Deadlock
/// If every thread of the pool runs a call that waits for a fibre, by a channel or a lock, and
/// these fibres wait for a thread of the pool, nobody goes on. So do not wait in `f` for fibres
/// that may call this function, or anything of [`fs`](crate::fs), or that look up the name of a
/// host: wait first, outside of `f`. When a call has waited for a thread for five seconds, a line
/// on standard error says so, once in a process.
///
/// ```
/// sinew::run(|| {
///     let mut answer = 0;
///     sinew::blocking(|| {
///         std::thread::sleep(std::time::Duration::from_millis(1));
///         answer = 42;
///     });
///     assert_eq!(answer, 42);
/// });
/// ```
pub fn blocking<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    if current_stack().is_none() {
        return f();
    }
    let mut task = Task { job: Job::new(run::<F, T>), f: Some(f), result: None };
    let task = &raw mut task;
    // SAFETY: the task is there until the end of this function.
    let job = unsafe { NonNull::new_unchecked(task.cast::<Job>()) };
    let home = processor::with_current(|processor| processor.expect("fibres run on one").cluster().home().clone());
    let mut submitted = Submitted::Refused;
    wait::block(|party| {
        // SAFETY: as above, and nobody else knows of it yet.
        unsafe { job.as_ref() }.party.set(Some(party));
        submitted = submit(&home, job, false);
        submitted == Submitted::Taken
    });
    if submitted == Submitted::Full {
        submitted = wait_in_queue(&home, job);
    }
    if submitted == Submitted::Refused {
        run_refused(&home, job);
    }
    // SAFETY: the job has been run, and nobody else knows of it any more.
    let result = unsafe { (*task).result.take() };
    result.expect("whoever runs a job leaves a result").unwrap_or_else(|payload| resume_unwind(payload))
}

/// As the wait in [`blocking`], when there may be no thread before another call has ended. It has
/// a timer, which is not worth arming otherwise.
#[cold]
fn wait_in_queue(home: &Home, job: NonNull<Job>) -> Submitted {
    let mut submitted = Submitted::Refused;
    let enter = |wait: &wait::Wait| {
        // SAFETY: the job is the caller's, and nobody else knows of it.
        unsafe { job.as_ref() }.party.set(Some(Party::timed(wait)));
        submitted = submit(home, job, true);
        submitted == Submitted::Taken
    };
    let leave = |_: &wait::Wait| {
        report_overdue(home);
        // It goes on waiting until the job has been run.
        false
    };
    let _ = wait::block_within(Limit::until(Deadline::after(LONGEST_QUEUED)), enter, leave);
    submitted
}

/// Says that calls wait for a thread of this pool, the first time that one has waited for long.
fn report_overdue(home: &Home) {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    OVERDUE.fetch_add(1, Relaxed);
    let pool = home.workers().pool();
    let threads = pool.threads;
    let (calls, longest) = pool.jobs.waiting();
    drop(pool);
    // The caller's may be about to be run.
    if calls == 0 || REPORTED.swap(true, Relaxed) {
        return;
    }
    // Nobody is left to be told if that cannot be written.
    let _ = writeln!(
        io::stderr(),
        "sinew: {calls} blocking call(s) wait for a thread, the first for {:.1} s, and all {threads} thread(s) of \
         the pool are busy; if they wait for fibres that need a thread, nobody goes on (see sinew::blocking)",
        longest.as_secs_f64(),
    );
}

/// Bounds the kernel threads that [`blocking`] uses. 0 counts as 1.
///
/// Threads beyond the bound end as soon as they have nothing to run.
pub fn set_blocking_threads(threads: usize) {
    BOUND.store(threads.max(1), Relaxed);
    for_all_workers(keep_bound);
}

/// Lets threads of the pool go that are too many, or starts those that are wanted.
fn keep_bound(home: &Home) {
    let mut pool = home.workers().pool();
    while pool.threads > bound()
        && let Some(seat) = pool.idle.pop()
    {
        pool.threads -= 1;
        // SAFETY: it was among the idle, and we took it out.
        unsafe { Seat::tell(seat, None) };
    }
    while pool.threads < bound()
        && let Some(job) = pool.jobs.pop()
    {
        pool.threads += 1;
        drop(pool);
        if !start_thread(home, job) {
            if leave_to_another(home, job, true) != Submitted::Taken {
                run_refused(home, job);
                // SAFETY: it has been run, and its fibre waits for this.
                unsafe { signal(job) };
            }
            return;
        }
        pool = home.workers().pool();
    }
}

/// What a thread of the pool is to do: the head of a [`Task`].
struct Job {
    /// Runs the task that this is the head of.
    run: unsafe fn(NonNull<Job>),
    /// Who waits for it. Written before the job is submitted.
    party: Cell<Option<Party>>,
    /// The next one in the queue. Guarded by the pool's lock.
    next: Cell<Option<NonNull<Job>>>,
    /// Since when it is in the queue. Guarded by the pool's lock.
    queued: Cell<Option<Instant>>,
}

/// On the stack of the fibre that waits for it.
#[repr(C)]
struct Task<F, T> {
    job: Job,
    /// Until it is run.
    f: Option<F>,
    /// Since it was run.
    result: Option<thread::Result<T>>,
}

impl Job {
    fn new(run: unsafe fn(NonNull<Job>)) -> Job {
        Job { run, party: Cell::new(None), next: Cell::new(None), queued: Cell::new(None) }
    }

    /// # Safety
    /// The job is there, and is the caller's to run, once.
    unsafe fn run(job: NonNull<Job>) {
        // SAFETY: by the contract.
        unsafe { (job.as_ref().run)(job) };
    }
}

/// # Safety
/// The job is the head of a `Task<F, T>` that nobody else uses and that was not run.
unsafe fn run<F: FnOnce() -> T, T>(job: NonNull<Job>) {
    // SAFETY: by the contract.
    let task = unsafe { job.cast::<Task<F, T>>().as_mut() };
    let f = task.f.take().expect("a job is run once");
    // The caller goes on with the panic: whatever was left half done is known there.
    task.result = Some(catch_unwind(AssertUnwindSafe(f)));
}

/// Lets the fibre go on whose job this is, which is gone then.
///
/// # Safety
/// The job has been run, and the fibre has not been signalled.
unsafe fn signal(job: NonNull<Job>) {
    // SAFETY: by the contract it is there.
    let party = unsafe { job.as_ref() }.party.get();
    // SAFETY: by the contract.
    unsafe { party.expect("a job is submitted with its party").signal() };
}

/// Jobs in the order in which they came.
struct Jobs {
    first: Option<NonNull<Job>>,
    last: Option<NonNull<Job>>,
}

impl Jobs {
    fn push(&mut self, job: NonNull<Job>) {
        // SAFETY: jobs that are submitted were not run, so they are there.
        unsafe { job.as_ref() }.queued.set(Some(Instant::now()));
        match self.last.replace(job) {
            // SAFETY: as above.
            Some(last) => unsafe { last.as_ref() }.next.set(Some(job)),
            None => self.first = Some(job),
        }
    }

    fn pop(&mut self) -> Option<NonNull<Job>> {
        let job = self.first?;
        // SAFETY: as in `push`.
        self.first = unsafe { job.as_ref() }.next.take();
        if self.first.is_none() {
            self.last = None;
        }
        Some(job)
    }

    /// Returns how many there are, and for how long the first has waited.
    fn waiting(&self) -> (usize, Duration) {
        // SAFETY: as in `push`.
        let after = |job: &NonNull<Job>| unsafe { job.as_ref() }.next.get();
        // SAFETY: as in `push`.
        let since = self.first.and_then(|job| unsafe { job.as_ref() }.queued.get());
        (std::iter::successors(self.first, after).count(), since.map_or(Duration::ZERO, |since| since.elapsed()))
    }
}

struct Pool {
    /// What waits for a thread: nothing while one is idle.
    jobs: Jobs,
    /// The one that became idle last is at the end.
    idle: Vec<NonNull<Seat>>,
    /// Those that run, and those that are being started.
    threads: usize,
}

// SAFETY: the jobs are the pool's until it gives them to a thread; the seats are those of
// threads that do not leave them before they were told to, or have taken them out.
unsafe impl Send for Pool {}

impl Pool {
    /// Puts a job into the queue of a pool whose threads are all busy, if it may be there.
    fn enqueue(&mut self, job: NonNull<Job>, may_queue: bool) -> Submitted {
        if !may_queue {
            return Submitted::Full;
        }
        self.jobs.push(job);
        Submitted::Taken
    }
}

static BOUND: AtomicUsize = AtomicUsize::new(BLOCKING_THREADS);

fn bound() -> usize {
    BOUND.load(Relaxed)
}

/// The pool of an event scope.
pub(crate) struct Workers(Mutex<Pool>);

impl Workers {
    pub(crate) const fn new() -> Workers {
        Workers(Mutex::new(Pool { jobs: Jobs { first: None, last: None }, idle: Vec::new(), threads: 0 }))
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// What became of a job.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Submitted {
    /// A thread runs it, or will: it is in the queue.
    Taken,
    /// It would have to be in the queue, where it is not.
    Full,
    /// There is no thread, and none to be had: it is the caller's to run.
    Refused,
}

/// Has the job run by a thread. It is put into the queue only if it `may_queue`.
fn submit(home: &Home, job: NonNull<Job>, may_queue: bool) -> Submitted {
    let mut pool = home.workers().pool();
    if let Some(seat) = pool.idle.pop() {
        drop(pool);
        // SAFETY: it was among the idle, and we took it out.
        unsafe { Seat::tell(seat, Some(job)) };
        return Submitted::Taken;
    }
    if pool.threads < bound() {
        pool.threads += 1;
        drop(pool);
        return start(home, job, may_queue);
    }
    pool.enqueue(job, may_queue)
}

/// Starts a thread, which has been counted, with its first job. If the kernel refuses,
/// leaves the job to another.
#[cold]
fn start(home: &Home, job: NonNull<Job>, may_queue: bool) -> Submitted {
    if start_thread(home, job) { Submitted::Taken } else { leave_to_another(home, job, may_queue) }
}

/// Whether there is a thread now whose first job this is.
fn start_thread(home: &Home, job: NonNull<Job>) -> bool {
    struct First(NonNull<Job>);
    // SAFETY: the job's task is `Send`: the closure and its result are.
    unsafe impl Send for First {}
    let (first, its_home) = (First(job), home.clone());
    let life = move || {
        let First(job) = { first };
        serve(&its_home, job);
    };
    home.spawn("sinew-blocking".to_owned(), life).is_ok()
}

/// For a job whose thread, which had been counted, the kernel has refused.
fn leave_to_another(home: &Home, job: NonNull<Job>, may_queue: bool) -> Submitted {
    let mut pool = home.workers().pool();
    pool.threads -= 1;
    if let Some(seat) = pool.idle.pop() {
        drop(pool);
        // SAFETY: it was among the idle, and we took it out.
        unsafe { Seat::tell(seat, Some(job)) };
        return Submitted::Taken;
    }
    if pool.threads == 0 { Submitted::Refused } else { pool.enqueue(job, may_queue) }
}

/// Runs a job for which there is no thread, and those that counted on the thread which
/// the kernel has refused.
#[cold]
fn run_refused(home: &Home, job: NonNull<Job>) {
    // SAFETY: nobody else has got it.
    unsafe { Job::run(job) };
    loop {
        let mut pool = home.workers().pool();
        if pool.threads > 0 {
            return;
        }
        let Some(job) = pool.jobs.pop() else { return };
        drop(pool);
        // SAFETY: it came from the queue, so it is ours to run, and its fibre waits.
        unsafe {
            Job::run(job);
            signal(job);
        }
    }
}

/// The life of a thread.
fn serve(home: &Home, first: NonNull<Job>) {
    let seat = Seat::new();
    let mut job = first;
    loop {
        // SAFETY: it was given to this thread.
        unsafe { Job::run(job) };
        let next = next_job(home.workers(), &seat);
        // SAFETY: it has been run, and its fibre waits for this.
        unsafe { signal(job) };
        job = match next {
            Next::Job(job) => job,
            Next::Wait => match seat.wait(home.workers()) {
                Some(job) => job,
                None => return,
            },
            Next::End => return,
        };
    }
}

/// What a thread does next.
enum Next {
    Job(NonNull<Job>),
    /// It is among the idle.
    Wait,
    /// It is not counted any more.
    End,
}

fn next_job(workers: &Workers, seat: &Seat) -> Next {
    let mut pool = workers.pool();
    if pool.threads > bound() {
        pool.threads -= 1;
        return Next::End;
    }
    if let Some(job) = pool.jobs.pop() {
        return Next::Job(job);
    }
    pool.idle.push(NonNull::from(seat));
    Next::Wait
}

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const TOLD: u32 = 2;

/// Where an idle thread is told what to do.
///
/// ```text
///   AWAKE --fall asleep--> ASLEEP --tell--> TOLD   (the teller wakes it)
///   AWAKE -------------------------tell--> TOLD
///   TOLD --wait returns--> AWAKE
/// ```
struct Seat {
    word: AtomicU32,
    /// The job, or `None` to end. Written before the word says TOLD.
    order: Cell<Option<NonNull<Job>>>,
}

impl Seat {
    fn new() -> Seat {
        Seat { word: AtomicU32::new(AWAKE), order: Cell::new(None) }
    }

    /// Gives the thread a job, or lets it end.
    ///
    /// # Safety
    /// The caller has taken the seat out of the idle ones.
    unsafe fn tell(seat: NonNull<Seat>, order: Option<NonNull<Job>>) {
        // SAFETY: by the contract its thread waits for this.
        let (word, before) = unsafe {
            seat.as_ref().order.set(order);
            let word = &raw const (*seat.as_ptr()).word;
            // Release pairs with the Acquire in `is_told`. The seat may be gone then.
            (word, (*word).swap(TOLD, AcqRel))
        };
        if before == ASLEEP {
            futex_wake(word);
        }
    }

    fn is_told(&self) -> bool {
        // Acquire pairs with the Release in `tell`.
        self.word.load(Acquire) == TOLD
    }

    /// Waits for a job. `None` if the thread is to end: it is not counted any more.
    /// By a thread that has entered among the idle.
    fn wait(&self, workers: &Workers) -> Option<NonNull<Job>> {
        // Acquire pairs with the Release in `tell`.
        if self.word.compare_exchange(AWAKE, ASLEEP, Acquire, Acquire).is_ok() && !self.sleep(workers) {
            return None;
        }
        self.take_order()
    }

    /// Whether it was told; otherwise it has left the idle, and ends.
    fn sleep(&self, workers: &Workers) -> bool {
        let end = Instant::now() + LONGEST_IDLE;
        let mut left = Some(LONGEST_IDLE);
        while !self.is_told() {
            futex_wait(&self.word, ASLEEP, left);
            let Some(time) = left else { continue };
            if !time.is_zero() {
                left = Some(end.saturating_duration_since(Instant::now()));
            } else if self.leave(workers) {
                return false;
            } else {
                // Somebody has taken the seat, and is about to tell.
                left = None;
            }
        }
        true
    }

    /// Leaves the idle, if it is still among them.
    #[cold]
    fn leave(&self, workers: &Workers) -> bool {
        let mut pool = workers.pool();
        let found = pool.idle.iter().position(|seat| std::ptr::eq(seat.as_ptr(), self));
        if let Some(place) = found {
            pool.idle.remove(place);
            pool.threads -= 1;
        }
        found.is_some()
    }

    fn take_order(&self) -> Option<NonNull<Job>> {
        // Relaxed: nobody else knows the seat before it is entered again, under the lock.
        self.word.store(AWAKE, Relaxed);
        self.order.take()
    }
}
