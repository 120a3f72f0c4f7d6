//! `Pool`: a thread that becomes idle, or ceases to be, and a job that comes then.
#![allow(unsafe_code)]

use crate::base::models::{Watched, check};
use crate::io::pool::{Next, Placed, Pool, Worker};
use loom::sync::Arc;
use std::time::Duration;

/// A call, which lies on the stack of a fibre.
#[derive(Clone, Copy)]
struct Call(&'static Watched<u32>);

// SAFETY: loom watches its uses.
unsafe impl Send for Call {}

/// The largest number of threads.
const BOUND: usize = 1;

/// A pool whose one thread is about to have run its first call.
fn pool() -> (Arc<Pool<Call>>, Arc<Pool<Call>>) {
    let pool = Pool::new();
    assert!(matches!(pool.place(call(), BOUND, false), Placed::Start(_)));
    let pool = Arc::new(pool);
    (Arc::clone(&pool), pool)
}

fn call() -> Call {
    Call(Box::leak(Box::new(Watched::new(0))))
}

/// Runs a call, and sees what the fibre wrote before.
fn run(call: Call) {
    call.0.change(|value| {
        assert_eq!(*value, 1);
        *value = 2;
    });
}

/// A fibre's part. Returns whether a thread has to be started for the call; the call is run then.
fn submit(pool: &Pool<Call>) -> bool {
    let call = call();
    call.0.set(1);
    match pool.place(call, BOUND, true) {
        Placed::Taken => false,
        Placed::Start(call) => {
            run(call);
            true
        }
        Placed::Full(_) | Placed::Refused(_) => panic!("it is run by a thread, or waits for one"),
    }
}

/// Longer than a model takes.
const LONG: Duration = Duration::from_secs(3600);

/// A thread's part, until it has run one more call or ends. Returns whether it has run one.
fn serve(pool: &Pool<Call>, longest: Duration) -> bool {
    let worker = Worker::new();
    let next = match pool.next(&worker, BOUND) {
        Next::Job(call) => Some(call),
        Next::Wait => worker.wait(pool, longest),
        Next::End => None,
    };
    next.map(run).is_some()
}

#[test]
fn a_call_that_comes_while_a_thread_becomes_idle_is_run() {
    check(2, 4, |turn| {
        let (pool, its) = pool();
        let (started, served) = turn.two(move || submit(&pool), move || serve(&its, LONG));
        assert!(served && !started);
    });
}

#[test]
fn a_call_that_comes_when_the_time_of_an_idle_thread_is_up_is_run_once() {
    check(2, 4, |turn| {
        let (pool, its) = pool();
        let kept = Arc::clone(&pool);
        let (started, served) = turn.two(move || submit(&pool), move || serve(&its, Duration::ZERO));
        assert!(started != served, "started: {started}, served: {served}");
        assert_eq!(kept.load().threads, 1);
    });
}

#[test]
fn a_thread_that_is_let_go_ends_once() {
    check(2, 4, |turn| {
        let (pool, its) = pool();
        let kept = Arc::clone(&pool);
        let (_, served) = turn.two(move || pool.dismiss(0), move || serve(&its, Duration::ZERO));
        assert!(!served);
        assert_eq!(kept.load().threads, 0);
    });
}

#[test]
fn a_thread_that_serves_twice_is_told_each_time() {
    check(2, 3, |turn| {
        let (pool, its) = pool();
        let submit_twice = move || {
            assert!(!submit(&pool));
            assert!(!submit(&pool));
        };
        let serve_twice = move || {
            let worker = Worker::new();
            for _ in 0..2 {
                match its.next(&worker, BOUND) {
                    Next::Job(call) => run(call),
                    Next::Wait => run(worker.wait(&its, LONG).expect("the thread is not let go")),
                    Next::End => panic!("there are no more threads than there may be"),
                }
            }
        };
        turn.two(submit_twice, serve_twice);
    });
}
