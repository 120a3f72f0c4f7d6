//! `Inverted`: strands are handed to processors that wait. Here the counter is
//! negative throughout; an end that reserves a strand which is not in its queue
//! yet waits for the kernel, and would wait for ever in a model.

use crate::check;
use crate::queues::{NOW, attach, numbers};
use loom::sync::Arc;
use sinew::protocols::{processor, ready_strand};
use sinew::sched::{Effort, Inverted, Scheduler, Wake};

#[test]
fn two_strands_are_handed_to_the_two_that_wait_and_each_is_told() {
    check(2, 3, |turn| {
        let scheduler = Arc::new(Inverted::default());
        let ends = [0, 1].map(|index| attach(&*scheduler, index));
        assert!(ends.iter().all(|end| end.next(NOW).is_none()));
        let other = Arc::clone(&scheduler);
        let inject = move || scheduler.inject(ready_strand(1), NOW);
        let (one, two) = turn.two(inject, move || other.inject(ready_strand(2), NOW));
        let both = [Wake::Processor(processor(0)), Wake::Processor(processor(1))];
        assert!(both.contains(&one) && both.contains(&two) && one != two, "{one:?} and {two:?}");
        let mut taken = ends.map(|end| numbers(end.search(NOW, Effort::Greedy)));
        taken.sort_unstable();
        assert_eq!(taken, [[1], [2]]);
    });
}

#[test]
fn a_strand_goes_to_one_that_waits_or_to_one_that_is_about_to() {
    check(2, 4, |turn| {
        let scheduler = Arc::new(Inverted::default());
        let [waits, enters] = [0, 1].map(|index| attach(&*scheduler, index));
        assert!(waits.next(NOW).is_none());
        let enter = move || (numbers(enters.next(NOW)), enters);
        let ((at_once, enters), wake) = turn.two(enter, move || scheduler.inject(ready_strand(1), NOW));
        let handed = [numbers(waits.next(NOW)), if at_once.is_empty() { numbers(enters.next(NOW)) } else { vec![] }];
        let expected = match wake {
            Wake::Processor(id) if id == processor(0) => (vec![], [vec![1], vec![]]),
            Wake::Processor(_) => (vec![], [vec![], vec![1]]),
            Wake::Nobody => (vec![1], [vec![], vec![]]),
            other => panic!("{other:?}"),
        };
        assert_eq!((at_once, handed), expected);
    });
}
