//! Groups of fibres: the first error or panic cancels the rest.

mod fixture;

use fixture::{LONG, everywhere, message, wait_until};
use sinew::cancel::{self, Cancelled};
use sinew::net::UnixStream;
use sinew::sync::{Semaphore, mpsc};
use sinew::{FibreBuilder, GroupJoinHandle, time, try_scope};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

/// An error of a fibre.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    Own(u32),
    Ended(Cancelled),
}

impl From<Cancelled> for Fault {
    fn from(cancelled: Cancelled) -> Fault {
        Fault::Ended(cancelled)
    }
}

/// Sleeps until the fibre is cancelled.
fn sleep_long() -> Result<(), Fault> {
    Ok(time::try_sleep(LONG)?)
}

#[test]
fn a_group_without_errors_returns_what_its_closure_returns() {
    everywhere(|rt, _| {
        let words = [String::from("one"), String::from("three")];
        let lengths = rt.run(|| {
            try_scope(|group| {
                let lengths: Vec<_> = words.iter().map(|word| group.spawn(|| Ok::<_, Fault>(word.len()))).collect();
                lengths.into_iter().map(GroupJoinHandle::join).collect::<Result<Vec<_>, _>>()
            })
        });
        assert_eq!(lengths, Ok(vec![3, 5]));
    });
}

#[test]
fn the_first_error_cancels_the_others_and_is_returned() {
    everywhere(|rt, _| {
        for joins in [false, true] {
            let ended = AtomicUsize::new(0);
            let sleeping = || {
                let slept = sleep_long();
                assert_eq!(slept, Err(Fault::Ended(Cancelled::Requested)));
                ended.fetch_add(1, Ordering::Relaxed);
                slept
            };
            let result = rt.run(|| {
                try_scope(|group| {
                    let others: Vec<_> = (0..20).map(|_| group.spawn(sleeping)).collect();
                    group.spawn(|| Err::<(), _>(Fault::Own(7)));
                    if joins {
                        // The error of a fibre that was cancelled is not the first one.
                        others.into_iter().try_for_each(GroupJoinHandle::join)?;
                    }
                    Ok(())
                })
            });
            assert_eq!((result, ended.into_inner()), (Err(Fault::Own(7)), 20));
            assert_eq!(rt.run(cancel::check), Ok(()));
        }
    });
}

#[test]
fn a_join_returns_the_first_error_and_the_closure_may_handle_it() {
    everywhere(|rt, _| {
        let run = |handles: bool| {
            try_scope(|group| {
                let sleeping = group.spawn(sleep_long);
                let joined = group.spawn(|| Err::<(), _>(Fault::Own(3))).join();
                if handles {
                    assert_eq!(joined, Err(Fault::Own(3)));
                    assert_eq!(sleeping.join(), Err(Fault::Ended(Cancelled::Requested)));
                    return Ok(5);
                }
                joined.map(|()| 0)
            })
        };
        assert_eq!(rt.run(|| (run(true), run(false))), (Ok(5), Err(Fault::Own(3))));
    });
}

#[test]
fn an_error_of_the_closure_cancels_the_fibres() {
    everywhere(|rt, _| {
        let result = rt.run(|| {
            try_scope(|group| {
                (0..20).for_each(|_| drop(group.spawn(sleep_long)));
                Err::<(), _>(Fault::Own(1))
            })
        });
        assert_eq!(result, Err(Fault::Own(1)));
    });
}

#[test]
fn a_failure_interrupts_the_closure_until_the_group_ends() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (mut ours, _theirs) = UnixStream::pair().unwrap();
            let (_sender, receiver) = mpsc::channel::<u32>();
            let result = try_scope(|group| {
                group.spawn(|| {
                    // The closure waits, or will.
                    sinew::yield_now();
                    Err::<(), _>(Fault::Own(9))
                });
                assert!(ours.read(&mut [0]).is_err(), "a socket");
                assert!(receiver.recv().is_err(), "a channel");
                assert_eq!(cancel::check(), Err(Cancelled::Requested));
                assert!(!sinew::current().is_cancelled(), "an interrupt is no cancellation");
                cancel::shield(|| sinew::time::try_sleep(MS))?;
                sleep_long()
            });
            assert_eq!(result, Err(Fault::Own(9)));
            assert_eq!((cancel::check(), time::try_sleep(MS)), (Ok(()), Ok(())));
        });
    });
}

#[test]
fn a_failure_of_an_outer_group_reaches_the_fibres_of_an_inner_one() {
    everywhere(|rt, _| {
        rt.run(|| {
            let inner_result = Mutex::new(None);
            let result = try_scope(|outer| {
                let begun = Semaphore::new(0);
                let inner = try_scope(|inner| {
                    inner.spawn(|| {
                        begun.post(1);
                        sleep_long()
                    });
                    begun.wait();
                    outer.spawn(|| Err::<(), _>(Fault::Own(2)));
                    Ok(())
                });
                *inner_result.lock().unwrap() = Some(inner);
                // Still interrupted, by the outer group.
                sleep_long()
            });
            assert_eq!(result, Err(Fault::Own(2)));
            assert_eq!(inner_result.into_inner().unwrap(), Some(Err(Fault::Ended(Cancelled::Requested))));
            assert_eq!(cancel::check(), Ok(()));
        });
    });
}

#[test]
fn a_panic_cancels_the_others_and_leaves_the_group() {
    everywhere(|rt, _| {
        for (joins, expected) in [(false, "a scoped fibre panicked"), (true, "lost")] {
            let ended = AtomicUsize::new(0);
            let group = || {
                try_scope(|group| {
                    for _ in 0..10 {
                        group.spawn(|| {
                            let slept = sleep_long();
                            ended.fetch_add(1, Ordering::Relaxed);
                            slept
                        });
                    }
                    let panicking = group.spawn(|| -> Result<(), Fault> { resume_unwind(Box::new("lost")) });
                    if joins { panicking.join() } else { sleep_long() }
                })
            };
            let (said, checked) = rt.run(|| (catch_unwind(AssertUnwindSafe(group)), cancel::check()));
            assert_eq!(message(&*said.unwrap_err()), expected);
            assert_eq!((ended.into_inner(), checked), (10, Ok(())));
        }
    });
}

#[test]
fn a_limit_bounds_the_number_of_fibres_that_run_at_once() {
    everywhere(|rt, _| {
        let (running, most, ended) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let result = rt.run(|| {
            try_scope(|group| {
                group.set_limit(4);
                for turns in 0..100 {
                    let (running, most, ended) = (&running, &most, &ended);
                    group.spawn(move || {
                        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        (0..turns % 7).for_each(|_| sinew::yield_now());
                        running.fetch_sub(1, Ordering::SeqCst);
                        ended.fetch_add(1, Ordering::SeqCst);
                        Ok::<_, Fault>(())
                    });
                }
                Ok(())
            })
        });
        assert_eq!((result, ended.into_inner()), (Ok(()), 100));
        assert!(most.into_inner() <= 4);
    });
}

#[test]
fn a_full_group_refuses_try_spawn_until_a_fibre_ends_even_by_a_panic() {
    everywhere(|rt, _| {
        rt.run(|| {
            let go = AtomicBool::new(false);
            let result = try_scope(|group| {
                group.set_limit(1);
                let first = group.spawn(|| {
                    wait_until(|| go.load(Ordering::Relaxed));
                    Ok::<_, Fault>(1)
                });
                assert!(group.try_spawn(|| Ok(2)).is_err());
                go.store(true, Ordering::Relaxed);
                let first = first.join()?;
                let panicking = group.spawn(|| -> Result<(), Fault> { resume_unwind(Box::new("lost")) });
                assert!(catch_unwind(AssertUnwindSafe(|| panicking.join())).is_err());
                let Ok(third) = group.try_spawn(|| Ok(3)) else { panic!("the place was not freed") };
                Ok((first, third.join()?))
            });
            assert_eq!(result, Ok((1, 3)));
        });
    });
}

#[test]
fn a_cancelled_owner_that_waits_for_a_place_cancels_the_group() {
    everywhere(|rt, _| {
        let begun = std::sync::Arc::new(AtomicBool::new(false));
        let begins = std::sync::Arc::clone(&begun);
        let owner = rt.spawn(move || {
            try_scope(|group| {
                group.set_limit(1);
                group.spawn(|| {
                    begins.store(true, Ordering::Relaxed);
                    sleep_long()
                });
                group.spawn(sleep_long).join()
            })
        });
        wait_until(|| begun.load(Ordering::Relaxed));
        owner.fibre().cancel();
        assert_eq!(owner.join().unwrap(), Err(Fault::Ended(Cancelled::Requested)));
    });
}

#[test]
fn the_fibres_of_a_group_inherit_a_deadline() {
    everywhere(|rt, _| {
        let deadline = Instant::now() + 2 * MS;
        let result = rt.run(|| {
            time::deadline(deadline, || {
                try_scope(|group| {
                    (0..20).for_each(|_| drop(group.spawn(sleep_long)));
                    Ok(())
                })
            })
        });
        assert_eq!(result, Err(Fault::Ended(Cancelled::Overdue)));
        assert!(Instant::now() >= deadline);
    });
}

#[test]
fn a_kernel_thread_may_own_a_group() {
    everywhere(|rt, _| {
        let result = try_scope(|group| {
            let builder = || FibreBuilder::new().name("member").cluster(rt.main_cluster());
            let sleeping = group.spawn_with(builder(), sleep_long).unwrap();
            assert_eq!((sleeping.fibre().name(), sleeping.is_finished()), (Some("member"), false));
            let sleeping = sleeping.join_timeout(Duration::ZERO).unwrap_err();
            group.spawn_with(builder(), || Err::<(), _>(Fault::Own(4))).unwrap();
            let joined = sleeping.join_timeout(LONG).unwrap();
            assert_eq!(joined, Err(Fault::Ended(Cancelled::Requested)));
            Ok(())
        });
        assert_eq!(result, Err(Fault::Own(4)));
    });
}
