//! `spin::SpinLock`.

use crate::{Watched, check};
use loom::sync::Arc;
use loom::thread;
use sinew::protocols::SpinLock;

#[test]
fn holders_exclude_each_other_and_see_what_the_last_one_did() {
    check(3, || {
        let lock = Arc::new(SpinLock::new(Watched::new(0)));
        let add_twice = |lock: &SpinLock<Watched<u32>>| (0..2).for_each(|_| lock.lock().change(|sum| *sum += 1));
        let other = Arc::clone(&lock);
        let adds = thread::spawn(move || add_twice(&other));
        add_twice(&lock);
        adds.join().unwrap();
        assert_eq!(lock.lock().get(), 4);
    });
}

#[test]
fn a_try_that_fails_does_not_release_the_lock() {
    check(4, || {
        let lock = Arc::new(SpinLock::new(Watched::new(0)));
        let held = lock.lock();
        let other = Arc::clone(&lock);
        let tries = thread::spawn(move || {
            for _ in 0..2 {
                if let Some(held) = other.try_lock() {
                    held.change(|sum| *sum += 1);
                }
            }
        });
        held.change(|sum| *sum += 1);
        assert!(lock.try_lock().is_none());
        held.change(|sum| *sum += 1);
        drop(held);
        tries.join().unwrap();
        assert!(lock.lock().get() >= 2);
    });
}

#[test]
fn a_try_that_succeeds_excludes_and_sees() {
    check(4, || {
        let lock = Arc::new(SpinLock::new(Watched::new(0)));
        let other = Arc::clone(&lock);
        let locks = thread::spawn(move || other.lock().change(|sum| *sum += 1));
        let tried = lock.try_lock().map(|held| held.change(|sum| *sum += 1));
        locks.join().unwrap();
        let expected = 1 + u32::from(tried.is_some());
        assert_eq!(lock.lock().get(), expected);
    });
}
