//! `strand::Inbox`: anyone puts, somebody takes all.

use crate::{Watched, check};
use loom::sync::Arc;
use loom::thread;
use sinew::protocols::{Inbox, ready_strand};

#[test]
fn nothing_is_lost_nothing_comes_twice_and_each_producers_order_is_kept() {
    check(3, || {
        let inbox = Arc::new(Inbox::default());
        let producers = [[1, 2], [11, 12]].map(|numbers| {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || numbers.map(|number| inbox.put(ready_strand(number))))
        });
        let mut taken = inbox.take_all();
        taken.extend(inbox.take_all());
        for producer in producers {
            producer.join().unwrap();
        }
        taken.extend(inbox.take_all());
        let of = |range: std::ops::Range<u64>| taken.iter().copied().filter(move |number| range.contains(number));
        assert_eq!(taken.len(), 4, "{taken:?}");
        assert!(of(1..10).eq([1, 2]) && of(11..20).eq([11, 12]), "{taken:?}");
    });
}

#[test]
fn two_takers_share_without_overlap() {
    check(3, || {
        let inbox = Arc::new(Inbox::default());
        inbox.put(ready_strand(1));
        let other = Arc::clone(&inbox);
        let producer = thread::spawn(move || {
            other.put(ready_strand(2));
            other.put(ready_strand(3));
        });
        let other = Arc::clone(&inbox);
        let taker = thread::spawn(move || other.take_all());
        let mut taken = inbox.take_all();
        taken.extend(taker.join().unwrap());
        producer.join().unwrap();
        taken.extend(inbox.take_all());
        taken.sort_unstable();
        assert_eq!(taken, [1, 2, 3]);
    });
}

#[test]
fn a_taker_sees_what_every_putter_did_before() {
    check(3, || {
        let cells = [Watched::new(0), Watched::new(0)];
        let shared = Arc::new((Inbox::default(), cells));
        let producers = [0, 1].map(|number| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1[number].set(7);
                shared.0.put(ready_strand(number as u64));
            })
        });
        for number in shared.0.take_all() {
            assert_eq!(shared.1[number as usize].get(), 7);
        }
        for producer in producers {
            producer.join().unwrap();
        }
        shared.0.take_all();
    });
}

#[test]
fn exactly_one_putter_is_told_that_the_inbox_was_empty() {
    check(4, || {
        let inbox = Arc::new(Inbox::default());
        let other = Arc::clone(&inbox);
        let there = thread::spawn(move || other.put(ready_strand(1)));
        let here = inbox.put(ready_strand(2));
        assert!(here != there.join().unwrap());
        assert_eq!(inbox.take_all().len(), 2);
        assert!(inbox.is_empty());
    });
}
