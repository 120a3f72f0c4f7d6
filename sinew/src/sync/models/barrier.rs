//! `Barrier`, of two parties.

use crate::base::models::{Watched, check};
use crate::sync::Barrier;
use loom::sync::Arc;
use std::time::Duration;

/// A barrier, and what each party does before it comes there.
struct Meeting {
    barrier: Barrier,
    done: [Watched<u32>; 2],
}

impl Meeting {
    fn new<const N: usize>() -> [Arc<Meeting>; N] {
        let meeting = Arc::new(Meeting { barrier: Barrier::new(2), done: [Watched::new(0), Watched::new(0)] });
        [(); N].map(|()| Arc::clone(&meeting))
    }

    /// Comes to the barrier. Returns whether it is the leader; `None` if its time was up first.
    fn come(&self, party: usize, timeout: Option<Duration>) -> Option<bool> {
        self.done[party].set(7);
        let end = match timeout {
            None => self.barrier.wait(),
            Some(timeout) => self.barrier.wait_timeout(timeout).ok()?,
        };
        assert_eq!(self.done[1 - party].get(), 7);
        Some(end.is_leader())
    }

    /// No party is counted: one that comes alone does not pass.
    fn assert_empty(&self) {
        assert!(self.barrier.wait_timeout(Duration::ZERO).is_err(), "a party that has left is counted");
    }
}

#[test]
fn both_parties_pass_and_see_what_the_other_did_and_one_is_the_leader() {
    check(2, 4, |turn| {
        let [one, two, after] = Meeting::new();
        let (one, two) = turn.two(move || one.come(0, None), move || two.come(1, None));
        assert!(one.is_some() && two.is_some() && one != two, "leaders: {one:?}, {two:?}");
        after.assert_empty();
    });
}

#[test]
fn two_parties_whose_time_is_up_both_pass_or_both_give_up() {
    check(2, 4, |turn| {
        let [one, two, after] = Meeting::new();
        let now = Some(Duration::ZERO);
        let (one, two) = turn.two(move || one.come(0, now), move || two.come(1, now));
        match (one, two) {
            (None, None) | (Some(true), Some(false)) | (Some(false), Some(true)) => {}
            wrong => panic!("leaders: {wrong:?}"),
        }
        after.assert_empty();
    });
}
