//! Kernel threads for calls that block: a pool for each event scope. What a call opens has to be
//! open for its caller, so a thread of the pool is in the event scope of the caller's cluster.
//!
//! ```text
//!   a caller    1  a thread is idle: take it out of the idle ones, tell it the job
//!               2  else, below the bound: start a thread with the job
//!               3  else: append the job to the queue
//!               4  wait; if the job has been in the queue for long, say so once
//!   a thread    1  run the job
//!               2  take the next job from the queue; if there is none, enter among the idle
//!               3  signal the caller whose job was run
//!               4  without a next job: wait to be told; after a while leave the idle, and end
//! ```
//!
//! A thread enters among the idle before it signals. So a caller that makes one call after the
//! other finds the thread that served it last, and needs no second one. `pool.rs` keeps the idle
//! threads and the queue.
//!
//! A fibre's job lies on its stack, because the fibre waits for its end. A task's job lies on the
//! heap: its future may be dropped while the job runs.
#![allow(unsafe_code)]

use super::event_scope::{Home, for_all_workers};
use super::pool::{Load, Next, Placed, Pool, Worker};
use crate::base::Deadline;
use crate::processor;
use crate::stack::current_stack;
use crate::sync::oneshot;
use crate::time::timeout_async;
use crate::wait::{self, Hold, Limit, Party};
use crate::wait::{Reason, Why};
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The largest number of kernel threads that [`blocking`] uses, unless [`set_blocking_threads`]
/// says otherwise. Unmeasured: more than calls are ever worth making at a time, and no more than
/// a process can afford.
pub const BLOCKING_THREADS: usize = 512;

/// A thread ends after it has been idle for this long. Unmeasured.
const LONGEST_IDLE: Duration = Duration::from_secs(10);

/// A call that has waited for a thread for this long is worth a line on standard error.
/// Unmeasured.
const LONGEST_QUEUED: Duration = Duration::from_secs(5);

/// The number of calls that have waited for that long.
static OVERDUE: AtomicU64 = AtomicU64::new(0);

/// Runs `f`, which blocks its kernel thread, on a thread of a pool. The calling fibre waits until
/// `f` has ended, and its processor runs others meanwhile.
///
/// For system calls that have no other form, for C libraries, and for long computations. `f` may
/// borrow from the caller. If it panics, so does the caller.
///
/// The pool grows when no thread is idle, up to [`BLOCKING_THREADS`] threads or the number that
/// [`set_blocking_threads`] was given. Beyond that calls wait for a thread, first come, first
/// served. Idle threads end after ten seconds. If the kernel refuses a thread, the call waits for
/// one that exists; if there is none, `f` runs in place and blocks the processor.
///
/// A kernel thread that runs no fibre calls `f` directly, and so does `f` itself if it gets here
/// again. Tasks use [`blocking_async`].
///
/// The wait is not ended by [cancellation](crate::cancel): `f` cannot be stopped.
///
/// # Panics
/// If `f` does, and in a [task](crate::task), whose processor it would block.
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
        wait::refuse_tasks();
        return f();
    }
    let _hold = Hold::begin();
    let mut call = LentCall { f: Some(f), result: None, party: None };
    let home = home();
    let mut left_over = None;
    wait::block(Why::of(Reason::Blocking, 0), |party| {
        call.party = Some(party);
        // SAFETY: nobody uses the call here before this fibre has been signalled.
        let placed = submit(&home, Job::Lent(unsafe { lend(&mut call) }), false);
        is_taken(placed, &mut left_over)
    });
    if let Some(Placed::Full(_)) = left_over {
        left_over = wait_in_queue(&home, &mut call);
    }
    if let Some(Placed::Refused(job)) = left_over {
        let _ = job.run();
        run_orphans(&home);
    }
    call.result.expect("a job that was run leaves a result").unwrap_or_else(|payload| resume_unwind(payload))
}

/// As [`blocking`], for tasks. `f` begins when the future is first polled.
///
/// A future that is dropped does not stop `f`: it runs to its end, and its result is dropped. So
/// `f` cannot borrow from the caller.
///
/// ```
/// sinew::run(|| {
///     let task = sinew::task::spawn(async {
///         sinew::blocking_async(|| std::fs::read_to_string("/proc/self/comm")).await
///     });
///     assert!(!task.join().unwrap().unwrap().is_empty());
/// });
/// ```
///
/// # Panics
/// If `f` does.
pub async fn blocking_async<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let _hold = Hold::begin();
    let (answer, mut answered) = oneshot::channel();
    let is_queued = {
        let home = home();
        let job = Job::Owned(Box::new(OwnedCall { f: Some(f), result: None, answer: Some(answer) }));
        match submit(&home, job, false) {
            Placed::Full(job) => {
                run_if_refused(&home, submit(&home, job, true));
                true
            }
            placed => {
                run_if_refused(&home, placed);
                false
            }
        }
    };
    // Only a task is sure to have timers.
    if is_queued && processor::runs_a_task() {
        match timeout_async(LONGEST_QUEUED, answered.recv_async()).await {
            Ok(result) => return returned(result),
            Err(_) => report_overdue(&home()),
        }
    }
    returned(answered.recv_async().await)
}

fn returned<T, E>(received: Result<thread::Result<T>, E>) -> T {
    let Ok(result) = received else { unreachable!("a job that was run sends its result") };
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

/// Has a thread of the pool run `f`, and does not wait for it.
pub(crate) fn run_aside(f: impl FnOnce() + Send + 'static) {
    let home = home();
    let job = Job::Owned(Box::new(OwnedCall { f: Some(f), result: None, answer: None }));
    run_if_refused(&home, submit(&home, job, true));
}

/// The event scope whose pool serves the caller.
fn home() -> Home {
    let of_cluster = processor::with_current(|processor| processor.map(|processor| processor.cluster().home().clone()));
    of_cluster.unwrap_or_else(|| Home::new(None))
}

/// Waits for a call as [`blocking`] does, when there may be no thread before another call has
/// ended. That takes a timer, which is not worth arming otherwise. Returns the job if it was not
/// taken.
#[cold]
fn wait_in_queue<F: FnOnce() -> T + Send, T: Send>(home: &Home, call: &mut LentCall<F, T>) -> Option<Placed<Job>> {
    let mut left_over = None;
    let enter = |wait: &wait::Wait| {
        call.party = Some(Party::timed(wait));
        // SAFETY: as in `blocking`.
        is_taken(submit(home, Job::Lent(unsafe { lend(call) }), true), &mut left_over)
    };
    let leave = |_: &wait::Wait| {
        report_overdue(home);
        // It goes on waiting until the job has been run.
        false
    };
    let _ =
        wait::block_within(Limit::until(Deadline::after(LONGEST_QUEUED)), Why::of(Reason::Blocking, 0), enter, leave);
    left_over
}

/// Returns whether a thread has the job, or will have. If not, leaves what has become of it to the
/// caller.
fn is_taken(placed: Placed<Job>, left_over: &mut Option<Placed<Job>>) -> bool {
    *left_over = Some(placed).filter(|placed| !matches!(placed, Placed::Taken));
    left_over.is_none()
}

/// Says that calls wait for a thread of this pool, the first time that one has waited for long.
fn report_overdue(home: &Home) {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    OVERDUE.fetch_add(1, Relaxed);
    let Load { threads, jobs, longest, .. } = home.workers().load();
    // The caller's job may be about to be run.
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

/// Returns the load of all pools of the process.
pub(crate) fn load() -> Load {
    let mut sum = Load::default();
    for_all_workers(|home| {
        let load = home.workers().load();
        sum.threads += load.threads;
        sum.idle += load.idle;
        sum.jobs += load.jobs;
        sum.longest = sum.longest.max(load.longest);
    });
    sum
}

/// Bounds the number of kernel threads that [`blocking`] uses. 0 counts as 1.
///
/// Threads beyond the bound end as soon as they have nothing to run.
pub fn set_blocking_threads(threads: usize) {
    BOUND.store(threads.max(1), Relaxed);
    for_all_workers(keep_bound);
}

/// Lets threads of the pool end that are too many, or starts those that are wanted.
fn keep_bound(home: &Home) {
    home.workers().dismiss(bound());
    while let Some(job) = home.workers().recruit(bound()) {
        let Err(job) = start_thread(home, job) else { continue };
        run_if_refused(home, home.workers().leave_to_another(job, true));
        return;
    }
}

/// A call that a thread of the pool makes.
pub(crate) trait Call: Send {
    /// Makes the call, once.
    fn run(&mut self);

    /// Passes the result on. Returns the party that is to be signalled, if there is one.
    fn finish(&mut self) -> Option<Party>;
}

/// A fibre's call: on the fibre's stack, which waits for it.
struct LentCall<F, T> {
    /// Until it is run.
    f: Option<F>,
    /// Since it was run.
    result: Option<thread::Result<T>>,
    /// The fibre that waits. Written before the call is lent.
    party: Option<Party>,
}

/// A task's call: nobody else knows of it.
struct OwnedCall<F, T> {
    /// Until it is run.
    f: Option<F>,
    /// Since it was run.
    result: Option<thread::Result<T>>,
    /// Until it is finished.
    answer: Option<oneshot::Sender<thread::Result<T>>>,
}

/// Calls what is left there, once. The caller goes on with a panic: what was left half done is
/// known there.
fn run_once<T>(f: &mut Option<impl FnOnce() -> T>) -> Option<thread::Result<T>> {
    let f = f.take().expect("a job is run once");
    Some(catch_unwind(AssertUnwindSafe(f)))
}

impl<F: FnOnce() -> T + Send, T: Send> Call for LentCall<F, T> {
    fn run(&mut self) {
        self.result = run_once(&mut self.f);
    }

    fn finish(&mut self) -> Option<Party> {
        self.party
    }
}

impl<F: FnOnce() -> T + Send, T: Send> Call for OwnedCall<F, T> {
    fn run(&mut self) {
        self.result = run_once(&mut self.f);
    }

    fn finish(&mut self) -> Option<Party> {
        if let (Some(answer), Some(result)) = (self.answer.take(), self.result.take()) {
            // If nobody waits any more, the result is dropped here, which may panic.
            let sent = catch_unwind(AssertUnwindSafe(|| drop(answer.send(result))));
            // The hook has told of it, and to drop it might panic again.
            std::mem::forget(sent);
        }
        None
    }
}

/// A job that was not run yet.
pub(crate) enum Job {
    Lent(&'static mut dyn Call),
    Owned(Box<dyn Call>),
}

/// A job that was run, and whose caller does not know yet.
#[must_use]
enum Ran {
    Lent(Option<Party>),
    Owned(Box<dyn Call>),
}

/// Lends a call to a thread of the pool.
///
/// # Safety
/// The call stays where it is, and is not used, until its party has been signalled, or the job
/// has been dropped or run by the caller.
unsafe fn lend<'a>(call: &'a mut (dyn Call + 'a)) -> &'static mut dyn Call {
    // SAFETY: only the lifetime changes. By the contract the call is there, and the caller keeps
    // away from it; what it borrows outlives the caller's wait.
    unsafe { std::mem::transmute::<&'a mut (dyn Call + 'a), &'static mut dyn Call>(call) }
}

impl Job {
    fn run(self) -> Ran {
        match self {
            Job::Lent(call) => {
                call.run();
                Ran::Lent(call.finish())
            }
            Job::Owned(mut call) => {
                call.run();
                Ran::Owned(call)
            }
        }
    }
}

impl Ran {
    /// Lets the caller go on. Its call is gone then.
    fn signal(self) {
        match self {
            // The fibre has entered itself with the job, and only this signals it.
            Ran::Lent(party) => Party::signal_owed(party.expect("a job is lent with its party").owed()),
            Ran::Owned(mut call) => {
                let party = call.finish();
                debug_assert!(party.is_none(), "it sends its result");
            }
        }
    }
}

static BOUND: AtomicUsize = AtomicUsize::new(BLOCKING_THREADS);

fn bound() -> usize {
    BOUND.load(Relaxed)
}

/// The pool of an event scope.
pub(crate) type Workers = Pool<Job>;

/// Has the job run by a thread. It is put into the queue only if it `may_queue`.
fn submit(home: &Home, job: Job, may_queue: bool) -> Placed<Job> {
    match home.workers().place(job, bound(), may_queue) {
        Placed::Start(job) => start(home, job, may_queue),
        placed => placed,
    }
}

/// Starts a thread, which has been counted, with its first job. If the kernel refuses, leaves the
/// job to another.
#[cold]
fn start(home: &Home, job: Job, may_queue: bool) -> Placed<Job> {
    match start_thread(home, job) {
        Ok(()) => Placed::Taken,
        Err(job) => home.workers().leave_to_another(job, may_queue),
    }
}

/// Starts a thread whose first job this is.
///
/// # Errors
/// The job, if the kernel refuses.
fn start_thread(home: &Home, job: Job) -> Result<(), Job> {
    // A closure that is not run is dropped: so the job is put where both sides find it.
    let first = Arc::new(Mutex::new(Some(job)));
    let (its_first, its_home) = (Arc::clone(&first), home.clone());
    let take = |first: &Mutex<Option<Job>>| first.lock().unwrap_or_else(PoisonError::into_inner).take();
    let started = home.spawn("sinew-blocking".to_owned(), move || {
        if let Some(first) = take(&its_first) {
            serve(&its_home, first);
        }
    });
    match started {
        Ok(_) => Ok(()),
        Err(_) => Err(take(&first).expect("no thread has taken it")),
    }
}

/// Runs a job for which there is no thread, if it was refused one, and lets its caller go on.
fn run_if_refused(home: &Home, placed: Placed<Job>) {
    if let Placed::Refused(job) = placed {
        job.run().signal();
        run_orphans(home);
    }
}

/// Runs the jobs that counted on a thread which the kernel has refused.
#[cold]
fn run_orphans(home: &Home) {
    while let Some(job) = home.workers().orphan() {
        job.run().signal();
    }
}

/// The life of a thread.
fn serve(home: &Home, first: Job) {
    let worker = Worker::new();
    let mut job = first;
    loop {
        let ran = job.run();
        let next = home.workers().next(&worker, bound());
        ran.signal();
        let next = match next {
            Next::Job(job) => Some(job),
            Next::Wait => worker.wait(home.workers(), LONGEST_IDLE),
            Next::End => None,
        };
        match next {
            Some(next) => job = next,
            None => return,
        }
    }
}
