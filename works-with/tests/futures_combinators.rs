//! The combinators of the crate `futures` over tasks, timers and channels.

#[path = "../../sinew/tests/fixture/mod.rs"]
mod fixture;

use fixture::{LONG, everywhere};
use futures::future::{Either, join_all, select, select_all, try_join_all};
use futures::stream::{self, FuturesUnordered, StreamExt};
use sinew::sync::mpsc;
use sinew::task;
use sinew::time::{sleep_async, sleep_until_async};
use std::pin::pin;
use std::time::{Duration, Instant};

#[test]
fn join_all_returns_the_results_of_tasks_in_order() {
    everywhere(|rt, _| {
        let results = rt.run(|| {
            let tasks: Vec<_> = (0..100u32)
                .map(|number| {
                    task::spawn(async move {
                        sleep_async(Duration::from_micros(u64::from(number * 37 % 100))).await;
                        number
                    })
                })
                .collect();
            sinew::block_on(try_join_all(tasks)).unwrap()
        });
        assert_eq!(results, (0..100).collect::<Vec<_>>());
    });
}

#[test]
fn unordered_timers_all_end_and_none_ends_early() {
    everywhere(|rt, _| {
        let mut ended: Vec<(u64, bool)> = rt.run(|| {
            let begin = Instant::now();
            let timer = |number: u64| async move {
                let until = begin + Duration::from_millis(3 * number);
                sleep_until_async(until).await;
                (number, Instant::now() >= until)
            };
            let timers: FuturesUnordered<_> = [4, 2, 5, 1, 3].map(timer).into_iter().collect();
            task::spawn(timers.collect()).join().unwrap()
        });
        ended.sort_unstable();
        assert_eq!(ended, [1, 2, 3, 4, 5].map(|number| (number, true)));
    });
}

#[test]
fn the_loser_of_a_select_can_go_on() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (sender, mut receiver) = mpsc::channel();
            let (go_on, wait) = mpsc::channel();
            let sends = task::spawn(async move {
                let mut wait = wait;
                wait.recv_async().await.unwrap();
                sender.send("late").unwrap();
            });
            let received = task::spawn(async move {
                let (message, limit) = (pin!(receiver.recv_async()), pin!(sleep_async(Duration::from_millis(1))));
                let Either::Right(((), waits)) = select(message, limit).await else {
                    panic!("a message came although none was sent");
                };
                go_on.send(()).unwrap();
                // The receiver has waited since before the timer ended.
                match select(waits, pin!(sleep_async(LONG))).await {
                    Either::Left((received, _)) => received.unwrap(),
                    Either::Right(_) => "nothing",
                }
            });
            assert_eq!(received.join().unwrap(), "late");
            sends.join().unwrap();
        });
    });
}

#[test]
fn select_all_ends_with_the_first_task_and_the_rest_can_be_aborted() {
    everywhere(|rt, _| {
        rt.run(|| {
            let tasks: Vec<_> = (0..20)
                .map(|number| {
                    task::spawn(async move {
                        sleep_async(if number == 13 { Duration::from_millis(1) } else { LONG }).await;
                        number
                    })
                })
                .collect();
            let (first, index, rest) = sinew::block_on(select_all(tasks));
            assert_eq!((first.unwrap(), index, rest.len()), (13, 13, 19));
            rest.iter().for_each(task::JoinHandle::abort);
            let ends = sinew::block_on(join_all(rest));
            assert!(ends.iter().all(|end| end.as_ref().is_err_and(|error| error.is_aborted())));
        });
    });
}

#[test]
fn several_tasks_at_a_time_work_on_a_stream_of_messages() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (sender, receiver) = mpsc::channel();
            let sends = sinew::spawn(move || (1..=200u64).for_each(|number| sender.send(number).unwrap()));
            let sum = task::spawn(async move {
                let messages = stream::unfold(receiver, |mut receiver| async move {
                    receiver.recv_async().await.ok().map(|number| (number, receiver))
                });
                let squares = messages.map(|number| task::spawn(async move { number * number }));
                squares.buffer_unordered(8).fold(0, |sum, square| async move { sum + square.unwrap() }).await
            });
            assert_eq!(sum.join().unwrap(), (1..=200u64).map(|number| number * number).sum());
            sends.join().unwrap();
        });
    });
}
