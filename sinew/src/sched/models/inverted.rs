//! `Inverted`: strands are handed to processors that wait. A strand that its processor keeps may
//! be taken by any processor that waits. However it goes, the counter is right afterwards: each
//! strand is found, and a processor that finds none can be handed one.

use super::{NOW, attach, numbers};
use crate::base::models::check;
use crate::sched::{Effort, Inverted, Local, ProcessorId, Scheduler, Wake};
use crate::strand::models::ready_strand;
use loom::sync::Arc;

/// Looks once, as a processor does. An end that finds a strand ceases to wait.
fn find(end: &dyn Local) -> Vec<u64> {
    let found = end.next(NOW).or_else(|| end.search(NOW, Effort::Greedy));
    if found.is_some() {
        let _ = end.retract(NOW);
    }
    numbers(found)
}

/// The ends look until none of them finds a strand. With what was taken before, each number was
/// found once. All ends wait now: of new strands, one for each end, each end is handed one.
fn assert_each_once(
    taken: impl IntoIterator<Item = u64>,
    scheduler: &Inverted,
    ends: &[Box<dyn Local>],
    expected: &[u64],
) {
    let mut taken = Vec::from_iter(taken);
    loop {
        let found: Vec<u64> = ends.iter().flat_map(|end| find(&**end)).collect();
        if found.is_empty() {
            break;
        }
        taken.extend(found);
    }
    taken.sort_unstable();
    assert_eq!(taken, expected);
    for _ in ends {
        let wake = scheduler.inject(ready_strand(9), NOW);
        assert!(matches!(wake, Wake::Processor(_)), "all ends wait, and {wake:?} is told");
    }
    assert!(ends.iter().all(|end| numbers(end.next(NOW)) == [9]));
}

#[test]
fn two_strands_are_handed_to_two_processors_that_wait_and_each_is_told() {
    check(2, 3, |turn| {
        let scheduler = Arc::new(Inverted::default());
        let ends = [0, 1].map(|index| attach(&*scheduler, index));
        assert!(ends.iter().all(|end| end.next(NOW).is_none()));
        let other = Arc::clone(&scheduler);
        let inject = move || scheduler.inject(ready_strand(1), NOW);
        let (one, two) = turn.two(inject, move || other.inject(ready_strand(2), NOW));
        let both = [Wake::Processor(ProcessorId(0)), Wake::Processor(ProcessorId(1))];
        assert!(both.contains(&one) && both.contains(&two) && one != two, "{one:?} and {two:?}");
        let mut taken = ends.map(|end| numbers(end.search(NOW, Effort::Greedy)));
        taken.sort_unstable();
        assert_eq!(taken, [[1], [2]]);
    });
}

#[test]
fn a_strand_goes_to_a_processor_that_waits_or_to_one_that_is_about_to() {
    check(2, 4, |turn| {
        let scheduler = Arc::new(Inverted::default());
        let [waits, enters] = [0, 1].map(|index| attach(&*scheduler, index));
        assert!(waits.next(NOW).is_none());
        let enter = move || (numbers(enters.next(NOW)), enters);
        let ((at_once, enters), wake) = turn.two(enter, move || scheduler.inject(ready_strand(1), NOW));
        let handed = [numbers(waits.next(NOW)), if at_once.is_empty() { numbers(enters.next(NOW)) } else { vec![] }];
        let expected = match wake {
            Wake::Processor(ProcessorId(0)) => (vec![], [vec![1], vec![]]),
            Wake::Processor(_) => (vec![], [vec![], vec![1]]),
            Wake::Nobody => (vec![1], [vec![], vec![]]),
            other => panic!("{other:?}"),
        };
        assert_eq!((at_once, handed), expected);
    });
}

#[test]
fn a_strand_that_a_processor_keeps_is_run_by_it_or_by_one_that_waits() {
    check(2, 3, |turn| {
        let scheduler = Inverted::default();
        let (owner, helper) = (attach(&scheduler, 0), attach(&scheduler, 1));
        assert!(helper.next(NOW).is_none());
        let own = move || {
            assert_eq!(owner.push(ready_strand(1), NOW), Wake::Lone);
            (numbers(owner.next(NOW)), owner)
        };
        let help = move || (find(&*helper), helper);
        let ((owned, owner), (helped, helper)) = turn.two(own, help);
        assert_each_once([owned, helped].concat(), &scheduler, &[owner, helper], &[1]);
    });
}

/// A strand that is counted and not in its queue yet is waited for, whatever others keep.
#[test]
fn a_processor_that_has_reserved_a_strand_leaves_what_others_keep() {
    check(2, 4, |turn| {
        let scheduler = Arc::new(Inverted::default());
        let (owner, helper) = (attach(&*scheduler, 0), attach(&*scheduler, 1));
        let _ = owner.push(ready_strand(1), NOW);
        let injects = Arc::clone(&scheduler);
        let inject = move || {
            let _ = injects.inject(ready_strand(2), NOW);
        };
        let help = move || (numbers(helper.next(NOW)), helper);
        let ((helped, helper), ()) = turn.two(help, inject);
        assert_each_once(helped, &scheduler, &[owner, helper], &[1, 2]);
    });
}

#[test]
fn a_processor_that_takes_what_another_keeps_passes_on_what_it_is_handed() {
    check(2, 4, |turn| {
        let scheduler = Arc::new(Inverted::default());
        let (owner, helper) = (attach(&*scheduler, 0), attach(&*scheduler, 1));
        assert!(helper.next(NOW).is_none());
        let _ = owner.push(ready_strand(1), NOW);
        let help = move || (find(&*helper), helper);
        let injects = Arc::clone(&scheduler);
        let inject = move || {
            let _ = injects.inject(ready_strand(2), NOW);
        };
        let ((helped, helper), ()) = turn.two(help, inject);
        assert_each_once(helped, &scheduler, &[owner, helper], &[1, 2]);
    });
}

#[test]
fn a_rescue_from_a_processor_that_is_held_up_loses_no_strand() {
    check(2, 3, |turn| {
        let scheduler = Inverted::default();
        let (owner, helper) = (attach(&scheduler, 0), attach(&scheduler, 1));
        helper.beat(NOW - 1);
        // The first is kept, the second counted.
        for number in [1, 2] {
            let _ = owner.push(ready_strand(number), number);
        }
        let own = move || {
            let running = owner.exchange(ready_strand(3), NOW).unwrap();
            let _ = owner.push(ready_strand(4), NOW);
            (numbers([running]), owner)
        };
        let help = move || {
            helper.beat(NOW);
            (numbers(helper.next(NOW)), helper)
        };
        let ((owned, owner), (helped, helper)) = turn.two(own, help);
        assert_each_once([owned, helped].concat(), &scheduler, &[owner, helper], &[1, 2, 3, 4]);
    });
}
