//! `Join`: the hand-over of a result.

use crate::base::models::{Watched, check};
use crate::strand::join::{Completed, Detached, Join, Wait};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use loom::thread;
use std::num::NonZeroU64;

const WAITER: NonZeroU64 = NonZeroU64::new(64).unwrap();

/// A fibre, and its result: `None` until it has finished, and when the result was taken or dropped.
struct Fibre {
    word: AtomicU64,
    result: Watched<Option<u32>>,
    wake_ups: AtomicU32,
}

impl Fibre {
    fn new() -> (Arc<Fibre>, Arc<Fibre>) {
        let fibre = Fibre { word: AtomicU64::new(0), result: Watched::new(None), wake_ups: AtomicU32::new(0) };
        let fibre = Arc::new(fibre);
        (Arc::clone(&fibre), fibre)
    }

    fn join(&self) -> Join<'_> {
        Join::of(&self.word)
    }

    /// Ends the fibre, as `Record::execute` does. Returns whether it dropped the result.
    fn end(&self) -> bool {
        self.result.set(Some(7));
        match self.join().complete() {
            Completed::Kept => false,
            Completed::Unwanted => self.take() == Some(7),
            Completed::Wake(waiter) => {
                assert_eq!(waiter.into_party(), WAITER);
                self.wake_ups.fetch_add(1, Relaxed);
                false
            }
        }
    }

    fn take(&self) -> Option<u32> {
        self.result.change(Option::take)
    }

    /// Detaches. Returns whether that dropped the result.
    fn detach(&self) -> bool {
        self.join().detach() == Detached::Done && self.take() == Some(7)
    }
}

#[test]
fn a_waiter_is_woken_once_and_finds_the_result() {
    check(2, 4, |turn| {
        let (fibre, handle) = Fibre::new();
        let wait = move || {
            let entered = handle.join().wait(WAITER) == Wait::Entered;
            while !handle.join().is_done() {
                assert!(entered);
                thread::yield_now();
            }
            assert_eq!(handle.take(), Some(7));
            (entered, handle)
        };
        let (dropped, (entered, handle)) = turn.two(move || fibre.end(), wait);
        assert!(!dropped, "the result was the waiter's");
        assert_eq!(handle.wake_ups.load(Relaxed), u32::from(entered), "woken if it waits, and once");
    });
}

#[test]
fn a_handle_that_looks_first_sees_the_result() {
    check(2, 4, |turn| {
        let (fibre, handle) = Fibre::new();
        let look = move || {
            if handle.join().is_done() {
                assert_eq!(handle.take(), Some(7));
            }
        };
        let (dropped, ()) = turn.two(move || fibre.end(), look);
        assert!(!dropped);
    });
}

#[test]
fn a_result_is_dropped_by_the_fibre_or_by_the_handle_that_detaches() {
    check(2, 4, |turn| {
        let (fibre, handle) = Fibre::new();
        let (one, two) = turn.two(move || fibre.end(), move || handle.detach());
        assert!(one != two, "dropped by {}", u32::from(one) + u32::from(two));
    });
}

#[test]
fn a_waiter_withdraws_or_is_woken_and_the_result_is_dropped_once() {
    check(2, 4, |turn| {
        let (fibre, handle) = Fibre::new();
        let change_its_mind = move || {
            let entered = handle.join().wait(WAITER) == Wait::Entered;
            let withdrawn = entered && handle.join().withdraw(WAITER);
            (handle.detach(), entered && !withdrawn, handle)
        };
        let (one, (two, woken, handle)) = turn.two(move || fibre.end(), change_its_mind);
        assert!(one != two, "dropped by {}", u32::from(one) + u32::from(two));
        assert_eq!(handle.wake_ups.load(Relaxed), u32::from(woken));
    });
}

#[test]
fn what_the_waiter_stands_for_is_seen_by_the_fibre_that_wakes_it() {
    check(2, 4, |turn| {
        let fibre = Arc::new((AtomicU64::new(0), Watched::new(0)));
        let handle = Arc::clone(&fibre);
        let wait = move || {
            handle.1.set(7);
            Join::of(&handle.0).wait(WAITER) == Wait::Entered
        };
        let end = move || {
            if let Completed::Wake(_) = Join::of(&fibre.0).complete() {
                assert_eq!(fibre.1.get(), 7);
            }
        };
        turn.two(end, wait);
    });
}
