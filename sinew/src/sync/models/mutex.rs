//! `RawMutex`, with both policies.

use super::overdue;
use crate::base::models::{Watched, check};
use crate::sync::Policy;
use crate::sync::raw_mutex::RawMutex;
use loom::sync::Arc;
use std::pin::Pin;
use std::task::{Context, Waker};

const POLICIES: [Policy; 2] = [Policy::Barge, Policy::HandOver];

/// A sum that a mutex guards.
struct Guarded {
    mutex: RawMutex,
    sum: Watched<u32>,
}

impl Guarded {
    fn new<const N: usize>(policy: Policy) -> [Arc<Guarded>; N] {
        let guarded = Arc::new(Guarded { mutex: RawMutex::new(policy), sum: Watched::new(0) });
        [(); N].map(|()| Arc::clone(&guarded))
    }

    fn add_and_unlock(&self) {
        self.sum.change(|sum| *sum += 1);
        self.mutex.unlock();
    }

    fn add(&self) {
        self.mutex.lock();
        self.add_and_unlock();
    }

    /// Adds if the lock is free or is handed over. Returns what it added.
    fn add_overdue(&self) -> u32 {
        let locked = self.mutex.lock_within(overdue());
        if locked {
            self.add_and_unlock();
        }
        locked.into()
    }

    /// The lock is free, and can be used as a new one.
    fn assert_free(&self, sum: u32) {
        assert!(self.mutex.try_lock(), "the lock is free");
        assert!(!self.mutex.try_lock());
        assert_eq!(self.sum.get(), sum);
        self.mutex.unlock();
        self.add();
        assert!(self.mutex.try_lock());
    }
}

#[test]
fn holders_exclude_each_other_and_see_what_the_last_holder_did() {
    for policy in POLICIES {
        check(2, 3, move |turn| {
            let [one, two, after] = Guarded::new(policy);
            turn.two(move || one.add(), move || two.add());
            after.assert_free(2);
        });
    }
}

#[test]
fn a_release_wakes_a_waiter_and_both_contenders_get_the_lock() {
    for policy in POLICIES {
        check(2, 2, move |turn| {
            let [holder, one, two, after] = Guarded::new(policy);
            holder.mutex.lock();
            let release_and_add = move || {
                holder.add_and_unlock();
                one.add();
            };
            turn.two(release_and_add, move || two.add());
            after.assert_free(3);
        });
    }
}

#[test]
fn a_waiter_whose_limit_ends_during_the_release_leaves_the_lock_usable() {
    for policy in POLICIES {
        check(2, 3, move |turn| {
            let [one, two, after] = Guarded::new(policy);
            let ((), locked) = turn.two(move || one.add(), move || two.add_overdue());
            after.assert_free(1 + locked);
        });
    }
}

#[test]
fn a_passer_that_locks_while_a_waiter_is_woken_sees_what_the_last_holder_did() {
    for policy in POLICIES {
        check(3, 2, move |turn| {
            let [holder, waiter, passer, after] = Guarded::new(policy);
            holder.mutex.lock();
            let release = move || {
                holder.add_and_unlock();
                1
            };
            let wait = move || {
                waiter.add();
                1
            };
            let pass = move || {
                let locked = passer.mutex.try_lock();
                if locked {
                    passer.add_and_unlock();
                }
                locked.into()
            };
            let sums: [u32; 3] = turn.all([Box::new(release), Box::new(wait), Box::new(pass)]);
            after.assert_free(sums.into_iter().sum());
        });
    }
}

#[test]
fn a_waiter_whose_limit_has_ended_comes_back_and_sees_what_the_holder_did() {
    for policy in POLICIES {
        check(2, 3, move |turn| {
            let [holder, other, after] = Guarded::new(policy);
            holder.mutex.lock();
            let come_back = move || {
                let locked = other.add_overdue();
                other.add();
                1 + locked
            };
            let ((), locked) = turn.two(move || holder.add_and_unlock(), come_back);
            after.assert_free(1 + locked);
        });
    }
}

/// A future that waits for the lock.
struct Future(Pin<Box<dyn std::future::Future<Output = ()>>>);

impl Future {
    fn new(guarded: &Arc<Guarded>) -> Future {
        let guarded = Arc::clone(guarded);
        Future(Box::pin(async move { guarded.mutex.lock_async().await }))
    }

    /// Polls. Returns whether it has the lock.
    fn poll(&mut self) -> bool {
        self.0.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }
}

#[test]
fn a_future_that_is_woken_and_dropped_passes_on_the_lock_and_what_others_did() {
    for policy in POLICIES {
        check(3, 2, move |turn| {
            let [holder, next, after] = Guarded::new(policy);
            holder.mutex.lock();
            let [mut first, mut second] = [Future::new(&holder), Future::new(&holder)];
            assert!(!first.poll() && !second.poll());
            let release_and_barge = move || {
                holder.add_and_unlock();
                let locked = holder.mutex.try_lock();
                if locked {
                    holder.add_and_unlock();
                }
                (1 + u32::from(locked), None)
            };
            let give_up = move || {
                drop(first);
                (0, None)
            };
            // It looks once: a model has one thread that spins.
            let look = move || {
                let locked = second.poll();
                if locked {
                    next.add_and_unlock();
                }
                (u32::from(locked), (!locked).then_some(second))
            };
            let ends = turn.all([Box::new(release_and_barge), Box::new(give_up), Box::new(look)]);
            let mut sum = 0;
            for (added, waiting) in ends {
                sum += added;
                if let Some(mut second) = waiting {
                    assert!(second.poll(), "the lock is passed on to the next");
                    after.add_and_unlock();
                    sum += 1;
                }
            }
            after.assert_free(sum);
        });
    }
}
