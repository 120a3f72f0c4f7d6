//! `sync::raw_semaphore::RawSemaphore`, among kernel threads.

use crate::{Watched, check};
use loom::sync::Arc;
use sinew::protocols::RawSemaphore;

/// What givers did before each of their permits.
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
        self.semaphore.give(permits);
    }

    fn assert_done(&self, numbers: usize) {
        for done in &self.done[..numbers] {
            assert_eq!(done.get(), 7);
        }
    }
}

#[test]
fn whoever_takes_a_permit_sees_what_its_giver_did() {
    check(3, 2, |turn| {
        let [giver, waiter, passer, after] = Store::new();
        let give = move || {
            giver.give(0, 2);
            0
        };
        let wait = move || {
            waiter.semaphore.take(1);
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
fn one_that_takes_the_permits_of_two_sees_what_both_did() {
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
fn one_that_gives_up_loses_no_permit_and_nothing_that_was_done_before_it() {
    check(2, 3, |turn| {
        let [giver, waiter, after] = Store::new();
        let give = move || {
            giver.give(0, 1);
            giver.give(1, 1);
        };
        let wait = move || {
            let mut taken = usize::from(waiter.semaphore.take_overdue(1));
            while taken < 2 && waiter.semaphore.try_take(1) {
                taken += 1;
            }
            waiter.assert_done(taken);
            taken
        };
        let ((), taken) = turn.two(give, wait);
        assert_eq!(after.semaphore.permits(), 2 - taken);
        after.semaphore.take(2 - taken);
    });
}

#[test]
fn one_that_gives_up_lets_those_behind_it_have_what_was_not_enough_for_it() {
    check(2, 3, |turn| {
        let [first, second, after] = Store::new();
        first.semaphore.give(1);
        let (taken, ()) = turn.two(move || first.semaphore.take_overdue(2), move || second.semaphore.take(1));
        assert!(!taken);
        assert_eq!(after.semaphore.permits(), 0);
    });
}
