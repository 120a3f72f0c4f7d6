//! A fibre whose operations never have to wait still gives other fibres a turn, but not too often.

mod fixture;

use fixture::loopback::listener;
use fixture::{LONG, Setup, wherever};
use sinew::event::Colour;
use sinew::net::{TcpStream, UnixStream};
use sinew::sync::{Barrier, BinarySemaphore, Condvar, Mutex, RwLock, Select, Semaphore, WaitGroup, mpmc, mpsc};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The most system calls, and the most messages, between two turns of other fibres.
const MOST_CALLS: usize = 65;
const MOST_MESSAGES: usize = 1025;

const ROUNDS: usize = 5;

fn has_one_processor(setup: &Setup) -> bool {
    setup.processors == 1
}

/// Repeats `operation` until another fibre has had a turn. Returns the largest count of several
/// rounds, because the first round may start anywhere in a budget.
fn operations_until_a_turn<T>(most: usize, mut operation: impl FnMut() -> T) -> usize {
    let round = |_| {
        let had_a_turn = AtomicBool::new(false);
        sinew::scope(|scope| {
            scope.spawn(|| had_a_turn.store(true, Ordering::Relaxed));
            let mut count = 0;
            while !had_a_turn.load(Ordering::Relaxed) {
                operation();
                count += 1;
                assert!(count <= most, "another fibre had no turn within {count} operations");
            }
            count
        })
    };
    (0..ROUNDS).map(round).max().unwrap()
}

/// Checks a step that consists of two operations.
fn steps_until_a_turn(most: usize, step: impl FnMut()) {
    let longest = operations_until_a_turn(most / 2 + 1, step);
    assert!(longest >= most / 4, "another fibre had a turn after only {longest} steps");
}

#[test]
fn reads_and_writes_that_always_succeed_give_way() {
    wherever(has_one_processor, |rt, _| {
        rt.run(|| {
            let (mut here, mut there) = UnixStream::pair().unwrap();
            steps_until_a_turn(MOST_CALLS, || {
                here.write_all(b"x").unwrap();
                there.read_exact(&mut [0]).unwrap();
            });
        });
    });
}

#[test]
fn accepting_connections_that_are_always_there_gives_way() {
    wherever(has_one_processor, |rt, _| {
        rt.run(|| {
            let (listener, address) = listener();
            let connect = |_| std::net::TcpStream::connect(address).unwrap();
            let clients: Vec<_> = (0..ROUNDS * (MOST_CALLS + 1)).map(connect).collect();
            let mut accepted: Vec<TcpStream> = Vec::new();
            let longest = operations_until_a_turn(MOST_CALLS, || accepted.push(listener.accept().unwrap().0));
            assert!(longest >= MOST_CALLS / 2, "another fibre had a turn after only {longest} operations");
            drop(clients);
        });
    });
}

#[test]
fn messages_that_are_always_there_give_way() {
    wherever(has_one_processor, |rt, _| {
        rt.run(|| {
            let (tx, rx) = mpsc::channel();
            steps_until_a_turn(MOST_MESSAGES, || {
                tx.send(1).unwrap();
                rx.recv().unwrap();
            });
            let (tx, rx) = mpsc::sync_channel(1);
            steps_until_a_turn(MOST_MESSAGES, || {
                tx.send(1).unwrap();
                rx.recv().unwrap();
            });
            let (tx, rx) = mpmc::channel();
            steps_until_a_turn(MOST_MESSAGES, || {
                tx.send(1).unwrap();
                rx.recv().unwrap();
            });
        });
    });
}

#[test]
fn posts_give_way() {
    wherever(has_one_processor, |rt, _| {
        rt.run(|| {
            let colour = Colour::new();
            each_gives_way(|| colour.post(|| ()).unwrap());
        });
    });
}

/// Checks a step that consists of one operation.
fn each_gives_way(step: impl FnMut()) {
    let longest = operations_until_a_turn(MOST_MESSAGES, step);
    assert!(longest >= MOST_MESSAGES / 2, "another fibre had a turn after only {longest} operations");
}

#[test]
fn locks_that_are_always_free_give_way() {
    wherever(has_one_processor, |rt, _| {
        rt.run(|| {
            let never = Instant::now() + LONG;
            let mutex = Mutex::new(0);
            each_gives_way(|| *mutex.lock().unwrap() += 1);
            each_gives_way(|| *mutex.lock_timeout(LONG).unwrap() += 1);
            each_gives_way(|| *mutex.lock_deadline(never).unwrap() += 1);
            let rwlock = RwLock::new(0);
            each_gives_way(|| drop(rwlock.read().unwrap()));
            each_gives_way(|| drop(rwlock.read_timeout(LONG).unwrap()));
            each_gives_way(|| drop(rwlock.read_deadline(never).unwrap()));
            each_gives_way(|| *rwlock.write().unwrap() += 1);
            each_gives_way(|| *rwlock.write_timeout(LONG).unwrap() += 1);
            each_gives_way(|| *rwlock.write_deadline(never).unwrap() += 1);
            let semaphore = Semaphore::new(2);
            each_gives_way(|| drop(semaphore.acquire().unwrap()));
            each_gives_way(|| drop(semaphore.acquire_many(2).unwrap()));
            each_gives_way(|| drop(semaphore.acquire_timeout(LONG).unwrap()));
            each_gives_way(|| {
                semaphore.wait();
                semaphore.post(1);
            });
            let binary = BinarySemaphore::new(true);
            each_gives_way(|| {
                binary.wait();
                binary.post();
            });
            each_gives_way(|| {
                binary.wait_timeout(LONG).unwrap();
                binary.post();
            });
        });
    });
}

#[test]
fn other_waits_that_end_at_once_give_way() {
    wherever(has_one_processor, |rt, _| {
        rt.run(|| {
            let barrier = Barrier::new(1);
            each_gives_way(|| assert!(barrier.wait().is_leader()));
            each_gives_way(|| WaitGroup::new().wait());
            let (tx, rx) = mpsc::sync_channel(1);
            each_gives_way(|| {
                tx.try_send(1).unwrap();
                assert_eq!(Select::new().recv(&rx, |got| got.unwrap()).run(), 1);
            });
            drop(tx);
            each_gives_way(|| assert!(rx.recv().is_err()));
            each_gives_way(|| {
                sinew::current().unpark();
                sinew::park();
            });
            each_gives_way(|| {
                sinew::current().unpark();
                sinew::park_timeout(Duration::from_secs(1_000));
            });
            each_gives_way(|| sinew::sleep(Duration::ZERO));
        });
    });
}

#[test]
fn waits_with_a_timeout_of_zero_give_way() {
    wherever(has_one_processor, |rt, _| {
        rt.run(|| {
            let (_tx, rx) = mpmc::channel::<()>();
            each_gives_way(|| assert!(rx.recv_timeout(Duration::ZERO).is_err()));
            let semaphore = Semaphore::new(0);
            operations_until_a_turn(MOST_MESSAGES, || semaphore.wait_timeout(Duration::ZERO).unwrap_err());
            let (mutex, condvar) = (Mutex::new(()), Condvar::new());
            operations_until_a_turn(MOST_MESSAGES, || {
                let guard = mutex.lock().unwrap();
                assert!(condvar.wait_timeout(guard, Duration::ZERO).unwrap().1.timed_out());
            });
        });
    });
}

#[test]
fn a_producer_and_a_consumer_that_never_wait_let_a_third_fibre_run() {
    const AHEAD: usize = 10_000;
    wherever(has_one_processor, |rt, _| {
        rt.run(|| {
            let (tx, rx) = mpmc::channel();
            (0..AHEAD).for_each(|number| tx.send(number).unwrap());
            let had_a_turn = AtomicBool::new(false);
            sinew::scope(|scope| {
                // Each of the two stops when the third fibre has run, or fails.
                let producer = scope.spawn(|| {
                    let sent = (0..AHEAD).take_while(|_| !had_a_turn.load(Ordering::Relaxed));
                    sent.map(|number| tx.send(AHEAD + number).unwrap()).count()
                });
                let consumer = scope.spawn(|| {
                    let received = (0..AHEAD).take_while(|_| !had_a_turn.load(Ordering::Relaxed));
                    received.map(|number| assert_eq!(rx.recv(), Ok(number))).count()
                });
                scope.spawn(|| had_a_turn.store(true, Ordering::Relaxed));
                let (sent, received) = (producer.join().unwrap(), consumer.join().unwrap());
                assert!(sent <= MOST_MESSAGES, "{sent} messages were sent before the third fibre had a turn");
                assert!(
                    received <= MOST_MESSAGES,
                    "{received} messages were received before the third fibre had a turn"
                );
            });
        });
    });
}

#[test]
fn operations_that_only_try_never_give_way() {
    wherever(has_one_processor, |rt, _| {
        rt.run(|| {
            let (tx, rx) = mpmc::channel();
            let had_a_turn = AtomicBool::new(false);
            sinew::scope(|scope| {
                scope.spawn(|| had_a_turn.store(true, Ordering::Relaxed));
                for number in 0..3 * MOST_MESSAGES {
                    tx.try_send(number).unwrap();
                    assert_eq!(rx.try_recv(), Ok(number));
                }
                let (mutex, rwlock, semaphore) = (Mutex::new(0), RwLock::new(0), Semaphore::new(1));
                for _ in 0..3 * MOST_MESSAGES {
                    *mutex.try_lock().unwrap() += 1;
                    *rwlock.try_write().unwrap() += 1;
                    drop(rwlock.try_read().unwrap());
                    drop(semaphore.try_acquire().unwrap());
                }
                assert!(!had_a_turn.load(Ordering::Relaxed));
            });
            assert!(had_a_turn.load(Ordering::Relaxed));
        });
    });
}
