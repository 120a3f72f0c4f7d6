//! Tasks: spawning, joining, aborting, panics, and the end of their futures.

mod fixture;

use fixture::{SOON, alone, everywhere, happens_within, kernel_thread, message, wait_until};
use sinew::task::{self, AbortHandle, JoinSet, TaskBuilder};
use sinew::{SpawnError, block_on};
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Counts its living instances.
struct Counted<'a>(&'a AtomicU32);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Relaxed);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[test]
fn fibres_threads_and_tasks_can_join_a_task() {
    everywhere(|rt, _| {
        let (by_fibre, by_thread) = rt.run(|| {
            let by_fibre = task::spawn(async { 1 }).join().unwrap();
            let nested = task::spawn(async { task::spawn(async { 2 }).await.unwrap() });
            assert_eq!(nested.join().unwrap(), 2);
            (by_fibre, task::spawn(ready(3)))
        });
        assert_eq!(by_fibre, 1);
        assert_eq!(by_thread.join().unwrap(), 3);
    });
}

#[test]
fn any_thread_can_spawn_a_task_on_a_named_cluster() {
    everywhere(|rt, _| {
        let task = TaskBuilder::new().cluster(rt.main_cluster()).spawn(async { 7 }).unwrap();
        assert_eq!(task.join().unwrap(), 7);
    });
    alone(|| {
        assert!(matches!(TaskBuilder::new().spawn(async {}), Err(SpawnError::NoRuntime)));
        let error = catch_unwind(|| drop(task::spawn(async {}))).unwrap_err();
        assert!(message(&*error).starts_with("cannot spawn a task: there is no runtime here"));
    });
}

#[test]
fn many_tasks_yield_and_finish() {
    everywhere(|rt, _| {
        let total: u64 = rt.run(|| {
            let tasks: Vec<_> = (0..500u64)
                .map(|number| {
                    task::spawn(async move {
                        for _ in 0..number % 7 {
                            task::yield_now_async().await;
                        }
                        number
                    })
                })
                .collect();
            tasks.into_iter().map(|task| task.join().unwrap()).sum()
        });
        assert_eq!(total, 500 * 499 / 2);
    });
}

#[test]
fn a_yield_lets_others_run_first() {
    fixture::wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            let log: Arc<Mutex<Vec<u32>>> = Arc::default();
            rt.run(|| {
                let tasks: Vec<_> = (0..3)
                    .map(|number| {
                        let log = Arc::clone(&log);
                        task::spawn(async move {
                            for _ in 0..2 {
                                log.lock().unwrap().push(number);
                                task::yield_now_async().await;
                            }
                        })
                    })
                    .collect();
                tasks.into_iter().for_each(|task| task.join().unwrap());
            });
            assert_eq!(*log.lock().unwrap(), [0, 1, 2, 0, 1, 2]);
        },
    );
}

#[test]
fn join_and_await_return_a_panic_of_poll() {
    everywhere(|rt, _| {
        rt.run(|| {
            let error = task::spawn(async { panic!("in a task") }).join().unwrap_err();
            assert!(error.is_panic() && !error.is_aborted());
            assert_eq!(error.to_string(), "the task panicked: in a task");
            assert_eq!(message(&*error.into_panic().unwrap()), "in a task");
            let outer = task::spawn(async { task::spawn(async { panic!("deeper") }).await.unwrap_err() });
            assert_eq!(outer.join().unwrap().to_string(), "the task panicked: deeper");
            // The processor goes on.
            assert_eq!(task::spawn(async { 1 }).join().unwrap(), 1);
        });
    });
}

#[test]
fn a_panic_in_the_destructor_of_a_future_stays_in_the_task() {
    struct Explosive;
    impl Drop for Explosive {
        fn drop(&mut self) {
            panic!("while it was dropped");
        }
    }
    /// Keeps its part until it is dropped itself.
    struct Keeps<F> {
        inner: F,
        _part: Explosive,
    }
    impl<F: Future + Unpin> Future for Keeps<F> {
        type Output = F::Output;
        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
            Pin::new(&mut self.inner).poll(context)
        }
    }
    everywhere(|rt, _| {
        rt.run(|| {
            let ended = task::spawn(Keeps { inner: ready(7), _part: Explosive });
            assert!(ended.join().unwrap_err().to_string().ends_with("while it was dropped"));
            let aborted = task::spawn(Keeps { inner: pending::<()>(), _part: Explosive });
            aborted.abort();
            assert!(aborted.join().unwrap_err().is_panic());
            let panicked = task::spawn(Keeps { inner: poll_fn(|_| -> Poll<()> { panic!("first") }), _part: Explosive });
            assert!(panicked.join().unwrap_err().to_string().ends_with("first"));
            drop(task::spawn(Keeps { inner: ready(()), _part: Explosive }));
        });
    });
}

#[test]
fn a_panic_in_the_destructor_of_an_unwanted_result_stays_in_the_task() {
    struct Explosive;
    impl Drop for Explosive {
        fn drop(&mut self) {
            panic!("the result");
        }
    }
    everywhere(|rt, _| {
        rt.run(|| {
            let gate = Arc::new(AtomicBool::new(false));
            let its_gate = Arc::clone(&gate);
            drop(task::spawn(async move {
                while !its_gate.load(Relaxed) {
                    task::yield_now_async().await;
                }
                Explosive
            }));
            gate.store(true, Relaxed);
        });
    });
}

#[test]
fn an_aborted_task_is_dropped_while_it_waits() {
    static LEFT: AtomicU32 = AtomicU32::new(0);
    everywhere(|rt, _| {
        rt.run(|| {
            let counted = Counted::new(&LEFT);
            let waits = task::spawn(async move {
                let _counted = counted;
                pending::<()>().await;
            });
            let handle = waits.abort_handle();
            // Works whether the task has begun or not.
            sinew::yield_now();
            handle.abort();
            handle.abort();
            assert!(waits.join().unwrap_err().is_aborted());
            assert!(handle.is_finished());
            assert_eq!(LEFT.load(Relaxed), 0);
            handle.abort();
        });
    });
}

#[test]
fn an_abort_after_the_end_changes_nothing() {
    everywhere(|rt, _| {
        rt.run(|| {
            let task = task::spawn(async { 7 });
            wait_until(|| task.is_finished());
            task.abort();
            assert_eq!(task.join().unwrap(), 7);
        });
    });
}

#[test]
fn a_task_that_aborts_itself_ends_at_its_next_await() {
    everywhere(|rt, _| {
        rt.run(|| {
            let own: Arc<Mutex<Option<AbortHandle>>> = Arc::default();
            let (its_own, beyond) = (Arc::clone(&own), Arc::new(AtomicBool::new(false)));
            let its_beyond = Arc::clone(&beyond);
            let task = task::spawn(async move {
                let handle = loop {
                    if let Some(handle) = its_own.lock().unwrap().take() {
                        break handle;
                    }
                    task::yield_now_async().await;
                };
                handle.abort();
                task::yield_now_async().await;
                its_beyond.store(true, Relaxed);
            });
            *own.lock().unwrap() = Some(task.abort_handle());
            assert!(task.join().unwrap_err().is_aborted());
            assert!(!beyond.load(Relaxed));
        });
    });
}

#[test]
fn an_unwanted_result_is_dropped_with_the_handle_or_with_the_task() {
    static LEFT: AtomicU32 = AtomicU32::new(0);
    everywhere(|rt, _| {
        rt.run(|| {
            let finished = task::spawn(async { Counted::new(&LEFT) });
            wait_until(|| finished.is_finished());
            assert_eq!(LEFT.load(Relaxed), 1);
            drop(finished);
            assert_eq!(LEFT.load(Relaxed), 0);
            let gate = Arc::new(AtomicBool::new(false));
            let its_gate = Arc::clone(&gate);
            drop(task::spawn(async move {
                while !its_gate.load(Relaxed) {
                    task::yield_now_async().await;
                }
                Counted::new(&LEFT)
            }));
            gate.store(true, Relaxed);
        });
        assert!(happens_within(SOON, || rt.live_strands() == 0 && LEFT.load(Relaxed) == 0));
    });
}

#[test]
fn a_handle_can_be_awaited_again_after_its_first_future_was_dropped() {
    everywhere(|rt, _| {
        rt.run(|| {
            let gate = Arc::new(AtomicBool::new(false));
            let its_gate = Arc::clone(&gate);
            let mut task = task::spawn(async move {
                while !its_gate.load(Relaxed) {
                    task::yield_now_async().await;
                }
                7
            });
            let mut context = Context::from_waker(Waker::noop());
            assert!(Pin::new(&mut task).poll(&mut context).is_pending());
            assert!(Pin::new(&mut task).poll(&mut context).is_pending());
            let by_task = task::spawn(async move {
                assert!(poll_fn(|context| Poll::Ready(Pin::new(&mut task).poll(context).is_pending())).await);
                gate.store(true, Relaxed);
                (&mut task).await.unwrap() + 1
            });
            assert_eq!(block_on(by_task).unwrap(), 8);
        });
    });
}

#[test]
fn join_with_a_limit_returns_the_handle_and_can_be_repeated() {
    everywhere(|rt, _| {
        rt.run(|| {
            let gate = Arc::new(AtomicBool::new(false));
            let its_gate = Arc::clone(&gate);
            let task = task::spawn(async move {
                while !its_gate.load(Relaxed) {
                    task::yield_now_async().await;
                }
            });
            let task = task.join_timeout(Duration::from_millis(1)).unwrap_err();
            gate.store(true, Relaxed);
            task.join_timeout(SOON).unwrap().unwrap();
        });
    });
}

#[test]
fn a_local_task_stays_on_its_kernel_thread_and_is_dropped_there() {
    everywhere(|rt, _| {
        rt.run(|| {
            sinew::pinned(|| {
                let here = kernel_thread();
                let shared = Rc::new(RefCell::new(Vec::new()));
                let tasks: Vec<_> = (0..10)
                    .map(|_| {
                        let shared = Rc::clone(&shared);
                        task::spawn_local(async move {
                            for _ in 0..20 {
                                shared.borrow_mut().push(kernel_thread());
                                task::yield_now_async().await;
                            }
                            Rc::new(kernel_thread())
                        })
                    })
                    .collect();
                let ended: Vec<_> = tasks.into_iter().map(|task| *task.join().unwrap()).collect();
                assert!(ended.iter().all(|&thread| thread == here));
                assert_eq!(shared.borrow().len(), 200);
                assert!(shared.borrow().iter().all(|&thread| thread == here));
                let left = task::spawn_local({
                    let shared = Rc::clone(&shared);
                    async move {
                        pending::<()>().await;
                        drop(shared);
                    }
                });
                sinew::yield_now();
                left.abort();
                assert!(left.join().unwrap_err().is_aborted());
                assert_eq!(Rc::strong_count(&shared), 1);
            });
        });
    });
}

#[test]
fn a_retiring_processor_ends_after_its_local_tasks() {
    fixture::wherever(
        |setup| setup.processors == 2,
        |rt, _| {
            let cluster = rt.main_cluster();
            rt.run(|| {
                let gate = Arc::new(AtomicBool::new(false));
                // Each fibre keeps its processor until the other one has begun, so each processor gets a task.
                let begun = Arc::new(AtomicU32::new(0));
                let fibres: Vec<_> = (0..2)
                    .map(|_| {
                        let (gate, begun) = (Arc::clone(&gate), Arc::clone(&begun));
                        sinew::spawn(move || {
                            begun.fetch_add(1, Relaxed);
                            fixture::spin_until(|| begun.load(Relaxed) == 2);
                            let local = Rc::new(());
                            task::spawn_local(async move {
                                while !gate.load(Relaxed) {
                                    task::yield_now_async().await;
                                }
                                drop(local);
                            })
                        })
                    })
                    .collect();
                let tasks: Vec<_> = fibres.into_iter().map(|fibre| fibre.join().unwrap()).collect();
                cluster.remove_processor().unwrap();
                gate.store(true, Relaxed);
                tasks.into_iter().for_each(|task| task.join().unwrap());
            });
            assert!(
                happens_within(SOON, || cluster.retiring() == 0),
                "the processor does not end after its local tasks"
            );
        },
    );
}

#[test]
fn a_join_set_returns_its_tasks_as_they_end() {
    everywhere(|rt, _| {
        rt.run(|| {
            block_on(async {
                let mut set = JoinSet::new();
                assert!(set.join_next_async().await.is_none());
                let order = Arc::new(AtomicU64::new(u64::MAX));
                for number in (0..5).rev() {
                    let order = Arc::clone(&order);
                    set.spawn(async move {
                        while order.load(Relaxed) != number {
                            task::yield_now_async().await;
                        }
                        number
                    });
                }
                assert_eq!(set.len(), 5);
                for number in 0..5 {
                    assert!(set.try_join_next().is_none());
                    order.store(number, Relaxed);
                    assert_eq!(set.join_next_async().await.unwrap().unwrap(), number);
                }
                assert!(set.is_empty() && set.join_next_async().await.is_none());
            });
        });
    });
}

#[test]
fn a_fibre_joins_the_tasks_of_a_set_with_and_without_a_limit() {
    everywhere(|rt, _| {
        rt.run(|| {
            let mut set = JoinSet::new();
            assert!(set.join_next().is_none());
            assert_eq!(set.join_next_timeout(SOON).map(|joined| joined.is_none()), Ok(true));
            let (sender, mut receiver) = sinew::sync::oneshot::channel();
            set.spawn(async move { receiver.recv_async().await.unwrap() });
            assert!(set.join_next_timeout(Duration::ZERO).is_err());
            assert!(set.join_next_deadline(Instant::now()).is_err());
            assert_eq!(set.len(), 1, "a limit that is reached joins nothing");
            sender.send(7).unwrap();
            assert_eq!(set.join_next_timeout(SOON).unwrap().unwrap().unwrap(), 7);
            set.spawn(async { 8 });
            assert_eq!(set.join_next_deadline(Instant::now() + SOON).unwrap().unwrap().unwrap(), 8);
            set.spawn(async { 9 });
            assert_eq!(set.join_next().unwrap().unwrap(), 9);
            assert!(set.join_next().is_none());
        });
    });
}

#[test]
fn a_join_set_reports_panics_and_aborts_and_aborts_the_rest_when_dropped() {
    static LEFT: AtomicU32 = AtomicU32::new(0);
    everywhere(|rt, _| {
        rt.run(|| {
            let mut set = JoinSet::new();
            set.spawn(async { panic!("one of them") });
            assert!(set.join_next().unwrap().unwrap_err().is_panic());
            set.spawn(pending::<()>()).abort();
            assert!(set.join_next().unwrap().unwrap_err().is_aborted());
            for _ in 0..10 {
                let counted = Counted::new(&LEFT);
                set.spawn(async move {
                    let _counted = counted;
                    pending::<()>().await;
                });
            }
            set.abort_all();
            assert!(set.join_next().unwrap().unwrap_err().is_aborted());
            set.spawn_local(async {});
        });
        assert!(happens_within(SOON, || LEFT.load(Relaxed) == 0), "{} futures are left", LEFT.load(Relaxed));
    });
}

#[test]
fn a_task_that_would_block_its_processor_panics() {
    everywhere(|rt, _| {
        rt.run(|| {
            let blocks: [fn(); 4] = [
                || sinew::park(),
                || sinew::sleep(Duration::from_secs(1)),
                || sinew::sync::BinarySemaphore::new(false).wait(),
                || block_on(async {}),
            ];
            for block in blocks {
                let error = task::spawn(async move { block() }).join().unwrap_err();
                assert!(error.to_string().contains("may not block its processor"), "{error}");
            }
            // Calls that need not wait are allowed.
            let lock = sinew::sync::Mutex::new(1);
            assert_eq!(task::spawn(async move { *lock.lock().unwrap() }).join().unwrap(), 1);
        });
    });
}

#[test]
fn a_future_is_dropped_once_at_any_stage() {
    static LEFT: AtomicU32 = AtomicU32::new(0);
    everywhere(|rt, _| {
        rt.run(|| {
            for polls in 0..4 {
                let counted = Counted::new(&LEFT);
                let begun = Arc::new(AtomicU32::new(0));
                let its_begun = Arc::clone(&begun);
                let task = task::spawn(async move {
                    let _counted = counted;
                    for _ in 0..2 {
                        its_begun.fetch_add(1, Relaxed);
                        task::yield_now_async().await;
                    }
                    its_begun.fetch_add(1, Relaxed);
                });
                wait_until(|| begun.load(Relaxed) >= polls.min(3));
                match polls % 2 {
                    0 => task.abort(),
                    _ => drop(task),
                }
                assert!(happens_within(SOON, || LEFT.load(Relaxed) == 0));
            }
        });
    });
}

#[test]
fn the_destructor_of_a_task_s_value_may_spawn() {
    struct Spawns(Cell<Option<Arc<AtomicBool>>>);
    impl Drop for Spawns {
        fn drop(&mut self) {
            let seen = self.0.take().unwrap();
            drop(task::spawn(async move { seen.store(true, Relaxed) }));
        }
    }
    everywhere(|rt, _| {
        let seen = Arc::new(AtomicBool::new(false));
        rt.run(|| {
            let spawns = Spawns(Cell::new(Some(Arc::clone(&seen))));
            let task = task::spawn(async move {
                let _spawns = spawns;
                pending::<()>().await;
            });
            task.abort();
        });
        assert!(happens_within(SOON, || seen.load(Relaxed)));
    });
}

#[test]
fn a_guard_poisons_its_lock_only_if_its_task_panics() {
    everywhere(|rt, _| {
        rt.run(|| {
            let lock = Arc::new(sinew::sync::Mutex::new(0));
            let its_lock = Arc::clone(&lock);
            let panicked = task::spawn(async move {
                let _guard = its_lock.lock().unwrap();
                panic!("with the lock");
            });
            assert!(catch_unwind(AssertUnwindSafe(|| panicked.join().unwrap())).is_err());
            assert!(lock.is_poisoned());
        });
    });
}
