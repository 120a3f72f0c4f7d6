//! Calls that block a kernel thread, on the blocking pool.
#![allow(unsafe_code)]

#[macro_use]
mod fixture;

use fixture::rerun::Rerun;
use fixture::{Random, SOON, alone, everywhere, happens_within, kernel_thread, message, wherever};
use sinew::io::{BLOCKING_THREADS, set_blocking_threads};
use sinew::{Runtime, blocking};
use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
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
        let runtime = Runtime::builder().processors(2).build().unwrap();
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
        let runtime = Runtime::builder().processors(2).build().unwrap();
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
        let runtime = Runtime::builder().processors(1).build().unwrap();
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
        let runtime = Runtime::builder().processors(1).build().unwrap();
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
        let runtime = Runtime::builder().processors(2).build().unwrap();
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
