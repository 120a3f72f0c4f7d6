//! Cancelling fibres, and limits on time.

mod fixture;

use fixture::{LONG, Random, everywhere, wait_until};
use sinew::FibreBuilder;
use sinew::cancel::{self, Cancelled};
use sinew::net::UnixStream;
use sinew::sync::{AcquireError, Semaphore};
use sinew::task::{self, JoinError, JoinSet};
use sinew::time::{self, Interval};
use std::future::pending;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);
#[test]
fn a_fibre_notices_a_cancellation_before_and_during_a_wait() {
    everywhere(|rt, _| {
        for early in [true, false] {
            let begun = Arc::new(AtomicBool::new(false));
            let (begins, go) = (Arc::clone(&begun), Arc::new(Semaphore::new(0)));
            let semaphore = Arc::clone(&go);
            let handle = rt.spawn(move || {
                if early {
                    // `wait` does not notice a cancellation.
                    semaphore.wait();
                }
                begins.store(true, Ordering::Relaxed);
                let slept = time::try_sleep(LONG);
                // The fibre stays cancelled.
                (slept, time::try_sleep(LONG), semaphore.wait_timeout(LONG), cancel::check())
            });
            if early {
                handle.fibre().cancel();
                assert!(handle.fibre().is_cancelled());
                go.post(1);
            } else {
                wait_until(|| begun.load(Ordering::Relaxed));
                assert!(!handle.fibre().is_cancelled());
                handle.fibre().cancel();
            }
            let requested = Err(Cancelled::Requested);
            assert_eq!(handle.join().unwrap(), (requested, requested, Err(AcquireError::Cancelled), requested));
        }
    });
}

#[test]
fn no_cancellation_is_missed_whenever_it_comes() {
    everywhere(|rt, setup| {
        let mut random = Random::new(0x5eed_0061 + setup.processors as u64);
        for _ in 0..300 {
            let handle = rt.spawn(|| while time::try_sleep(Duration::from_micros(20)).is_ok() {});
            let began = Instant::now();
            let delay = Duration::from_micros(random.below(60));
            while began.elapsed() < delay {}
            handle.fibre().cancel();
            assert!(handle.join_timeout(LONG).is_ok());
        }
    });
}

#[test]
fn a_permit_goes_to_the_next_waiter_when_the_first_is_cancelled() {
    everywhere(|rt, setup| {
        let mut random = Random::new(0x5eed_0062 + setup.processors as u64);
        let semaphore = Arc::new(Semaphore::new(0));
        for _ in 0..200 {
            let wait = || {
                let semaphore = Arc::clone(&semaphore);
                rt.spawn(move || semaphore.wait_timeout(LONG).is_ok())
            };
            let (first, second) = (wait(), wait());
            let spin = |microseconds| {
                let began = Instant::now();
                while began.elapsed() < Duration::from_micros(microseconds) {}
            };
            spin(random.below(20));
            let cancelled = first.fibre().clone();
            let canceller = rt.spawn(move || cancelled.cancel());
            spin(random.below(10));
            semaphore.post(1);
            canceller.join().unwrap();
            // One of the two has the permit. If the first has it, the second needs another one.
            let got = first.join().unwrap();
            if got {
                semaphore.post(1);
            }
            assert!(second.join().unwrap());
            assert_eq!(semaphore.available(), 0);
        }
    });
}

#[test]
fn several_threads_may_cancel_one_fibre_at_once() {
    everywhere(|rt, _| {
        for _ in 0..50 {
            let handle = rt.spawn(|| time::try_sleep(LONG));
            let cancellers: Vec<_> = (0..4)
                .map(|_| {
                    let fibre = handle.fibre().clone();
                    rt.spawn(move || fibre.cancel())
                })
                .collect();
            handle.fibre().cancel();
            cancellers.into_iter().for_each(|canceller| canceller.join().unwrap());
            let fibre = handle.fibre().clone();
            assert_eq!(handle.join().unwrap(), Err(Cancelled::Requested));
            // Cancels a fibre that has finished.
            fibre.cancel();
        }
    });
}

#[test]
fn a_shield_hides_cancellations_and_outer_deadlines() {
    everywhere(|rt, _| {
        let began = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&began);
        let handle = rt.spawn(move || {
            let inside = time::timeout(Duration::ZERO, || {
                cancel::shield(|| {
                    begins.store(true, Ordering::Relaxed);
                    wait_until(|| sinew::current().is_cancelled());
                    let slept = time::try_sleep(MS);
                    // A limit that is set inside the shield counts.
                    let limited = time::timeout(MS, || time::try_sleep(LONG));
                    (slept, limited, cancel::check())
                })
            });
            (inside, cancel::check())
        });
        wait_until(|| began.load(Ordering::Relaxed));
        handle.fibre().cancel();
        let expected = ((Ok(()), Err(Cancelled::Overdue), Ok(())), Err(Cancelled::Requested));
        assert_eq!(handle.join().unwrap(), expected);
    });
}

#[test]
fn the_earliest_of_nested_limits_counts_and_each_ends_with_its_closure() {
    everywhere(|rt, _| {
        let check = || {
            let began = Instant::now();
            let inner = time::timeout(LONG, || time::timeout(5 * MS, || time::try_sleep(LONG)));
            assert_eq!(inner, Err(Cancelled::Overdue));
            assert!(began.elapsed() >= 5 * MS);
            let outer = time::timeout(5 * MS, || {
                let inner = time::deadline(Instant::now() + LONG, || time::try_sleep(LONG));
                (inner, time::try_sleep(Duration::ZERO), cancel::check())
            });
            let overdue = Err(Cancelled::Overdue);
            assert_eq!(outer, (overdue, overdue, overdue));
            assert_eq!((time::try_sleep(MS), cancel::check()), (Ok(()), Ok(())));
            // A panic ends a limit, too.
            let caught =
                std::panic::catch_unwind(|| time::timeout(Duration::ZERO, || std::panic::resume_unwind(Box::new(()))));
            assert!(caught.is_err() && cancel::check().is_ok());
            assert_eq!(time::timeout(Duration::MAX, || time::try_sleep(MS)), Ok(()));
        };
        rt.run(check);
        check();
    });
}

#[test]
fn a_scope_cancels_its_fibres() {
    everywhere(|rt, _| {
        rt.run(|| {
            let outcomes = sinew::scope(|scope| {
                let fibres: Vec<_> = (0..50).map(|_| scope.spawn(|| time::try_sleep(LONG))).collect();
                scope.cancel();
                // A fibre that is spawned after the cancellation is cancelled, too.
                let late = scope.spawn(|| time::try_sleep(LONG));
                fibres.into_iter().chain([late]).map(|fibre| fibre.join().unwrap()).collect::<Vec<_>>()
            });
            assert_eq!(outcomes, vec![Err(Cancelled::Requested); 51]);
            assert_eq!(cancel::check(), Ok(()), "the owner of the scope is cancelled, too");
        });
    });
}

#[test]
fn a_fibre_that_waits_for_scoped_fibres_passes_its_cancellation_on() {
    everywhere(|rt, _| {
        let nested = |joins: bool| {
            let ended = Arc::new(AtomicUsize::new(0));
            let begun = Arc::new(AtomicUsize::new(0));
            let (counts, begins) = (Arc::clone(&ended), Arc::clone(&begun));
            let leaf = move || {
                begins.fetch_add(1, Ordering::Relaxed);
                assert!(time::try_sleep(LONG).is_err());
                counts.fetch_add(1, Ordering::Relaxed);
            };
            let handle = rt.spawn(move || {
                sinew::scope(|outer| {
                    let child = outer.spawn(|| {
                        sinew::scope(|inner| {
                            let leaves = [inner.spawn(&leaf), inner.spawn(&leaf)];
                            if joins {
                                leaves.into_iter().for_each(|leaf| leaf.join().unwrap());
                            }
                        });
                    });
                    if joins {
                        child.join().unwrap();
                    }
                });
            });
            wait_until(|| begun.load(Ordering::Relaxed) == 2);
            handle.fibre().cancel();
            handle.join().unwrap();
            ended.load(Ordering::Relaxed)
        };
        assert_eq!((nested(true), nested(false)), (2, 2));
    });
}

/// Sleeps until a limit ends that. Returns why it ended, whether `deadline` had come then, and whether
/// the fibre had been cancelled.
fn sleep_until_ended(deadline: Instant) -> (Result<(), Cancelled>, bool, bool) {
    let slept = time::try_sleep(LONG);
    (slept, Instant::now() >= deadline, sinew::current().is_cancelled())
}

/// What `sleep_until_ended` returns if its fibre carries the deadline.
const OVERDUE: (Result<(), Cancelled>, bool, bool) = (Err(Cancelled::Overdue), true, false);

#[test]
fn each_of_400_scoped_fibres_sees_the_deadline_of_their_owner_itself() {
    everywhere(|rt, _| {
        let run = |joins: bool| {
            let deadline = Instant::now() + 20 * MS;
            let mut seen = [(Ok(()), false, false); 400];
            time::deadline(deadline, || {
                sinew::scope(|scope| {
                    let fibres = seen.iter_mut().map(|seen| {
                        let builder = FibreBuilder::new().cluster(rt.main_cluster());
                        builder.spawn_scoped(scope, move || *seen = sleep_until_ended(deadline)).unwrap()
                    });
                    let fibres: Vec<_> = fibres.collect();
                    if joins {
                        fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
                    }
                });
            });
            seen
        };
        for joins in [true, false] {
            assert_eq!(rt.run(|| run(joins)), [OVERDUE; 400]);
            // The owner may be a kernel thread.
            assert_eq!(run(joins), [OVERDUE; 400]);
        }
    });
}

#[test]
fn fibres_of_fibres_carry_the_deadline_and_the_earliest_one_counts() {
    everywhere(|rt, _| {
        rt.run(|| {
            let deadline = Instant::now() + 5 * MS;
            let sleep = || sleep_until_ended(deadline);
            let nested = time::deadline(deadline, || {
                sinew::scope(|outer| {
                    let child = outer.spawn(|| {
                        let inner = sinew::scope(|inner| inner.spawn(sleep).join().unwrap());
                        (inner, outer.spawn(sleep).join().unwrap())
                    });
                    child.join().unwrap()
                })
            });
            assert_eq!(nested, (OVERDUE, OVERDUE));
            // The limit of the fibre itself, of its spawner, and of its scope.
            let deadline = Instant::now() + 5 * MS;
            let sleep = || sleep_until_ended(deadline);
            let limited = || time::deadline(deadline, sleep);
            let own = time::timeout(LONG, || sinew::scope(|scope| scope.spawn(limited).join().unwrap()));
            let spawner = time::timeout(LONG, || {
                sinew::scope(|scope| time::deadline(deadline, || scope.spawn(sleep)).join().unwrap())
            });
            let of_scope = time::deadline(deadline, || {
                sinew::scope(|scope| cancel::shield(|| scope.spawn(sleep)).join().unwrap())
            });
            assert_eq!([own, spawner, of_scope], [OVERDUE; 3]);
        });
    });
}

#[test]
fn a_deadline_is_not_inherited_by_plain_fibres_nor_through_a_shield() {
    everywhere(|rt, _| {
        let checks = rt.run(|| {
            time::timeout(Duration::ZERO, || {
                let plain = sinew::spawn(cancel::check).join().unwrap();
                let shielded = cancel::shield(|| sinew::scope(|scope| scope.spawn(cancel::check).join().unwrap()));
                let inherited = sinew::scope(|scope| scope.spawn(cancel::check).join().unwrap());
                [plain, shielded, inherited]
            })
        });
        assert_eq!(checks, [Ok(()), Ok(()), Err(Cancelled::Overdue)]);
    });
}

#[test]
fn a_deadline_of_its_caller_counts_in_the_first_fibre_of_a_runtime() {
    everywhere(|rt, _| {
        let overdue = Err(Cancelled::Overdue);
        assert_eq!(time::timeout(Duration::ZERO, || rt.run(cancel::check)), overdue);
        assert_eq!(rt.run(|| time::timeout(Duration::ZERO, || rt.run(cancel::check))), overdue);
        assert_eq!(rt.run(cancel::check), Ok(()));
    });
}

#[test]
fn a_join_whose_time_is_up_cancels_a_fibre_that_does_not_carry_the_limit() {
    everywhere(|rt, _| {
        let slept = rt.run(|| {
            time::timeout(LONG, || {
                sinew::scope(|scope| {
                    let fibre = scope.spawn(|| time::try_sleep(LONG));
                    time::timeout(2 * MS, || fibre.join().unwrap())
                })
            })
        });
        assert_eq!(slept, Err(Cancelled::Requested));
    });
}

#[test]
fn a_socket_of_a_scoped_fibre_reports_an_inherited_deadline() {
    everywhere(|rt, _| {
        let error = rt.run(|| {
            let (mut ours, _theirs) = UnixStream::pair().unwrap();
            time::timeout(2 * MS, || sinew::scope(|scope| scope.spawn(|| ours.read(&mut [0])).join().unwrap()))
        });
        let error = error.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        assert_eq!(error.get_ref().unwrap().downcast_ref(), Some(&Cancelled::Overdue));
    });
}

#[test]
fn the_tasks_of_a_set_inherit_a_deadline() {
    everywhere(|rt, _| {
        let overdue = |set: &mut JoinSet<()>| {
            let ended = std::iter::from_fn(|| set.join_next());
            let overdue = ended.filter(|ended| ended.as_ref().is_err_and(JoinError::is_overdue));
            overdue.count()
        };
        rt.run(|| {
            let (mut set, deadline) = (JoinSet::new(), Instant::now() + 5 * MS);
            time::deadline(deadline, || {
                (0..400).for_each(|_| drop(set.spawn(pending())));
                set.spawn_local(pending());
            });
            // This one has no limit.
            set.spawn(async {});
            assert_eq!(overdue(&mut set), 401);
            assert!(Instant::now() >= deadline);
        });
    });
}

#[test]
fn tasks_of_tasks_inherit_a_deadline() {
    everywhere(|rt, _| {
        rt.run(|| {
            let inner = Arc::new(Mutex::new(JoinSet::<()>::new()));
            let spawning = || {
                let inner = Arc::clone(&inner);
                // Ready at its first poll, so the limit does not end it.
                async move {
                    inner.lock().unwrap().spawn(pending());
                    cancel::check()
                }
            };
            let mut outer = JoinSet::new();
            time::timeout(Duration::ZERO, || outer.spawn(spawning()));
            let in_set = outer.join_next().unwrap().unwrap();
            let alone = task::spawn(time::timeout_async(Duration::ZERO, spawning())).join().unwrap().unwrap();
            assert_eq!([in_set, alone], [Err(Cancelled::Overdue); 2]);
            let mut inner = inner.lock().unwrap();
            assert_eq!(inner.len(), 2);
            while let Some(ended) = inner.join_next() {
                assert!(ended.unwrap_err().is_overdue());
            }
            // Plain tasks have no limit, nor have others that run on the same kernel thread.
            let plain = time::timeout(Duration::ZERO, || task::spawn(async { cancel::check() }));
            assert_eq!(plain.join().unwrap(), Ok(()));
        });
    });
}

#[test]
fn ten_thousand_fibres_are_cancelled_at_once() {
    everywhere(|rt, _| {
        let semaphore = Arc::new(Semaphore::new(0));
        let wait = || {
            let semaphore = Arc::clone(&semaphore);
            move || semaphore.wait_timeout(LONG)
        };
        let handles: Vec<_> = (0..10_000).map(|_| rt.spawn(wait())).collect();
        handles.iter().for_each(|handle| handle.fibre().cancel());
        let cancelled = |outcome| outcome == Err(AcquireError::Cancelled);
        assert!(handles.into_iter().all(|handle| cancelled(handle.join().unwrap())));
        assert!(!semaphore.try_wait() && semaphore.available() == 0);
        semaphore.post(1);
        assert!(semaphore.try_wait(), "a cancelled fibre still waits");
    });
}

#[test]
fn operations_that_cannot_report_a_cancellation_work_in_a_cancelled_fibre() {
    everywhere(|rt, _| {
        let sum = rt.run(|| {
            sinew::current().cancel();
            // These calls have std's signatures, so they cannot report a cancellation.
            sinew::sleep(MS);
            sinew::yield_now();
            let joined = sinew::spawn(|| 7).join().unwrap();
            sinew::current().unpark();
            sinew::park();
            joined + sinew::sync::Mutex::new(1).lock().map(|guard| *guard).unwrap()
        });
        assert_eq!(sum, 8);
        sinew::current().cancel();
        assert_eq!(
            (cancel::check(), sinew::current().is_cancelled()),
            (Ok(()), false),
            "a kernel thread was cancelled"
        );
    });
}

#[test]
fn an_io_error_carries_the_reason_of_a_cancellation() {
    let kinds = [Cancelled::Requested, Cancelled::Overdue].map(|why| std::io::Error::from(why).kind());
    assert_eq!(kinds, [std::io::ErrorKind::Other, std::io::ErrorKind::TimedOut]);
    let error = std::io::Error::from(Cancelled::Overdue);
    assert_eq!(error.get_ref().unwrap().downcast_ref(), Some(&Cancelled::Overdue));
}

#[test]
fn an_interval_keeps_its_period_and_skips_missed_ticks() {
    everywhere(|rt, _| {
        let check = || {
            let first = Instant::now();
            let mut clock = Interval::starting_at(first, 2 * MS);
            let ticks: Vec<_> = (0..4).map(|_| clock.tick()).collect();
            assert!(Instant::now() >= first + 6 * MS);
            assert!(ticks.iter().all(|tick| ((*tick - first).as_nanos() as u64).is_multiple_of(2_000_000)));
            assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]));
            sinew::sleep(11 * MS);
            // One tick stands for all that were missed. The next one comes when it would have come
            // anyway.
            let (late, next) = (clock.tick(), clock.tick());
            assert!(next - late >= 10 * MS);
            clock.reset();
            assert!(clock.tick() > next);
            let ended = time::timeout(MS, || Interval::starting_at(Instant::now() + LONG, MS).try_tick());
            assert_eq!(ended, Err(Cancelled::Overdue));
        };
        rt.run(check);
        check();
    });
    assert!(std::panic::catch_unwind(|| Interval::new(Duration::ZERO)).is_err());
}
