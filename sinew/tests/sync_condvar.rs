//! `Condvar` loses no notification.

mod fixture;

use fixture::{LONG, Random, everywhere, on_fibres_and_threads, wait_until, wherever};
use sinew::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(2);

/// A queue of at most two numbers.
#[derive(Default)]
struct Channel {
    numbers: Mutex<VecDeque<usize>>,
    not_full: Condvar,
    not_empty: Condvar,
}

impl Channel {
    fn send(&self, number: usize) {
        let numbers = self.numbers.lock().unwrap();
        let mut numbers = self.not_full.wait_while(numbers, |numbers| numbers.len() == 2).unwrap();
        numbers.push_back(number);
        drop(numbers);
        self.not_empty.notify_one();
    }

    fn receive(&self) -> usize {
        let mut numbers = self.numbers.lock().unwrap();
        while numbers.is_empty() {
            numbers = self.not_empty.wait(numbers).unwrap();
        }
        let number = numbers.pop_front().unwrap();
        drop(numbers);
        self.not_full.notify_one();
        number
    }
}

#[test]
fn consumers_get_each_number_that_producers_make() {
    const EACH: usize = 60;
    everywhere(|rt, _| {
        let channel = Channel::default();
        // Half of them produce. One of each kind is a kernel thread.
        let sums = on_fibres_and_threads(rt, 6, 2, |number| {
            let each = number * EACH..(number + 1) * EACH;
            if number.is_multiple_of(2) {
                each.for_each(|number| channel.send(number / 2));
                0
            } else {
                each.map(|_| channel.receive()).sum::<usize>()
            }
        });
        let sent: usize = (0..8).step_by(2).flat_map(|number| number * EACH..(number + 1) * EACH).map(|n| n / 2).sum();
        assert_eq!(sums.into_iter().sum::<usize>(), sent);
    });
}

/// Waiters of a condition variable, and the number of those that have been notified.
#[derive(Default)]
struct Waiters {
    state: Mutex<(usize, Vec<usize>)>,
    condvar: Condvar,
}

impl Waiters {
    /// Waits once. Only a notification ends the wait.
    fn wait(&self, number: usize) {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        let mut state = self.condvar.wait(state).unwrap();
        state.0 -= 1;
        state.1.push(number);
    }

    /// Returns when `count` fibres wait.
    fn are(&self, count: usize) {
        wait_until(|| self.state.lock().unwrap().0 == count);
    }
}

#[test]
fn notify_one_wakes_the_longest_waiter() {
    const WAITERS: usize = 10;
    everywhere(|rt, _| {
        let waiters = Waiters::default();
        waiters.condvar.notify_one();
        waiters.condvar.notify_all();
        thread::scope(|outside| {
            rt.run(|| {
                sinew::scope(|scope| {
                    for number in 0..WAITERS {
                        let waiters = &waiters;
                        if number == 3 {
                            outside.spawn(move || waiters.wait(number));
                        } else {
                            scope.spawn(move || waiters.wait(number));
                        }
                        waiters.are(number + 1);
                    }
                    for notified in 1..=4 {
                        waiters.condvar.notify_one();
                        waiters.are(WAITERS - notified);
                        // No other fibre wakes up.
                        (0..10).for_each(|_| sinew::yield_now());
                        assert_eq!(waiters.state.lock().unwrap().1, (0..notified).collect::<Vec<_>>());
                    }
                    waiters.condvar.notify_all();
                });
            });
        });
        let mut woken = waiters.state.into_inner().unwrap().1;
        woken.sort();
        assert_eq!(woken, (0..WAITERS).collect::<Vec<_>>());
    });
}

#[test]
fn notify_all_wakes_every_waiter() {
    everywhere(|rt, _| {
        let waiters = Waiters::default();
        for round in 1..=5 {
            thread::scope(|outside| {
                let notifying = outside.spawn(|| {
                    waiters.are(52);
                    waiters.condvar.notify_all();
                });
                on_fibres_and_threads(rt, 50, 2, |number| waiters.wait(number));
                notifying.join().unwrap();
            });
            assert_eq!(waiters.state.lock().unwrap().1.len(), 52 * round);
        }
    });
}

#[test]
fn a_notified_waiter_goes_on_when_it_has_the_lock() {
    everywhere(|rt, _| {
        let (mutex, condvar, inside) = (Mutex::new(0), Condvar::new(), AtomicBool::new(false));
        let stay = || {
            assert!(!inside.swap(true, Relaxed), "the lock is taken twice");
            (0..3).for_each(|_| sinew::yield_now());
            inside.store(false, Relaxed);
        };
        on_fibres_and_threads(rt, 10, 1, |number| {
            if number == 0 {
                wait_until(|| *mutex.lock().unwrap() == 10);
                let _held = mutex.lock().unwrap();
                condvar.notify_all();
                stay();
                return;
            }
            let mut held = mutex.lock().unwrap();
            *held += 1;
            let _held = match number % 2 {
                0 => condvar.wait(held).unwrap(),
                _ => condvar.wait_timeout(held, LONG).unwrap().0,
            };
            stay();
        });
    });
}

#[test]
fn a_wait_with_a_limit_ends_not_too_early_and_has_the_lock_again() {
    everywhere(|rt, _| {
        let (mutex, condvar) = (Mutex::new(0), Condvar::new());
        let body = || {
            let began = Instant::now();
            let (held, result) = condvar.wait_timeout(mutex.lock().unwrap(), SHORT).unwrap();
            assert!(result.timed_out() && mutex.try_lock().is_err());
            let (held, result) = condvar.wait_timeout(held, Duration::ZERO).unwrap();
            assert!(result.timed_out() && mutex.try_lock().is_err());
            let (held, result) = condvar.wait_deadline(held, began + 2 * SHORT).unwrap();
            assert!(result.timed_out() && mutex.try_lock().is_err());
            let (held, result) = condvar.wait_timeout_while(held, SHORT, |_| true).unwrap();
            assert!(result.timed_out() && mutex.try_lock().is_err());
            assert!(began.elapsed() >= 3 * SHORT);
            let (mut held, result) = condvar.wait_timeout_while(held, Duration::ZERO, |_| false).unwrap();
            assert!(!result.timed_out());
            *held += 1;
        };
        rt.run(body);
        body();
        assert_eq!(*mutex.lock().unwrap(), 2);
        // A notification within the limit is no time-out.
        for limit in [LONG, Duration::MAX] {
            let in_time = on_fibres_and_threads(rt, 3, 1, |number| {
                if number == 0 {
                    *mutex.lock().unwrap() += 1;
                    condvar.notify_all();
                    return true;
                }
                let (held, result) =
                    condvar.wait_timeout_while(mutex.lock().unwrap(), limit, |count| *count == 2).unwrap();
                *held == 3 && !result.timed_out()
            });
            assert_eq!(in_time, [true; 4]);
            *mutex.lock().unwrap() = 2;
        }
    });
}

#[test]
fn a_wait_reports_that_its_mutex_was_poisoned_meanwhile() {
    everywhere(|rt, _| {
        let (mutex, condvar) = (Mutex::new(0), Condvar::new());
        rt.run(|| {
            sinew::scope(|scope| {
                let waits = |which: usize| {
                    let (mutex, condvar) = (&mutex, &condvar);
                    scope.spawn(move || {
                        let mut held = mutex.lock().unwrap();
                        *held += 1;
                        match which {
                            0 => condvar.wait(held).is_err(),
                            1 => condvar.wait_while(held, |_| true).is_err(),
                            2 => condvar.wait_timeout(held, LONG).is_err_and(|error| !error.into_inner().1.timed_out()),
                            _ => condvar.wait_timeout_while(held, LONG, |_| true).is_err(),
                        }
                    })
                };
                let waiting: Vec<_> = (0..4).map(waits).collect();
                wait_until(|| *mutex.lock().unwrap() == 4);
                let fails = catch_unwind(AssertUnwindSafe(|| {
                    let _held = mutex.lock();
                    resume_unwind(Box::new(()));
                }));
                assert!(fails.is_err());
                condvar.notify_all();
                assert!(waiting.into_iter().all(|fibre| fibre.join().unwrap()));
            });
        });
    });
}

/// Two fibres wait. The limit of the first ends at about the time of the notification. If the first
/// was notified, it notifies the second. Else the second got the notification.
#[test]
fn a_waiter_that_times_out_swallows_no_notification() {
    const ROUNDS: usize = 120;
    let mut random = Random::new(0x5_a110);
    let limits: Vec<Duration> = (0..ROUNDS).map(|_| Duration::from_micros(random.below(100))).collect();
    wherever(
        |setup| setup.processors > 1,
        |rt, _| {
            let (mutex, condvar) = (Mutex::new(0), Condvar::new());
            for (round, &limit) in limits.iter().enumerate() {
                *mutex.lock().unwrap() = 0;
                let are_waiting = |count| wait_until(|| *mutex.lock().unwrap() >= count);
                let begins = || {
                    let mut held = mutex.lock().unwrap();
                    *held += 1;
                    held
                };
                let fibres = 1 + round % 3;
                on_fibres_and_threads(rt, fibres, 3 - fibres, |number| match number {
                    0 => {
                        are_waiting(2);
                        sinew::sleep(limit / 2);
                        condvar.notify_one();
                    }
                    1 => {
                        if !condvar.wait_timeout(begins(), limit).unwrap().1.timed_out() {
                            condvar.notify_one();
                        }
                    }
                    _ => {
                        are_waiting(1);
                        let (_, result) = condvar.wait_timeout(begins(), Duration::from_secs(20)).unwrap();
                        assert!(!result.timed_out(), "the notification is lost");
                    }
                });
            }
        },
    );
}

#[test]
fn a_wait_for_a_condition_ends_at_its_deadline() {
    everywhere(|rt, _| {
        let check = || {
            let (mutex, condvar) = (Mutex::new(true), Condvar::new());
            let end = Instant::now() + SHORT;
            let (guard, result) = condvar.wait_deadline_while(mutex.lock().unwrap(), end, |waits| *waits).unwrap();
            assert!(result.timed_out() && *guard && Instant::now() >= end);
            let (guard, result) = condvar.wait_deadline_while(guard, end, std::mem::take).unwrap();
            assert!(result.timed_out() && !*guard, "the condition was not checked first");
            let (_, result) = condvar.wait_deadline_while(guard, end, |waits| *waits).unwrap();
            assert!(!result.timed_out());
        };
        rt.run(check);
        check();
    });
}
