//! `sync::WaitGroup`, among kernel threads.

use crate::{Watched, check};
use loom::sync::Arc;
use sinew::sync::WaitGroup;
use std::time::Duration;

type Done = Arc<Watched<u32>>;

/// A party, and what it does before it drops its part in the group.
fn party(group: &WaitGroup) -> (Done, impl FnOnce() + use<>) {
    let done = Done::new(Watched::new(0));
    let (its, part) = (Done::clone(&done), group.clone());
    let finish = move || {
        its.set(7);
        drop(part);
    };
    (done, finish)
}

#[test]
fn one_that_waits_sees_what_both_parties_did() {
    check(3, 2, |turn| {
        let group = WaitGroup::new();
        let ((one, finish_one), (two, finish_two)) = (party(&group), party(&group));
        let wait = move || {
            group.wait();
            assert_eq!((one.get(), two.get()), (7, 7));
        };
        turn.all([Box::new(wait), Box::new(finish_one), Box::new(finish_two)]);
    });
}

#[test]
fn two_that_wait_for_each_other_both_go_on() {
    check(2, 3, |turn| {
        let group = WaitGroup::new();
        let ((one, finish), other) = (party(&group), group.clone());
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
fn one_whose_time_is_up_is_a_party_again_or_sees_what_the_others_did() {
    check(2, 4, |turn| {
        let group = WaitGroup::new();
        let (done, finish) = party(&group);
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
