//! `WaitGroup`.

use crate::base::models::{Watched, check};
use crate::sync::WaitGroup;
use loom::sync::Arc;
use std::time::Duration;

type Done = Arc<Watched<u32>>;

/// Adds a member to the group. Returns what the member does, and the closure that does it and
/// leaves.
fn member(group: &WaitGroup) -> (Done, impl FnOnce() + use<>) {
    let done = Done::new(Watched::new(0));
    let (its, part) = (Done::clone(&done), group.clone());
    let finish = move || {
        its.set(7);
        drop(part);
    };
    (done, finish)
}

#[test]
fn a_waiter_sees_what_both_members_did() {
    check(3, 2, |turn| {
        let group = WaitGroup::new();
        let ((one, finish_one), (two, finish_two)) = (member(&group), member(&group));
        let wait = move || {
            group.wait();
            assert_eq!((one.get(), two.get()), (7, 7));
        };
        turn.all([Box::new(wait), Box::new(finish_one), Box::new(finish_two)]);
    });
}

#[test]
fn two_members_that_wait_for_each_other_both_go_on() {
    check(2, 3, |turn| {
        let group = WaitGroup::new();
        let ((one, finish), other) = (member(&group), group.clone());
        let wait = move || {
            group.wait();
            assert_eq!(one.get(), 7);
        };
        let finish_and_wait = move || {
            finish();
            other.wait();
        };
        turn.two(wait, finish_and_wait);
    });
}

#[test]
fn a_waiter_whose_time_is_up_is_a_member_again_or_sees_what_the_others_did() {
    check(2, 4, |turn| {
        let group = WaitGroup::new();
        let (done, finish) = member(&group);
        let wait = move || match group.wait_timeout(Duration::ZERO) {
            Ok(()) => assert_eq!(done.get(), 7),
            Err(group) => {
                group.wait();
                assert_eq!(done.get(), 7);
            }
        };
        turn.two(wait, finish);
    });
}
