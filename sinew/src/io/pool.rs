//! A pool's book-keeping: which threads are idle, and which jobs wait for one.
//!
//! A job is handed to a thread under no lock but the pool's, once; the idle thread that was
//! used last, whose caches are warm, comes first, and the others get to be idle long enough
//! to end. An idle thread does not spin before it sleeps: on an idle machine of two CPUs that
//! makes a call take 1.6 µs instead of 6, but on a busy one 11 or 50, for the thread that
//! spins is in the way of the processor that has something for it.
//!
//! Jobs are in the queue only while threads are counted and none is idle: a thread looks into
//! the queue under the lock before it becomes idle or ends. A thread that the kernel has
//! refused was counted until then, so whoever finds that no other is left runs what is in the
//! queue.
#![allow(unsafe_code)]

use crate::base::atomic::{Acquire, AtomicU32, Mutex, MutexGuard, Relaxed, Release};
use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// The threads and the jobs of a pool.
pub(crate) struct Pool<J> {
    state: Mutex<State<J>>,
}

struct State<J> {
    /// What waits for a thread, and since when: nothing while one is idle.
    jobs: VecDeque<(J, Instant)>,
    /// The one that became idle last is at the end.
    idle: Vec<NonNull<Seat<J>>>,
    /// Those that run, and those that are being started.
    threads: usize,
}

// SAFETY: jobs may be sent; the seats are those of threads that do not leave them before they
// were told to, or have taken them out.
unsafe impl<J: Send> Send for State<J> {}

/// What has become of a job.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// A thread runs it, or will: it is in the queue.
    Taken,
    /// A thread has been counted for it: start one.
    Start,
    /// It would have to be in the queue, where it is not.
    Full,
    /// There is no thread: run it.
    Refused,
}

/// What a thread does next.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next<J> {
    /// Run it.
    Job(J),
    /// It is among the idle: wait.
    Wait,
    /// It is not counted any more: end.
    End,
}

/// How much there is to do.
pub(crate) struct Load {
    pub(crate) threads: usize,
    /// The number of jobs in the queue.
    pub(crate) jobs: usize,
    /// For how long the first of them has waited.
    pub(crate) longest: Duration,
}

impl<J: Copy + Send> Pool<J> {
    crate::base::atomic::const_fn! {
        pub(crate) fn new() -> Self {
            Pool { state: Mutex::new(State { jobs: VecDeque::new(), idle: Vec::new(), threads: 0 }) }
        }
    }

    fn state(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Finds a thread for a job, of which there are to be at most `bound`. The job is put into
    /// the queue only if it `may_queue`.
    pub(crate) fn place(&self, job: J, bound: usize, may_queue: bool) -> Placed {
        let mut state = self.state();
        if let Some(seat) = state.idle.pop() {
            drop(state);
            // SAFETY: it was among the idle, and we took it out.
            unsafe { Seat::tell(seat, Some(job)) };
            return Placed::Taken;
        }
        if state.threads < bound {
            state.threads += 1;
            return Placed::Start;
        }
        state.enqueue(job, may_queue)
    }

    /// As [`place`](Pool::place), for a job whose thread, which had been counted, the kernel has
    /// refused.
    pub(crate) fn leave_to_another(&self, job: J, may_queue: bool) -> Placed {
        let mut state = self.state();
        state.threads -= 1;
        if let Some(seat) = state.idle.pop() {
            drop(state);
            // SAFETY: it was among the idle, and we took it out.
            unsafe { Seat::tell(seat, Some(job)) };
            return Placed::Taken;
        }
        if state.threads == 0 { Placed::Refused } else { state.enqueue(job, may_queue) }
    }

    /// What the thread with this seat does next, when there are to be at most `bound`.
    pub(crate) fn next(&self, seat: &Seat<J>, bound: usize) -> Next<J> {
        let mut state = self.state();
        if state.threads > bound {
            state.threads -= 1;
            return Next::End;
        }
        if let Some((job, _)) = state.jobs.pop_front() {
            return Next::Job(job);
        }
        state.idle.push(NonNull::from(seat));
        Next::Wait
    }

    /// Lets idle threads beyond `bound` end.
    pub(crate) fn dismiss(&self, bound: usize) {
        let mut state = self.state();
        while state.threads > bound
            && let Some(seat) = state.idle.pop()
        {
            state.threads -= 1;
            // SAFETY: it was among the idle, and we took it out.
            unsafe { Seat::tell(seat, None) };
        }
    }

    /// The first job in the queue, if there may be another thread, which is counted.
    pub(crate) fn recruit(&self, bound: usize) -> Option<J> {
        let mut state = self.state();
        if state.threads >= bound {
            return None;
        }
        let (job, _) = state.jobs.pop_front()?;
        state.threads += 1;
        Some(job)
    }

    /// The first job in the queue, if no thread is left to run it.
    pub(crate) fn orphan(&self) -> Option<J> {
        let mut state = self.state();
        if state.threads > 0 { None } else { state.jobs.pop_front().map(|(job, _)| job) }
    }

    pub(crate) fn load(&self) -> Load {
        let state = self.state();
        let longest = state.jobs.front().map_or(Duration::ZERO, |(_, since)| since.elapsed());
        Load { threads: state.threads, jobs: state.jobs.len(), longest }
    }

    /// Takes a seat out of the idle, if it is still among them: its thread is not counted then.
    #[cold]
    fn leave(&self, seat: &Seat<J>) -> bool {
        let mut state = self.state();
        let found = state.idle.iter().position(|idle| std::ptr::eq(idle.as_ptr(), seat));
        if let Some(place) = found {
            state.idle.remove(place);
            state.threads -= 1;
        }
        found.is_some()
    }
}

impl<J> State<J> {
    fn enqueue(&mut self, job: J, may_queue: bool) -> Placed {
        if !may_queue {
            return Placed::Full;
        }
        self.jobs.push_back((job, Instant::now()));
        Placed::Taken
    }
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
pub(crate) struct Seat<J> {
    word: AtomicU32,
    /// The job, or `None` to end. Written before the word says TOLD.
    order: Cell<Option<J>>,
}

impl<J: Copy + Send> Seat<J> {
    pub(crate) fn new() -> Self {
        Seat { word: AtomicU32::new(AWAKE), order: Cell::new(None) }
    }

    /// Gives the thread a job, or lets it end.
    ///
    /// # Safety
    /// The caller has taken the seat out of the idle ones.
    unsafe fn tell(seat: NonNull<Seat<J>>, order: Option<J>) {
        // SAFETY: by the contract its thread waits for this.
        let (word, before) = unsafe {
            seat.as_ref().order.set(order);
            let word = &raw const (*seat.as_ptr()).word;
            // Release pairs with the Acquire in `is_told`. The seat may be gone then.
            (word, (*word).swap(TOLD, Release))
        };
        if before == ASLEEP {
            kernel_wake(word);
        }
    }

    fn is_told(&self) -> bool {
        // Acquire pairs with the Release in `tell`.
        self.word.load(Acquire) == TOLD
    }

    /// Waits for a job, for no longer than `longest`. `None` if the thread is to end: it is not
    /// counted any more. By a thread that has entered among the idle.
    pub(crate) fn wait(&self, pool: &Pool<J>, longest: Duration) -> Option<J> {
        // Acquire, on failure, pairs with the Release in `tell`.
        if self.word.compare_exchange(AWAKE, ASLEEP, Relaxed, Acquire).is_ok() && !self.sleep(pool, longest) {
            return None;
        }
        self.take_order()
    }

    /// Whether it was told; otherwise it has left the idle, and ends.
    fn sleep(&self, pool: &Pool<J>, longest: Duration) -> bool {
        let end = Instant::now() + longest;
        let mut left = Some(longest);
        while !self.is_told() {
            kernel_wait(&self.word, ASLEEP, left);
            let Some(time) = left else { continue };
            if !time.is_zero() {
                left = Some(end.saturating_duration_since(Instant::now()));
            } else if pool.leave(self) {
                return false;
            } else {
                // Somebody has taken the seat, and is about to tell.
                left = None;
            }
        }
        true
    }

    fn take_order(&self) -> Option<J> {
        // Relaxed: nobody else knows the seat before it is entered again, under the lock.
        self.word.store(AWAKE, Relaxed);
        self.order.take()
    }
}

#[cfg(not(sinew_loom))]
use crate::base::kernel::{futex_wait as kernel_wait, futex_wake as kernel_wake};

#[cfg(sinew_loom)]
fn kernel_wake(_word: *const AtomicU32) {}

#[cfg(sinew_loom)]
fn kernel_wait(_word: &AtomicU32, _expected: u32, _timeout: Option<Duration>) {
    loom::thread::yield_now();
}
