//! The combinators of the crate `futures` over tasks, timers and channels.

mod fixture;

use fixture::everywhere;
use futures::future::{Either, join_all, select, select_all, try_join_all};
use futures::stream::{self, FuturesUnordered, StreamExt};
use sinew::sync::mpsc;
use sinew::task;
use sinew::time::{sleep_async, sleep_until_async};
use std::pin::pin;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(3600);

#[test]
fn join_all_gives_the_results_of_tasks_in_order() {
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
fn unordered_timers_all_end_and_none_before_its_time() {
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
fn select_leaves_the_loser_to_go_on() {
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
                    panic!("nothing has been sent");
                };
                go_on.send(()).unwrap();
                // It has been waiting since before the timer ended.
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
fn the_first_of_many_tasks_ends_select_all_and_the_rest_are_aborted() {
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
fn a_stream_of_messages_is_worked_on_by_several_tasks_at_a_time() {
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
