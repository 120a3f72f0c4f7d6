//! What a deque gives its processor and its thieves, and what a processor does at its beats.

use super::deque::{Deque, Side, Turn};
use crate::base::clock::cycles_in_us;
use crate::sched::{
    BEAT_US, Effort, Local, Locality, Past, Placement, Priority, Random, Ready, Scheduler, Topology, Wake, Woken,
};
use crate::strand::Fifo;
use std::sync::Arc;

/// Late enough that nothing is older than the machine.
const NOON: u64 = 1 << 50;

fn at(us: u64) -> u64 {
    NOON + cycles_in_us(us)
}

/// Makes a strand. The time when it became ready identifies it.
fn strand(priority: Priority, past: Past, ready_at: u64) -> Ready {
    let ready = Ready::simulated(priority);
    ready.simulate_past(past);
    ready.stamp(ready_at);
    ready
}

fn normal(past: Past, ready_at: u64) -> Ready {
    strand(Priority::Normal, past, ready_at)
}

/// Ends a strand. Returns its number.
fn retire(strand: Ready) -> u64 {
    let ready_at = strand.ready_at();
    strand.retire();
    ready_at
}

fn deque_of(strands: &[(Priority, Side, u64)]) -> Deque {
    let mut deque = Deque::new();
    strands.iter().for_each(|&(priority, side, number)| deque.push(strand(priority, Past::New, number), side));
    deque
}

fn pop_all(deque: &mut Deque, turn: Turn) -> Vec<u64> {
    std::iter::from_fn(|| deque.pop(turn)).map(retire).collect()
}

const NORMAL: Priority = Priority::Normal;
const MIXED: [(Priority, Side, u64); 6] = [
    (NORMAL, Side::Head, 1),
    (NORMAL, Side::Tail, 2),
    (NORMAL, Side::Head, 3),
    (NORMAL, Side::Tail, 4),
    (Priority::High, Side::Tail, 5),
    (NORMAL, Side::Head, 6),
];

#[test]
fn the_head_is_last_in_first_out_and_the_tail_comes_behind() {
    let mut deque = deque_of(&MIXED);
    assert_eq!((deque.len(), deque.oldest_since()), (6, Some(1)));
    assert_eq!(deque.claim(Turn::Head).map(|claim| (claim.priority, claim.ready_at)), Some((Priority::High, 5)));
    assert_eq!(pop_all(&mut deque, Turn::Head), [5, 6, 3, 1, 2, 4]);
    assert_eq!((deque.len(), deque.oldest_since(), deque.claim(Turn::Head)), (0, None, None));
}

#[test]
fn thieves_take_the_oldest_of_the_most_urgent_level() {
    let mut deque = deque_of(&MIXED);
    assert_eq!(std::iter::from_fn(|| deque.steal()).map(retire).collect::<Vec<_>>(), [5, 1, 2, 3, 4, 6]);
    let mut deque = deque_of(&MIXED[..5]);
    let (number, mut half) = deque.steal_half(64).unwrap();
    assert_eq!((number, deque.len()), (3, 2));
    assert_eq!(std::iter::from_fn(|| half.pop()).map(retire).collect::<Vec<_>>(), [5, 1, 2]);
    let (number, mut rest) = deque.steal_half(1).unwrap();
    assert_eq!((number, rest.pop().map(retire)), (1, Some(3)));
    assert_eq!(pop_all(&mut deque, Turn::Head), [4]);
    assert!(deque.steal_half(64).is_none());
}

#[test]
fn strands_from_elsewhere_go_behind_the_line_in_their_order() {
    let mut deque = deque_of(&[(NORMAL, Side::Head, 10), (NORMAL, Side::Tail, 11)]);
    let mut strands = Fifo::new();
    (1..=2).for_each(|number| strands.push(normal(Past::New, number)));
    deque.append(strands);
    assert_eq!((deque.len(), pop_all(&mut deque, Turn::Head)), (4, vec![10, 11, 1, 2]));
}

#[test]
fn the_64th_turn_goes_to_the_oldest_of_the_level_that_has_waited_longest() {
    let mut deque = Deque::new();
    (1_000..1_200).for_each(|number| deque.push(strand(Priority::High, Past::New, number), Side::Head));
    (2..4).for_each(|number| deque.push(strand(Priority::Low, Past::New, number), Side::Head));
    deque.push(normal(Past::New, 1), Side::Head);
    let order = pop_all(&mut deque, Turn::Head);
    let turn_of = |number| order.iter().position(|of| *of == number).unwrap();
    assert_eq!([turn_of(1), turn_of(2), turn_of(3)], [63, 127, 191]);
}

/// Makes a scheduler of each kind, and ends that have had a beat.
fn each<const NUMBER: usize>(body: impl Fn(&dyn Scheduler, [Box<dyn Local>; NUMBER])) {
    let here = Locality::new(Woken::Here);
    for scheduler in [&Random::default() as &dyn Scheduler, &here, &Locality::new(Woken::WhereItRan)] {
        body(scheduler, ends(scheduler));
    }
}

fn ends<const NUMBER: usize>(scheduler: &dyn Scheduler) -> [Box<dyn Local>; NUMBER] {
    let topology = Arc::new(Topology::flat(NUMBER));
    let place = |index| Placement::simulated(index as u16, Arc::clone(&topology), index);
    let ends = std::array::from_fn(|index| scheduler.attach(place(index)));
    ends.iter().for_each(|end| end.beat(NOON));
    ends
}

fn rest(ends: &[Box<dyn Local>], now: u64) -> usize {
    ends.iter().flat_map(|end| std::iter::from_fn(|| end.next(now))).map(retire).count()
}

#[test]
fn a_strand_that_yields_goes_behind_the_others() {
    each::<1>(|_, [end]| {
        [1, 2].map(|number| end.push(normal(Past::New, number), NOON)).into_iter().for_each(|wake| {
            assert!(matches!(wake, Wake::Lone | Wake::Backlog));
        });
        let order = [3, 4, 5].map(|number| end.exchange(normal(Past::Yielded, number), NOON).map(retire).unwrap());
        assert_eq!(order, [2, 1, 3]);
        assert_eq!(end.claim().map(|claim| claim.ready_at), Some(4));
        assert_eq!(rest(&[end], NOON), 2);
    });
}

#[test]
fn a_single_strand_is_no_backlog_and_two_are_one() {
    each::<1>(|_, [end]| {
        assert_eq!(end.push(normal(Past::New, NOON), NOON), Wake::Lone);
        assert_eq!(end.push(normal(Past::New, NOON), NOON), Wake::Backlog);
        let mut wakes = Vec::new();
        let mut batch = [1, 2].map(|number| normal(Past::Yielded, number)).into_iter();
        end.push_all(&mut batch, NOON, &mut |wake| wakes.push(wake));
        assert_eq!((wakes, rest(&[end], NOON)), (vec![Wake::Backlog], 4));
    });
}

#[test]
fn a_polite_thief_leaves_a_single_young_strand_and_a_greedy_one_takes_everything() {
    each::<2>(|scheduler, ends| {
        let [owner, thief] = &ends;
        let _ = owner.push(normal(Past::New, NOON), NOON);
        assert!(thief.search(at(1), Effort::Polite).is_none());
        assert_eq!(thief.search(at(3), Effort::Polite).map(retire), Some(NOON));
        (1..=4).for_each(|number| {
            let _ = scheduler.inject(normal(Past::New, number), at(5));
        });
        let _ = owner.push(normal(Past::New, 5), at(5));
        assert_eq!(rest(&ends[1..], at(5)), 2);
        let taken = std::iter::from_fn(|| thief.search(at(5), Effort::Greedy)).map(retire).count();
        assert_eq!((taken, rest(&ends, at(5))), (3, 0));
    });
}

/// Lets the newest of two strands run and be ready again at once, for `us` microseconds, beside one that became ready
/// before. Returns when that had its turn.
fn turn_of_the_oldest(end: &dyn Local, us: u64) -> Option<u64> {
    let _ = end.push(normal(Past::New, NOON), NOON);
    let mut turn = None;
    for now in 1..=us {
        let _ = end.push(normal(Past::New, at(now)), at(now));
        if end.next(at(now)).map(retire) == Some(NOON) {
            turn.get_or_insert(now);
            let _ = end.next(at(now)).map(retire);
        }
        if now.is_multiple_of(BEAT_US) {
            end.beat(at(now));
        }
    }
    turn
}

#[test]
fn a_stale_strand_has_its_turn_although_newer_ones_come_all_the_time() {
    each::<1>(|_, [end]| {
        let turn = turn_of_the_oldest(&*end, 2_000);
        assert!(turn.is_some_and(|us| (1_000..1_000 + 2 * BEAT_US).contains(&us)), "{turn:?}");
        assert_eq!(rest(&[end], at(2_000)), 0);
    });
}

#[test]
fn as_published_the_newest_strand_runs_for_ever() {
    let strict = Locality::published(Woken::WhereItRan);
    for scheduler in [&Random::published() as &dyn Scheduler, &strict] {
        let ends @ [end, _] = &ends(scheduler);
        assert_eq!(turn_of_the_oldest(&**end, 5_000), None);
        // Nor does a busy processor help one that is held up.
        (0..10).for_each(|beat| ends[1].beat(at(6_000 + beat * BEAT_US)));
        assert_eq!((rest(&ends[1..], at(7_000)), rest(ends, at(7_000))), (0, 1));
    }
}

#[test]
fn one_turn_in_nine_at_most_goes_to_a_stale_strand() {
    each::<1>(|_, [end]| {
        (0..100).for_each(|number| {
            let _ = end.push(normal(Past::New, NOON + number), NOON);
        });
        // Each strand runs for so long that every turn has its beat.
        let order: Vec<_> = (0..45)
            .map(|turn| {
                end.beat(at(2_000 + 50 * turn));
                end.next(at(2_000 + 50 * turn)).map(retire).unwrap() - NOON
            })
            .collect();
        let oldest: Vec<_> = order.iter().copied().filter(|&number| number < 20).collect();
        assert_eq!((oldest, order[8], order[9]), (vec![0, 1, 2, 3, 4], 0, 91));
        assert_eq!(rest(&[end], at(9_000)), 55);
    });
}

#[test]
fn a_busy_processor_takes_half_from_one_that_is_held_up() {
    each::<2>(|_, ends| {
        (0..10).for_each(|number| {
            let _ = ends[0].push(normal(Past::New, NOON + number), NOON);
        });
        for (us, taken) in [(120, 0), (205, 0), (215, 5)] {
            // Its own beats are 120, 85 and 10 µs apart.
            ends[1].beat(at(us));
            assert_eq!(rest(&ends[1..], at(us)), taken, "at {us}");
        }
        assert_eq!(rest(&ends, at(215)), 5);
    });
}

#[test]
fn a_busy_processor_takes_half_where_strands_wait_much_longer_than_here() {
    each::<2>(|_, ends| {
        (0..10).for_each(|number| {
            let _ = ends[0].push(normal(Past::New, NOON + number), NOON);
        });
        let both = |us| ends.iter().for_each(|end| end.beat(at(us)));
        both(990);
        assert_eq!(ends[1].next(at(990)).map(retire), None);
        // A strand here has waited for more than an eighth of the time.
        let _ = ends[1].push(normal(Past::New, at(800)), at(990));
        both(1_010);
        assert_eq!(rest(&ends[1..], at(1_010)), 1);
        both(1_020);
        assert_eq!(rest(&ends[1..], at(1_020)), 5);
        assert_eq!(rest(&ends, at(1_020)), 5);
    });
}

#[test]
fn a_processor_that_leaves_gives_up_its_strands_and_gets_no_more() {
    each::<2>(|scheduler, ends| {
        let _ = ends[1].push(normal(Past::New, 1), NOON);
        assert_eq!(std::iter::from_fn(|| ends[1].drain()).map(retire).count(), 1);
        (2..6).for_each(|number| {
            let _ = scheduler.inject(normal(Past::New, number), NOON);
        });
        assert_eq!(rest(&ends[..1], NOON), 4);
    });
}
