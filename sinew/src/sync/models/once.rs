//! `Once`.

use crate::base::models::{Watched, check};
use crate::sync::Once;
use loom::sync::Arc;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

struct Value {
    once: Once,
    value: Watched<u32>,
}

impl Value {
    fn new<const N: usize>() -> [Arc<Value>; N] {
        let value = Arc::new(Value { once: Once::new(), value: Watched::new(0) });
        [(); N].map(|()| Arc::clone(&value))
    }

    fn call(&self) -> u32 {
        self.once.call_once(|| self.value.change(|value| *value += 1));
        self.value.get()
    }
}

#[test]
fn of_two_closures_one_is_called_and_both_callers_see_what_it_did() {
    check(2, 3, |turn| {
        let [one, two] = Value::new();
        assert_eq!(turn.two(move || one.call(), move || two.call()), (1, 1));
    });
}

#[test]
fn a_caller_that_sees_the_end_sees_what_was_done_and_one_that_waits_is_told() {
    check(3, 2, |turn| {
        let [caller, looker, waiter] = Value::new();
        let look = move || if looker.once.is_completed() { looker.value.get() } else { 1 };
        let wait = move || {
            waiter.once.wait();
            waiter.value.get()
        };
        assert_eq!(turn.all([Box::new(move || caller.call()), Box::new(look), Box::new(wait)]), [1; 3]);
    });
}

/// A task that has begun is dropped, as by an abort.
#[test]
fn when_a_task_that_has_begun_is_dropped_a_caller_that_waits_does_it() {
    check(2, 3, |turn| {
        // Leaked, some hundred bytes: what has begun borrows it.
        let value: &'static Value = Box::leak(Box::new(Value { once: Once::new(), value: Watched::new(0) }));
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(Some(begun)) = pin!(value.once.begin(crate::sync::once::Poison::Panic)).poll(&mut context)
        else {
            panic!("no other has begun")
        };
        let abort = move || {
            value.value.set(1);
            drop(begun);
        };
        let call = move || {
            value.once.call_once_force(|state| {
                assert!(state.is_poisoned());
                value.value.change(|value| *value += 1);
            });
            value.value.get()
        };
        assert_eq!(turn.two(abort, call), ((), 2));
        assert!(value.once.is_completed());
    });
}
