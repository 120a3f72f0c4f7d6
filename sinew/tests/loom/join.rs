//! `fibre::join::Join`: how a result is handed over.

use crate::{Watched, check};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::*};
use loom::thread;
use sinew::protocols::{Completed, Join};
use std::num::NonZeroU64;

const WAITER: NonZeroU64 = NonZeroU64::new(64).unwrap();

/// A fibre with a result that is there, taken or dropped.
struct Fibre {
    join: Join,
    result: Watched<Option<u32>>,
    wake_ups: AtomicU32,
}

impl Fibre {
    fn new() -> Arc<Fibre> {
        Arc::new(Fibre { join: Join::new(), result: Watched::new(None), wake_ups: AtomicU32::new(0) })
    }

    /// Ends the fibre, as `Record::execute` does. Whether it dropped the result.
    fn end(&self) -> bool {
        self.result.set(Some(7));
        match self.join.complete() {
            Completed::Kept => false,
            Completed::Unwanted => self.take() == Some(7),
            Completed::Wake(waiter) => {
                assert_eq!(waiter, WAITER);
                self.wake_ups.fetch_add(1, Relaxed);
                false
            }
        }
    }

    fn take(&self) -> Option<u32> {
        self.result.change(Option::take)
    }
}

fn ending(fibre: &Arc<Fibre>) -> thread::JoinHandle<bool> {
    let fibre = Arc::clone(fibre);
    thread::spawn(move || fibre.end())
}

#[test]
fn a_waiter_is_woken_once_and_finds_the_result() {
    check(4, || {
        let fibre = Fibre::new();
        let ending = ending(&fibre);
        let entered = fibre.join.wait(WAITER);
        while !fibre.join.is_done() {
            assert!(entered);
            thread::yield_now();
        }
        assert_eq!(fibre.take(), Some(7));
        assert!(!ending.join().unwrap(), "the result was the waiter's");
        assert_eq!(fibre.wake_ups.load(Relaxed), u32::from(entered), "woken if it waits, and once");
    });
}

#[test]
fn a_handle_that_looks_first_sees_the_result() {
    check(4, || {
        let fibre = Fibre::new();
        let ending = ending(&fibre);
        if fibre.join.is_done() {
            assert_eq!(fibre.take(), Some(7));
        }
        assert!(!ending.join().unwrap());
    });
}

#[test]
fn a_result_is_dropped_by_the_fibre_or_by_the_handle_that_detaches() {
    check(4, || {
        let fibre = Fibre::new();
        let ending = ending(&fibre);
        let here = fibre.join.detach() && fibre.take() == Some(7);
        let there = ending.join().unwrap();
        assert!(here != there, "dropped by {}", u32::from(here) + u32::from(there));
        assert_eq!(fibre.wake_ups.load(Relaxed), 0);
    });
}

#[test]
fn a_waiter_that_withdraws_is_its_own_again_or_was_woken() {
    check(4, || {
        let fibre = Fibre::new();
        let ending = ending(&fibre);
        let entered = fibre.join.wait(WAITER);
        let withdrawn = entered && fibre.join.withdraw(WAITER);
        let here = fibre.join.detach() && fibre.take() == Some(7);
        let there = ending.join().unwrap();
        assert_eq!(fibre.wake_ups.load(Relaxed), u32::from(entered && !withdrawn));
        assert!(here != there, "dropped by {}", u32::from(here) + u32::from(there));
    });
}

#[test]
fn what_the_waiter_stands_for_is_seen_by_whoever_wakes_it() {
    check(4, || {
        let fibre = Arc::new((Join::new(), Watched::new(0)));
        let other = Arc::clone(&fibre);
        let ending = thread::spawn(move || {
            if let Completed::Wake(_) = other.0.complete() {
                assert_eq!(other.1.get(), 7);
            }
        });
        fibre.1.set(7);
        let _ = fibre.0.wait(WAITER);
        ending.join().unwrap();
    });
}
