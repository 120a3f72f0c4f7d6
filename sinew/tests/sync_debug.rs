//! What `Debug` prints: the state of an object, never an address.

mod fixture;

use fixture::{alone, everywhere, message, wait_until};
use sinew::sync::{
    Barrier, BinarySemaphore, Condvar, LazyLock, Mutex, Once, OnceLock, RwLock, Select, Semaphore, WaitGroup, mpmc,
    mpsc, oneshot,
};
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// Asserts what `object` prints.
#[track_caller]
fn prints(object: &impl Debug, expected: &str) {
    assert_eq!(format!("{object:?}"), expected);
}

/// Waits until `object` prints that.
fn will_print(object: &impl Debug, expected: &str) {
    wait_until(|| format!("{object:?}") == expected);
}

#[test]
fn locks_print_their_values_as_stds_do() {
    macro_rules! story {
        ($mutex:expr, $rwlock:expr) => {{
            let (mutex, rwlock) = ($mutex, $rwlock);
            let mut story = vec![format!("{mutex:?} {rwlock:?}")];
            let (locked, reading) = (mutex.lock().unwrap(), rwlock.read().unwrap());
            story.push(format!("{locked:?} {reading:?} {mutex:?} {rwlock:?}"));
            drop((locked, reading));
            let writing = rwlock.write().unwrap();
            story.push(format!("{writing:?} {rwlock:?}"));
            drop(writing);
            let fails = catch_unwind(AssertUnwindSafe(|| {
                let _locks = (mutex.lock(), rwlock.write());
                resume_unwind(Box::new("failed"))
            }));
            story.push(format!("{:?} {mutex:?} {rwlock:?}", fails.map_err(|payload| message(&*payload))));
            story
        }};
    }
    alone(|| {
        let expected = story!(std::sync::Mutex::new(1), std::sync::RwLock::new("two"));
        // Some versions of std print a locked mutex with quotes, unlike a locked RwLock.
        let expected = expected.into_iter().map(|line| line.replace("\"<locked>\"", "<locked>"));
        assert_eq!(story!(Mutex::new(1), RwLock::new("two")), expected.collect::<Vec<_>>());
    });
}

#[test]
fn places_print_their_values_as_stds_do() {
    alone(|| {
        let (place, lazy) = (OnceLock::new(), LazyLock::new(|| 7));
        prints(&place, "OnceLock(<uninit>)");
        prints(&lazy, "LazyLock(<uninit>)");
        place.set(6).unwrap();
        assert_eq!(*lazy, 7);
        prints(&place, "OnceLock(6)");
        prints(&lazy, "LazyLock(7)");
    });
}

#[test]
fn semaphores_print_their_permits_and_waiters() {
    everywhere(|rt, _| {
        let semaphore = Arc::new(Semaphore::new(3));
        let permit = semaphore.acquire_many(2).unwrap();
        prints(&permit, "Permit { semaphore: Semaphore { available: 1, waiters: 0 }, count: 2 }");
        let waits = || {
            let semaphore = Arc::clone(&semaphore);
            rt.spawn(move || drop(semaphore.acquire_many(2).unwrap()))
        };
        let waiters = [waits(), waits()];
        will_print(&semaphore, "Semaphore { available: 1, waiters: 2 }");
        drop(permit);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        prints(&semaphore, "Semaphore { available: 3, waiters: 0 }");

        let binary = Arc::new(BinarySemaphore::new(true));
        prints(&binary, "BinarySemaphore { posted: true, waiters: 0 }");
        binary.wait();
        let its = Arc::clone(&binary);
        let waiter = rt.spawn(move || its.wait());
        will_print(&binary, "BinarySemaphore { posted: false, waiters: 1 }");
        binary.post();
        waiter.join().unwrap();
    });
}

#[test]
fn those_who_wait_for_each_other_are_counted() {
    everywhere(|rt, _| {
        let barrier = Arc::new(Barrier::new(2));
        let its = Arc::clone(&barrier);
        let first = rt.spawn(move || its.wait().is_leader());
        will_print(&barrier, "Barrier { parties: 2, arrived: 1 }");
        assert!(barrier.wait().is_leader() && !first.join().unwrap());
        prints(&barrier, "Barrier { parties: 2, arrived: 0 }");

        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        prints(&pair.1, "Condvar { waiters: 0 }");
        let its = Arc::clone(&pair);
        let waiter = rt.spawn(move || drop(its.1.wait_while(its.0.lock().unwrap(), |go| !*go)));
        will_print(&pair.1, "Condvar { waiters: 1 }");
        *pair.0.lock().unwrap() = true;
        pair.1.notify_all();
        waiter.join().unwrap();

        let group = WaitGroup::new();
        let (party, waits) = (group.clone(), group.clone());
        prints(&group, "WaitGroup { parties: 3, waiters: 0 }");
        let waiter = rt.spawn(move || waits.wait());
        will_print(&group, "WaitGroup { parties: 2, waiters: 1 }");
        drop((group, party));
        waiter.join().unwrap();
    });
}

#[test]
fn a_once_prints_its_stage_and_not_who_runs_the_closure() {
    everywhere(|rt, _| {
        let (once, go) = (Arc::new(Once::new()), Arc::new(BinarySemaphore::new(false)));
        prints(&once, "Once { stage: untouched, waiters: 0 }");
        let (its, goes) = (Arc::clone(&once), Arc::clone(&go));
        let runner = rt.spawn(move || {
            let closure = || {
                goes.wait();
                resume_unwind(Box::new("failed"));
            };
            catch_unwind(AssertUnwindSafe(|| its.call_once(closure))).is_err()
        });
        will_print(&once, "Once { stage: running, waiters: 0 }");
        let its = Arc::clone(&once);
        let waiter = rt.spawn(move || its.wait_force());
        will_print(&once, "Once { stage: running, waiters: 1 }");
        go.post();
        assert!(runner.join().unwrap());
        will_print(&once, "Once { stage: poisoned, waiters: 1 }");
        once.call_once_force(|_| ());
        waiter.join().unwrap();
        prints(&once, "Once { stage: done, waiters: 0 }");
    });
}

#[test]
fn both_ends_of_a_channel_print_its_state() {
    everywhere(|rt, _| {
        let (sender, receiver) = mpmc::sync_channel(2);
        let more = sender.clone();
        (0..2).for_each(|message| sender.send(message).unwrap());
        let waiter = rt.spawn(move || more.send(2).unwrap());
        let state = "messages: 2, capacity: 2, senders: 2, receivers: 1, waiters: 1, closed: false";
        will_print(&sender, &format!("Sender {{ {state} }}"));
        prints(&receiver, &format!("Receiver {{ {state} }}"));
        prints(&receiver.iter(), &format!("Iter {{ receiver: Receiver {{ {state} }} }}"));
        drop(sender);
        assert_eq!(receiver.recv(), Ok(0));
        waiter.join().unwrap();
        let state = "messages: 2, capacity: 2, senders: 0, receivers: 1, waiters: 0, closed: true";
        prints(&receiver, &format!("Receiver {{ {state} }}"));

        let (sender, receiver) = mpsc::channel::<u32>();
        let waiter = rt.spawn(move || receiver.recv());
        let state = "messages: 0, capacity: unbounded, senders: 1, receivers: 1, waiters: 1, closed: false";
        will_print(&sender, &format!("Sender {{ {state} }}"));
        sender.send(7).unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(7));
        let state = "messages: 0, capacity: unbounded, senders: 1, receivers: 0, waiters: 0, closed: true";
        prints(&sender, &format!("Sender {{ {state} }}"));

        let (sender, receiver) = oneshot::channel();
        let state = "messages: 0, capacity: 1, senders: 1, receivers: 1, waiters: 0, closed: false";
        prints(&sender, &format!("Sender {{ {state} }}"));
        sender.send(7).unwrap();
        let state = "messages: 1, capacity: 1, senders: 0, receivers: 1, waiters: 0, closed: true";
        prints(&receiver, &format!("Receiver {{ {state} }}"));
        prints(&Select::new().recv(&receiver, drop), "Select { arms: 1, .. }");
    });
}
