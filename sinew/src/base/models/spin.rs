//! `SpinLock`: its holders exclude each other.

use super::{Watched, check};
use crate::base::spin::SpinLock;
use loom::sync::Arc;

fn add(lock: &SpinLock<Watched<u32>>) {
    lock.lock().change(|sum| *sum += 1);
}

#[test]
fn holders_exclude_each_other_and_see_what_the_last_holder_did() {
    check(2, 3, |turn| {
        let lock = Arc::new(SpinLock::new(Watched::new(0)));
        let (one, two) = (Arc::clone(&lock), Arc::clone(&lock));
        turn.two(move || [add(&one), add(&one)], move || [add(&two), add(&two)]);
        assert_eq!(lock.lock().get(), 4);
    });
}

#[test]
fn a_try_that_fails_does_not_release_the_lock() {
    check(2, 4, |turn| {
        let lock = Arc::new(SpinLock::new(Watched::new(0)));
        let (one, two) = (Arc::clone(&lock), Arc::clone(&lock));
        let hold = move || {
            let held = one.lock();
            held.change(|sum| *sum += 1);
            assert!(one.try_lock().is_none());
            held.change(|sum| *sum += 1);
        };
        let try_twice = move || {
            let tried = [(); 2].map(|()| two.try_lock().map(|held| held.change(|sum| *sum += 1)));
            tried.into_iter().flatten().count() as u32
        };
        let ((), tried) = turn.two(hold, try_twice);
        assert_eq!(lock.lock().get(), 2 + tried);
    });
}

#[test]
fn a_try_that_succeeds_excludes_others_and_sees_what_the_last_holder_did() {
    for attempt in [SpinLock::try_lock, SpinLock::lock_at_once] {
        check(2, 4, move |turn| {
            let lock = Arc::new(SpinLock::new(Watched::new(0)));
            let (one, two) = (Arc::clone(&lock), Arc::clone(&lock));
            let try_once = move || attempt(&two).map(|held| held.change(|sum| *sum += 1)).is_some();
            let ((), tried) = turn.two(move || add(&one), try_once);
            assert_eq!(lock.lock().get(), 1 + u32::from(tried));
        });
    }
}
