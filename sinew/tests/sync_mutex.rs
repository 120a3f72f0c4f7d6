//! `Mutex`: one holder at a time, and no waiter is forgotten.

mod fixture;

use fixture::{LONG, Random, alone, everywhere, happens_within, on_fibres_and_threads, wait_until, wherever};
use sinew::sync::{Condvar, Mutex, Policy, TryLockError};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

const POLICIES: [Policy; 3] = [Policy::Barge, Policy::Spin, Policy::HandOver];

const SHORT: Duration = Duration::from_millis(2);

/// Notices when two fibres are inside at once.
#[derive(Default)]
struct Room(AtomicBool);

impl Room {
    fn visit(&self, stay: impl FnOnce()) {
        assert!(!self.0.swap(true, Relaxed), "the lock is taken twice");
        stay();
        self.0.store(false, Relaxed);
    }
}

#[test]
fn ten_thousand_fibres_add_up_correctly() {
    wherever(
        |setup| setup.processors == 2,
        |rt, _| {
            for policy in POLICIES {
                let total = Mutex::with_policy(0, policy);
                on_fibres_and_threads(rt, 10_000, 0, |number| {
                    let mut total = total.lock().unwrap();
                    *total += 1;
                    // The others queue up meanwhile.
                    if number.is_multiple_of(100) {
                        sinew::yield_now();
                    }
                });
                assert_eq!(total.into_inner().unwrap(), 10_000);
            }
        },
    );
}

#[test]
fn one_holder_at_a_time_sees_the_changes_of_the_last_one() {
    const ROUNDS: usize = 40;
    everywhere(|rt, _| {
        for policy in POLICIES {
            let (total, room) = (Mutex::with_policy(0, policy), Room::default());
            on_fibres_and_threads(rt, 12, 2, |number| {
                for round in 0..ROUNDS {
                    let mut total = match (number + round) % 5 {
                        0 => total.lock_timeout(LONG).unwrap(),
                        _ => total.lock().unwrap(),
                    };
                    room.visit(|| {
                        let before = *total;
                        if (number + round).is_multiple_of(4) {
                            sinew::yield_now();
                        }
                        *total = before + 1;
                    });
                }
            });
            assert_eq!(total.into_inner().unwrap(), 14 * ROUNDS);
        }
    });
}

#[test]
fn waiting_for_a_lock_does_not_block_the_processor() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            for policy in POLICIES {
                let (mutex, waiting, other_ran) =
                    (Mutex::with_policy((), policy), AtomicUsize::new(0), AtomicBool::new(false));
                rt.run(|| {
                    sinew::scope(|scope| {
                        let held = mutex.lock().unwrap();
                        for _ in 0..3 {
                            scope.spawn(|| {
                                waiting.fetch_add(1, Relaxed);
                                drop(mutex.lock());
                            });
                        }
                        wait_until(|| waiting.load(Relaxed) == 3);
                        scope.spawn(|| other_ran.store(true, Relaxed));
                        wait_until(|| other_ran.load(Relaxed));
                        drop(held);
                    });
                });
            }
        },
    );
}

#[test]
fn a_mutex_is_poisoned_as_in_std() {
    macro_rules! story {
        ($mutex:expr, $of:ty) => {{
            let mut mutex: $of = $mutex;
            let mut story = vec![];
            let tell = |story: &mut Vec<String>, mutex: &$of| {
                story.push(format!("{mutex:?} {}", mutex.is_poisoned()));
                story.push(format!("{:?}", mutex.lock()));
                story.push(format!("{:?}", mutex.try_lock()));
            };
            tell(&mut story, &mutex);
            let fails = catch_unwind(AssertUnwindSafe(|| {
                let mut held = mutex.lock().unwrap();
                held.push(2);
                resume_unwind(Box::new(()));
            }));
            story.push(format!("{:?}", fails.is_err()));
            tell(&mut story, &mutex);
            story.push(format!("{:?}", mutex.get_mut()));
            mutex.lock().unwrap_err().into_inner().push(3);
            mutex.clear_poison();
            tell(&mut story, &mutex);
            story.push(format!("{:?}", mutex.get_mut()));
            let held = mutex.lock().unwrap();
            story.push(format!("{:?} {}", mutex.try_lock(), format!("{mutex:?}").contains("<locked>")));
            drop(held);
            // No poison: the holder locks and unlocks while it unwinds, or catches its own panic.
            struct LocksInDrop<F: FnMut()>(F);
            impl<F: FnMut()> Drop for LocksInDrop<F> {
                fn drop(&mut self) {
                    self.0();
                }
            }
            let fails = catch_unwind(AssertUnwindSafe(|| {
                let _locks = LocksInDrop(|| mutex.lock().unwrap().push(4));
                resume_unwind(Box::new(()));
            }));
            story.push(format!("{:?}", fails.is_err()));
            let held = mutex.lock().unwrap();
            story.push(format!("{:?}", catch_unwind(|| resume_unwind(Box::new(()))).map(|()| ()).is_err()));
            drop(held);
            tell(&mut story, &mutex);
            let fails = catch_unwind(AssertUnwindSafe(|| {
                let _held = mutex.lock();
                resume_unwind(Box::new(()));
            }));
            story.push(format!("{:?} {:?}", fails.is_err(), mutex.into_inner()));
            story
        }};
    }
    fn is_shared<T: Send + Sync + std::panic::RefUnwindSafe + std::panic::UnwindSafe>() {}
    is_shared::<Mutex<std::cell::Cell<u32>>>();
    let expected = story!(std::sync::Mutex::new(vec![1]), std::sync::Mutex<Vec<i32>>);
    everywhere(|rt, _| {
        for policy in POLICIES {
            assert_eq!(rt.run(|| story!(Mutex::with_policy(vec![1], policy), Mutex<Vec<i32>>)), expected);
        }
    });
    alone(|| assert_eq!(story!(Mutex::from(vec![1]), Mutex<Vec<i32>>), expected));
}

#[test]
fn waiters_get_a_poisoned_lock_when_its_holder_panics() {
    everywhere(|rt, _| {
        for policy in POLICIES {
            let (mutex, held, waiting) = (Mutex::with_policy(0, policy), AtomicBool::new(false), AtomicUsize::new(0));
            let poisoned = on_fibres_and_threads(rt, 5, 1, |number| {
                if number == 0 {
                    let fails = catch_unwind(AssertUnwindSafe(|| {
                        let _held = mutex.lock();
                        held.store(true, Relaxed);
                        wait_until(|| waiting.load(Relaxed) == 5);
                        (0..5).for_each(|_| sinew::yield_now());
                        resume_unwind(Box::new(()));
                    }));
                    return fails.is_err();
                }
                wait_until(|| held.load(Relaxed));
                waiting.fetch_add(1, Relaxed);
                let guard = if number == 1 { mutex.lock_timeout(LONG) } else { mutex.lock().map_err(Into::into) };
                match guard {
                    Err(TryLockError::Poisoned(error)) => {
                        *error.into_inner() += 1;
                        true
                    }
                    _ => false,
                }
            });
            assert_eq!(poisoned, [true; 6]);
            assert_eq!(mutex.into_inner().unwrap_err().into_inner(), 5);
        }
    });
}

#[test]
fn a_lock_with_a_limit_succeeds_in_time_or_fails() {
    everywhere(|rt, _| {
        for policy in POLICIES {
            let mutex = Mutex::with_policy(0, policy);
            let free = || {
                *mutex.lock_timeout(Duration::ZERO).unwrap() += 1;
                *mutex.lock_timeout(Duration::MAX).unwrap() += 1;
                *mutex.lock_deadline(Instant::now()).unwrap() += 1;
            };
            let taken = || {
                let began = Instant::now();
                assert!(matches!(mutex.lock_timeout(Duration::ZERO), Err(TryLockError::WouldBlock)));
                assert!(matches!(mutex.lock_deadline(began), Err(TryLockError::WouldBlock)));
                assert!(matches!(mutex.lock_timeout(SHORT), Err(TryLockError::WouldBlock)));
                assert!(matches!(mutex.lock_deadline(began + 2 * SHORT), Err(TryLockError::WouldBlock)));
                assert!(matches!(mutex.try_lock(), Err(TryLockError::WouldBlock)));
                assert!(began.elapsed() >= 2 * SHORT);
            };
            // The holder itself fails, too.
            rt.run(|| {
                free();
                let held = mutex.lock();
                taken();
                drop(held);
                free();
            });
            let held = mutex.lock();
            taken();
            rt.run(taken);
            drop(held);
            free();
            let waiting = AtomicUsize::new(0);
            rt.run(|| {
                sinew::scope(|scope| {
                    let held = mutex.lock();
                    for _ in 0..2 {
                        scope.spawn(|| {
                            waiting.fetch_add(1, Relaxed);
                            *mutex.lock_timeout(Duration::MAX).unwrap() += 1;
                        });
                    }
                    wait_until(|| waiting.load(Relaxed) == 2);
                    drop(held);
                });
            });
            assert_eq!(mutex.into_inner().unwrap(), 11);
        }
    });
}

/// The limits end at about the time of the release. A fibre that reports success has the lock
/// alone, and in the end the lock is free.
#[test]
fn a_limit_that_races_with_the_release_neither_loses_the_lock_nor_gives_it_twice() {
    const ROUNDS: usize = 120;
    let mut random = Random::new(0x10c_4ed);
    let limits: Vec<Duration> = (0..ROUNDS).map(|_| Duration::from_micros(random.below(60))).collect();
    wherever(
        |setup| setup.processors > 1,
        |rt, _| {
            for policy in POLICIES {
                let (mutex, room) = (Mutex::with_policy(0, policy), Room::default());
                let had = on_fibres_and_threads(rt, 6, 1, |number| {
                    let mut had = 0;
                    for round in 0..ROUNDS {
                        let limit = limits[(number * 17 + round) % ROUNDS];
                        if let Ok(mut held) = mutex.lock_timeout(limit) {
                            room.visit(|| {
                                let until = Instant::now() + limit / 4;
                                while Instant::now() < until {
                                    sinew::yield_now();
                                }
                            });
                            *held += 1;
                            had += 1;
                        }
                    }
                    had
                });
                assert_eq!(*mutex.try_lock().expect("the lock is not free in the end"), had.into_iter().sum::<usize>());
                // The queue holds no fibre that has given up.
                on_fibres_and_threads(rt, 4, 1, |_| *mutex.lock().unwrap() += 1);
            }
        },
    );
}

#[test]
fn no_waiter_starves_behind_fibres_that_lock_repeatedly() {
    /// A wait takes about 1 ms. This is ten thousand times as long.
    const LIMIT: Duration = Duration::from_secs(10);
    everywhere(|rt, setup| {
        for policy in POLICIES {
            let (mutex, ended) = (Mutex::with_policy((), policy), AtomicBool::new(false));
            rt.run(|| {
                sinew::scope(|scope| {
                    // These fibres never leave the lock free while another fibre of their processor
                    // could run.
                    for _ in 0..setup.processors {
                        scope.spawn(|| {
                            while !ended.load(Relaxed) {
                                let held = mutex.lock().unwrap();
                                sinew::yield_now();
                                drop(held);
                            }
                        });
                    }
                    let wanting = scope.spawn(|| {
                        for _ in 0..3 {
                            drop(mutex.lock_timeout(LIMIT).expect("starved"));
                            sinew::yield_now();
                        }
                    });
                    let result = wanting.join();
                    ended.store(true, Relaxed);
                    assert!(result.is_ok(), "{policy:?} starves");
                });
            });
        }
    });
}

/// Spawns fibres that wait for `mutex` one behind the other. Each pushes its number when it has the
/// lock.
fn queue_up<'scope, 'env>(
    scope: &'scope sinew::Scope<'scope, 'env>,
    count: usize,
    mutex: &'env Mutex<Vec<usize>>,
    entering: &'env AtomicUsize,
) {
    for number in 0..count {
        scope.spawn(move || {
            entering.fetch_add(1, Relaxed);
            mutex.lock().unwrap().push(number);
        });
        // On one processor, the fibre runs until it waits.
        wait_until(|| entering.load(Relaxed) == number + 1);
    }
}

#[test]
fn hand_over_serves_in_order_of_arrival() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            let (mutex, entering) = (Mutex::with_policy(vec![], Policy::HandOver), AtomicUsize::new(0));
            rt.run(|| {
                sinew::scope(|scope| {
                    let mut held = mutex.lock().unwrap();
                    queue_up(scope, 20, &mutex, &entering);
                    held.push(100);
                    drop(held);
                    // The lock is not free for a newcomer.
                    assert!(mutex.try_lock().is_err());
                    mutex.lock().unwrap().push(200);
                });
            });
            let expected: Vec<usize> = [100].into_iter().chain(0..20).chain([200]).collect();
            assert_eq!(mutex.into_inner().unwrap(), expected);
        },
    );
}

#[test]
fn a_newcomer_may_barge() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            for policy in [Policy::Barge, Policy::Spin] {
                let barged = || {
                    let (mutex, entering) = (Mutex::with_policy(vec![], policy), AtomicUsize::new(0));
                    rt.run(|| {
                        sinew::scope(|scope| {
                            let held = mutex.lock().unwrap();
                            queue_up(scope, 3, &mutex, &entering);
                            drop(held);
                            mutex.lock().unwrap().push(200);
                        });
                    });
                    let order = mutex.into_inner().unwrap();
                    let waited: Vec<usize> = order.iter().copied().filter(|&number| number != 200).collect();
                    assert_eq!(waited, [0, 1, 2], "the waiters lost their order");
                    order[0] == 200
                };
                // A newcomer cannot barge after a wait of 1 ms, which happens on a busy machine.
                assert!(happens_within(Duration::from_secs(10), barged), "{policy:?}");
            }
        },
    );
}

#[test]
fn a_waiter_that_was_woken_in_vain_keeps_its_place() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            for policy in POLICIES {
                let (mutex, entering) = (Mutex::with_policy(vec![], policy), AtomicUsize::new(0));
                rt.run(|| {
                    sinew::scope(|scope| {
                        let mut held = mutex.lock().unwrap();
                        queue_up(scope, 4, &mutex, &entering);
                        // The first waiter is woken and finds the lock taken again.
                        for _ in 0..3 {
                            drop(held);
                            held = mutex.lock().unwrap();
                            (0..5).for_each(|_| sinew::yield_now());
                        }
                    });
                });
                assert_eq!(mutex.into_inner().unwrap(), [0, 1, 2, 3], "{policy:?}");
            }
        },
    );
}

#[test]
fn guards_may_be_dropped_in_any_order() {
    everywhere(|rt, _| {
        let mutexes: Vec<Mutex<usize>> = (0..6).map(Mutex::new).collect();
        rt.run(|| {
            let mut guards: Vec<_> = mutexes.iter().map(|mutex| Some(mutex.lock().unwrap())).collect();
            for (dropped, index) in [3, 0, 5, 1, 4, 2].into_iter().enumerate() {
                sinew::yield_now();
                guards[index] = None;
                assert_eq!(mutexes.iter().filter(|mutex| mutex.try_lock().is_ok()).count(), dropped + 1);
            }
        });
    });
}

#[test]
fn mutexes_and_condvars_may_be_statics() {
    static TOTAL: Mutex<usize> = Mutex::new(0);
    static GROWN: Condvar = Condvar::new();
    static BYTES: Mutex<[u8; 3]> = Mutex::with_policy([1, 2, 3], Policy::Spin);
    everywhere(|rt, _| {
        *TOTAL.lock().unwrap() = 0;
        let waiting: Vec<_> = (0..3)
            .map(|_| rt.spawn(|| *GROWN.wait_while(TOTAL.lock().unwrap(), |total| *total < 20).unwrap()))
            .collect();
        let adding: Vec<_> = (0..20)
            .map(|_| {
                rt.spawn(|| {
                    *TOTAL.lock().unwrap() += 1;
                    GROWN.notify_all();
                })
            })
            .collect();
        adding.into_iter().for_each(|fibre| fibre.join().unwrap());
        assert!(waiting.into_iter().all(|fibre| fibre.join().unwrap() == 20));
        let slice: &Mutex<[u8]> = &BYTES;
        assert_eq!(slice.lock().unwrap().len(), 3);
    });
}

#[test]
fn a_fibre_that_is_suspended_while_it_unwinds_poisons_only_its_own_locks() {
    /// Lets other fibres run while its fibre unwinds.
    struct Yields(Arc<AtomicBool>);
    impl Drop for Yields {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
            (0..50).for_each(|_| sinew::yield_now());
        }
    }
    everywhere(|rt, _| {
        let (its_own, anothers) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let unwinds = Arc::new(AtomicBool::new(false));
        let (lock, sees) = (Arc::clone(&anothers), Arc::clone(&unwinds));
        let innocent = rt.spawn(move || {
            let guard = lock.lock().unwrap();
            wait_until(|| sees.load(Relaxed));
            drop(guard);
            drop(lock.lock().unwrap());
        });
        let (lock, begins) = (Arc::clone(&its_own), Arc::clone(&unwinds));
        let guilty = rt.spawn(move || {
            let _guard = lock.lock().unwrap();
            let _yields = Yields(begins);
            resume_unwind(Box::new(()));
        });
        guilty.join().unwrap_err();
        innocent.join().unwrap();
        assert!(its_own.is_poisoned());
        assert!(!anothers.is_poisoned());
    });
}
