//! Calls that block a kernel thread, on the blocking pool.
#![allow(unsafe_code)]

#[macro_use]
mod fixture;

use fixture::rerun::Rerun;
use fixture::{Random, SOON, alone, everywhere, happens_within, kernel_thread, message, wherever};
use sinew::io::{BLOCKING_THREADS, set_blocking_threads};
use sinew::{Runtime, block_on, blocking, blocking_async, fs, task};
use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

/// Returns the number of the pool's threads that the kernel shows.
fn threads_of_pool() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    // A thread may end between the listing and the read.
    let name = |task: std::path::PathBuf| std::fs::read_to_string(task.join("comm")).unwrap_or_default();
    tasks.filter(|task| name(task.clone()).trim() == "sinew-blocking").count()
}

/// Restores the bound of the pool when it is dropped.
struct Bound;

impl Bound {
    fn set(threads: usize) -> Bound {
        set_blocking_threads(threads);
        Bound
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        set_blocking_threads(BLOCKING_THREADS);
    }
}

#[test]
fn calls_that_wait_for_each_other_all_run_at_once() {
    const CALLS: usize = 24;
    everywhere(|runtime, _| {
        let barrier = Barrier::new(CALLS);
        let met = AtomicUsize::new(0);
        runtime.run(|| {
            sinew::scope(|scope| {
                for _ in 0..CALLS {
                    scope.spawn(|| {
                        blocking(|| barrier.wait());
                        met.fetch_add(1, SeqCst);
                    });
                }
            });
        });
        assert_eq!(met.load(SeqCst), CALLS);
    });
}

#[test]
fn other_fibres_run_while_a_call_blocks() {
    wherever(
        |setup| setup.processors == 1,
        |runtime, _| {
            let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
            runtime.run(|| {
                sinew::scope(|scope| {
                    scope.spawn(|| {
                        blocking(|| {
                            begun.store(true, SeqCst);
                            fixture::wait_until(|| over.load(SeqCst));
                        });
                    });
                    // The only processor reaches this line while the call still blocks.
                    fixture::wait_until(|| begun.load(SeqCst));
                    over.store(true, SeqCst);
                });
            });
        },
    );
}

#[test]
fn a_call_may_borrow_and_returns_its_value() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let words = ["one".to_owned(), "two".to_owned()];
            let mut lengths = Vec::new();
            let joined = blocking(|| {
                lengths.extend(words.iter().map(String::len));
                words.join(" ")
            });
            assert_eq!((joined.as_str(), lengths), ("one two", vec![3, 3]));
            let large = blocking(|| [7u8; 1000]);
            assert!(large.iter().all(|&byte| byte == 7));
        });
    });
}

#[test]
fn a_call_runs_on_a_named_kernel_thread_of_the_pool() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let here = kernel_thread();
            let (there, name, is_kernel_thread, nested) = blocking(|| {
                let name = thread::current().name().map(str::to_owned);
                (kernel_thread(), name, sinew::current().is_kernel_thread(), blocking(kernel_thread))
            });
            assert_ne!(here, there);
            assert_eq!(name.as_deref(), Some("sinew-blocking"));
            assert!(is_kernel_thread);
            assert_eq!(there, nested);
        });
    });
}

#[test]
fn a_kernel_thread_runs_the_call_itself() {
    alone(|| {
        let here = thread::current().id();
        assert_eq!(blocking(|| thread::current().id()), here);
        let payload = catch_unwind(|| blocking(|| panic!("directly"))).unwrap_err();
        assert_eq!(message(&*payload), "directly");
    });
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_thread_serves_on() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let dropped = AtomicUsize::new(0);
            struct Count<'a>(&'a AtomicUsize);
            impl Drop for Count<'_> {
                fn drop(&mut self) {
                    self.0.fetch_add(1, SeqCst);
                }
            }
            for number in 1..=10 {
                let count = Count(&dropped);
                let call = || {
                    blocking(move || {
                        let _count = count;
                        panic!("number {number}")
                    })
                };
                let payload = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
                assert_eq!(message(&*payload), format!("number {number}"));
                assert_eq!(dropped.load(SeqCst), number);
                assert_eq!(blocking(|| number + 1), number + 1);
            }
        });
    });
}

#[test]
fn no_more_calls_run_at_once_than_the_bound_allows() {
    const BOUND: usize = 3;
    everywhere(|runtime, _| {
        let _bound = Bound::set(BOUND);
        let (running, most, calls) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        // The first calls wait until the bound is reached. So the test sees that it is reached.
        let barrier = Barrier::new(BOUND);
        runtime.run(|| {
            sinew::scope(|scope| {
                for _ in 0..10 * BOUND {
                    scope.spawn(|| {
                        blocking(|| {
                            most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                            barrier.wait();
                            running.fetch_sub(1, SeqCst);
                            calls.fetch_add(1, SeqCst);
                        });
                    });
                }
            });
        });
        assert_eq!(calls.load(SeqCst), 10 * BOUND);
        assert_eq!(most.load(SeqCst), BOUND);
    });
}

#[test]
fn a_bound_of_zero_means_one() {
    everywhere(|runtime, _| {
        let _bound = Bound::set(0);
        assert!(happens_within(SOON, || threads_of_pool() <= 1));
        runtime.run(|| {
            let threads: HashSet<_> = (0..10).map(|_| blocking(kernel_thread)).collect();
            assert_eq!(threads.len(), 1);
        });
    });
}

#[test]
fn raising_the_bound_serves_the_calls_that_wait() {
    everywhere(|runtime, _| {
        let _bound = Bound::set(1);
        let barrier = Barrier::new(4);
        let begun = AtomicUsize::new(0);
        runtime.run(|| {
            sinew::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        blocking(|| {
                            begun.fetch_add(1, SeqCst);
                            barrier.wait();
                        });
                    });
                }
                fixture::wait_until(|| begun.load(SeqCst) == 1);
                set_blocking_threads(4);
            });
        });
        assert_eq!(begun.load(SeqCst), 4);
    });
}

#[test]
fn consecutive_calls_use_one_thread() {
    everywhere(|runtime, _| {
        // Ends the threads of other tests, except for one.
        drop(Bound::set(1));
        runtime.run(|| {
            let threads: HashSet<_> = (0..200).map(|_| blocking(kernel_thread)).collect();
            assert_eq!(threads.len(), 1);
        });
    });
}

#[test]
fn ten_thousand_calls_each_return_their_own_value() {
    const FIBRES: u64 = 100;
    const CALLS: u64 = 100;
    let mut random = Random::new(0x5eed_b10c);
    let salt = random.below(u64::MAX);
    wherever(
        |setup| setup.processors != 4,
        |runtime, _| {
            let sum = AtomicUsize::new(0);
            runtime.run(|| {
                sinew::scope(|scope| {
                    for fibre in 0..FIBRES {
                        let sum = &sum;
                        scope.spawn(move || {
                            for call in 0..CALLS {
                                let mut seen = 0;
                                let value = blocking(|| {
                                    seen = call;
                                    (fibre * CALLS + call) ^ salt
                                });
                                assert_eq!((value ^ salt, seen), (fibre * CALLS + call, call));
                                sum.fetch_add(1, SeqCst);
                            }
                        });
                    }
                });
            });
            assert_eq!(sum.load(SeqCst) as u64, FIBRES * CALLS);
        },
    );
}

/// Runs in a process of its own, because other tests use the pool as well.
#[test]
fn the_pool_grows_on_demand_and_shrinks_when_it_is_idle() {
    const CALLS: usize = 20;
    let outcome = in_child!(Rerun::new(), || {
        assert_eq!(threads_of_pool(), 0);
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(2).build().unwrap();
        let barrier = Barrier::new(CALLS + 1);
        runtime.run(|| {
            sinew::scope(|scope| {
                for _ in 0..CALLS {
                    scope.spawn(|| blocking(|| barrier.wait()));
                }
                scope.spawn(|| {
                    assert!(happens_within(SOON, || threads_of_pool() == CALLS));
                    blocking(|| barrier.wait());
                });
            });
        });
        assert!(threads_of_pool() >= CALLS);
        // One thread stays busy. It is not idle, so the pool keeps it.
        runtime.run(|| {
            let alone = || {
                blocking(|| ());
                threads_of_pool() == 1
            };
            assert!(happens_within(SOON, alone));
        });
        println!("grown and shrunk");
    });
    outcome.assert_success("grown and shrunk");
}

#[test]
fn pool_threads_do_not_keep_the_process_alive() {
    let outcome = in_child!(Rerun::new(), || {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(2).build().unwrap();
        runtime.run(|| blocking(|| ()));
        let begun = &*Box::leak(Box::new(AtomicBool::new(false)));
        drop(runtime.spawn(|| {
            blocking(|| {
                begun.store(true, SeqCst);
                thread::sleep(Duration::from_secs(1000));
            })
        }));
        runtime.run(|| fixture::wait_until(|| begun.load(SeqCst)));
        std::mem::forget(runtime);
        println!("returning");
    });
    outcome.assert_success("returning");
}

/// Forbids this process more memory than it has now, so that no thread finds room for its stack.
#[allow(unsafe_code)]
fn refuse_threads(refuse: bool) {
    let soft = if refuse { 1 << 20 } else { libc::RLIM_INFINITY };
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is valid for the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

#[test]
fn without_new_threads_a_call_runs_in_place_or_waits_for_an_existing_thread() {
    let outcome = in_child!(Rerun::new(), || {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
        runtime.run(|| {
            let here = kernel_thread();
            refuse_threads(true);
            let refused = blocking(kernel_thread);
            refuse_threads(false);
            assert_eq!(refused, here);
            let there = blocking(kernel_thread);
            assert_ne!(there, here);
            refuse_threads(true);
            let [first, second, called] = [const { AtomicBool::new(false) }; 3];
            sinew::scope(|scope| {
                scope.spawn(|| {
                    blocking(|| {
                        first.store(true, SeqCst);
                        fixture::wait_until(|| second.load(SeqCst));
                    });
                });
                fixture::wait_until(|| first.load(SeqCst));
                let waiting = scope.spawn(|| {
                    called.store(true, SeqCst);
                    blocking(kernel_thread)
                });
                // There is one processor, so the other call waits by now.
                fixture::wait_until(|| called.load(SeqCst));
                second.store(true, SeqCst);
                assert_eq!(waiting.join().unwrap(), there);
            });
            refuse_threads(false);
        });
        println!("done without");
    });
    outcome.assert_success("done without");
}

#[test]
fn a_raised_bound_without_new_threads_leaves_calls_to_the_existing_thread() {
    let outcome = in_child!(Rerun::new(), || {
        set_blocking_threads(1);
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
        runtime.run(|| {
            let [first, second, called] = [const { AtomicBool::new(false) }; 3];
            sinew::scope(|scope| {
                let there = scope.spawn(|| {
                    blocking(|| {
                        first.store(true, SeqCst);
                        fixture::wait_until(|| second.load(SeqCst));
                        kernel_thread()
                    })
                });
                fixture::wait_until(|| first.load(SeqCst));
                let waiting = scope.spawn(|| {
                    called.store(true, SeqCst);
                    blocking(kernel_thread)
                });
                // There is one processor, so the other call waits by now.
                fixture::wait_until(|| called.load(SeqCst));
                refuse_threads(true);
                set_blocking_threads(4);
                refuse_threads(false);
                second.store(true, SeqCst);
                assert_eq!(waiting.join().unwrap(), there.join().unwrap());
            });
        });
        println!("the existing thread served it");
    });
    outcome.assert_success("the existing thread served it");
}

/// The calls wait for each other, so none goes on before the pool has another thread. The pool
/// cannot know that, but it reports that calls wait.
#[test]
fn a_pool_full_of_calls_that_wait_for_the_pool_reports_it_once() {
    let outcome = in_child!(Rerun::new(), || {
        let (said, errors) = std::io::pipe().unwrap();
        // SAFETY: no memory is involved, and nothing owns the standard error output.
        assert_ne!(unsafe { libc::dup2(errors.as_raw_fd(), libc::STDERR_FILENO) }, -1);
        let mut said = BufReader::new(said).lines().map(Result::unwrap);
        set_blocking_threads(1);
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(2).build().unwrap();
        let (ended, others_ended) = std::sync::mpsc::channel();
        let holder = runtime.spawn(move || blocking(move || others_ended.iter().take(3).count()));
        assert!(happens_within(SOON, || threads_of_pool() == 1));
        let others: Vec<_> = (0..3)
            .map(|_| {
                let ended = ended.clone();
                runtime.spawn(move || {
                    blocking(|| ());
                    ended.send(()).unwrap();
                })
            })
            .collect();
        let line = said.next().unwrap();
        assert!(line.contains("blocking call(s) wait for a thread") && line.contains("all 1 thread(s)"), "{line}");
        // A timer that starts later has fired, so the timers of the other calls have fired as well.
        runtime.run(|| sinew::sleep(Duration::from_secs(1)));
        set_blocking_threads(2);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(holder.join().unwrap(), 3);
        // SAFETY: as above.
        assert_ne!(unsafe { libc::dup2(libc::STDOUT_FILENO, libc::STDERR_FILENO) }, -1);
        drop(errors);
        assert_eq!(said.next(), None, "the report came more than once");
        println!("all calls returned");
    });
    outcome.assert_success("all calls returned");
}

#[test]
fn a_task_may_not_make_a_call_that_blocks_its_processor() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let refused = |error: task::JoinError| {
                let payload = error.into_panic().unwrap();
                assert!(message(&*payload).contains("`_async` form"), "{}", message(&*payload));
            };
            refused(task::spawn(async { blocking(|| ()) }).join().unwrap_err());
            refused(task::spawn(async { fs::read("/proc/self/comm").map(drop) }).join().unwrap_err());
            // A fibre of the same processor may, and so may a kernel thread.
            assert_eq!(sinew::spawn(|| blocking(|| 7)).join().unwrap(), 7);
        });
    });
}

#[test]
fn a_tasks_call_runs_on_a_kernel_thread_and_its_value_comes_back() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let tasks: Vec<_> = (0..20usize)
                .map(|number| {
                    task::spawn(async move {
                        let here = kernel_thread();
                        let (value, there) = blocking_async(move || (number * 2, kernel_thread())).await;
                        assert_ne!(here, there);
                        value
                    })
                })
                .collect();
            let values: Vec<_> = tasks.into_iter().map(|task| task.join().unwrap()).collect();
            assert!(values.into_iter().eq((0..20).map(|number| number * 2)));
        });
    });
}

#[test]
fn others_run_while_a_tasks_call_blocks() {
    wherever(
        |setup| setup.processors == 1,
        |runtime, _| {
            let [begun, over] = [const { AtomicBool::new(false) }; 2].map(Arc::new);
            runtime.run(|| {
                let (its_begun, its_over) = (Arc::clone(&begun), Arc::clone(&over));
                let task = task::spawn(blocking_async(move || {
                    its_begun.store(true, SeqCst);
                    fixture::wait_until(|| its_over.load(SeqCst));
                }));
                // The only processor gets to this although the call is not over.
                fixture::wait_until(|| begun.load(SeqCst));
                over.store(true, SeqCst);
                task.join().unwrap();
            });
        },
    );
}

/// Another's executor: it knows nothing of runtimes.
fn drive<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn a_tasks_call_is_for_any_executor() {
    alone(|| {
        assert_eq!(block_on(blocking_async(|| 7)), 7);
        assert_eq!(drive(blocking_async(|| 7)), 7);
        let _bound = Bound::set(1);
        let calls: Vec<_> =
            (0..10).map(|number| thread::spawn(move || drive(blocking_async(move || number)))).collect();
        assert!(calls.into_iter().map(|call| call.join().unwrap()).eq(0..10));
    });
}

#[test]
fn a_panic_comes_out_in_the_task_and_the_thread_serves_on() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            for number in 1..=10 {
                let call = task::spawn(blocking_async(move || -> u32 { panic!("number {number}") }));
                let payload = call.join().unwrap_err().into_panic().unwrap();
                assert_eq!(message(&*payload), format!("number {number}"));
                assert_eq!(task::spawn(blocking_async(move || number + 1)).join().unwrap(), number + 1);
            }
        });
    });
}

/// Counts that it is dropped, and panics then if it is to.
struct Fragile(Arc<AtomicUsize>, bool);

impl Drop for Fragile {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
        assert!(!self.1, "a result that panics when it is dropped");
    }
}

/// Polls the call once, waits until it has begun, and drops its future; then lets it end.
fn abandon(panics: bool) {
    let dropped = Arc::new(AtomicUsize::new(0));
    let [begun, may_end, ended] = [const { AtomicBool::new(false) }; 3].map(Arc::new);
    {
        let result = Fragile(Arc::clone(&dropped), panics);
        let (begun, may_end, ended) = (Arc::clone(&begun), Arc::clone(&may_end), Arc::clone(&ended));
        let mut call = pin!(blocking_async(move || {
            begun.store(true, SeqCst);
            fixture::wait_until(|| may_end.load(SeqCst));
            ended.store(true, SeqCst);
            result
        }));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    fixture::wait_until(|| begun.load(SeqCst));
    assert_eq!(dropped.load(SeqCst), 0);
    may_end.store(true, SeqCst);
    fixture::wait_until(|| dropped.load(SeqCst) == 1);
    assert!(ended.load(SeqCst));
}

#[test]
fn a_call_whose_future_is_dropped_runs_to_its_end_and_its_result_is_dropped() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            abandon(false);
            let untouched = blocking_async(|| panic!("a future that is not polled does nothing"));
            drop::<std::pin::Pin<Box<dyn Future<Output = ()>>>>(Box::pin(untouched));
        });
    });
}

#[test]
fn a_result_that_panics_when_it_is_dropped_leaves_the_pool_whole() {
    everywhere(|runtime, _| {
        let _bound = Bound::set(1);
        runtime.run(|| {
            abandon(true);
            // The only thread that there may be still serves.
            assert_eq!(blocking(|| 7), 7);
        });
    });
}

#[test]
fn no_more_calls_of_tasks_than_the_bound_run_at_a_time() {
    const BOUND: usize = 3;
    everywhere(|runtime, _| {
        let _bound = Bound::set(BOUND);
        let [running, most, calls] = [const { AtomicUsize::new(0) }; 3].map(Arc::new);
        let barrier = Arc::new(Barrier::new(BOUND));
        runtime.run(|| {
            let tasks: Vec<_> = (0..10 * BOUND)
                .map(|_| {
                    let (running, most, calls) = (Arc::clone(&running), Arc::clone(&most), Arc::clone(&calls));
                    let barrier = Arc::clone(&barrier);
                    task::spawn(blocking_async(move || {
                        most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                        barrier.wait();
                        running.fetch_sub(1, SeqCst);
                        calls.fetch_add(1, SeqCst);
                    }))
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
        });
        assert_eq!(calls.load(SeqCst), 10 * BOUND);
        assert_eq!(most.load(SeqCst), BOUND);
    });
}

#[test]
fn calls_of_a_task_one_after_the_other_use_one_thread() {
    everywhere(|runtime, _| {
        // Ends the threads of other tests, except for one.
        drop(Bound::set(1));
        runtime.run(|| {
            let task = task::spawn(async {
                let mut threads = HashSet::new();
                for _ in 0..200 {
                    threads.insert(blocking_async(kernel_thread).await);
                }
                threads.len()
            });
            assert_eq!(task.join().unwrap(), 1);
        });
    });
}

#[test]
fn without_threads_a_tasks_call_runs_in_place() {
    let outcome = in_child!(Rerun::new(), || {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
        runtime.run(|| {
            let task = task::spawn(async {
                refuse_threads(true);
                let there = blocking_async(kernel_thread).await;
                refuse_threads(false);
                assert_eq!(there, kernel_thread());
            });
            task.join().unwrap();
        });
        println!("done in place");
    });
    outcome.assert_success("done in place");
}
