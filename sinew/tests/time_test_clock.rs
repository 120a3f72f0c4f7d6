//! Runtimes that go by a clock for tests.

mod fixture;

use fixture::loopback::pair;
use fixture::{Setup, alone, wait_until};
use sinew::cancel::Cancelled;
use sinew::sync::{Mutex, mpsc};
use sinew::time::{self, Interval, TestClock};
use sinew::{Cluster, Runtime, task};
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3600);

/// Runs `body` in every set-up, by a clock that jumps.
fn by_the_clock(body: impl Fn(&Runtime, &TestClock)) {
    by(TestClock::new, body);
}

fn by(clock: impl Fn() -> TestClock, body: impl Fn(&Runtime, &TestClock)) {
    alone(|| {
        let began = Instant::now();
        for setup in Setup::all() {
            let clock = clock();
            body(&setup.builder().test_clock(&clock).build().unwrap(), &clock);
        }
        assert!(began.elapsed() < HOUR, "the machine's clock was waited for");
    });
}

#[test]
fn hours_of_sleep_pass_in_order_and_exactly() {
    by_the_clock(|rt, _| {
        let log = rt.run(|| {
            let (began, log) = (time::now(), Arc::new(Mutex::new(Vec::new())));
            let fibres = [7, 11, 13].map(|hours| {
                let log = Arc::clone(&log);
                sinew::spawn(move || {
                    for _ in 0..3 {
                        sinew::sleep(hours * HOUR);
                        log.lock().unwrap().push(((time::now() - began).as_secs() / 3600, hours));
                    }
                })
            });
            fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
            assert_eq!(time::now() - began, 39 * HOUR);
            Arc::into_inner(log).unwrap().into_inner().unwrap()
        });
        let mut expected: Vec<_> =
            [7, 11, 13].iter().flat_map(|h| (1..=3).map(move |n| (n * u64::from(*h), *h))).collect();
        expected.sort();
        assert_eq!(log, expected);
    });
}

#[test]
fn timeouts_deadlines_and_intervals_go_by_the_clock() {
    by_the_clock(|rt, _| {
        rt.run(|| {
            let began = time::now();
            let (_sender, receiver) = mpsc::channel::<u32>();
            assert!(receiver.recv_timeout(HOUR).is_err());
            assert!(receiver.recv_deadline(began + 2 * HOUR).is_err());
            time::timeout(HOUR, || assert!(receiver.recv().is_err()));
            assert_eq!(time::now() - began, 3 * HOUR);
            assert_eq!(time::timeout(HOUR, || time::try_sleep(2 * HOUR)), Err(Cancelled::Overdue));
            sinew::sleep_until(began + 5 * HOUR);
            assert_eq!(time::now() - began, 5 * HOUR);
            let mut clock = Interval::new(HOUR);
            for hour in 5..10 {
                assert_eq!(clock.tick(), began + hour * HOUR);
            }
            sinew::park_timeout(HOUR);
            assert_eq!(time::now() - began, 10 * HOUR);
        });
    });
}

#[test]
fn tasks_go_by_the_clock() {
    by_the_clock(|rt, clock| {
        rt.run(|| {
            let (began, clock) = (clock.now(), clock.clone());
            let task = task::spawn(async move {
                time::sleep_async(HOUR).await;
                let late = time::timeout_async(HOUR, std::future::pending::<()>()).await;
                assert_eq!(late, Err(time::Elapsed));
                clock.advance_async(HOUR).await;
                time::now() - began
            });
            assert_eq!(task.join().unwrap(), 3 * HOUR);
        });
    });
}

#[test]
fn the_timeout_of_a_socket_goes_by_the_clock_and_bytes_come_first() {
    by_the_clock(|rt, _| {
        rt.run(|| {
            let (mut here, mut there) = pair();
            let began = time::now();
            here.set_read_timeout(Some(HOUR)).unwrap();
            assert_eq!(here.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert_eq!(time::now() - began, HOUR);
            sinew::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..100 {
                        there.write_all(&[1]).unwrap();
                        there.read_exact(&mut [0]).unwrap();
                    }
                });
                for _ in 0..100 {
                    here.read_exact(&mut [0]).unwrap();
                    here.write_all(&[2]).unwrap();
                }
            });
            assert_eq!(time::now() - began, HOUR, "time passed while bytes were on their way");
        });
    });
}

#[test]
fn time_stands_still_during_a_blocking_call() {
    by_the_clock(|rt, _| {
        rt.run(|| {
            let is_over = Arc::new(AtomicBool::new(false));
            let its = Arc::clone(&is_over);
            let sleeper = sinew::spawn(move || {
                sinew::sleep(HOUR);
                assert!(its.load(Ordering::Relaxed), "an hour passed during the call");
            });
            let sleeps = || {
                std::thread::sleep(Duration::from_millis(20));
                is_over.store(true, Ordering::Relaxed);
            };
            sinew::blocking(sleeps);
            sleeper.join().unwrap();
        });
    });
}

#[test]
fn a_stopped_clock_is_advanced_by_hand() {
    by(TestClock::stopped, |rt, clock| {
        rt.run(|| {
            let (began, ticks) = (clock.now(), Arc::new(AtomicU32::new(0)));
            let its = Arc::clone(&ticks);
            let ticker = sinew::spawn(move || {
                for _ in 0..5 {
                    sinew::sleep(HOUR);
                    its.fetch_add(1, Ordering::Relaxed);
                }
            });
            for hours in 0..5 {
                assert_eq!(ticks.load(Ordering::Relaxed), hours);
                clock.advance(HOUR - Duration::from_nanos(1));
                assert_eq!(ticks.load(Ordering::Relaxed), hours);
                clock.advance(Duration::from_nanos(1));
                // The fibre that is due at the same time may run after this one.
                wait_until(|| ticks.load(Ordering::Relaxed) == hours + 1);
            }
            ticker.join().unwrap();
            assert_eq!(time::now() - began, 5 * HOUR);
        });
        // By a kernel thread.
        let (begins, began) = std::sync::mpsc::channel();
        let sleeper = rt.spawn(move || {
            begins.send(()).unwrap();
            sinew::sleep(HOUR);
        });
        began.recv().unwrap();
        clock.advance(2 * HOUR);
        sleeper.join().unwrap();
    });
}

#[test]
fn all_clusters_of_a_runtime_go_by_its_clock_and_other_runtimes_do_not() {
    alone(|| {
        let clock = TestClock::new();
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).test_clock(&clock).build().unwrap();
        let cluster = runtime.cluster(Cluster::builder().processors(1)).unwrap();
        let (there, here) = (cluster.spawn(|| sinew::sleep(HOUR)), runtime.spawn(|| sinew::sleep(2 * HOUR)));
        there.join().unwrap();
        here.join().unwrap();
        let other = Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
        assert!(other.run(time::now) < clock.now());
        assert!(time::now() < clock.now());
    });
}
