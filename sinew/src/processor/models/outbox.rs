//! A processor leaves calls in its outbox, and another one helps.

use crate::base::models::{Watched, check};
use crate::processor::outbox::Outbox;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// The number of calls: one more than there is room for.
const CALLS: usize = 3;

/// An outbox and the memory of calls: how often each has been made, if it has been written.
struct Desk {
    outbox: Outbox,
    calls: [Watched<Option<u32>>; CALLS],
}

impl Desk {
    fn new() -> Arc<Desk> {
        Arc::new(Desk { outbox: Outbox::new(), calls: std::array::from_fn(|_| Watched::new(None)) })
    }

    fn make(&self, call: usize) {
        self.calls[call].change(|made| *made = made.map(|made| made + 1));
    }

    /// Makes all calls in the outbox. Returns their number.
    fn empty(&self) -> usize {
        let Some(taken) = self.outbox.take() else { return 0 };
        taken.calls().map(|call| self.make(call.addr().get() - 1)).count()
    }

    /// Leaves a call, or makes it if that is not possible. Returns whether it was left.
    fn leave(&self, call: usize) -> bool {
        self.calls[call].set(Some(0));
        let address = NonNull::new(ptr::without_provenance_mut(call + 1)).unwrap();
        let is_left = self.outbox.leave(address, 0);
        if !is_left {
            self.make(call);
        }
        is_left
    }

    fn made(&self) -> [Option<u32>; CALLS] {
        [0, 1, 2].map(|call| self.calls[call].get())
    }
}

#[test]
fn each_call_is_made_once_though_another_processor_helps() {
    check(2, 4, |turn| {
        let desk = Desk::new();
        let [processor, helper] = [0; 2].map(|_| Arc::clone(&desk));
        turn.two(
            move || {
                (0..CALLS).for_each(|call| {
                    processor.leave(call);
                });
                processor.empty();
            },
            move || {
                helper.empty();
                helper.empty();
            },
        );
        desk.empty();
        assert_eq!(desk.made(), [Some(1); CALLS]);
    });
}

#[test]
fn two_processors_that_help_share_no_call() {
    check(3, 3, |turn| {
        let desk = Desk::new();
        let [processor, first, second] = [0; 3].map(|_| Arc::clone(&desk));
        turn.all([
            Box::new(move || {
                (0..2).for_each(|call| {
                    processor.leave(call);
                });
                0
            }),
            Box::new(move || first.empty()),
            Box::new(move || second.empty()),
        ]);
        desk.empty();
        assert_eq!(desk.made(), [Some(1), Some(1), None]);
    });
}

#[test]
fn a_full_outbox_refuses_a_call_and_an_empty_one_takes_it() {
    check(1, 1, |_| {
        let desk = Desk::new();
        assert_eq!([0, 1, 2].map(|call| desk.leave(call)), [true, true, false]);
        assert_eq!(desk.empty(), 2);
        assert_eq!(desk.empty(), 0);
        assert!(desk.leave(0));
    });
}
