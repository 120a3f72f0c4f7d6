//! All schedulers but `Inverted`: a strand that goes in comes out once, by whichever end takes it.

use super::{NOW, attach, numbers};
use crate::base::models::check;
use crate::sched::{Coloured, Effort, Fair, Local, Locality, Random, Scheduler, Shared};
use crate::strand::models::ready_strand;
use loom::sync::Arc;

/// Takes what is left, by ends that are greedy. With what was taken before, each number was found
/// once.
fn assert_each_once(taken: [Vec<u64>; 2], ends: &[Box<dyn Local>], expected: &[u64]) {
    let any = || ends.iter().find_map(|end| end.next(NOW).or_else(|| end.search(NOW, Effort::Greedy)));
    let mut taken = taken.concat();
    taken.extend(numbers(std::iter::from_fn(any)));
    taken.sort_unstable();
    assert_eq!(taken, expected);
}

fn coloured() -> Box<dyn Scheduler> {
    Box::new(Coloured::default())
}

fn fair() -> Box<dyn Scheduler> {
    Box::new(Fair::default())
}

fn locality() -> Box<dyn Scheduler> {
    Box::new(Locality::default())
}

fn random() -> Box<dyn Scheduler> {
    Box::new(Random::default())
}

fn shared() -> Box<dyn Scheduler> {
    Box::new(Shared::default())
}

#[test]
fn an_owner_that_pushes_and_a_helper_that_searches_share_without_loss() {
    for scheduler in [coloured, fair, locality, random, shared] {
        check(2, 3, move |turn| {
            let scheduler = scheduler();
            let (owner, helper) = (attach(&*scheduler, 0), attach(&*scheduler, 1));
            let own = move || {
                for number in [1, 2] {
                    let _ = owner.push(ready_strand(number), NOW);
                }
                (numbers(owner.next(NOW)), owner)
            };
            let help = move || (numbers(helper.search(NOW, Effort::Greedy)), helper);
            let ((owned, owner), (helped, helper)) = turn.two(own, help);
            assert_each_once([owned, helped], &[owner, helper], &[1, 2]);
        });
    }
}

#[test]
fn an_owner_that_exchanges_always_has_a_strand_whatever_a_helper_takes() {
    for scheduler in [coloured, fair, locality, random, shared] {
        check(2, 3, move |turn| {
            let scheduler = scheduler();
            let (owner, helper) = (attach(&*scheduler, 0), attach(&*scheduler, 1));
            for number in [1, 2] {
                let _ = owner.push(ready_strand(number), number);
            }
            let own = move || {
                let running = owner.exchange(ready_strand(3), NOW).unwrap();
                (numbers([owner.exchange(running, NOW).unwrap()]), owner)
            };
            let help = move || (numbers(helper.search(NOW, Effort::Polite)), helper);
            let ((owned, owner), (helped, helper)) = turn.two(own, help);
            assert_each_once([owned, helped], &[owner, helper], &[1, 2, 3]);
        });
    }
}

/// A helper without strands of its own naps if it finds the lock held.
#[test]
fn a_rescue_at_a_beat_loses_no_strand() {
    for helpers in [vec![], vec![4]] {
        check(2, 3, move |turn| {
            let scheduler = fair();
            let (owner, helper) = (attach(&*scheduler, 0), attach(&*scheduler, 1));
            for number in [1, 2] {
                let _ = owner.push(ready_strand(number), number);
            }
            for &number in &helpers {
                let _ = helper.push(ready_strand(number), NOW);
            }
            let own = move || (numbers(owner.exchange(ready_strand(3), NOW)), owner);
            let help = move || {
                helper.beat(NOW);
                (numbers(helper.next(NOW)), helper)
            };
            let ((owned, owner), (helped, helper)) = turn.two(own, help);
            assert_each_once([owned, helped], &[owner, helper], &[&[1, 2, 3], &helpers[..]].concat());
        });
    }
}

#[test]
fn an_injected_strand_is_taken_by_its_owner_or_by_a_helper() {
    for scheduler in [coloured, fair, locality, random, shared] {
        for takes in [0, 1] {
            check(2, 3, move |turn| {
                let scheduler = Arc::new(scheduler());
                let mut ends = vec![attach(&**scheduler, 0), attach(&**scheduler, 1)];
                let taker = ends.remove(takes);
                let inject = move || {
                    for number in [1, 2] {
                        let _ = scheduler.inject(ready_strand(number), NOW);
                    }
                };
                let take = move || (numbers(taker.next(NOW)), numbers(taker.search(NOW, Effort::Greedy)), taker);
                let ((), (own, others, taker)) = turn.two(inject, take);
                ends.push(taker);
                assert_each_once([own, others], &ends, &[1, 2]);
            });
        }
    }
}

#[test]
fn a_strand_that_arrives_at_a_station_while_its_processor_leaves_is_found() {
    for scheduler in [coloured, fair, locality, random, shared] {
        check(2, 3, move |turn| {
            let scheduler = Arc::new(scheduler());
            let (leaver, stayer) = (attach(&**scheduler, 0), attach(&**scheduler, 1));
            let _ = leaver.push(ready_strand(1), NOW);
            let inject = move || {
                for number in [2, 3] {
                    let _ = scheduler.inject(ready_strand(number), NOW);
                }
            };
            let leave = move || numbers(std::iter::from_fn(|| leaver.drain()));
            let (drained, ()) = turn.two(leave, inject);
            assert_each_once([drained, vec![]], &[stayer], &[1, 2, 3]);
        });
    }
}
