//! Semaphores.

mod fixture;

use fixture::{LONG, Random, alone, everywhere, message, wait_until, wherever};
use sinew::sync::{AcquireError, BinarySemaphore, Semaphore};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);
#[test]
fn no_more_holders_than_permits() {
    everywhere(|rt, _| {
        let semaphore = Arc::new(Semaphore::new(3));
        let (inside, most, entries) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let counts = Arc::new((inside, most, entries));
        let enter = |counts: &(AtomicUsize, AtomicUsize, AtomicUsize), semaphore: &Semaphore, count: usize| {
            let permit = semaphore.acquire_many(count).unwrap();
            assert_eq!(permit.count(), count);
            let now = counts.0.fetch_add(count, Ordering::Relaxed) + count;
            counts.1.fetch_max(now, Ordering::Relaxed);
            counts.2.fetch_add(1, Ordering::Relaxed);
            sinew::yield_now();
            counts.0.fetch_sub(count, Ordering::Relaxed);
        };
        let fibres: Vec<_> = (0..50usize)
            .map(|n| {
                let (semaphore, counts) = (Arc::clone(&semaphore), Arc::clone(&counts));
                rt.spawn(move || (0..40).for_each(|round| enter(&counts, &semaphore, 1 + (n + round) % 3)))
            })
            .collect();
        // Kernel threads wait for the same permits.
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..40).for_each(|round| enter(&counts, &semaphore, 1 + round % 3)));
            }
        });
        fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
        assert!(counts.1.load(Ordering::Relaxed) <= 3);
        assert_eq!((counts.2.load(Ordering::Relaxed), semaphore.available()), (52 * 40, 3));
    });
}

#[test]
fn waits_and_posts_neither_lose_nor_create_permits() {
    const ROUNDS: u64 = 2_000;
    everywhere(|rt, setup| {
        // Each fibre passes its permit on to a random semaphore.
        let semaphores: Arc<Vec<_>> = Arc::new((0..4).map(|_| Semaphore::new(1)).collect());
        let fibres: Vec<_> = (0..8u64)
            .map(|n| {
                let semaphores = Arc::clone(&semaphores);
                let mut random = Random::new(0x5eed_0041 + n + setup.processors as u64);
                rt.spawn(move || {
                    for _ in 0..ROUNDS {
                        let semaphore = &semaphores[random.below(4) as usize];
                        semaphore.post(1);
                        semaphore.wait();
                    }
                })
            })
            .collect();
        fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
        assert_eq!(semaphores.iter().map(Semaphore::available).sum::<usize>(), 4);
    });
}

#[test]
fn waiters_are_served_in_order_of_arrival() {
    // With one processor and no other fibre, a started fibre waits.
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            rt.run(|| {
                let semaphore = Arc::new(Semaphore::new(0));
                let order = Arc::new(Mutex::new(Vec::new()));
                let fibres: Vec<_> = (0..100usize)
                    .map(|n| {
                        let (semaphore, order) = (Arc::clone(&semaphore), Arc::clone(&order));
                        let started = Arc::new(AtomicBool::new(false));
                        let starts = Arc::clone(&started);
                        let fibre = sinew::spawn(move || {
                            starts.store(true, Ordering::Relaxed);
                            semaphore.acquire_many(1 + n % 3).unwrap().forget();
                            order.lock().unwrap().push(n);
                        });
                        wait_until(|| started.load(Ordering::Relaxed));
                        fibre
                    })
                    .collect();
                // No newcomer passes the waiters.
                assert!(semaphore.try_acquire().is_none());
                (0..99 + 100).for_each(|_| semaphore.post(1));
                fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
                assert_eq!(*order.lock().unwrap(), (0..100).collect::<Vec<_>>());
                assert_eq!(semaphore.available(), 0);
            });
        },
    );
}

#[test]
fn a_waiter_that_times_out_does_not_hold_up_those_behind_it() {
    everywhere(|rt, _| {
        for _ in 0..20 {
            let semaphore = Arc::new(Semaphore::new(1));
            let greedy = Arc::clone(&semaphore);
            let many = rt.spawn(move || greedy.acquire_many_timeout(2, MS).map(|_| ()));
            let modest = Arc::clone(&semaphore);
            let one = rt.spawn(move || modest.acquire().unwrap().count());
            assert_eq!(one.join().unwrap(), 1);
            // It may have got both permits after the other one was done.
            let _ = many.join().unwrap();
            assert_eq!(semaphore.available(), 1);
        }
    });
}

#[test]
fn a_permit_that_comes_at_the_end_of_the_limit_is_not_lost() {
    const ROUNDS: usize = 300;
    everywhere(|rt, _| {
        let semaphore = Arc::new(Semaphore::new(0));
        let got = Arc::new(AtomicUsize::new(0));
        let mut random = Random::new(0x5eed_0042);
        for _ in 0..ROUNDS {
            let waits: Vec<_> = (0..2)
                .map(|_| {
                    let (semaphore, got) = (Arc::clone(&semaphore), Arc::clone(&got));
                    let limit = Duration::from_micros(random.below(60));
                    rt.spawn(move || {
                        if semaphore.wait_timeout(limit).is_ok() {
                            got.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            let began = Instant::now();
            let delay = Duration::from_micros(random.below(60));
            while began.elapsed() < delay {}
            semaphore.post(1);
            waits.into_iter().for_each(|wait| wait.join().unwrap());
        }
        assert_eq!(got.load(Ordering::Relaxed) + semaphore.available(), ROUNDS);
    });
}

#[test]
fn a_limit_of_zero_and_a_limit_without_end_work() {
    everywhere(|rt, _| {
        let check = || {
            let semaphore = Semaphore::new(1);
            assert_eq!(semaphore.wait_timeout(Duration::ZERO), Ok(()));
            assert_eq!(semaphore.wait_timeout(Duration::ZERO), Err(AcquireError::TimedOut));
            assert_eq!(semaphore.wait_deadline(Instant::now()), Err(AcquireError::TimedOut));
            semaphore.post(1);
            assert_eq!(semaphore.wait_timeout(Duration::MAX), Ok(()));
            assert_eq!(semaphore.acquire_timeout(MS).map(|_| ()), Err(AcquireError::TimedOut));
            semaphore.post(2);
            assert_eq!(semaphore.acquire_many_timeout(3, MS).map(|_| ()), Err(AcquireError::TimedOut));
            assert_eq!(semaphore.acquire_deadline(Instant::now() + LONG).map(|permit| permit.count()), Ok(1));
            assert_eq!(semaphore.acquire_many_deadline(2, Instant::now() + LONG).map(|permit| permit.count()), Ok(2));
            assert_eq!(semaphore.available(), 2);
        };
        rt.run(check);
        check();
    });
}

#[test]
fn permits_are_counted_up_to_a_maximum() {
    alone(|| {
        let semaphore = Semaphore::new(Semaphore::MAX_PERMITS);
        let payload = catch_unwind(AssertUnwindSafe(|| semaphore.post(1))).unwrap_err();
        assert!(message(&*payload).contains("more than MAX_PERMITS permits"));
        assert_eq!(semaphore.available(), Semaphore::MAX_PERMITS);
        assert_eq!(semaphore.try_acquire_many(Semaphore::MAX_PERMITS).unwrap().count(), Semaphore::MAX_PERMITS);
        assert!(catch_unwind(|| Semaphore::new(Semaphore::MAX_PERMITS + 1)).is_err());
        assert_eq!(Semaphore::new(0).try_acquire_many(0).unwrap().count(), 0);
    });
}

#[test]
fn more_permits_than_a_semaphore_can_have_are_refused() {
    alone(|| {
        let semaphore = Semaphore::new(1);
        let refused = |acquire: &dyn Fn(usize)| {
            let payload = catch_unwind(AssertUnwindSafe(|| acquire(Semaphore::MAX_PERMITS + 1))).unwrap_err();
            assert!(message(&*payload).contains("more than MAX_PERMITS permits"));
        };
        refused(&|count| drop(semaphore.acquire_many(count)));
        refused(&|count| drop(semaphore.acquire_many_timeout(count, MS)));
        refused(&|count| drop(semaphore.acquire_many_deadline(count, Instant::now())));
        refused(&|count| drop(semaphore.try_acquire_many(count)));
        refused(&|count| drop(sinew::task::block_on(semaphore.acquire_many_async(count))));
        assert_eq!(semaphore.available(), 1);
    });
}

#[test]
fn a_post_serves_any_number_of_waiters_on_a_small_stack() {
    const WAITERS: usize = 20_000;
    wherever(
        |setup| setup.processors == 2,
        |rt, _| {
            let semaphore = Arc::new(Semaphore::new(0));
            let waiters: Vec<_> = (0..WAITERS)
                .map(|_| {
                    let semaphore = Arc::clone(&semaphore);
                    rt.spawn(move || semaphore.wait())
                })
                .collect();
            wait_until(|| format!("{semaphore:?}") == format!("Semaphore {{ available: 0, waiters: {WAITERS} }}"));
            let gives = Arc::clone(&semaphore);
            rt.spawn(move || gives.post(WAITERS + 1)).join().unwrap();
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
            assert_eq!(semaphore.available(), 1);
        },
    );
}

#[test]
fn a_binary_semaphore_remembers_one_post() {
    everywhere(|rt, _| {
        let semaphore = Arc::new(BinarySemaphore::new(false));
        assert!(!semaphore.try_wait());
        (0..3).for_each(|_| semaphore.post());
        assert!(semaphore.try_wait());
        assert!(!semaphore.try_wait());
        assert_eq!(semaphore.wait_timeout(MS), Err(AcquireError::TimedOut));
        // Two fibres take turns.
        let (ping, pong) = (Arc::new(BinarySemaphore::new(true)), Arc::new(BinarySemaphore::new(false)));
        let turns = Arc::new(AtomicUsize::new(0));
        let player = |own: &Arc<BinarySemaphore>, other: &Arc<BinarySemaphore>| {
            let (own, other, turns) = (Arc::clone(own), Arc::clone(other), Arc::clone(&turns));
            rt.spawn(move || {
                for _ in 0..500 {
                    own.wait();
                    turns.fetch_add(1, Ordering::Relaxed);
                    other.post();
                }
            })
        };
        let players = [player(&ping, &pong), player(&pong, &ping)];
        players.into_iter().for_each(|player| player.join().unwrap());
        assert_eq!(turns.load(Ordering::Relaxed), 1000);
    });
}
