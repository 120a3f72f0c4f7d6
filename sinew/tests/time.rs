//! Sleeping, and waiting with a limit.

mod fixture;

use fixture::{
    LONG, Random, SOON, beside_yielding_fibres, everywhere, happens_while_spinning, happens_within, kernel_thread,
    one_of, wait_until, wherever,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_park_with_a_limit_ends_without_an_unpark() {
    everywhere(|rt, _| {
        for limit in [Duration::ZERO, Duration::from_nanos(1), MS, 20 * MS] {
            let parks = rt.run(|| {
                // A park may return without a reason, hence the loop.
                let began = Instant::now();
                for parks in 1.. {
                    sinew::park_timeout(limit.saturating_sub(began.elapsed()));
                    if began.elapsed() >= limit {
                        return parks;
                    }
                }
                unreachable!()
            });
            assert!(parks < 10, "{parks} parks");
        }
    });
}

#[test]
fn a_park_with_a_limit_ends_early_with_an_unpark() {
    everywhere(|rt, _| {
        for limit in [LONG, Duration::MAX] {
            for _ in 0..20 {
                let (parking, flag) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
                let (it_parks, it_flag) = (Arc::clone(&parking), Arc::clone(&flag));
                let handle = rt.spawn(move || {
                    it_parks.store(true, Ordering::Relaxed);
                    while !it_flag.load(Ordering::Acquire) {
                        sinew::park_timeout(limit);
                    }
                });
                wait_until(|| parking.load(Ordering::Relaxed));
                flag.store(true, Ordering::Release);
                handle.fibre().unpark();
                handle.join().unwrap();
            }
            // A token that came before counts as well.
            rt.run(|| {
                sinew::current().unpark();
                sinew::park_timeout(limit);
            });
        }
    });
}

#[test]
fn a_limit_that_has_passed_ends_no_later_wait() {
    everywhere(|rt, _| {
        // A timer that outlived its wait would end the next wait early.
        let early = rt.run(|| {
            let round = || {
                let (me, over) = (sinew::current(), Arc::new(AtomicBool::new(false)));
                let is_over = Arc::clone(&over);
                let unparking = sinew::spawn(move || {
                    is_over.store(true, Ordering::Release);
                    me.unpark();
                });
                while !over.load(Ordering::Acquire) {
                    sinew::park_timeout(MS / 2);
                }
                unparking.join().unwrap();
                // Takes the token, if it is still there.
                sinew::park_timeout(Duration::ZERO);
                let began = Instant::now();
                sinew::park_timeout(2 * MS);
                began.elapsed() < 2 * MS
            };
            (0..20).filter(|_| round()).count()
        });
        assert!(early < 10, "{early} of 20 waits ended early");
    });
}

#[test]
fn a_join_with_a_limit_returns_the_handle_when_the_time_is_up() {
    everywhere(|rt, _| {
        let go = Arc::new(AtomicBool::new(false));
        let waiting = || {
            let go = Arc::clone(&go);
            move || {
                wait_until(|| go.load(Ordering::Relaxed));
                vec![7]
            }
        };
        let joined_late = |mut handle: sinew::JoinHandle<Vec<i32>>| {
            for limit in [Duration::ZERO, MS, 3 * MS] {
                let began = Instant::now();
                handle = handle.join_timeout(limit).unwrap_err();
                assert!(began.elapsed() >= limit);
            }
            handle
        };
        // On a kernel thread, and on a fibre.
        let handles = [joined_late(rt.spawn(waiting())), rt.run(|| joined_late(sinew::spawn(waiting())))];
        go.store(true, Ordering::Relaxed);
        let [one, other] = handles.map(|handle| handle.join_timeout(LONG).unwrap().unwrap());
        assert_eq!((one, other), (vec![7], vec![7]));
        let panicking: sinew::JoinHandle<()> = rt.spawn(|| std::panic::resume_unwind(Box::new(3u8)));
        let payload = panicking.join_timeout(Duration::MAX).unwrap().unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&3u8));
    });
}

#[test]
fn a_join_ends_at_its_deadline() {
    everywhere(|rt, _| {
        let go = Arc::new(AtomicBool::new(false));
        let may_end = Arc::clone(&go);
        let handle = rt.spawn(move || wait_until(|| may_end.load(Ordering::Relaxed)));
        let handle = handle.join_deadline(Instant::now() + MS).unwrap_err();
        go.store(true, Ordering::Relaxed);
        handle.join_deadline(Instant::now() + LONG).unwrap().unwrap();
        rt.run(|| {
            let go = AtomicBool::new(false);
            sinew::scope(|scope| {
                let waiting = scope.spawn(|| wait_until(|| go.load(Ordering::Relaxed)));
                let waiting = waiting.join_deadline(Instant::now()).unwrap_err();
                go.store(true, Ordering::Relaxed);
                waiting.join_deadline(Instant::now() + LONG).unwrap().unwrap();
            });
        });
    });
}

#[test]
fn a_join_whose_limit_races_with_the_end_loses_no_result() {
    everywhere(|rt, _| {
        let mut random = Random::new(0x5eed_0005);
        rt.run(|| {
            for n in 0..100 {
                let (work, limit) = (random.below(200), random.below(200));
                let handle = sinew::spawn(move || {
                    sinew::sleep(Duration::from_micros(work));
                    Box::new(n)
                });
                let value = match handle.join_timeout(Duration::from_micros(limit)) {
                    Ok(result) => result.unwrap(),
                    Err(handle) => handle.join().unwrap(),
                };
                assert_eq!(*value, n);
            }
        });
    });
}

#[test]
fn sleep_never_returns_early() {
    everywhere(|rt, _| {
        let mut random = Random::new(0x5eed_0002);
        let sleeper = |wait: Duration| {
            move || {
                let began = Instant::now();
                sinew::sleep(wait);
                began.elapsed() >= wait
            }
        };
        let waits = (0..200).map(|_| Duration::from_nanos(random.below(20_000_000)));
        let waits = waits.chain([Duration::ZERO, Duration::from_nanos(1)]);
        let sleepers: Vec<_> = waits.map(|wait| rt.spawn(sleeper(wait))).collect();
        // The sleepers are unparked all the while.
        for sleeper in sleepers.iter().cycle().take(2000) {
            sleeper.fibre().unpark();
        }
        assert!(sleepers.into_iter().all(|sleeper| sleeper.join().unwrap()));
        let until = Instant::now() + 3 * MS;
        rt.run(|| sinew::sleep_until(until));
        assert!(Instant::now() >= until);
        rt.run(|| sinew::sleep_until(until));
    });
}

#[test]
fn sleep_keeps_a_token_that_comes_meanwhile() {
    everywhere(|rt, _| {
        for _ in 0..5 {
            let sleeping = Arc::new(AtomicBool::new(false));
            let it_sleeps = Arc::clone(&sleeping);
            let handle = rt.spawn(move || {
                it_sleeps.store(true, Ordering::Relaxed);
                let began = Instant::now();
                sinew::sleep(2 * MS);
                assert!(began.elapsed() >= 2 * MS);
                sinew::park();
            });
            wait_until(|| sleeping.load(Ordering::Relaxed));
            handle.fibre().unpark();
            handle.join().unwrap();
        }
        // It also keeps a token that came before.
        rt.run(|| {
            sinew::current().unpark();
            sinew::sleep(MS);
            sinew::park();
        });
    });
}

#[test]
fn sleep_keeps_a_token_that_comes_together_with_its_end() {
    const SHORT: Duration = Duration::from_micros(30);
    everywhere(|rt, _| {
        let mut random = Random::new(0x5eed_0031);
        for _ in 0..200 {
            let handle = rt.spawn(|| {
                sinew::sleep(SHORT);
                sinew::park();
            });
            let began = Instant::now();
            let delay = SHORT.mul_f64(random.below(200) as f64 / 100.0);
            while began.elapsed() < delay {}
            handle.fibre().unpark();
            handle.join().unwrap();
        }
    });
}

#[test]
fn ten_thousand_sleepers_wake_in_about_the_order_of_their_deadlines() {
    const SLEEPERS: u64 = 10_000;
    const SPREAD_US: u64 = 200_000;
    const ATTEMPTS: u32 = 10;
    everywhere(|rt, setup| {
        let out_of_order = || {
            let woken: Arc<Mutex<Vec<(i32, Instant)>>> = Arc::default();
            let sleepers: Vec<_> = (0..SLEEPERS)
                .map(|n| {
                    let woken = Arc::clone(&woken);
                    // Different durations, in no order.
                    let wait = Duration::from_micros(n * 7919 % SLEEPERS * SPREAD_US / SLEEPERS);
                    rt.spawn(move || {
                        let deadline = Instant::now() + wait;
                        sinew::sleep_until(deadline);
                        assert!(Instant::now() >= deadline);
                        woken.lock().unwrap().push((kernel_thread(), deadline));
                    })
                })
                .collect();
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
            let woken = woken.lock().unwrap();
            assert_eq!(woken.len() as u64, SLEEPERS);
            // A busy kernel may hold up a processor, and the fibres that wait there, for a while.
            // So each sleeper is compared with others that woke on the same processor.
            let mut latest = HashMap::new();
            let late = woken.iter().filter(|&&(thread, deadline)| {
                let latest = latest.entry(thread).or_insert(deadline);
                *latest = deadline.max(*latest);
                deadline + 40 * MS < *latest
            });
            late.count() as u64
        };
        // Sleepers that migrate are helped by another processor, which may be further ahead.
        let stay = setup.processors == 1 || !setup.migrating;
        let in_order = (0..ATTEMPTS).any(|_| out_of_order() < SLEEPERS / 20 || !stay);
        assert!(in_order, "many sleepers woke after others with much later deadlines");
    });
}

#[test]
fn timers_fire_while_all_processors_are_busy() {
    everywhere(|rt, setup| {
        let sleep = |_| {
            let deadline = Instant::now() + 3 * MS;
            sinew::sleep_until(deadline);
            deadline.elapsed()
        };
        // The median of several attempts counts, because the kernel may hold up a processor for longer.
        one_of(5, || {
            let mut late =
                beside_yielding_fibres(rt, 4 * setup.processors, || rt.run(|| (0..15).map(sleep).collect::<Vec<_>>()));
            late.sort();
            if late[late.len() / 2] < 50 * MS { Ok(()) } else { Err(late) }
        });
    });
}

#[test]
fn timers_fire_while_one_processor_does_not_yield() {
    wherever(
        |setup| setup.migrating && setup.processors > 1,
        |rt, _| {
            for _ in 0..10 {
                // One fibre wakes up and keeps its processor. Another one wakes up later.
                let woken = Arc::new(AtomicBool::new(false));
                let is_woken = Arc::clone(&woken);
                let keeping = rt.spawn(move || {
                    sinew::sleep(2 * MS);
                    happens_while_spinning(SOON, || is_woken.load(Ordering::Relaxed))
                });
                let waking = rt.spawn(move || {
                    sinew::sleep(6 * MS);
                    woken.store(true, Ordering::Relaxed);
                });
                assert!(keeping.join().unwrap(), "no processor minded the timers");
                waking.join().unwrap();
            }
        },
    );
}

#[test]
fn an_idle_runtime_wakes_for_its_timers() {
    everywhere(|rt, _| {
        // All processors have time to fall asleep in between.
        for _ in 0..5 {
            let woken = Arc::new(AtomicUsize::new(0));
            let sleepers: Vec<_> = (0..10)
                .map(|n| {
                    let woken = Arc::clone(&woken);
                    rt.spawn(move || {
                        sinew::sleep(n * MS);
                        woken.fetch_add(1, Ordering::Relaxed);
                    })
                })
                .collect();
            assert!(happens_within(LONG, || woken.load(Ordering::Relaxed) == 10));
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        }
    });
}
