//! `Carrier`: a kill against a letter that leaves with its carrier, and against a carrier that comes back.

use crate::base::models::{Watched, check};
use crate::mailbox::carrier::Carrier;
use crate::mailbox::word::{Order, Ordered, Word};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

const ADDRESS: usize = 64;

/// A mailbox whose letter runs on a carrier.
struct Mailbox {
    word: AtomicU64,
    carrier: Carrier,
    /// The carrier's record: 7 while its reference is counted.
    record: Watched<u32>,
    cancels: AtomicU32,
}

impl Mailbox {
    fn new() -> Arc<Mailbox> {
        let mailbox = Mailbox {
            word: AtomicU64::new(0),
            carrier: Carrier::none(),
            record: Watched::new(0),
            cancels: AtomicU32::new(0),
        };
        mailbox.word().claim();
        mailbox.carrier.set(ADDRESS);
        Arc::new(mailbox)
    }

    fn word(&self) -> Word<'_> {
        Word::of(&self.word)
    }

    /// Leaves with the letter, as `note_left` does.
    fn leave(&self) {
        self.record.set(7);
        self.carrier.leave();
        if self.word().is_killed() {
            self.cancel();
        }
    }

    fn cancel(&self) {
        let Some(held) = self.carrier.hold() else { return };
        assert_eq!((held.address(), self.record.get()), (ADDRESS, 7));
        self.cancels.fetch_add(1, Relaxed);
    }

    fn kill(&self) {
        assert_eq!(self.word().order(Order::Kill, true), Ordered::Noted);
        self.cancel();
    }

    /// Gives the reference back.
    fn come_back(&self) {
        assert!(self.carrier.come_back());
        self.record.set(0);
    }
}

#[test]
fn a_kill_reaches_a_letter_that_leaves() {
    check(2, 4, |turn| {
        let mailbox = Mailbox::new();
        let (processor, killer) = (Arc::clone(&mailbox), Arc::clone(&mailbox));
        turn.two(move || processor.leave(), move || killer.kill());
        assert!(mailbox.cancels.load(Relaxed) >= 1, "the letter blocks for ever");
    });
}

#[test]
fn a_kill_reaches_a_letter_that_leaves_in_a_later_turn() {
    check(2, 4, |turn| {
        let mailbox = Mailbox::new();
        let (processor, killer) = (Arc::clone(&mailbox), Arc::clone(&mailbox));
        let later = move || {
            processor.carrier.set(0);
            processor.carrier.set(ADDRESS);
            processor.leave();
        };
        turn.two(later, move || killer.kill());
        assert!(mailbox.cancels.load(Relaxed) >= 1, "the letter blocks for ever");
    });
}

#[test]
fn a_carrier_that_comes_back_waits_for_the_thread_that_cancels_it() {
    check(2, 4, |turn| {
        let mailbox = Mailbox::new();
        mailbox.leave();
        let (carrier, killer) = (Arc::clone(&mailbox), Arc::clone(&mailbox));
        turn.two(move || carrier.come_back(), move || killer.kill());
        assert_eq!(mailbox.carrier.address(), ADDRESS);
        assert!(mailbox.carrier.hold().is_none(), "it has come back");
    });
}

#[test]
fn a_carrier_that_leaves_and_comes_back_is_cancelled_while_its_record_is_there() {
    check(2, 4, |turn| {
        let mailbox = Mailbox::new();
        let (carrier, killer) = (Arc::clone(&mailbox), Arc::clone(&mailbox));
        let block = move || {
            carrier.leave();
            carrier.come_back();
        };
        turn.two(block, move || killer.kill());
    });
}

#[test]
fn a_carrier_that_has_not_left_has_nothing_to_give_back() {
    check(2, 4, |turn| {
        let mailbox = Mailbox::new();
        let (carrier, killer) = (Arc::clone(&mailbox), Arc::clone(&mailbox));
        turn.two(move || assert!(!carrier.carrier.come_back()), move || killer.kill());
        assert_eq!(mailbox.cancels.load(Relaxed), 0);
    });
}
