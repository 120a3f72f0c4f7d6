//! `Life`, and the references to a task: wake-ups, aborts and the end of its memory.
#![allow(unsafe_code)]

use crate::base::models::{Watched, check};
use crate::strand::models::retire;
use crate::strand::{After, Kind, Ready, Strand, StrandArc};
use crate::task::life::{Begin, Life};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use std::cell::Cell;
use std::ptr::NonNull;

/// A handle of a task, or one of its wakers.
struct Task(StrandArc);

thread_local!(static FREED: Cell<u32> = const { Cell::new(0) });

/// Returns the number of times that the memory of this model's task was given back. The memory
/// stays: loom finds a use after the end.
fn freed() -> u32 {
    FREED.get()
}

/// Returns a task that is ready for its first poll, and its handle.
fn task() -> (Ready, Task) {
    static KIND: Kind = Kind::for_model(free);
    /// # Safety
    /// The strand was made below, and no reference to it is left.
    unsafe fn free(mut strand: NonNull<Strand>) {
        FREED.set(FREED.get() + 1);
        // SAFETY: by the contract; if another thread uses it, loom says so.
        unsafe { strand.as_mut() }.end_for_model();
    }
    FREED.set(0);
    let strand = NonNull::from(Box::leak(Box::new(Strand::for_model(&KIND))));
    // SAFETY: the strand is new, and `KIND` frees it.
    let (ready, handle) = unsafe { Ready::of_new(strand) };
    (ready, Task(handle))
}

impl Task {
    fn waker(&self) -> Task {
        Task(self.0.clone())
    }

    /// Returns the task if it was parked.
    fn wake_by_ref(&self) -> Option<Ready> {
        self.0.strand().unpark()
    }

    /// Returns the task if it was parked.
    fn abort(&self) -> Option<Ready> {
        let strand = self.0.strand();
        strand.woken(Life::of(strand).abort())
    }
}

/// What a future would look at, and what became of it.
struct Future {
    /// Set before the waker is called.
    event: AtomicBool,
    polls: AtomicU32,
    /// Touched only by the thread that polls: two at a time fail the model.
    own: Watched<u32>,
    ended: AtomicU32,
    aborted: AtomicU32,
}

impl Future {
    fn new() -> Arc<Future> {
        Arc::new(Future {
            event: AtomicBool::new(false),
            polls: AtomicU32::new(0),
            own: Watched::new(0),
            ended: AtomicU32::new(0),
            aborted: AtomicU32::new(0),
        })
    }

    /// Polls until the task parks or ends, as `Allocation::run` and the processor's loop do.
    fn run(&self, mut ready: Ready) {
        loop {
            let is_polled = Life::of(ready.strand()).begin() == Begin::Poll;
            self.own.change(|own| *own += 1);
            if !is_polled {
                self.aborted.fetch_add(1, Relaxed);
                retire(ready);
                return;
            }
            self.polls.fetch_add(1, Relaxed);
            if self.event.load(Relaxed) {
                self.ended.fetch_add(1, Relaxed);
                retire(ready);
                return;
            }
            match ready.stop(After::Parking, 0) {
                Some(woken) => ready = woken,
                None => return,
            }
        }
    }

    /// Wakes the task, and runs it if it was parked.
    fn wake(&self, waker: Task) {
        self.event.store(true, Relaxed);
        if let Some(ready) = waker.wake_by_ref() {
            self.run(ready);
        }
    }
}

#[test]
fn a_wake_up_while_the_task_runs_is_not_lost() {
    check(2, 4, |turn| {
        let (future, (ready, handle)) = (Future::new(), task());
        let (ours, waker) = (Arc::clone(&future), handle.waker());
        let theirs = Arc::clone(&future);
        turn.two(move || ours.run(ready), move || theirs.wake(waker));
        assert_eq!(future.ended.load(Relaxed), 1, "it was woken after the event");
        assert!(future.polls.load(Relaxed) <= 3);
        assert_eq!(freed(), 0);
        drop(handle);
        assert_eq!(freed(), 1);
    });
}

#[test]
fn two_wakers_and_the_task_itself_poll_it_one_at_a_time() {
    check(3, 2, |turn| {
        let (future, (ready, handle)) = (Future::new(), task());
        let [first, second] = [(); 2].map(|()| {
            let (future, waker) = (Arc::clone(&future), handle.waker());
            Box::new(move || future.wake(waker)) as Box<dyn FnOnce()>
        });
        let ours = Arc::clone(&future);
        turn.all([Box::new(move || ours.run(ready)), first, second]);
        assert_eq!(future.ended.load(Relaxed), 1);
        drop(handle);
        assert_eq!(freed(), 1);
    });
}

#[test]
fn a_wake_up_after_the_end_does_nothing_and_the_last_reference_frees_the_memory() {
    check(2, 4, |turn| {
        let (future, (ready, handle)) = (Future::new(), task());
        future.event.store(true, Relaxed);
        let (ours, theirs) = (Arc::clone(&future), Arc::clone(&future));
        // The handle is the last waker.
        turn.two(move || ours.run(ready), move || theirs.wake(handle));
        assert_eq!(future.ended.load(Relaxed), 1);
        assert_eq!(freed(), 1);
    });
}

#[test]
fn the_last_reference_frees_the_memory_once_and_after_all_others() {
    check(3, 2, |turn| {
        let (ready, handle) = task();
        let waker = handle.waker();
        let drops = |task: Task| Box::new(move || drop(task)) as Box<dyn FnOnce()>;
        let retires = Box::new(move || {
            retire(ready);
        });
        turn.all([retires, drops(handle), drops(waker)]);
        assert_eq!(freed(), 1);
    });
}

#[test]
fn an_aborted_task_ends_once_by_itself_or_by_the_abort() {
    check(2, 4, |turn| {
        let (future, (ready, handle)) = (Future::new(), task());
        let (ours, theirs) = (Arc::clone(&future), Arc::clone(&future));
        let abort = move || {
            if let Some(ready) = handle.abort() {
                theirs.run(ready);
            }
        };
        turn.two(move || ours.run(ready), abort);
        assert_eq!((future.ended.load(Relaxed), future.aborted.load(Relaxed)), (0, 1));
        assert_eq!(freed(), 1);
    });
}

#[test]
fn a_task_that_is_aborted_while_it_ends_does_one_of_both() {
    check(3, 2, |turn| {
        let (future, (ready, handle)) = (Future::new(), task());
        let (ours, theirs, aborts) = (Arc::clone(&future), Arc::clone(&future), Arc::clone(&future));
        let waker = handle.waker();
        turn.all([
            Box::new(move || ours.run(ready)) as Box<dyn FnOnce()>,
            Box::new(move || theirs.wake(waker)),
            Box::new(move || {
                if let Some(ready) = handle.abort() {
                    aborts.run(ready);
                }
            }),
        ]);
        assert_eq!(future.ended.load(Relaxed) + future.aborted.load(Relaxed), 1);
        assert_eq!(freed(), 1);
    });
}
