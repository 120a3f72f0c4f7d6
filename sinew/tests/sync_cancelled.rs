//! The calls of `sync` that notice a cancellation, and those that do not.

mod fixture;

use fixture::{LONG, everywhere, wait_until};
use sinew::cancel;
use sinew::sync::{
    AcquireError, Barrier, BinarySemaphore, Condvar, Mutex, Once, OnceLock, RwLock, Semaphore, WaitGroup,
};
use sinew::time;
use std::sync::Arc;
use std::sync::TryLockError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

type Call = Box<dyn Fn() -> bool + Send + Sync>;

/// Calls that would wait for ever. Each returns whether it gave up, and took nothing.
fn calls_that_notice() -> Vec<(&'static str, Call)> {
    let semaphore = Arc::new(Semaphore::new(1));
    let given_up = |error: AcquireError| matches!(error, AcquireError::Cancelled | AcquireError::TimedOut);
    let mut calls: Vec<(&'static str, Call)> = Vec::new();
    let its = Arc::clone(&semaphore);
    calls.push((
        "acquire_many",
        Box::new(move || its.acquire_many(2).map(|_| ()).is_err_and(given_up) && its.available() == 1),
    ));
    let its = Arc::clone(&semaphore);
    calls.push(("acquire_many_owned", Box::new(move || Arc::clone(&its).acquire_many_owned(2).is_err())));
    let empty = Arc::new(Semaphore::new(0));
    let its = Arc::clone(&empty);
    calls.push(("acquire", Box::new(move || its.acquire().is_err())));
    let its = Arc::clone(&empty);
    calls.push(("acquire_owned", Box::new(move || Arc::clone(&its).acquire_owned().is_err())));
    calls.push(("wait_cancellable", Box::new(move || empty.wait_cancellable().is_err_and(given_up))));
    let binary = BinarySemaphore::new(false);
    calls.push(("of a binary semaphore", Box::new(move || binary.wait_cancellable().is_err_and(given_up))));
    let mutex = Mutex::new(());
    std::mem::forget(mutex.lock().unwrap());
    calls.push((
        "lock_cancellable",
        Box::new(move || matches!(mutex.lock_cancellable(), Err(TryLockError::WouldBlock))),
    ));
    let written = RwLock::new(());
    std::mem::forget(written.write().unwrap());
    calls.push((
        "read_cancellable",
        Box::new(move || matches!(written.read_cancellable(), Err(TryLockError::WouldBlock))),
    ));
    let read = RwLock::new(());
    std::mem::forget(read.read().unwrap());
    // The writer that gave up does not hold up another reader.
    let gives_up = move || matches!(read.write_cancellable(), Err(TryLockError::WouldBlock)) && read.try_read().is_ok();
    calls.push(("write_cancellable", Box::new(gives_up)));
    let pair = (Mutex::new(()), Condvar::new());
    let waits = move || {
        let (guard, result) = pair.1.wait_cancellable(pair.0.lock().unwrap()).unwrap();
        drop(guard);
        let (guard, while_true) = pair.1.wait_cancellable_while(pair.0.lock().unwrap(), |()| true).unwrap();
        drop(guard);
        result.timed_out() && while_true.timed_out()
    };
    calls.push(("a condition variable", Box::new(waits)));
    let barrier = Barrier::new(2);
    calls.push(("a barrier", Box::new(move || barrier.wait_cancellable().is_err())));
    let (value, once) = (OnceLock::<u8>::new(), Once::new());
    calls.push(("a OnceLock", Box::new(move || value.wait_cancellable().is_none())));
    calls.push(("a Once", Box::new(move || !once.wait_cancellable() && !once.wait_force_cancellable())));
    let group = WaitGroup::new();
    let waits = move || {
        let party = group.clone();
        let party = party.wait_cancellable().expect_err("the group has another party");
        format!("{party:?}").contains("parties: 2")
    };
    calls.push(("a wait group", Box::new(waits)));
    calls
}

#[test]
fn a_cancelled_fibre_gives_up_before_and_during_a_wait() {
    everywhere(|rt, _| {
        for early in [true, false] {
            for (what, call) in calls_that_notice() {
                let begun = Arc::new(AtomicBool::new(false));
                let go = Arc::new(Semaphore::new(0));
                let (begins, starts) = (Arc::clone(&begun), Arc::clone(&go));
                let handle = rt.spawn(move || {
                    begins.store(true, Ordering::Relaxed);
                    // `wait` does not notice a cancellation.
                    starts.wait();
                    call()
                });
                wait_until(|| begun.load(Ordering::Relaxed));
                if early {
                    handle.fibre().cancel();
                    go.post(1);
                } else {
                    go.post(1);
                    sinew::yield_now();
                    handle.fibre().cancel();
                }
                let gave_up = handle.join_timeout(LONG).unwrap_or_else(|_| panic!("{what} waits on")).unwrap();
                assert!(gave_up, "{what} did not give up, or took something");
            }
        }
    });
}

#[test]
fn a_carried_deadline_ends_the_wait_and_a_shield_does_not_let_a_request_in() {
    everywhere(|rt, _| {
        let check = || {
            for (what, call) in calls_that_notice() {
                assert!(time::timeout(Duration::from_micros(200), &call), "{what} did not give up");
            }
        };
        rt.run(check);
        check();
        let shielded = rt.spawn(|| {
            let semaphore = Semaphore::new(0);
            sinew::current().cancel();
            assert_eq!(semaphore.acquire().map(|_| ()), Err(AcquireError::Cancelled));
            let (posted, waits) = (Arc::new(semaphore), Arc::new(AtomicBool::new(false)));
            let (posts, is_waiting) = (Arc::clone(&posted), Arc::clone(&waits));
            let poster = sinew::spawn(move || {
                wait_until(|| is_waiting.load(Ordering::Relaxed));
                posts.post(1);
            });
            waits.store(true, Ordering::Relaxed);
            let count = cancel::shield(|| posted.acquire().map(|permit| permit.count()));
            poster.join().unwrap();
            count
        });
        assert_eq!(shielded.join().unwrap(), Ok(1));
    });
}

#[test]
fn a_cancelled_fibre_gets_what_needs_no_waiting() {
    everywhere(|rt, _| {
        let handle = rt.spawn(|| {
            sinew::current().cancel();
            let (semaphore, mutex, rwlock) = (Arc::new(Semaphore::new(3)), Mutex::new(1), RwLock::new(2));
            let permits = (semaphore.acquire().unwrap(), Arc::clone(&semaphore).acquire_many_owned(2).unwrap());
            assert_eq!(semaphore.available(), 0);
            drop(permits);
            semaphore.wait_cancellable().unwrap();
            BinarySemaphore::new(true).wait_cancellable().unwrap();
            assert_eq!(*mutex.lock_cancellable().unwrap() + *rwlock.read_cancellable().unwrap(), 3);
            assert_eq!(*rwlock.write_cancellable().unwrap(), 2);
            assert!(Barrier::new(1).wait_cancellable().unwrap().is_leader());
            assert_eq!(OnceLock::from(7).wait_cancellable(), Some(&7));
            assert!(WaitGroup::new().wait_cancellable().is_ok());
        });
        handle.join().unwrap();
    });
}
