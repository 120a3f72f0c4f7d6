//! What a processor does at its beats, when another one is held up or has more strands.

use super::*;
use crate::sched::{Priority, Topology};

const LATE: u64 = 1 << 50;

/// Makes ends. The first one has strands that have waited for long, and has told so.
fn ends<const NUMBER: usize>(neglected: usize) -> [End; NUMBER] {
    let scheduler = Fair::default();
    let topology = Arc::new(Topology::flat(NUMBER));
    let ends =
        std::array::from_fn(|index| scheduler.end(Placement::simulated(index as u16, Arc::clone(&topology), index)));
    fill(&ends[0], neglected, 1);
    ends[0].advertise();
    ends
}

fn fill(end: &End, strands: usize, ready_at: u64) {
    for _ in 0..strands {
        let ready = Ready::simulated(Priority::Normal);
        ready.stamp(ready_at);
        let _ = end.push(ready, ready_at);
    }
}

fn len(end: &End) -> usize {
    end.queue.own.strands.lock().len()
}

fn retire_all(ends: &[End]) -> usize {
    ends.iter().flat_map(|end| std::iter::from_fn(|| end.next(LATE))).map(Ready::retire).count()
}

#[test]
fn a_processor_owes_naps_while_a_held_lock_keeps_it_from_a_rescue() {
    let ends = ends::<2>(100);
    fill(&ends[1], 99, LATE);
    let held = ends[0].queue.own.strands.lock();
    // 100 strands here, with the one that runs, and 100 there: a nap at every second look.
    for debt in [100, 0, 100, 0] {
        ends[1].beat(LATE);
        assert_eq!((ends[1].held.get(), ends[1].debt.get()), (Some(0), debt));
    }
    drop(held);
    ends[1].beat(LATE);
    assert_eq!((ends[1].held.get(), len(&ends[1])), (None, 199));
    assert_eq!(retire_all(&ends), 199);
}

#[test]
fn a_processor_with_one_strand_naps_at_every_look_at_a_held_lock() {
    let ends = ends::<2>(100);
    let held = ends[0].queue.own.strands.lock();
    for _ in 0..3 {
        ends[1].beat(LATE);
        assert_eq!((ends[1].held.get(), ends[1].debt.get()), (Some(0), 0));
    }
    drop(held);
    assert_eq!(retire_all(&ends), 100);
}

#[test]
fn a_processor_returns_to_a_held_lock_at_every_beat_until_the_lock_is_free() {
    let ends = ends::<4>(100);
    let held = ends[0].queue.own.strands.lock();
    while ends[3].held.get().is_none() {
        ends[3].beat(LATE);
    }
    for _ in 0..20 {
        ends[3].beat(LATE);
        assert_eq!(ends[3].held.get(), Some(0));
    }
    drop(held);
    ends[3].beat(LATE);
    assert_eq!((ends[3].held.get(), len(&ends[3])), (None, 100));
    assert_eq!(retire_all(&ends), 100);
}

/// Lets the second end look at 10 strands of the first, which have waited longer than usual there, but not
/// beyond the limit. Returns the lengths of the queues.
fn look_at_ten(ends: &[End; 2], now: u64) -> [usize; 2] {
    ends[0].wait.set(1000);
    ends[0].advertise();
    ends[1].beat(now);
    [len(&ends[0]), len(&ends[1])]
}

#[test]
fn a_strand_that_yields_to_itself_is_joined_by_others_at_the_first_look() {
    let ends = ends::<2>(10);
    // It has waited once.
    ends[1].wait.set(100);
    for now in 2..10 {
        let ready = Ready::simulated(Priority::Normal);
        ready.stamp(now);
        ends[1].exchange(ready, now).expect("an exchange is quicker").retire();
    }
    assert_eq!(look_at_ten(&ends, 10), [5, 5]);
    assert_eq!(retire_all(&ends), 10);
}

#[test]
fn a_processor_whose_strands_wait_balances_at_the_third_look() {
    let ends = ends::<2>(10);
    ends[1].wait.set(100);
    for expected in [[10, 0], [10, 0], [5, 5]] {
        assert_eq!(look_at_ten(&ends, 2), expected);
    }
    assert_eq!(retire_all(&ends), 10);
}
