//! Models of the schedulers' queues.
//!
//! | file | what is modelled | what is abstracted |
//! | --- | --- | --- |
//! | `coloured` | [`Coloured`](super::Coloured): growth, colours that are sent to their seats | as below; a steal takes no time |
//! | `locality` | [`Locality`](super::Locality): strands that are sent to where they ran, thieves and rescuers | as below |
//! | `queues` | all schedulers but [`Inverted`](super::Inverted): a strand that goes in comes out once | strands are never run; all of them are old enough to be stolen; one cache |
//! | `inverted` | [`Inverted`](super::Inverted): its counter and the processors that wait | as above |
//!
//! The models of `processor` put schedulers and sleeping processors together.

mod coloured;
mod inverted;
mod locality;
mod queues;

use super::{Effort, Local, Placement, Ready, Scheduler, Topology, Wake};
use crate::base::fence;
use crate::base::models::Turn;
use crate::strand::models::retire;
use std::sync::Arc;

/// Long after everything: no strand is too young to be taken.
pub(crate) const NOW: u64 = 1 << 40;

pub(crate) fn attach(scheduler: &dyn Scheduler, index: u16) -> Box<dyn Local> {
    scheduler.attach(Placement::simulated(index, Arc::new(Topology::flat(2)), index.into()))
}

/// Ends strands. Returns their numbers.
pub(crate) fn numbers(strands: impl IntoIterator<Item = Ready>) -> Vec<u64> {
    strands.into_iter().map(retire).collect()
}

/// Takes strands in turn, until no end finds one. Returns their numbers.
fn rest(ends: &[&dyn Local]) -> Vec<u64> {
    numbers(std::iter::from_fn(|| {
        ends.iter().find_map(|end| end.next(NOW).or_else(|| end.search(NOW, Effort::Greedy)))
    }))
}

/// Lets the first end push a strand, which goes to the second one, while that falls asleep.
fn send_while_asleep(turn: Turn, (sender, seat, ready): (Box<dyn Local>, Box<dyn Local>, Ready)) {
    let send = move || (sender.push(ready, NOW), sender);
    let sleep = move || {
        let mut found = numbers(seat.next(NOW));
        if found.is_empty() {
            // The processor announces itself, then searches.
            fence::heavy();
            found = numbers(seat.next(NOW));
        }
        (found, seat)
    };
    let ((wake, sender), (found, seat)) = turn.two(send, sleep);
    let is_told = matches!(wake, Wake::Processor(id) if id.index() == 1);
    assert!(is_told || found == [1], "its processor sleeps, and {wake:?} is told");
    let rest = rest(&[&*sender, &*seat]);
    assert_eq!([found, rest].concat(), [1]);
}

/// Lets the first end push a strand, which goes to the second one, while that leaves.
fn send_while_leaving(turn: Turn, (sender, seat, ready): (Box<dyn Local>, Box<dyn Local>, Ready)) {
    let send = move || (sender.push(ready, NOW), sender);
    let leave = move || numbers(std::iter::from_fn(|| seat.drain()));
    let ((wake, sender), drained) = turn.two(send, leave);
    // If the processor has left without it, it was kept, or any sleeper is woken.
    let kept = numbers(sender.next(NOW));
    assert!(!drained.is_empty() || !kept.is_empty() || wake == Wake::Backlog, "{wake:?} is told");
    let rest = rest(&[&*sender]);
    assert_eq!([drained, kept, rest].concat(), [1]);
}
