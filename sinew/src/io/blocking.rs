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
//! after the other finds the thread that served it last, and needs no second one. `pool.rs`
//! has who is idle and what waits.
#![allow(unsafe_code)]

use super::event_scope::{Home, for_all_workers};
use super::pool::{Load, Next, Placed, Pool, Seat};
use crate::base::Deadline;
use crate::processor;
use crate::stack::current_stack;
use crate::wait::{self, Limit, Party};
use std::cell::Cell;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

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
    let mut submitted = Placed::Refused;
    wait::block(|party| {
        // SAFETY: as above, and nobody else knows of it yet.
        unsafe { job.as_ref() }.party.set(Some(party));
        submitted = submit(&home, job, false);
        submitted == Placed::Taken
    });
    if submitted == Placed::Full {
        submitted = wait_in_queue(&home, job);
    }
    if submitted == Placed::Refused {
        run_refused(&home, job);
    }
    // SAFETY: the job has been run, and nobody else knows of it any more.
    let result = unsafe { (*task).result.take() };
    result.expect("whoever runs a job leaves a result").unwrap_or_else(|payload| resume_unwind(payload))
}

/// As the wait in [`blocking`], when there may be no thread before another call has ended. It has
/// a timer, which is not worth arming otherwise.
#[cold]
fn wait_in_queue(home: &Home, job: NonNull<Job>) -> Placed {
    let mut submitted = Placed::Refused;
    let enter = |wait: &wait::Wait| {
        // SAFETY: the job is the caller's, and nobody else knows of it.
        unsafe { job.as_ref() }.party.set(Some(Party::timed(wait)));
        submitted = submit(home, job, true);
        submitted == Placed::Taken
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
    let Load { threads, jobs, longest } = home.workers().load();
    // The caller's may be about to be run.
    if jobs == 0 || REPORTED.swap(true, Relaxed) {
        return;
    }
    // Nobody is left to be told if that cannot be written.
    let _ = writeln!(
        io::stderr(),
        "sinew: {jobs} blocking call(s) wait for a thread, the first for {:.1} s, and all {threads} thread(s) of \
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
    home.workers().dismiss(bound());
    while let Some(Pending(job)) = home.workers().recruit(bound()) {
        if start_thread(home, job) {
            continue;
        }
        if home.workers().leave_to_another(Pending(job), true) == Placed::Refused {
            run_refused(home, job);
            // SAFETY: it has been run, and its fibre waits for this.
            unsafe { signal(job) };
        }
        return;
    }
}

/// What a thread of the pool is to do: the head of a [`Task`].
struct Job {
    /// Runs the task that this is the head of.
    run: unsafe fn(NonNull<Job>),
    /// Who waits for it. Written before the job is submitted.
    party: Cell<Option<Party>>,
}

/// A job that was not run yet.
#[derive(Clone, Copy)]
pub(crate) struct Pending(NonNull<Job>);

// SAFETY: the job's task is `Send`: the closure and its result are.
unsafe impl Send for Pending {}

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
        Job { run, party: Cell::new(None) }
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

static BOUND: AtomicUsize = AtomicUsize::new(BLOCKING_THREADS);

fn bound() -> usize {
    BOUND.load(Relaxed)
}

/// The pool of an event scope.
pub(crate) type Workers = Pool<Pending>;

/// Has the job run by a thread. It is put into the queue only if it `may_queue`.
fn submit(home: &Home, job: NonNull<Job>, may_queue: bool) -> Placed {
    match home.workers().place(Pending(job), bound(), may_queue) {
        Placed::Start => start(home, job, may_queue),
        placed => placed,
    }
}

/// Starts a thread, which has been counted, with its first job. If the kernel refuses,
/// leaves the job to another.
#[cold]
fn start(home: &Home, job: NonNull<Job>, may_queue: bool) -> Placed {
    if start_thread(home, job) { Placed::Taken } else { home.workers().leave_to_another(Pending(job), may_queue) }
}

/// Whether there is a thread now whose first job this is.
fn start_thread(home: &Home, job: NonNull<Job>) -> bool {
    let (first, its_home) = (Pending(job), home.clone());
    home.spawn("sinew-blocking".to_owned(), move || serve(&its_home, first)).is_ok()
}

/// Runs a job for which there is no thread, and those that counted on the thread which
/// the kernel has refused.
#[cold]
fn run_refused(home: &Home, job: NonNull<Job>) {
    // SAFETY: nobody else has got it.
    unsafe { Job::run(job) };
    while let Some(Pending(job)) = home.workers().orphan() {
        // SAFETY: it came from the queue, so it is ours to run, and its fibre waits.
        unsafe {
            Job::run(job);
            signal(job);
        }
    }
}

/// The life of a thread.
fn serve(home: &Home, first: Pending) {
    let seat = Seat::new();
    let Pending(mut job) = first;
    loop {
        // SAFETY: it was given to this thread.
        unsafe { Job::run(job) };
        let next = home.workers().next(&seat, bound());
        // SAFETY: it has been run, and its fibre waits for this.
        unsafe { signal(job) };
        let next = match next {
            Next::Job(job) => Some(job),
            Next::Wait => seat.wait(home.workers(), LONGEST_IDLE),
            Next::End => None,
        };
        match next {
            Some(Pending(next)) => job = next,
            None => return,
        }
    }
}
