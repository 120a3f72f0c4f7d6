//! Scopes of fibres: fibres that borrow from their spawner.

mod fixture;

use fixture::{LONG, alone, everywhere, everywhere_owning, message, wait_until};
use sinew::cancel::{self, Cancelled};
use sinew::task::TaskBuilder;
use sinew::time;
use sinew::{FibreBuilder, Runtime, ScopedJoinHandle};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Runs `f` and returns the message of its panic.
fn panic_of(f: impl FnOnce()) -> String {
    message(&*catch_unwind(AssertUnwindSafe(f)).unwrap_err())
}

#[test]
fn fibres_may_borrow_values_that_outlive_the_scope() {
    everywhere(|rt, _| {
        let words = [String::from("one"), String::from("three")];
        let lengths = rt.run(|| {
            sinew::scope(|scope| {
                let lengths: Vec<_> = words.iter().map(|word| scope.spawn(move || (word, word.len()))).collect();
                lengths.into_iter().map(|length| length.join().unwrap()).collect::<Vec<_>>()
            })
        });
        assert_eq!(lengths, [(&words[0], 3), (&words[1], 5)]);
    });
}

#[test]
fn fibres_may_change_disjoint_parts_of_a_value() {
    everywhere(|rt, _| {
        let mut numbers = [0u64; 1000];
        rt.run(|| {
            sinew::scope(|scope| {
                for (part, chunk) in numbers.chunks_mut(10).enumerate() {
                    scope.spawn(move || {
                        for (place, number) in chunk.iter_mut().enumerate() {
                            *number = (10 * part + place) as u64;
                            sinew::yield_now();
                        }
                    });
                }
            });
            // The scope has waited for all of them, joined or not.
            assert!(numbers.iter().copied().eq(0..1000));
            numbers[0] = 7;
        });
        assert_eq!(numbers[0], 7);
    });
}

#[test]
fn join_returns_a_panic_and_the_scope_does_not() {
    everywhere(|rt, _| {
        let (payload, other) = rt.run(|| {
            sinew::scope(|scope| {
                let panicking: ScopedJoinHandle<'_, ()> = scope.spawn(|| resume_unwind(Box::new(9u8)));
                let other = scope.spawn(|| 4);
                (panicking.join().unwrap_err(), other.join().unwrap())
            })
        });
        assert_eq!((*payload.downcast::<u8>().unwrap(), other), (9, 4));
    });
}

#[test]
fn a_panic_that_was_not_joined_leaves_the_scope_at_its_end() {
    everywhere(|rt, _| {
        for handle_outlives_fibre in [false, true] {
            let finished = AtomicUsize::new(0);
            let said = panic_of(|| {
                rt.run(|| {
                    sinew::scope(|scope| {
                        let panicking = scope.spawn(|| resume_unwind(Box::new("lost")));
                        if handle_outlives_fibre {
                            wait_until(|| panicking.is_finished());
                        }
                        drop::<ScopedJoinHandle<'_, ()>>(panicking);
                        for yields in 0..20 {
                            let finished = &finished;
                            scope.spawn(move || {
                                (0..yields).for_each(|_| sinew::yield_now());
                                finished.fetch_add(1, Ordering::Relaxed);
                            });
                        }
                    });
                });
            });
            assert_eq!(said, "a scoped fibre panicked");
            assert_eq!(finished.load(Ordering::Relaxed), 20);
        }
    });
}

#[test]
fn a_panic_whose_handle_was_forgotten_leaves_the_scope_too() {
    everywhere(|rt, _| {
        let said = catch_unwind(AssertUnwindSafe(|| {
            rt.run(|| {
                sinew::scope(|scope| {
                    let panicking = scope.spawn(|| resume_unwind(Box::new("lost")));
                    std::mem::forget::<ScopedJoinHandle<'_, ()>>(panicking);
                });
            });
        }));
        assert!(said.is_err(), "the panic was lost");
    });
}

#[test]
fn a_scope_whose_closure_panics_still_waits_for_its_fibres() {
    everywhere(|rt, _| {
        let finished = AtomicUsize::new(0);
        let said = panic_of(|| {
            rt.run(|| {
                sinew::scope(|scope| {
                    for wait in 0..10 {
                        let finished = &finished;
                        scope.spawn(move || {
                            sinew::sleep(Duration::from_micros(200 * wait));
                            finished.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                    resume_unwind(Box::new("closure"));
                });
            });
        });
        assert_eq!((said.as_str(), finished.load(Ordering::Relaxed)), ("closure", 10));
    });
}

#[test]
fn a_panic_cancels_the_fibres_that_the_scope_waits_for() {
    everywhere(|rt, _| {
        for panics_late in [false, true] {
            let slept = Mutex::new(Vec::new());
            let said = panic_of(|| {
                rt.run(|| {
                    let closing = AtomicBool::new(false);
                    sinew::scope(|scope| {
                        for _ in 0..10 {
                            scope.spawn(|| {
                                let ended = time::try_sleep(LONG);
                                slept.lock().unwrap().push(ended);
                            });
                        }
                        let panicking: ScopedJoinHandle<'_, ()> = scope.spawn(|| {
                            wait_until(|| !panics_late || closing.load(Ordering::Relaxed));
                            resume_unwind(Box::new("lost"))
                        });
                        if !panics_late {
                            wait_until(|| panicking.is_finished());
                        }
                        closing.store(true, Ordering::Relaxed);
                    });
                });
            });
            assert_eq!(said, "a scoped fibre panicked");
            assert_eq!(slept.into_inner().unwrap(), [Err(Cancelled::Requested); 10]);
        }
    });
}

#[test]
fn a_panic_of_the_closure_cancels_the_fibres() {
    everywhere(|rt, _| {
        let slept = Mutex::new(None);
        let said = panic_of(|| {
            rt.run(|| {
                sinew::scope(|scope| {
                    scope.spawn(|| *slept.lock().unwrap() = Some(time::try_sleep(LONG)));
                    resume_unwind(Box::new("closure"));
                });
            });
        });
        assert_eq!((said.as_str(), slept.into_inner().unwrap()), ("closure", Some(Err(Cancelled::Requested))));
    });
}

#[test]
fn a_panic_cancels_nothing_before_the_closure_ends_or_if_it_was_joined() {
    everywhere(|rt, _| {
        rt.run(|| {
            let go = AtomicBool::new(false);
            let checked = sinew::scope(|scope| {
                let other = scope.spawn(|| {
                    wait_until(|| go.load(Ordering::Relaxed));
                    cancel::check()
                });
                let panicking: ScopedJoinHandle<'_, ()> = scope.spawn(|| resume_unwind(Box::new("joined")));
                assert!(panicking.join().is_err());
                // One that ends after the closure of the scope.
                scope.spawn(|| {
                    go.store(true, Ordering::Relaxed);
                    assert_eq!(other.join().unwrap(), Ok(()));
                });
                cancel::check()
            });
            assert_eq!(checked, Ok(()));
        });
    });
}

#[test]
fn the_panic_of_the_closure_wins_over_panics_of_its_fibres() {
    everywhere(|rt, _| {
        let said = panic_of(|| {
            rt.run(|| {
                sinew::scope(|scope| {
                    scope.spawn(|| resume_unwind(Box::new("fibre")));
                    resume_unwind(Box::new("closure"));
                });
            });
        });
        assert_eq!(said, "closure");
    });
}

#[test]
fn scopes_nest() {
    fn sum(numbers: &[u32]) -> u32 {
        if numbers.len() < 4 {
            return numbers.iter().sum();
        }
        let (left, right) = numbers.split_at(numbers.len() / 2);
        sinew::scope(|scope| {
            let left = scope.spawn(|| sum(left));
            sum(right) + left.join().unwrap()
        })
    }
    everywhere(|rt, _| {
        let numbers: Vec<u32> = (0..500).collect();
        assert_eq!(rt.run(|| sum(&numbers)), numbers.iter().sum::<u32>());
    });
}

#[test]
fn fibres_of_a_scope_may_spawn_into_it() {
    everywhere(|rt, _| {
        let count = AtomicUsize::new(0);
        rt.run(|| {
            sinew::scope(|scope| {
                for _ in 0..10 {
                    scope.spawn(|| {
                        sinew::yield_now();
                        for _ in 0..10 {
                            scope.spawn(|| count.fetch_add(1, Ordering::Relaxed));
                        }
                    });
                }
            });
        });
        assert_eq!(count.load(Ordering::Relaxed), 100);
    });
}

#[test]
fn a_scope_on_a_kernel_thread_can_spawn_only_on_a_named_cluster() {
    alone(|| {
        let said = panic_of(|| sinew::scope(|scope| drop(scope.spawn(|| ()))));
        assert!(said.contains("sinew::run"), "{said}");
        assert_eq!(sinew::scope(|_| 5), 5, "an empty scope needs no runtime");
    });
    everywhere(|rt, _| {
        let mut numbers = [0; 50];
        sinew::scope(|scope| {
            for (n, number) in numbers.iter_mut().enumerate() {
                let builder = FibreBuilder::new().cluster(rt.main_cluster());
                drop(builder.spawn_scoped(scope, move || *number = n).unwrap());
            }
        });
        assert!(numbers.into_iter().eq(0..50));
    });
}

#[test]
fn a_handle_may_outlive_the_closure_of_its_scope() {
    everywhere(|rt, _| {
        let (text, returned) = (String::from("borrowed"), AtomicBool::new(false));
        let received = Mutex::new(None);
        rt.run(|| {
            sinew::scope(|scope| {
                let returned = &returned;
                let text = text.as_str();
                let slow = scope.spawn(move || {
                    wait_until(|| returned.load(Ordering::Relaxed));
                    text
                });
                // Joins long after the closure below has returned.
                scope.spawn(|| *received.lock().unwrap() = Some(slow.join().unwrap()));
                let _at_the_end = SetOnDrop(returned);
            });
        });
        assert_eq!(received.into_inner().unwrap(), Some("borrowed"));
    });
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn scoped_handles_know_their_fibre_and_whether_it_has_finished() {
    everywhere(|rt, _| {
        rt.run(|| {
            let go = AtomicBool::new(false);
            sinew::scope(|scope| {
                let builder = FibreBuilder::new().name("scoped");
                let handle = builder.spawn_scoped(scope, || {
                    while !go.load(Ordering::Relaxed) {
                        sinew::park();
                    }
                });
                let handle = handle.unwrap();
                assert_eq!((handle.fibre().name(), handle.is_finished()), (Some("scoped"), false));
                go.store(true, Ordering::Relaxed);
                handle.fibre().unpark();
                wait_until(|| handle.is_finished());
                handle.join().unwrap();
            });
        });
    });
}

/// Panics when it is dropped.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        resume_unwind(Box::new("grenade"));
    }
}

#[test]
fn a_refused_closure_whose_destructor_panics_does_not_block_its_scope() {
    everywhere(|rt, _| {
        let said = rt.run(|| {
            sinew::scope(|scope| {
                let grenade = Grenade;
                panic_of(|| {
                    let builder = FibreBuilder::new().name("a NUL byte: \0");
                    let _ = builder.spawn_scoped(scope, move || drop(grenade));
                })
            })
        });
        assert_eq!(said, "grenade");
    });
}

/// What a task is told that blocks.
const REFUSAL: &str = "a task may not block its processor";

#[test]
fn a_task_is_refused_before_its_scope_lends_anything() {
    everywhere(|rt, _| {
        let task = rt.run(|| {
            sinew::task::spawn(async {
                let lent = AtomicBool::new(false);
                let said = [
                    panic_of(|| sinew::scope(|scope| drop(scope.spawn(|| lent.store(true, Ordering::Relaxed))))),
                    panic_of(|| {
                        sinew::thread::scope(|scope| drop(scope.spawn(|| lent.store(true, Ordering::Relaxed))))
                    }),
                    panic_of(|| sinew::scope(|_| lent.store(true, Ordering::Relaxed))),
                ];
                (said, lent.into_inner())
            })
        });
        let (said, lent) = task.join().unwrap();
        assert!(said.iter().all(|said| said.contains(REFUSAL)), "{said:?}");
        assert!(!lent, "the scope was entered");
    });
}

#[test]
fn a_task_is_refused_before_a_runtime_borrows_from_it() {
    everywhere_owning(|rt, setup| {
        let (rt, other) = (Arc::new(rt), Arc::new(setup.build()));
        let task = |runtime: &Arc<Runtime>| {
            let runtime = Arc::clone(runtime);
            async move {
                let mut lent = false;
                let said = panic_of(|| runtime.run(|| lent = true));
                (said, lent)
            }
        };
        for runtime in [&rt, &other] {
            let task = TaskBuilder::new().cluster(rt.main_cluster()).spawn(task(runtime));
            let (said, lent) = task.unwrap().join().unwrap();
            assert!(said.contains(REFUSAL), "{said}");
            assert!(!lent, "the closure was run");
        }
    });
}

/// More bytes than processors keep for the records of the next fibres, a few hundred each.
const KEPT_FOR_RECORDS: usize = 1 << 20;

#[test]
fn thousands_of_scopes_take_no_more_memory_than_a_few() {
    everywhere(|rt, _| {
        let scopes = |count: u32| {
            for _ in 0..count {
                sinew::scope(|scope| {
                    let handles = [1, 2, 3].map(|n| scope.spawn(move || n));
                    assert_eq!(handles.map(|handle| handle.join().unwrap()), [1, 2, 3]);
                    scope.spawn(|| ());
                });
            }
        };
        rt.run(|| {
            scopes(10);
            let before = sinew::memory::usage().record_bytes;
            scopes(3000);
            let more = sinew::memory::usage().record_bytes - before;
            assert!(more < KEPT_FOR_RECORDS, "12,000 fibres, one after the other, left {more} bytes");
        });
    });
}

#[test]
fn a_thousand_scopes_run_one_after_the_other() {
    everywhere(|rt, _| {
        let total = rt.run(|| {
            (0..1000u64).fold(0, |total, round| {
                let parts = [round, 1, 2];
                let mut sums = [0; 3];
                sinew::scope(|scope| {
                    for (sum, part) in sums.iter_mut().zip(&parts) {
                        scope.spawn(move || *sum = *part);
                    }
                });
                total + sums.iter().sum::<u64>()
            })
        });
        assert_eq!(total, (0..1000).sum::<u64>() + 3000);
    });
}

#[test]
fn a_token_of_the_owner_does_not_end_its_scope_early() {
    everywhere(|rt, _| {
        let finished = AtomicBool::new(false);
        rt.run(|| {
            let owner = sinew::current();
            sinew::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..100 {
                        owner.unpark();
                        sinew::yield_now();
                    }
                    finished.store(true, Ordering::Relaxed);
                });
            });
            assert!(finished.load(Ordering::Relaxed));
        });
    });
}
