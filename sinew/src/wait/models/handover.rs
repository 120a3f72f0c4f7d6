//! `Handover`: which side owns a future's waker, the future that is polled or the event that
//! tells it.

use crate::base::models::{Watched, check};
use crate::wait::handover::{Borrowed, Handover, PutBack, Taken};
use loom::sync::Arc;

/// A slot with a waker, which is a number. It is gone when its future is.
struct Slot {
    handover: Handover,
    waker: Watched<u32>,
    /// What the teller writes.
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

    /// Tells the future. Returns the waker that has to be called, if any.
    fn tell(&self) -> Option<u32> {
        self.note.set(7);
        let taken = self.handover.take();
        (taken != Taken::LeaveIt).then(|| {
            let waker = self.waker.get();
            self.handover.tell();
            waker
        })
    }

    /// Polls with another waker. Returns whether the future has been told.
    fn poll(&self, waker: u32) -> bool {
        if self.handover.is_told() || self.handover.borrow() == Borrowed::Told {
            return true;
        }
        self.waker.set(waker);
        self.handover.put_back() != PutBack::Held
    }

    /// The future is gone: no other thread uses the slot.
    fn end(&self) {
        assert_eq!(self.note.get(), 7);
        self.note.set(0);
        self.waker.set(0);
    }
}

#[test]
fn a_future_that_is_polled_is_told_or_its_new_waker_is_called() {
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
fn a_future_that_is_polled_twice_is_told_or_its_last_waker_is_called() {
    check(2, 3, |turn| {
        let (slot, its) = Slot::new();
        let poll = move || its.poll(2) || its.poll(3);
        let (called, is_told) = turn.two(move || slot.tell(), poll);
        assert!(is_told || called == Some(3), "called: {called:?}");
    });
}

#[test]
fn a_future_that_is_told_and_dropped_outlives_the_teller() {
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
fn a_future_that_enters_without_a_waker_is_told_or_its_waker_is_called() {
    check(2, 4, |turn| {
        let (slot, its) = Slot::empty();
        let fill = move || {
            its.waker.set(1);
            let is_told = its.handover.put_back() != PutBack::Held;
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
fn a_future_that_was_not_told_gets_back_the_waker_that_it_left() {
    check(1, 2, |_| {
        assert!(Handover::new().retract().is_some());
        let empty = Handover::borrowed();
        assert!(empty.retract().is_none());
        assert!(empty.is_told());
    });
}
