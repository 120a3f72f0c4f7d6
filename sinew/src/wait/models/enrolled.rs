//! `Enrolled`: a future that joins, whose waker lies in the join word.

use crate::base::models::{Watched, check};
use crate::strand::join::{Completed, Join};
use crate::wait::{Enrolled, Party};
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Wake, Waker};

/// A strand with a result.
struct Strand {
    word: AtomicU64,
    result: Watched<u32>,
}

impl Strand {
    fn new() -> [Arc<Strand>; 2] {
        let strand = Arc::new(Strand { word: AtomicU64::new(0), result: Watched::new(0) });
        [Arc::clone(&strand), strand]
    }

    fn join(&self) -> Join<'_> {
        Join::of(&self.word)
    }

    fn finish(&self) {
        self.result.set(7);
        if let Completed::Wake(waiter) = self.join().complete() {
            Party::signal_owed(waiter);
        }
    }

    /// Polls, and takes the result if it is there. Returns whether it was.
    fn poll(&self, enrolled: &mut Enrolled, waker: &Called) -> bool {
        let waker = Waker::from(std::sync::Arc::clone(&waker.0));
        let is_done = enrolled.poll(self.join(), &Context::from_waker(&waker)).is_ready();
        if is_done {
            assert_eq!(self.result.change(std::mem::take), 7);
        }
        is_done
    }
}

/// A waker that counts its calls.
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

    /// Returns the number of calls, when no copy of the waker is left.
    fn times(self) -> u32 {
        std::sync::Arc::into_inner(self.0).expect("no waker is left behind").0.into_inner()
    }
}

#[test]
fn a_future_that_is_polled_with_another_waker_sees_the_result_or_that_waker_is_called() {
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
fn a_future_that_leaves_takes_its_waker_with_it_or_the_waker_is_called_once() {
    check(2, 4, |turn| {
        let [strand, joined] = Strand::new();
        let poll_and_leave = move || {
            let mut enrolled = Enrolled::default();
            let waker = Called::default();
            let is_done = joined.poll(&mut enrolled, &waker);
            enrolled.leave(joined.join());
            assert!(joined.join().is_done() || waker.is_only_one());
            (is_done, waker)
        };
        let ((is_done, waker), ()) = turn.two(poll_and_leave, move || strand.finish());
        assert!(waker.times() <= u32::from(!is_done));
    });
}
