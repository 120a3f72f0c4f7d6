//! `io::pool`: a thread that becomes idle, or ceases to be, and a job that comes then.
#![allow(unsafe_code)]

use crate::{Watched, check};
use loom::sync::Arc;
use sinew::protocols::{Next, Placed, Pool, Worker};

/// A call, which lies on the stack of a fibre.
#[derive(Clone, Copy)]
struct Call(&'static Watched<u32>);

// SAFETY: loom watches who uses it when.
unsafe impl Send for Call {}

/// The threads that there may be.
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

/// Runs a call: what the fibre wrote before is seen.
fn run(call: Call) {
    call.0.change(|value| {
        assert_eq!(*value, 1);
        *value = 2;
    });
}

/// A fibre's part. Whether a thread has to be started for the call, which is run then.
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

/// A thread's part, until it has run one more call or ends. Whether it has.
fn serve(pool: &Pool<Call>, is_overdue: bool) -> bool {
    let worker = Worker::new();
    let next = match pool.next(&worker, BOUND) {
        Next::Job(call) => Some(call),
        Next::Wait => worker.wait(pool, is_overdue),
        Next::End => None,
    };
    next.map(run).is_some()
}

#[test]
fn a_call_that_comes_while_a_thread_becomes_idle_is_run() {
    check(2, 4, |turn| {
        let (pool, its) = pool();
        let (started, served) = turn.two(move || submit(&pool), move || serve(&its, false));
        assert!(served && !started);
    });
}

#[test]
fn a_call_that_comes_when_the_time_of_an_idle_thread_is_up_is_run_once() {
    check(2, 4, |turn| {
        let (pool, its) = pool();
        let kept = Arc::clone(&pool);
        let (started, served) = turn.two(move || submit(&pool), move || serve(&its, true));
        assert!(started != served, "started: {started}, served: {served}");
        assert_eq!(kept.threads(), 1);
    });
}

#[test]
fn a_thread_that_is_let_go_ends_once() {
    check(2, 4, |turn| {
        let (pool, its) = pool();
        let kept = Arc::clone(&pool);
        let (_, served) = turn.two(move || pool.dismiss(0), move || serve(&its, true));
        assert!(!served);
        assert_eq!(kept.threads(), 0);
    });
}

/// The same thread serves twice.
#[test]
fn a_thread_is_told_anew_each_time() {
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
                    Next::Wait => run(worker.wait(&its, false).expect("it is not let go")),
                    Next::End => panic!("there are no more than there may be"),
                }
            }
        };
        turn.two(submit_twice, serve_twice);
    });
}
