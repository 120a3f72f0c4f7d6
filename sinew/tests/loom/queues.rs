//! The schedulers' queues: a strand that goes in comes out once, whoever takes
//! it. `Scheduler` and `Local` say what they owe.

use crate::check;
use loom::sync::Arc;
use loom::thread;
use sinew::protocols::{ready_strand, retire};
use sinew::sched::{Effort, Fair, Local, Place, Ready, Scheduler, Shared, Topology};

/// Long after everything: no strand is too young to be taken.
pub const NOW: u64 = 1 << 40;

pub fn attach(scheduler: &dyn Scheduler, index: u16) -> Box<dyn Local> {
    scheduler.attach(Place::simulated(index, std::sync::Arc::new(Topology::flat(2)), index.into()))
}

/// The numbers of strands, which end here.
pub fn numbers(strands: impl IntoIterator<Item = Ready>) -> Vec<u64> {
    strands.into_iter().map(retire).collect()
}

/// Takes what is left in a scheduler, as its ends would that are greedy.
fn the_rest(ends: &[Box<dyn Local>]) -> Vec<u64> {
    let any = || ends.iter().find_map(|end| end.next(NOW).or_else(|| end.search(NOW, Effort::Greedy)));
    numbers(std::iter::from_fn(any))
}

fn assert_each_once(mut taken: Vec<u64>, expected: &[u64]) {
    taken.sort_unstable();
    assert_eq!(taken, expected);
}

fn fair() -> Box<dyn Scheduler> {
    Box::new(Fair::default())
}

fn shared() -> Box<dyn Scheduler> {
    Box::new(Shared::default())
}

#[test]
fn an_owner_that_pushes_and_a_helper_that_searches_share_without_loss() {
    for scheduler in [fair, shared] {
        check(3, move || {
            let scheduler = scheduler();
            let (owner, helper) = (attach(&*scheduler, 0), attach(&*scheduler, 1));
            let helping = thread::spawn(move || (numbers(helper.search(NOW, Effort::Greedy)), helper));
            for number in [1, 2] {
                let _ = owner.push(ready_strand(number), NOW);
            }
            let mut taken = numbers(owner.next(NOW));
            let (helped, helper) = helping.join().unwrap();
            taken.extend(helped);
            taken.extend(the_rest(&[owner, helper]));
            assert_each_once(taken, &[1, 2]);
        });
    }
}

#[test]
fn an_owner_that_exchanges_always_has_a_strand_whatever_a_helper_takes() {
    for scheduler in [fair, shared] {
        check(3, move || {
            let scheduler = scheduler();
            let (owner, helper) = (attach(&*scheduler, 0), attach(&*scheduler, 1));
            for number in [1, 2] {
                let _ = owner.push(ready_strand(number), number);
            }
            let helping = thread::spawn(move || (numbers(helper.search(NOW, Effort::Polite)), helper));
            let running = owner.exchange(ready_strand(3), NOW);
            let running = owner.exchange(running, NOW);
            let mut taken = vec![retire(running)];
            let (helped, helper) = helping.join().unwrap();
            taken.extend(helped);
            taken.extend(the_rest(&[owner, helper]));
            assert_each_once(taken, &[1, 2, 3]);
        });
    }
}

#[test]
fn a_rescue_at_a_tick_loses_nothing() {
    check(3, || {
        let scheduler = fair();
        let (owner, helper) = (attach(&*scheduler, 0), attach(&*scheduler, 1));
        for number in [1, 2] {
            let _ = owner.push(ready_strand(number), number);
        }
        let helping = thread::spawn(move || {
            helper.tick(NOW);
            let next = helper.next(NOW);
            let _ = helper.push(ready_strand(4), NOW);
            (numbers(next), helper)
        });
        let mut taken = numbers(Some(owner.exchange(ready_strand(3), NOW)));
        owner.tick(NOW);
        let (helped, helper) = helping.join().unwrap();
        taken.extend(helped);
        taken.extend(the_rest(&[owner, helper]));
        assert_each_once(taken, &[1, 2, 3, 4]);
    });
}

#[test]
fn what_is_injected_is_taken_by_its_owner_or_by_a_helper() {
    for scheduler in [fair, shared] {
        check(2, move || {
            let scheduler = Arc::new(scheduler());
            let (owner, helper) = (attach(&**scheduler, 0), attach(&**scheduler, 1));
            let outside = Arc::clone(&scheduler);
            let injecting = thread::spawn(move || {
                for number in [1, 2] {
                    let _ = outside.inject(ready_strand(number), NOW);
                }
            });
            let helping = thread::spawn(move || (numbers(helper.search(NOW, Effort::Greedy)), helper));
            let mut taken = numbers(owner.next(NOW));
            injecting.join().unwrap();
            let (helped, helper) = helping.join().unwrap();
            taken.extend(helped);
            taken.extend(the_rest(&[owner, helper]));
            assert_each_once(taken, &[1, 2]);
        });
    }
}

#[test]
fn what_arrives_at_a_seat_while_it_is_left_is_found_there() {
    for scheduler in [fair, shared] {
        check(3, move || {
            let scheduler = Arc::new(scheduler());
            let (leaver, stayer) = (attach(&**scheduler, 0), attach(&**scheduler, 1));
            let _ = leaver.push(ready_strand(1), NOW);
            let outside = Arc::clone(&scheduler);
            let injecting = thread::spawn(move || {
                for number in [2, 3] {
                    let _ = outside.inject(ready_strand(number), NOW);
                }
            });
            let mut taken = numbers(std::iter::from_fn(|| leaver.drain()));
            injecting.join().unwrap();
            taken.extend(the_rest(&[stayer]));
            assert_each_once(taken, &[1, 2, 3]);
        });
    }
}
