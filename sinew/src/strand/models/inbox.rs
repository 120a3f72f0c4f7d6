//! `Inbox`: any thread puts a strand in, any thread takes all.

use super::{ready_strand, retire};
use crate::base::models::{Watched, check};
use crate::strand::Inbox;
use loom::sync::Arc;

/// Takes all strands and ends them. Returns their numbers in order.
fn take_all(inbox: &Inbox) -> Vec<u64> {
    let mut taken = inbox.take_all();
    std::iter::from_fn(|| taken.pop()).map(retire).collect()
}

/// A thread that puts strands with these numbers in. It returns no number, as a taker that finds
/// nothing.
fn putting(inbox: &Arc<Inbox>, numbers: [u64; 2]) -> Box<dyn FnOnce() -> Vec<u64>> {
    let inbox = Arc::clone(inbox);
    Box::new(move || {
        for number in numbers {
            inbox.put(ready_strand(number));
        }
        Vec::new()
    })
}

/// A thread that takes all, this number of times. It returns the numbers in order.
fn taking(inbox: &Arc<Inbox>, times: usize) -> Box<dyn FnOnce() -> Vec<u64>> {
    let inbox = Arc::clone(inbox);
    Box::new(move || (0..times).flat_map(|_| take_all(&inbox)).collect())
}

#[test]
fn nothing_is_lost_nothing_comes_twice_and_each_producers_order_is_kept() {
    check(3, 3, |turn| {
        let inbox = Arc::new(Inbox::default());
        let threads = [putting(&inbox, [1, 2]), putting(&inbox, [11, 12]), taking(&inbox, 2)];
        let mut taken = turn.all(threads).concat();
        taken.extend(take_all(&inbox));
        let of = |range: std::ops::Range<u64>| taken.iter().copied().filter(move |number| range.contains(number));
        assert_eq!(taken.len(), 4, "{taken:?}");
        assert!(of(1..10).eq([1, 2]) && of(11..20).eq([11, 12]), "{taken:?}");
    });
}

#[test]
fn two_takers_never_take_the_same_strand() {
    check(3, 3, |turn| {
        let inbox = Arc::new(Inbox::default());
        inbox.put(ready_strand(1));
        let mut taken = turn.all([putting(&inbox, [2, 3]), taking(&inbox, 1), taking(&inbox, 1)]).concat();
        taken.extend(take_all(&inbox));
        taken.sort_unstable();
        assert_eq!(taken, [1, 2, 3]);
    });
}

#[test]
fn a_taker_sees_what_each_putter_did_before() {
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
            for number in take_all(&other.0) {
                assert_eq!(other.1[number as usize].get(), 7);
            }
        };
        turn.all([one, two, Box::new(take)]);
        take_all(&shared.0);
    });
}

#[test]
fn exactly_one_putter_is_told_that_the_inbox_was_empty() {
    check(2, 4, |turn| {
        let inbox = Arc::new(Inbox::default());
        let (one, two) = (Arc::clone(&inbox), Arc::clone(&inbox));
        let (one, two) = turn.two(move || one.put(ready_strand(1)), move || two.put(ready_strand(2)));
        assert!(one != two);
        assert_eq!(take_all(&inbox).len(), 2);
        assert!(inbox.is_empty());
    });
}
