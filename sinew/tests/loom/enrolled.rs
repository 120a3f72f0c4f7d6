//! `wait::Enrolled`: a future that joins, whose waker lies in the join word.

use crate::{Watched, check};
use loom::sync::Arc;
use sinew::protocols::{Completed, Enrolled, Join, Waiting};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Wake, Waker};

/// A strand with a result.
struct Strand {
    join: Join,
    result: Watched<u32>,
}

impl Strand {
    fn new() -> [Arc<Strand>; 2] {
        let strand = Arc::new(Strand { join: Join::new(), result: Watched::new(0) });
        [Arc::clone(&strand), strand]
    }

    fn finish(&self) {
        self.result.set(7);
        if let Completed::Wake(waiter) = self.join.complete() {
            Waiting::<()>::tell(waiter);
        }
    }

    /// Whether the result is there, which the caller takes.
    fn poll(&self, enrolled: &mut Enrolled, waker: &Called) -> bool {
        let is_done = enrolled.poll(&self.join, &Waker::from(std::sync::Arc::clone(&waker.0)));
        if is_done {
            assert_eq!(self.result.change(std::mem::take), 7);
        }
        is_done
    }
}

/// How often a waker was called.
#[derive(Default)]
struct Called(std::sync::Arc<Calls>);

#[derive(Default)]
struct Calls(AtomicU32);

impl Wake for Calls {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

impl Called {
    fn is_only_one(&self) -> bool {
        std::sync::Arc::strong_count(&self.0) == 1
    }

    /// When nobody has a copy of the waker any more.
    fn times(self) -> u32 {
        std::sync::Arc::into_inner(self.0).expect("no waker is left behind").0.into_inner()
    }
}

#[test]
fn one_that_polls_with_another_waker_sees_the_result_or_that_waker_is_called() {
    check(2, 4, |turn| {
        let [strand, joined] = Strand::new();
        let poll = move || {
            let mut enrolled = Enrolled::default();
            let wakers = [Called::default(), Called::default()];
            let is_done = wakers.iter().any(|waker| joined.poll(&mut enrolled, waker));
            (is_done, wakers)
        };
        let ((is_done, wakers), ()) = turn.two(poll, move || strand.finish());
        let [first, last] = wakers.map(Called::times);
        assert!(first + last <= 1 && (is_done || last == 1), "called: {first}, {last}");
    });
}

#[test]
fn one_that_leaves_takes_its_waker_with_it_or_is_called_once() {
    check(2, 4, |turn| {
        let [strand, joined] = Strand::new();
        let poll_and_leave = move || {
            let mut enrolled = Enrolled::default();
            let waker = Called::default();
            let is_done = joined.poll(&mut enrolled, &waker);
            enrolled.leave(&joined.join);
            assert!(joined.join.is_done() || waker.is_only_one());
            (is_done, waker)
        };
        let ((is_done, waker), ()) = turn.two(poll_and_leave, move || strand.finish());
        assert!(waker.times() <= u32::from(!is_done));
    });
}
