//! `Once`.

use crate::base::models::{Watched, check};
use crate::sync::Once;
use loom::sync::Arc;

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
