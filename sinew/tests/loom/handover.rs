//! `wait::handover::Handover`: whose the waker of a future is.

use crate::{Watched, check};
use loom::sync::Arc;
use sinew::protocols::Handover;

/// A slot with a waker, which is a number; gone when its future is.
struct Slot {
    handover: Handover,
    waker: Watched<u32>,
    /// What whoever tells it has for it.
    note: Watched<u32>,
}

impl Slot {
    fn new() -> (Arc<Slot>, Arc<Slot>) {
        let slot = Slot { handover: Handover::new(), waker: Watched::new(1), note: Watched::new(0) };
        let slot = Arc::new(slot);
        (Arc::clone(&slot), slot)
    }

    /// As `new`, but without a waker.
    fn empty() -> (Arc<Slot>, Arc<Slot>) {
        let slot = Slot { handover: Handover::borrowed(), waker: Watched::new(0), note: Watched::new(0) };
        let slot = Arc::new(slot);
        (Arc::clone(&slot), slot)
    }

    /// Tells it. The waker that is to be called, if one is.
    fn tell(&self) -> Option<u32> {
        self.note.set(7);
        let taken = self.handover.take();
        taken.then(|| {
            let waker = self.waker.get();
            self.handover.tell();
            waker
        })
    }

    /// Polls with another waker: whether it is told.
    fn poll(&self, waker: u32) -> bool {
        if self.handover.is_told() || !self.handover.borrow() {
            return true;
        }
        self.waker.set(waker);
        !self.handover.put_back()
    }

    /// Nobody else uses it any more.
    fn end(&self) {
        assert_eq!(self.note.get(), 7);
        self.note.set(0);
        self.waker.set(0);
    }
}

#[test]
fn one_who_polls_is_told_or_its_new_waker_is_called() {
    check(2, 4, |turn| {
        let (slot, its) = Slot::new();
        let poll = move || {
            let is_told = its.poll(2);
            if is_told {
                its.end();
            }
            is_told
        };
        let (called, is_told) = turn.two(move || slot.tell(), poll);
        match (is_told, called) {
            (true, None | Some(1)) | (false, Some(2)) => {}
            wrong => panic!("told, called: {wrong:?}"),
        }
    });
}

#[test]
fn one_who_polls_twice_is_told_at_the_latest_by_its_last_waker() {
    check(2, 3, |turn| {
        let (slot, its) = Slot::new();
        let poll = move || its.poll(2) || its.poll(3);
        let (called, is_told) = turn.two(move || slot.tell(), poll);
        assert!(is_told || called == Some(3), "called: {called:?}");
    });
}

#[test]
fn a_future_that_is_dropped_when_it_was_told_ends_after_the_one_who_tells() {
    check(2, 4, |turn| {
        let (slot, its) = Slot::new();
        let drops = move || {
            its.handover.await_told();
            its.end();
        };
        let (called, ()) = turn.two(move || slot.tell(), drops);
        assert_eq!(called, Some(1));
    });
}

#[test]
fn one_who_enters_without_a_waker_is_told_or_its_waker_is_called() {
    check(2, 4, |turn| {
        let (slot, its) = Slot::empty();
        let fill = move || {
            its.waker.set(1);
            let is_told = !its.handover.put_back();
            if is_told {
                its.end();
            }
            is_told
        };
        let (called, is_told) = turn.two(move || slot.tell(), fill);
        assert_eq!((is_told, called), if is_told { (true, None) } else { (false, Some(1)) });
    });
}

#[test]
fn a_future_that_was_not_told_gets_its_waker_back_if_it_has_left_one() {
    check(1, 2, |_| {
        assert!(Handover::new().retract());
        let empty = Handover::borrowed();
        assert!(!empty.retract());
        assert!(empty.is_told());
    });
}
