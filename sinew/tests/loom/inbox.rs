//! `strand::Inbox`: anyone puts, somebody takes all.

use crate::{Watched, check};
use loom::sync::Arc;
use sinew::protocols::{Inbox, ready_strand};

/// Puts strands with these numbers; returns nothing, as takers do with more.
fn putting(inbox: &Arc<Inbox>, numbers: [u64; 2]) -> Box<dyn FnOnce() -> Vec<u64>> {
    let inbox = Arc::clone(inbox);
    Box::new(move || {
        for number in numbers {
            inbox.put(ready_strand(number));
        }
        Vec::new()
    })
}

/// Takes all, so often; returns what it took, in order.
fn taking(inbox: &Arc<Inbox>, times: usize) -> Box<dyn FnOnce() -> Vec<u64>> {
    let inbox = Arc::clone(inbox);
    Box::new(move || (0..times).flat_map(|_| inbox.take_all()).collect())
}

#[test]
fn nothing_is_lost_nothing_comes_twice_and_each_producers_order_is_kept() {
    check(3, 3, |turn| {
        let inbox = Arc::new(Inbox::default());
        let threads = [putting(&inbox, [1, 2]), putting(&inbox, [11, 12]), taking(&inbox, 2)];
        let mut taken = turn.all(threads).concat();
        taken.extend(inbox.take_all());
        let of = |range: std::ops::Range<u64>| taken.iter().copied().filter(move |number| range.contains(number));
        assert_eq!(taken.len(), 4, "{taken:?}");
        assert!(of(1..10).eq([1, 2]) && of(11..20).eq([11, 12]), "{taken:?}");
    });
}

#[test]
fn two_takers_share_without_overlap() {
    check(3, 3, |turn| {
        let inbox = Arc::new(Inbox::default());
        inbox.put(ready_strand(1));
        let mut taken = turn.all([putting(&inbox, [2, 3]), taking(&inbox, 1), taking(&inbox, 1)]).concat();
        taken.extend(inbox.take_all());
        taken.sort_unstable();
        assert_eq!(taken, [1, 2, 3]);
    });
}

#[test]
fn a_taker_sees_what_every_putter_did_before() {
    check(3, 3, |turn| {
        let shared = Arc::new((Inbox::default(), [Watched::new(0), Watched::new(0)]));
        let [one, two] = [0, 1].map(|number| {
            let shared = Arc::clone(&shared);
            Box::new(move || {
                shared.1[number].set(7);
                shared.0.put(ready_strand(number as u64));
            })
        });
        let other = Arc::clone(&shared);
        let take = move || {
            for number in other.0.take_all() {
                assert_eq!(other.1[number as usize].get(), 7);
            }
        };
        turn.all([one, two, Box::new(take)]);
        shared.0.take_all();
    });
}

#[test]
fn exactly_one_putter_is_told_that_the_inbox_was_empty() {
    check(2, 4, |turn| {
        let inbox = Arc::new(Inbox::default());
        let (one, two) = (Arc::clone(&inbox), Arc::clone(&inbox));
        let (one, two) = turn.two(move || one.put(ready_strand(1)), move || two.put(ready_strand(2)));
        assert!(one != two);
        assert_eq!(inbox.take_all().len(), 2);
        assert!(inbox.is_empty());
    });
}
