//! How a runtime ends, and what `run` waits for.

mod fixture;

use fixture::{
    LONG, SOON, Setup, alone, begin_sleep, everywhere, everywhere_owning, happens_within, spin_until, wait_until,
};
use sinew::cancel::Cancelled;
use sinew::task::TaskBuilder;
use sinew::{FibreBuilder, Leftovers, Runtime, time};
use std::cell::Cell;
use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

#[test]
fn dropping_a_runtime_waits_for_its_fibres() {
    everywhere_owning(|rt, _| {
        let finished = Arc::new(AtomicUsize::new(0));
        for yields in 0..50 {
            let finished = Arc::clone(&finished);
            rt.spawn(move || {
                (0..20 * yields).for_each(|_| sinew::yield_now());
                // Fibres that are spawned meanwhile count as well.
                let child = Arc::clone(&finished);
                sinew::spawn(move || {
                    sinew::sleep(Duration::from_micros(50 * yields));
                    child.fetch_add(1, Ordering::Relaxed);
                });
                finished.fetch_add(1, Ordering::Relaxed);
            });
        }
        drop(rt);
        assert_eq!(finished.load(Ordering::Relaxed), 100);
    });
}

#[test]
fn dropping_a_runtime_waits_for_a_fibre_that_is_parked() {
    everywhere_owning(|rt, _| {
        let (parking, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (it_parks, may_end) = (Arc::clone(&parking), Arc::clone(&go));
        let handle = rt.spawn(move || {
            it_parks.store(true, Ordering::Relaxed);
            while !may_end.load(Ordering::Relaxed) {
                sinew::park();
            }
        });
        wait_until(|| parking.load(Ordering::Relaxed));
        let fibre = handle.fibre().clone();
        let dropping = thread::spawn(move || drop(rt));
        // The drop cannot end before the fibre, however long that takes.
        assert!(!happens_within(Duration::from_millis(5), || dropping.is_finished()));
        go.store(true, Ordering::Relaxed);
        fibre.unpark();
        dropping.join().unwrap();
        assert!(handle.is_finished());
        handle.join().unwrap();
    });
}

#[test]
fn a_handle_outlives_its_runtime() {
    everywhere_owning(|rt, _| {
        let handle = rt.spawn(|| vec![1, 2]);
        let fibre = handle.fibre().clone();
        drop(rt);
        assert!(handle.is_finished());
        fibre.unpark();
        assert_eq!(handle.join().unwrap(), [1, 2]);
        assert!(fibre.name().is_none());
    });
}

#[test]
fn detached_fibres_may_run_on_after_the_drop() {
    everywhere_owning(|rt, setup| {
        drop(rt);
        let rt = setup.builder().leftovers(Leftovers::LetRun).build().unwrap();
        let (go, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (may_end, is_over) = (Arc::clone(&go), Arc::clone(&over));
        rt.spawn(move || {
            wait_until(|| may_end.load(Ordering::Relaxed));
            sinew::spawn(move || is_over.store(true, Ordering::Relaxed)).join().unwrap();
        });
        drop(rt);
        assert!(!over.load(Ordering::Relaxed));
        go.store(true, Ordering::Relaxed);
        // The fixture waits for the end of the runtime.
        assert!(happens_within(SOON, || over.load(Ordering::Relaxed)));
    });
}

/// Returns a runtime of this set-up that cancels what is left, and waits for it no longer than `limit`.
fn cancelling(setup: Setup, limit: Duration) -> Runtime {
    setup.builder().leftovers(Leftovers::Cancel(limit)).build().unwrap()
}

#[test]
fn leftover_fibres_are_cancelled_and_leftover_tasks_are_aborted() {
    everywhere_owning(|rt, setup| {
        drop(rt);
        let rt = cancelling(setup, LONG);
        let begun = Arc::new(AtomicUsize::new(0));
        let sleeping = |_| {
            let begun = Arc::clone(&begun);
            rt.spawn(move || {
                begun.fetch_add(1, Ordering::Relaxed);
                time::try_sleep(LONG)
            })
        };
        let mut fibres: Vec<_> = (0..300).map(sleeping).collect();
        let tasks: Vec<_> = (0..10).map(|_| rt.spawn_task(pending::<()>())).collect();
        let spawning = rt.spawn(|| {
            let slept = time::try_sleep(LONG);
            // What a leftover spawns is cancelled and aborted, too.
            let late = sinew::spawn(|| time::try_sleep(LONG)).join().unwrap();
            let task = sinew::task::spawn(pending::<()>()).join();
            (slept, late, task.unwrap_err().is_aborted())
        });
        wait_until(|| begun.load(Ordering::Relaxed) == 300);
        // These may not have begun.
        fibres.extend((0..10).map(sleeping));
        drop(rt);
        let requested = Err(Cancelled::Requested);
        assert!(fibres.into_iter().all(|fibre| fibre.is_finished() && fibre.join().unwrap() == requested));
        assert!(tasks.into_iter().all(|task| task.join().unwrap_err().is_aborted()));
        assert_eq!(spawning.join().unwrap(), (requested, requested, true));
    });
}

#[test]
fn leftovers_that_do_not_notice_outlive_the_limit_and_end_the_runtime_later() {
    everywhere_owning(|rt, setup| {
        drop(rt);
        let rt = cancelling(setup, Duration::from_millis(1));
        let go = Arc::new(AtomicBool::new(false));
        let may_end = Arc::clone(&go);
        let deaf = rt.spawn(move || {
            wait_until(|| may_end.load(Ordering::Relaxed));
            sinew::current().is_cancelled()
        });
        drop(rt);
        assert!(!deaf.is_finished());
        go.store(true, Ordering::Relaxed);
        // The fixture waits for the end of the runtime.
        assert!(deaf.join().unwrap());
    });
}

#[test]
fn a_runtime_that_cancels_leftovers_may_be_dropped_in_its_own_fibre() {
    everywhere_owning(|rt, setup| {
        drop(rt);
        let (give, take) = sinew::sync::mpsc::channel::<Runtime>();
        let rt = cancelling(setup, LONG);
        let sleeping = rt.spawn(|| time::try_sleep(LONG));
        let handle = rt.spawn(move || {
            drop(take.recv().unwrap());
            time::try_sleep(LONG)
        });
        give.send(rt).unwrap();
        let requested = Err(Cancelled::Requested);
        assert_eq!((handle.join().unwrap(), sleeping.join().unwrap()), (requested, requested));
    });
}

#[test]
fn a_runtime_that_cancels_leftovers_forgets_fibres_that_have_finished() {
    everywhere_owning(|rt, setup| {
        drop(rt);
        let rt = cancelling(setup, LONG);
        let spawn = |count: u32| (0..count).for_each(|_| rt.run(|| sinew::spawn(|| ()).join().unwrap()));
        spawn(500);
        let before = sinew::memory::usage().record_bytes;
        spawn(5000);
        let more = sinew::memory::usage().record_bytes - before;
        // The records of 10,000 fibres have 192 bytes each. Processors keep some for the next fibres.
        assert!(more < 1 << 20, "{more} bytes");
    });
}

#[test]
fn run_may_borrow_from_its_caller() {
    everywhere(|rt, _| {
        let mut numbers = vec![1, 2, 3];
        let sum: i32 = rt.run(|| {
            numbers.push(4);
            numbers.iter().sum()
        });
        assert_eq!((sum, numbers.len()), (10, 4));
        let text = String::from("borrowed");
        assert_eq!(rt.run(|| &text[..6]), "borrow");
    });
}

#[test]
fn run_works_inside_a_fibre() {
    everywhere(|rt, _| {
        let mut steps = Vec::new();
        let outcome = rt.run(|| {
            steps.push(1);
            let inner = rt.run(|| {
                steps.push(2);
                rt.run(|| sinew::spawn(|| 40).join().unwrap()) + 1
            });
            steps.push(3);
            inner + 1
        });
        assert_eq!((outcome, steps), (42, vec![1, 2, 3]));
    });
}

#[test]
fn a_runtime_may_be_dropped_in_its_own_fibre() {
    everywhere_owning(|rt, _| {
        let place: Arc<Mutex<Option<sinew::Runtime>>> = Arc::default();
        let its_place = Arc::clone(&place);
        let handle = rt.spawn(move || {
            wait_until(|| its_place.lock().unwrap().is_some());
            let rt = its_place.lock().unwrap().take();
            drop(rt);
            // The fibre does not wait for itself, and goes on.
            sinew::yield_now();
            sinew::spawn(|| 11).join().unwrap()
        });
        *place.lock().unwrap() = Some(rt);
        assert_eq!(handle.join().unwrap(), 11);
    });
}

#[test]
fn a_runtime_may_be_dropped_in_a_fibre_of_another() {
    everywhere(|rt, setup| {
        let other = setup.build();
        let finished = Arc::new(AtomicUsize::new(0));
        for _ in 0..20 {
            let finished = Arc::clone(&finished);
            other.spawn(move || {
                (0..20).for_each(|_| sinew::yield_now());
                finished.fetch_add(1, Ordering::Relaxed);
            });
        }
        assert_eq!(
            rt.run(move || {
                drop(other);
                finished.load(Ordering::Relaxed)
            }),
            20
        );
    });
}

#[test]
fn a_runtime_may_be_dropped_in_a_task_of_another() {
    everywhere(|rt, setup| {
        let other = setup.build();
        let (go, finished) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (may_end, has_finished) = (Arc::clone(&go), Arc::clone(&finished));
        other.spawn(move || {
            wait_until(|| may_end.load(Ordering::Relaxed));
            has_finished.store(true, Ordering::Relaxed);
        });
        let task = rt.run(|| sinew::task::spawn(async move { drop(other) }));
        // A task cannot wait, so it goes on, and so does the fibre. The fixture waits for the end
        // of the runtime.
        task.join().unwrap();
        assert!(!finished.load(Ordering::Relaxed));
        go.store(true, Ordering::Relaxed);
        assert!(happens_within(SOON, || finished.load(Ordering::Relaxed)));
    });
}

#[test]
fn waiting_for_the_end_of_a_runtime_takes_no_token() {
    everywhere(|rt, setup| {
        let waits_for_the_end = || {
            let other = setup.build();
            other.spawn(|| (0..20).for_each(|_| sinew::yield_now()));
            sinew::current().unpark();
            drop(other);
            // If the token were gone, this would never return.
            sinew::park();
        };
        waits_for_the_end();
        rt.run(waits_for_the_end);
    });
}

#[test]
fn a_runtime_may_be_dropped_at_the_end_of_its_thread() {
    thread_local!(static OF_THREAD: Cell<Option<sinew::Runtime>> = const { Cell::new(None) });
    everywhere_owning(|rt, _| {
        let finished = Arc::new(AtomicBool::new(false));
        let has_finished = Arc::clone(&finished);
        let thread = thread::spawn(move || {
            rt.spawn(move || {
                (0..20).for_each(|_| sinew::yield_now());
                has_finished.store(true, Ordering::Relaxed);
            });
            OF_THREAD.set(Some(rt));
            // Sinew's own variables of the thread are gone before the runtime is dropped.
            assert!(sinew::current().is_kernel_thread());
        });
        thread.join().unwrap();
        assert!(finished.load(Ordering::Relaxed), "the drop did not wait");
    });
}

/// Calls its closure once, when it is woken.
struct Once<F>(Mutex<Option<F>>);

impl<F: FnOnce() + Send + 'static> Once<F> {
    fn waker(f: F) -> Waker {
        Waker::from(Arc::new(Once(Mutex::new(Some(f)))))
    }
}

impl<F: FnOnce() + Send> Wake for Once<F> {
    fn wake(self: Arc<Self>) {
        if let Some(f) = self.0.lock().unwrap().take() {
            f();
        }
    }
}

/// The ways to spawn without naming a cluster. Each returns whether the spawn succeeded.
const WAYS: [fn(Arc<AtomicUsize>) -> bool; 3] = [
    |ran| FibreBuilder::new().spawn(move || ran.fetch_add(1, Ordering::Relaxed)).is_ok(),
    |ran| TaskBuilder::new().spawn(async move { ran.fetch_add(1, Ordering::Relaxed) }).is_ok(),
    |ran| {
        let task = async move { ran.fetch_add(1, Ordering::Relaxed) };
        std::panic::catch_unwind(AssertUnwindSafe(|| drop(sinew::task::spawn_local(task)))).is_ok()
    },
];

/// The moment at which a processor calls the waker, outside of its strands.
#[derive(Clone, Copy)]
enum Called {
    /// After it has ended a fibre, and counted the end.
    AtTheEnd,
    /// When a sleep is over that no strand waits for.
    InTime,
}

impl Called {
    /// Arranges the call. Returns a value to keep until the waker has been called.
    fn have(self, rt: &sinew::Runtime, waker: &Waker) -> Box<dyn Send> {
        match self {
            Called::AtTheEnd => {
                let go = Arc::new(AtomicBool::new(false));
                let may_end = Arc::clone(&go);
                let fibre = rt.spawn(move || wait_until(|| may_end.load(Ordering::Relaxed)));
                let mut joining = Box::pin(fibre.into_future());
                assert!(joining.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
                go.store(true, Ordering::Relaxed);
                Box::new(joining)
            }
            Called::InTime => rt.run(|| Box::new(begin_sleep(Duration::from_millis(1), waker)) as Box<dyn Send>),
        }
    }
}

#[test]
fn a_waker_cannot_spawn_when_its_runtime_has_ended() {
    everywhere_owning(|rt, setup| {
        drop(rt);
        for way in WAYS {
            let rt = setup.build();
            let (called, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let (ran, spawned) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(None)));
            let (is_called, has_ended) = (Arc::clone(&called), Arc::clone(&ended));
            let (its_ran, has_spawned) = (Arc::clone(&ran), Arc::clone(&spawned));
            let waker = Once::waker(move || {
                is_called.store(true, Ordering::Relaxed);
                spin_until(|| has_ended.load(Ordering::Relaxed));
                *has_spawned.lock().unwrap() = Some(way(its_ran));
            });
            let kept = Called::AtTheEnd.have(&rt, &waker);
            wait_until(|| called.load(Ordering::Relaxed));
            // All strands have finished. The processor is in the waker, outside of any strand.
            let cluster = rt.main_cluster().clone();
            let probe = || TaskBuilder::new().cluster(&cluster).spawn(async {});
            thread::scope(|scope| {
                scope.spawn(|| drop(rt));
                wait_until(|| matches!(probe(), Err(sinew::SpawnError::Ended)));
                ended.store(true, Ordering::Relaxed);
            });
            assert_eq!((*spawned.lock().unwrap(), ran.load(Ordering::Relaxed)), (Some(false), 0));
            drop(kept);
        }
    });
}

#[test]
fn a_runtime_waits_for_strands_that_a_waker_spawned_outside_of_strands() {
    everywhere_owning(|rt, setup| {
        drop(rt);
        for (called, way) in [Called::AtTheEnd, Called::InTime].into_iter().flat_map(|c| WAYS.map(|way| (c, way))) {
            let rt = setup.build();
            let (ran, spawned) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let (its_ran, has_spawned) = (Arc::clone(&ran), Arc::clone(&spawned));
            let waker = Once::waker(move || {
                assert!(way(its_ran), "the spawn was refused before the runtime ended");
                has_spawned.store(true, Ordering::Relaxed);
            });
            let kept = called.have(&rt, &waker);
            assert!(happens_within(SOON, || spawned.load(Ordering::Relaxed)));
            drop(rt);
            assert_eq!(ran.load(Ordering::Relaxed), 1, "the strand was spawned but did not run");
            drop(kept);
        }
    });
}

#[test]
fn run_waits_for_detached_fibres() {
    fn detached(finished: &Arc<AtomicUsize>) {
        for generation in 0..10 {
            let finished = Arc::clone(finished);
            sinew::spawn(move || {
                (0..10 * generation).for_each(|_| sinew::yield_now());
                let child = Arc::clone(&finished);
                sinew::spawn(move || child.fetch_add(1, Ordering::Relaxed));
                finished.fetch_add(1, Ordering::Relaxed);
            });
        }
    }
    alone(|| {
        let finished = Arc::new(AtomicUsize::new(0));
        assert_eq!(sinew::run(|| (detached(&finished), 9).1), 9);
        assert_eq!(finished.load(Ordering::Relaxed), 20);
        assert_eq!(run_migrating(|| (detached(&finished), 8).1), 8);
        assert_eq!(finished.load(Ordering::Relaxed), 40);
    });
}

#[allow(unsafe_code)]
fn run_migrating<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    // SAFETY: nothing in this file is bound to a kernel thread and kept across a suspension.
    unsafe { sinew::run_migrating(f) }
}

#[test]
fn many_runtimes_can_be_built_and_dropped() {
    everywhere_owning(|rt, setup| {
        drop(rt);
        for n in 0..30 {
            let rt = setup.build();
            assert_eq!(rt.run(move || sinew::spawn(move || n).join().unwrap()), n);
        }
        let several: Vec<_> = (0..5).map(|_| setup.build()).collect();
        let handles: Vec<_> = several.iter().enumerate().map(|(n, rt)| rt.spawn(move || n)).collect();
        drop(several);
        let sum: usize = handles.into_iter().map(|handle| handle.join().unwrap()).sum();
        assert_eq!(sum, 10);
    });
}

#[test]
fn live_strands_counts_fibres_that_have_not_finished() {
    everywhere(|rt, _| {
        assert_eq!(rt.live_strands(), 0);
        let go = Arc::new(AtomicBool::new(false));
        let waiting = || {
            let go = Arc::clone(&go);
            move || wait_until(|| go.load(Ordering::Relaxed))
        };
        let from_outside: Vec<_> = (0..5).map(|_| rt.spawn(waiting())).collect();
        assert_eq!(rt.live_strands(), 5);
        let from_inside = rt.run(|| (0..5).map(|_| sinew::spawn(waiting())).collect::<Vec<_>>());
        wait_until(|| rt.live_strands() <= 10);
        assert_eq!(rt.live_strands(), 10);
        go.store(true, Ordering::Relaxed);
        from_outside.into_iter().chain(from_inside).for_each(|handle| handle.join().unwrap());
        assert!(happens_within(SOON, || rt.live_strands() == 0));
    });
}

#[test]
fn a_cluster_that_outlives_its_runtime_cannot_be_spawned_on() {
    everywhere_owning(|rt, _| {
        let cluster = rt.main_cluster().clone();
        drop(rt);
        assert!(matches!(cluster.add_processor(), Err(sinew::ResizeError::Stopped)));
        assert!(matches!(cluster.remove_processor(), Err(sinew::ResizeError::Stopped)));
        let kept = Arc::new(());
        let closure = Arc::clone(&kept);
        let spawned = sinew::FibreBuilder::new().cluster(&cluster).spawn(move || drop(closure));
        if spawned.is_ok() {
            // The queue that holds the fibre must not be dropped.
            std::mem::forget(cluster);
        }
        assert!(matches!(spawned, Err(sinew::SpawnError::Ended)), "{spawned:?} can never run");
        assert_eq!(Arc::strong_count(&kept), 1, "the closure is not dropped");
    });
}

#[test]
fn a_spawn_while_the_runtime_ends_runs_or_is_refused() {
    everywhere_owning(|rt, _| {
        let cluster = rt.main_cluster().clone();
        let (spawned, ran) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    loop {
                        let ran = Arc::clone(&ran);
                        let builder = sinew::FibreBuilder::new().cluster(&cluster);
                        match builder.spawn(move || ran.fetch_add(1, Ordering::Relaxed)) {
                            Ok(_) => spawned.fetch_add(1, Ordering::Relaxed),
                            Err(sinew::SpawnError::Ended) => return,
                            Err(error) => panic!("{error}"),
                        };
                    }
                });
            }
            wait_until(|| spawned.load(Ordering::Relaxed) > 20);
            drop(rt);
        });
        assert_eq!(ran.load(Ordering::Relaxed), spawned.load(Ordering::Relaxed));
    });
}
