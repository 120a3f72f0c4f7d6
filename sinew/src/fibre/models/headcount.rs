//! `Headcount`: the last fibre that leaves a scope against the owner that waits.

use crate::base::models::{Watched, check};
use crate::fibre::headcount::{Headcount, Left, Wait};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::*};
use loom::thread;
use std::num::NonZeroU64;

const OWNER: NonZeroU64 = NonZeroU64::new(64).unwrap();

/// A scope, what its fibres borrow, and the owner's signals.
struct Scope {
    headcount: Headcount,
    borrowed: [Watched<u32>; 2],
    /// What the owner's party stands for.
    owner: Watched<u32>,
    signals: AtomicU32,
}

impl Scope {
    /// Returns a scope whose owner has spawned this number of fibres.
    fn new(fibres: usize) -> Arc<Scope> {
        let headcount = Headcount::new();
        (0..fibres).for_each(|_| headcount.enter());
        let borrowed = [Watched::new(0), Watched::new(0)];
        Arc::new(Scope { headcount, borrowed, owner: Watched::new(0), signals: AtomicU32::new(0) })
    }

    /// Uses what a fibre borrowed, and ends the fibre.
    fn finish(&self, fibre: usize) {
        self.borrowed[fibre].set(1);
        if let Left::Last(owner) = self.headcount.leave() {
            assert_eq!((owner.into_party(), self.owner.get()), (OWNER, 7), "the owner has written its party");
            // Release, as of a signal: the owner goes on, and the scope may end.
            self.signals.fetch_add(1, Release);
        }
    }

    /// The owner waits, then uses what was lent. Returns whether it was signalled.
    fn wait(&self) -> bool {
        self.owner.set(7);
        let entered = self.headcount.wait(OWNER) == Wait::Entered;
        while entered && self.signals.load(Acquire) == 0 {
            thread::yield_now();
        }
        self.borrowed.iter().for_each(|place| place.change(|value| *value += 1));
        entered
    }
}

#[test]
fn the_owner_leaves_after_its_fibres_and_is_signalled_if_it_waits() {
    check(3, 3, |turn| {
        let scope = Scope::new(2);
        let [one, two, owner] = [0; 3].map(|_| Arc::clone(&scope));
        let fibre = |scope: Arc<Scope>, number| move || (scope.finish(number), false).1;
        let entered = turn.all([Box::new(fibre(one, 0)), Box::new(fibre(two, 1)), Box::new(move || owner.wait())])[2];
        assert_eq!(scope.signals.load(Relaxed), u32::from(entered), "signalled if it waits, and once");
        assert!(scope.borrowed.iter().all(|place| place.get() == 2));
    });
}

#[test]
fn a_fibre_that_brings_in_another_one_keeps_the_owner() {
    check(2, 4, |turn| {
        let scope = Scope::new(1);
        let (fibre, owner) = (Arc::clone(&scope), Arc::clone(&scope));
        let spawn = move || {
            fibre.headcount.enter();
            let its_own = Arc::clone(&fibre);
            let child = thread::spawn(move || its_own.finish(1));
            fibre.finish(0);
            child.join().unwrap();
        };
        let ((), entered) = turn.two(spawn, move || owner.wait());
        assert_eq!(scope.signals.load(Relaxed), u32::from(entered));
        assert!(scope.borrowed.iter().all(|place| place.get() == 2));
    });
}
