//! Wakers that may be called from anywhere and any number of times, and the cost of a task.

mod fixture;

use fixture::{SOON, alone, everywhere, happens_within, wait_until, wherever};
use sinew::{FibreBuilder, Runtime, block_on, sync, task};
use std::alloc::{GlobalAlloc, Layout, System};
use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

/// Counts the allocations of threads that ask for it.
struct Counting;

thread_local!(static ALLOCATED: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) });

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[allow(unsafe_code)]
// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATED.try_with(|count| count.set(count.get().map(|count| count + 1)));
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// A number that others raise, and a task that waits for it to change.
#[derive(Default)]
struct Tally {
    raised: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

impl Tally {
    fn raise(&self) {
        self.raised.fetch_add(1, Relaxed);
        let waker = self.waker.lock().unwrap().clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits until the number is greater than `seen`.
    async fn more_than(&self, seen: u64) -> u64 {
        poll_fn(|context| {
            *self.waker.lock().unwrap() = Some(context.waker().clone());
            match self.raised.load(Relaxed) {
                now if now > seen => Poll::Ready(now),
                _ => Poll::Pending,
            }
        })
        .await
    }
}

/// Raises a task's number `total` times from kernel threads, and sometimes waits until the task has
/// seen it. The task ends when it has seen all.
fn is_woken(rt: &Runtime, total: u64) {
    const THREADS: u64 = 4;
    let tally = Arc::new(Tally::default());
    let its = Arc::clone(&tally);
    let task = rt.run(move || {
        task::spawn(async move {
            let mut seen = 0;
            while seen < total {
                seen = its.more_than(seen).await;
            }
            seen
        })
    });
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..total / THREADS).for_each(|_| tally.raise()));
        }
    });
    assert_eq!(task.join_timeout(SOON).expect("a wake-up was lost").unwrap(), total);
    // The last waker outlives the task.
    tally.raise();
}

#[test]
fn a_task_woken_from_threads_loses_no_wake_up() {
    everywhere(|rt, _| is_woken(rt, 20_000));
}

#[test]
fn a_task_woken_a_million_times_from_threads_loses_no_wake_up() {
    wherever(|setup| setup.processors == 2 && setup.migrating, |rt, _| is_woken(rt, 1_000_000));
}

#[test]
fn a_single_wake_up_at_a_time_is_never_lost() {
    // Each round waits for the previous one, so a single lost wake-up stops the test for ever.
    everywhere(|rt, _| {
        let tallies = Arc::new([Tally::default(), Tally::default()]);
        let its = Arc::clone(&tallies);
        let task = rt.run(move || {
            task::spawn(async move {
                for round in 0..500 {
                    its[0].more_than(round).await;
                    its[1].raise();
                }
            })
        });
        block_on(async {
            for round in 0..500 {
                tallies[0].raise();
                tallies[1].more_than(round).await;
            }
        });
        task.join().unwrap();
    });
}

#[test]
fn a_wake_up_during_a_poll_causes_another_poll() {
    everywhere(|rt, _| {
        rt.run(|| {
            let mut polls = 0;
            let task = task::spawn(poll_fn(move |context| {
                polls += 1;
                if polls == 10 {
                    return Poll::Ready(polls);
                }
                context.waker().wake_by_ref();
                let waker = context.waker().clone();
                waker.wake();
                Poll::Pending
            }));
            assert_eq!(task.join().unwrap(), 10);
        });
    });
}

#[test]
fn block_on_wakes_up_in_fibres_and_threads_and_takes_no_token() {
    struct Late(Mutex<Option<Waker>>);
    let once = |late: &Late| {
        let mut is_first = true;
        block_on(poll_fn(|context| {
            if !std::mem::replace(&mut is_first, false) {
                return Poll::Ready(());
            }
            *late.0.lock().unwrap() = Some(context.waker().clone());
            let waker = context.waker().clone();
            thread::spawn(move || waker.wake());
            Poll::Pending
        }));
    };
    let late = Late(Mutex::new(None));
    alone(|| once(&late));
    everywhere(|rt, _| {
        rt.run(|| {
            sinew::current().unpark();
            once(&late);
            // The token is still there, so this returns at once.
            sinew::park();
            // A late call of the waker does no harm.
            late.0.lock().unwrap().take().unwrap().wake();
            sinew::park_timeout(Duration::from_millis(1));
        });
    });
}

#[test]
fn tasks_can_await_a_fibre_and_get_its_panic() {
    everywhere(|rt, _| {
        rt.run(|| {
            let gate = Arc::new(AtomicBool::new(false));
            let its_gate = Arc::clone(&gate);
            let fibre = sinew::spawn(move || {
                wait_until(|| its_gate.load(Relaxed));
                7
            });
            let waits = task::spawn(async move { fibre.await.unwrap() });
            sinew::yield_now();
            gate.store(true, Relaxed);
            assert_eq!(waits.join().unwrap(), 7);
            let panics = sinew::spawn(|| panic!("in a fibre"));
            let error = task::spawn(async move { panics.await }).join().unwrap().unwrap_err();
            assert_eq!(fixture::message(&*error), "in a fibre");
            // A task that gives up lets the fibre go on.
            let fibre = sinew::spawn(sinew::yield_now);
            let waits = task::spawn(async move { fibre.await.unwrap() });
            waits.abort();
            drop(waits);
            let ended = block_on(sinew::spawn(|| 8).into_future());
            assert_eq!(ended.unwrap(), 8);
        });
    });
}

#[test]
fn the_last_waker_is_called_when_the_awaited_task_ends() {
    struct Called(AtomicBool);
    impl Wake for Called {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Relaxed);
        }
    }
    everywhere(|rt, _| {
        rt.run(|| {
            let gate = Arc::new(AtomicBool::new(false));
            let its_gate = Arc::clone(&gate);
            let mut task = task::spawn(async move {
                while !its_gate.load(Relaxed) {
                    task::yield_now_async().await;
                }
            });
            let called = [(); 2].map(|()| Arc::new(Called(AtomicBool::new(false))));
            for called in &called {
                let waker = Waker::from(Arc::clone(called));
                let mut context = std::task::Context::from_waker(&waker);
                assert!(std::pin::Pin::new(&mut task).poll(&mut context).is_pending());
            }
            gate.store(true, Relaxed);
            assert!(happens_within(SOON, || called[1].0.load(Relaxed)));
            assert!(!called[0].0.load(Relaxed));
            assert_eq!(Arc::strong_count(&called[0]), 1);
            task.join().unwrap();
        });
    });
}

#[test]
fn a_task_allocates_only_its_own_block() {
    const TASKS: usize = 1000;
    wherever(
        |setup| setup.processors == 1 && !setup.migrating,
        |rt, _| {
            rt.run(|| {
                let round = || {
                    let mut tasks = Vec::with_capacity(TASKS);
                    ALLOCATED.set(Some(0));
                    tasks.extend((0..TASKS).map(|_| task::spawn(pending::<()>())));
                    let allocated = ALLOCATED.replace(None).unwrap();
                    tasks.iter().for_each(task::JoinHandle::abort);
                    tasks.into_iter().for_each(|task| assert!(task.join().unwrap_err().is_aborted()));
                    allocated
                };
                let first = round();
                // Blocks of 128 bytes are cut from chunks of 64 KiB. The lists need a few more.
                assert!(first <= TASKS * 128 / (64 * 1024) + 30, "{first} allocations");
                round();
                let warm = round();
                assert!(warm <= 10, "{warm} allocations for {TASKS} tasks");
            });
        },
    );
}

/// Runs fibres and tasks side by side that never wait, until each has run `enough` times.
fn side_by_side(rt: &Runtime, enough: usize) -> bool {
    let runs: Arc<[AtomicUsize; 6]> = Arc::default();
    let done = Arc::new(AtomicBool::new(false));
    let fairly = rt.run(|| {
        let fibres: Vec<_> = (0..3)
            .map(|number| {
                let (runs, done) = (Arc::clone(&runs), Arc::clone(&done));
                sinew::spawn(move || {
                    while !done.load(Relaxed) {
                        runs[number].fetch_add(1, Relaxed);
                        sinew::yield_now();
                    }
                })
            })
            .collect();
        let tasks: Vec<_> = (3..6)
            .map(|number| {
                let (runs, done) = (Arc::clone(&runs), Arc::clone(&done));
                task::spawn(async move {
                    // The task is always ready, so only its budget makes it give way.
                    let semaphore = sync::Semaphore::new(1);
                    while !done.load(Relaxed) {
                        runs[number].fetch_add(1, Relaxed);
                        drop(semaphore.acquire_async().await);
                    }
                })
            })
            .collect();
        let fairly = happens_within(SOON, || runs.iter().all(|runs| runs.load(Relaxed) >= enough));
        done.store(true, Relaxed);
        fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
        tasks.into_iter().for_each(|task| task.join().unwrap());
        fairly
    });
    assert!(fairly, "{runs:?}");
    fairly
}

#[test]
fn fibres_and_tasks_that_are_always_ready_do_not_starve_each_other() {
    everywhere(|rt, _| assert!(side_by_side(rt, 200)));
}

#[test]
fn tasks_have_priorities_like_fibres() {
    use sinew::Priority;
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            let log: Arc<Mutex<Vec<Priority>>> = Arc::default();
            rt.run(|| {
                let order = [Priority::Background, Priority::Low, Priority::Normal, Priority::High];
                for priority in order.into_iter().cycle().take(12) {
                    let (its, fibres) = (Arc::clone(&log), Arc::clone(&log));
                    let builder = task::TaskBuilder::new().priority(priority);
                    drop(builder.spawn(async move { its.lock().unwrap().push(priority) }).unwrap());
                    let builder = FibreBuilder::new().priority(priority);
                    drop(builder.spawn(move || fibres.lock().unwrap().push(priority)).unwrap());
                }
            });
            assert!(happens_within(SOON, || log.lock().unwrap().len() == 24));
            assert!(log.lock().unwrap().is_sorted(), "{log:?}");
        },
    );
}
