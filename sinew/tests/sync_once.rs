//! `Once`, `OnceLock` and `LazyLock`: one caller is first, the others wait for it.

mod fixture;

use fixture::{LONG, Random, alone, everywhere, message, on_fibres_and_threads, wait_until, wherever};
use sinew::sync::{LazyLock, Once, OnceLock};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

/// Returns the message of the panic of `f`. Does not print the panics that the tests expect.
fn panic_of<T>(f: impl FnOnce() -> T) -> String {
    static QUIET: std::sync::Once = std::sync::Once::new();
    QUIET.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let words = message(info.payload());
            if !words.contains("previously been poisoned") && !words.contains("waits for the Once") {
                loud(info);
            }
        }));
    });
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => "no panic".to_owned(),
        Err(payload) => message(&*payload),
    }
}

fn fail<T>() -> T {
    resume_unwind(Box::new("failed"))
}

#[test]
fn one_closure_is_called_and_all_callers_wait_for_it() {
    everywhere(|rt, _| {
        let (once, calls, ended) = (Once::new(), AtomicUsize::new(0), AtomicBool::new(false));
        let f = |_| {
            once.call_once(|| {
                calls.fetch_add(1, Relaxed);
                (0..20).for_each(|_| sinew::yield_now());
                ended.store(true, Relaxed);
            });
            once.is_completed() && ended.load(Relaxed)
        };
        assert!(on_fibres_and_threads(rt, 200, 3, f).into_iter().all(|seen| seen));
        assert_eq!(calls.into_inner(), 1);
    });
}

#[test]
fn waiting_for_a_once_does_not_block_the_processor() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            let (once, waiters, other_ran) = (Once::new(), AtomicUsize::new(0), AtomicBool::new(false));
            rt.run(|| {
                sinew::scope(|scope| {
                    scope.spawn(|| once.call_once(|| wait_until(|| other_ran.load(Relaxed))));
                    for number in 0..4 {
                        let (once, waiters) = (&once, &waiters);
                        scope.spawn(move || {
                            waiters.fetch_add(1, Relaxed);
                            if number % 2 == 0 { once.wait() } else { once.call_once(|| ()) }
                        });
                    }
                    wait_until(|| waiters.load(Relaxed) == 4);
                    // The waiters have had a turn since.
                    (0..10).for_each(|_| sinew::yield_now());
                    scope.spawn(|| other_ran.store(true, Relaxed));
                });
            });
            assert!(once.is_completed());
        },
    );
}

#[test]
fn a_once_is_poisoned_as_in_std() {
    macro_rules! story {
        ($once:expr) => {{
            let once = $once;
            let mut story = vec![format!("{}", once.is_completed())];
            let states = std::sync::Mutex::new(vec![]);
            story.push(panic_of(|| once.call_once(|| fail())));
            story.push(panic_of(|| once.call_once(|| unreachable!())));
            story.push(panic_of(|| once.wait()));
            story.push(panic_of(|| {
                once.call_once_force(|state| {
                    states.lock().unwrap().push(format!("{state:?}, {}", state.is_poisoned()));
                    fail()
                })
            }));
            story.push(format!("{}", once.is_completed()));
            once.call_once_force(|state| states.lock().unwrap().push(format!("{state:?}")));
            story.push(format!("{}", once.is_completed()));
            once.call_once(|| unreachable!());
            once.call_once_force(|_| unreachable!());
            once.wait();
            once.wait_force();
            story.extend(states.into_inner().unwrap());
            story
        }};
    }
    let expected = story!(std::sync::Once::new());
    everywhere(|rt, _| assert_eq!(rt.run(|| story!(Once::new())), expected));
    alone(|| assert_eq!(story!(Once::new()), expected));
}

#[test]
fn a_forced_wait_with_a_limit_does_not_mind_poison() {
    everywhere(|rt, _| {
        let once = Arc::new(Once::new());
        panic_of(|| once.call_once(fail));
        assert_eq!(panic_of(|| once.wait_timeout(Duration::ZERO)), "Once instance has previously been poisoned");
        assert!(!once.wait_force_timeout(Duration::ZERO));
        assert!(!once.wait_force_deadline(Instant::now()));
        let its = Arc::clone(&once);
        let waits = rt.spawn(move || its.wait_force_timeout(LONG) && its.wait_force_deadline(Instant::now() + LONG));
        once.call_once_force(|_| ());
        assert!(waits.join().unwrap());
    });
}

#[test]
fn waiters_learn_that_the_closure_panicked() {
    everywhere(|rt, _| {
        let (once, begun, waiters) = (Once::new(), AtomicBool::new(false), AtomicUsize::new(0));
        let arrives = || {
            wait_until(|| begun.load(Relaxed));
            waiters.fetch_add(1, Relaxed);
        };
        let poisoned = "Once instance has previously been poisoned";
        rt.run(|| {
            sinew::scope(|scope| {
                let panicking = scope.spawn(|| {
                    panic_of(|| {
                        once.call_once(|| {
                            begun.store(true, Relaxed);
                            wait_until(|| waiters.load(Relaxed) == 3);
                            (0..5).for_each(|_| sinew::yield_now());
                            fail()
                        })
                    })
                });
                let calling = scope.spawn(|| {
                    arrives();
                    panic_of(|| once.call_once(|| unreachable!()))
                });
                let waiting = scope.spawn(|| {
                    arrives();
                    panic_of(|| once.wait())
                });
                let stubborn = scope.spawn(|| {
                    arrives();
                    once.wait_force();
                    once.is_completed()
                });
                assert_eq!(panicking.join().unwrap(), "failed");
                assert_eq!(calling.join().unwrap(), poisoned);
                assert_eq!(waiting.join().unwrap(), poisoned);
                assert!(!stubborn.is_finished());
                once.call_once_force(|state| assert!(state.is_poisoned()));
                assert!(stubborn.join().unwrap());
            });
        });
    });
}

#[test]
fn a_waiting_call_once_force_takes_over_after_a_panic() {
    everywhere(|rt, _| {
        let (once, begun, calls) = (Once::new(), AtomicBool::new(false), AtomicUsize::new(0));
        rt.run(|| {
            sinew::scope(|scope| {
                scope.spawn(|| {
                    panic_of(|| {
                        once.call_once(|| {
                            begun.store(true, Relaxed);
                            (0..20).for_each(|_| sinew::yield_now());
                            fail()
                        })
                    })
                });
                wait_until(|| begun.load(Relaxed));
                for _ in 0..10 {
                    scope.spawn(|| {
                        once.call_once_force(|state| {
                            assert!(state.is_poisoned());
                            sinew::yield_now();
                            calls.fetch_add(1, Relaxed);
                        });
                        assert_eq!(calls.load(Relaxed), 1);
                    });
                }
            });
        });
        assert!(once.is_completed());
    });
}

#[test]
fn a_closure_that_waits_for_its_own_once_panics() {
    const WORDS: &str = "a closure waits for the Once that has called it";
    let body = || {
        let waits_longer = |once: &Once| assert!(once.wait_timeout(LONG));
        let calls: [fn(&Once); 4] = [|once| once.call_once(|| ()), Once::wait, Once::wait_force, waits_longer];
        for inner in calls {
            let once = Once::new();
            assert_eq!(panic_of(|| once.call_once(|| inner(&once))), WORDS);
            assert!(!once.is_completed());
            once.call_once_force(|state| assert!(state.is_poisoned()));
        }
        let place = OnceLock::new();
        assert_eq!(panic_of(|| place.get_or_init(|| *place.get_or_init(|| 1))), WORDS);
        assert_eq!(panic_of(|| place.get_or_init(|| place.set(2).map_or(3, |()| 4))), WORDS);
        assert_eq!(*place.get_or_init(|| 5), 5);
        // The closure may ask for the state, and may use another `Once`.
        let (outer, inner) = (OnceLock::new(), OnceLock::new());
        assert_eq!(*outer.get_or_init(|| *inner.get_or_init(|| outer.get().map_or(5, |&n: &i32| n))), 5);
    };
    everywhere(|rt, _| rt.run(body));
    alone(body);
}

#[test]
fn a_wait_ends_at_its_limit_or_when_the_closure_is_done() {
    everywhere(|rt, _| {
        let (once, place) = (Once::new(), OnceLock::new());
        let body = || {
            let began = Instant::now();
            let short = Duration::from_millis(2);
            assert!(!once.wait_timeout(Duration::ZERO) && !once.wait_timeout(short));
            assert!(!once.wait_deadline(began));
            assert_eq!((place.wait_timeout(short), place.wait_deadline(began)), (None, None));
            assert!(began.elapsed() >= 2 * short);
        };
        rt.run(body);
        body();
        let waiting =
            || once.wait_timeout(LONG) && once.wait_timeout(Duration::MAX) && place.wait_timeout(LONG) == Some(&7);
        rt.run(|| {
            sinew::scope(|scope| {
                let waiting = scope.spawn(waiting);
                sinew::yield_now();
                once.call_once(|| ());
                sinew::yield_now();
                place.set(7).unwrap();
                assert!(waiting.join().unwrap());
            });
        });
        assert!(waiting() && once.wait_timeout(Duration::ZERO) && place.wait_deadline(Instant::now()).is_some());
    });
}

#[test]
fn a_wait_whose_limit_races_with_the_end_reports_the_truth() {
    const ROUNDS: usize = 60;
    let mut random = Random::new(0x0dd_ba11);
    let limits: Vec<Duration> = (0..ROUNDS).map(|_| Duration::from_micros(random.below(120))).collect();
    wherever(
        |setup| setup.processors == 2,
        |rt, _| {
            for &limit in &limits {
                let place = OnceLock::new();
                let f = || place.wait_timeout(limit).copied().or_else(|| place.wait_timeout(LONG).copied());
                rt.run(|| {
                    sinew::scope(|scope| {
                        let waiting: Vec<_> = (0..3).map(|_| scope.spawn(f)).collect();
                        sinew::sleep(limit / 2);
                        place.set(1).unwrap();
                        assert!(waiting.into_iter().all(|fibre| fibre.join().unwrap() == Some(1)));
                    });
                });
            }
        },
    );
}

#[test]
fn ten_thousand_racing_fibres_get_one_value() {
    wherever(
        |setup| setup.processors > 1,
        |rt, _| {
            let (place, calls) = (OnceLock::new(), AtomicUsize::new(0));
            let f = |_| {
                let value = place.get_or_init(|| {
                    calls.fetch_add(1, Relaxed);
                    (0..3).for_each(|_| sinew::yield_now());
                    vec![1, 2, 3]
                });
                assert_eq!(value, &[1, 2, 3]);
                std::ptr::from_ref(value).addr()
            };
            let mut addresses = on_fibres_and_threads(rt, 10_000, 2, f);
            addresses.dedup();
            assert_eq!((addresses.len(), calls.into_inner()), (1, 1));
        },
    );
}

#[test]
fn one_set_succeeds_and_the_others_return_their_value() {
    everywhere(|rt, _| {
        let (place, next) = (OnceLock::new(), AtomicUsize::new(0));
        let f = |_| {
            let mine = next.fetch_add(1, Relaxed);
            (mine, place.set(Box::new(mine)))
        };
        let (won, lost): (Vec<_>, Vec<_>) =
            on_fibres_and_threads(rt, 100, 2, f).into_iter().partition(|(_, result)| result.is_ok());
        assert!(lost.into_iter().all(|(mine, result)| *result.unwrap_err() == mine));
        assert_eq!(won.len(), 1);
        assert_eq!(**place.wait(), won[0].0);
    });
}

#[test]
fn a_once_lock_stays_empty_until_a_closure_succeeds() {
    everywhere(|rt, _| {
        let (place, attempts) = (OnceLock::new(), AtomicUsize::new(0));
        rt.run(|| {
            sinew::scope(|scope| {
                let waiting: Vec<_> = (0..5).map(|_| scope.spawn(|| *place.wait())).collect();
                assert_eq!(panic_of(|| place.get_or_init(fail)), "failed");
                assert_eq!(place.get(), None);
                let made: Vec<_> = (0..20)
                    .map(|_| {
                        scope.spawn(|| {
                            let make = || match attempts.fetch_add(1, Relaxed) {
                                0..5 => {
                                    sinew::yield_now();
                                    fail()
                                }
                                attempt => attempt,
                            };
                            catch_unwind(AssertUnwindSafe(|| *place.get_or_init(make))).ok()
                        })
                    })
                    .collect();
                let made: Vec<usize> = made.into_iter().filter_map(|fibre| fibre.join().unwrap()).collect();
                assert_eq!(made, [5; 15]);
                assert!(waiting.into_iter().all(|fibre| fibre.join().unwrap() == 5));
            });
        });
    });
}

#[test]
fn values_are_dropped_once() {
    struct Counted<'a>(&'a AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    alone(|| {
        let drops = AtomicUsize::new(0);
        let dropped = || drops.swap(0, Relaxed);
        let mut place = OnceLock::new();
        assert!(place.set(Counted(&drops)).is_ok());
        assert!(place.set(Counted(&drops)).is_err());
        assert_eq!(dropped(), 1, "the value that came too late is not dropped");
        drop(place.take());
        assert_eq!(dropped(), 1, "the value that was taken is not dropped");
        assert!(place.take().is_none());
        assert!(place.set(Counted(&drops)).is_ok(), "the place cannot be used again");
        drop(place.into_inner());
        assert_eq!(dropped(), 1, "the value inside is not dropped");
        drop(OnceLock::from(Counted(&drops)));
        drop(OnceLock::<Counted<'_>>::new());
        assert_eq!(dropped(), 1);
        let lazy = LazyLock::new(|| Counted(&drops));
        LazyLock::force(&lazy);
        drop(lazy);
        drop(LazyLock::new(|| Counted(&drops)));
        assert_eq!(dropped(), 1, "the value that was made is not dropped");
    });
}

#[test]
fn everything_else_is_as_in_std() {
    macro_rules! story {
        ($($sync:ident)::+) => {{
            use $($sync)::+::{LazyLock, OnceLock};
            let mut story = vec![];
            let mut place: OnceLock<String> = OnceLock::default();
            story.push(format!("{place:?} {:?} {:?}", place.get(), place.clone()));
            story.push(format!("{:?}", place.get_mut()));
            story.push(format!("{:?} {:?}", place.set("a".to_owned()), place.set("b".to_owned())));
            place.get_mut().unwrap().push('c');
            story.push(format!("{place:?} {:?} {:?}", place.clone(), place.get()));
            story.push(format!("{} {}", place == OnceLock::from("ac".to_owned()), place == OnceLock::new()));
            story.push(format!("{:?} {:?} {:?}", place.take(), place.take(), place.get_or_init(|| "d".to_owned())));
            story.push(format!("{:?} {:?}", place.clone().into_inner(), OnceLock::<u8>::new().into_inner()));
            let mut lazy: LazyLock<u32> = LazyLock::new(|| 7);
            story.push(format!("{lazy:?} {:?}", LazyLock::get(&lazy)));
            story.push(format!("{:?}", LazyLock::get_mut(&mut lazy)));
            *lazy += 1;
            *LazyLock::force_mut(&mut lazy) += 1;
            story.push(format!("{lazy:?} {:?} {:?} {}", LazyLock::get(&lazy), LazyLock::force(&lazy), *lazy));
            let lazy: LazyLock<u32> = LazyLock::new(|| fail());
            story.extend([(); 3].map(|()| panic_of(|| *lazy)));
            story.push(format!("{lazy:?} {:?}", LazyLock::<String>::default().len()));
            story
        }};
    }
    fn is_shared<T: Send + Sync + std::panic::RefUnwindSafe + std::panic::UnwindSafe>() {}
    is_shared::<Once>();
    is_shared::<OnceLock<u32>>();
    is_shared::<LazyLock<u32>>();
    let expected = story!(std::sync);
    everywhere(|rt, _| assert_eq!(rt.run(|| story!(sinew::sync)), expected));
}

#[test]
fn the_first_user_makes_a_lazy_value() {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    static SHARED: LazyLock<usize> = LazyLock::new(|| {
        (0..10).for_each(|_| sinew::yield_now());
        MADE.fetch_add(1, Relaxed)
    });
    everywhere(|rt, _| {
        assert_eq!(on_fibres_and_threads(rt, 100, 3, |_| *SHARED), [0; 103]);
        let made = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&made);
        let lazy = LazyLock::new(move || {
            sinew::yield_now();
            counter.fetch_add(1, Relaxed)
        });
        assert_eq!(on_fibres_and_threads(rt, 100, 3, |_| *lazy), [0; 103]);
        assert_eq!(made.load(Relaxed), 1);
    });
    assert_eq!(MADE.load(Relaxed), 1);
}

#[test]
fn a_lazy_value_whose_closure_panicked_stays_poisoned() {
    everywhere(|rt, _| {
        let lazy: LazyLock<u32> = LazyLock::new(|| {
            (0..10).for_each(|_| sinew::yield_now());
            fail()
        });
        let mut words = on_fibres_and_threads(rt, 20, 2, |_| panic_of(|| *lazy));
        words.sort();
        assert_eq!(words.pop().unwrap(), "failed", "one tried");
        assert!(words.iter().all(|words| words == "LazyLock instance has previously been poisoned"));
    });
}

#[test]
fn a_lazy_value_that_needs_itself_panics() {
    static OWN: LazyLock<u32> = LazyLock::new(|| *OWN + 1);
    alone(|| {
        assert_eq!(panic_of(|| *OWN), "a closure waits for the Once that has called it");
        assert_eq!(panic_of(|| *OWN), "LazyLock instance has previously been poisoned");
    });
}
