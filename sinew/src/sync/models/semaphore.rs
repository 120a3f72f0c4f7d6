//! `RawSemaphore`.

use super::overdue;
use crate::base::models::{Watched, check};
use crate::sync::raw_semaphore::{MOST, RawSemaphore};
use crate::wait::{Limit, Outcome};
use loom::sync::Arc;
use std::task::{Context, Waker};

/// A semaphore, and what givers did before they gave.
struct Store {
    semaphore: RawSemaphore,
    done: [Watched<u32>; 2],
}

impl Store {
    fn new<const N: usize>() -> [Arc<Store>; N] {
        let store = Arc::new(Store { semaphore: RawSemaphore::new(0), done: [Watched::new(0), Watched::new(0)] });
        [(); N].map(|()| Arc::clone(&store))
    }

    fn give(&self, number: usize, permits: usize) {
        self.done[number].set(7);
        self.semaphore.give(permits, MOST);
    }

    fn take(&self, permits: usize) {
        assert_eq!(self.semaphore.take(permits, Limit::NONE), Outcome::Told);
    }

    /// Takes with a limit that has ended. Returns whether it got the permits.
    fn take_overdue(&self, permits: usize) -> bool {
        self.semaphore.take(permits, overdue()) == Outcome::Told
    }

    fn assert_done(&self, numbers: usize) {
        for done in &self.done[..numbers] {
            assert_eq!(done.get(), 7);
        }
    }
}

#[test]
fn a_taker_sees_what_the_giver_of_its_permit_did() {
    check(3, 2, |turn| {
        let [giver, waiter, passer, after] = Store::new();
        let give = move || {
            giver.give(0, 2);
            0
        };
        let wait = move || {
            waiter.take(1);
            waiter.assert_done(1);
            1
        };
        let pass = move || {
            let taken = passer.semaphore.try_take(1);
            if taken {
                passer.assert_done(1);
            }
            taken.into()
        };
        let taken: [usize; 3] = turn.all([Box::new(give), Box::new(wait), Box::new(pass)]);
        assert_eq!(after.semaphore.permits(), 2 - taken.into_iter().sum::<usize>());
    });
}

#[test]
fn a_taker_of_the_permits_of_two_givers_sees_what_both_did() {
    check(3, 3, |turn| {
        let [one, two, taker, after] = Store::new();
        let take = move || {
            if taker.semaphore.try_take(2) {
                taker.assert_done(2);
            }
        };
        turn.all([Box::new(move || one.give(0, 1)), Box::new(move || two.give(1, 1)), Box::new(take)]);
        assert!(matches!(after.semaphore.permits(), 0 | 2));
    });
}

#[test]
fn a_taker_that_gives_up_loses_no_permit_and_nothing_that_its_giver_did() {
    check(2, 3, |turn| {
        let [giver, waiter, after] = Store::new();
        let give = move || {
            giver.give(0, 1);
            giver.give(1, 1);
        };
        let wait = move || {
            let mut taken = usize::from(waiter.take_overdue(1));
            while taken < 2 && waiter.semaphore.try_take(1) {
                taken += 1;
            }
            waiter.assert_done(taken);
            taken
        };
        let ((), taken) = turn.two(give, wait);
        assert_eq!(after.semaphore.permits(), 2 - taken);
        after.take(2 - taken);
    });
}

#[test]
fn a_taker_that_gives_up_leaves_its_permits_to_the_next_that_needs_less() {
    check(2, 3, |turn| {
        let [first, second, after] = Store::new();
        first.semaphore.give(1, MOST);
        let (taken, ()) = turn.two(move || first.take_overdue(2), move || second.take(1));
        assert!(!taken);
        assert_eq!(after.semaphore.permits(), 0);
    });
}

/// The first of two futures wants both permits, and is dropped.
#[test]
fn a_future_that_is_given_permits_and_dropped_gives_them_to_the_next() {
    check(2, 3, |turn| {
        let [giver, next, after] = Store::new();
        let mut context = Context::from_waker(Waker::noop());
        let [mut first, mut second] = [2, 1].map(|permits| {
            let store = Arc::clone(&giver);
            Box::pin(async move { store.semaphore.take_async(permits, MOST).await })
        });
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        turn.two(move || giver.give(0, 2), move || drop(first));
        assert!(second.as_mut().poll(&mut context).is_ready(), "the permits are passed on");
        next.assert_done(1);
        assert_eq!(after.semaphore.permits(), 1);
    });
}
