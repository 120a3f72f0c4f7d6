//! Where woken strands and hubs go, and which victims a thief tries.

use super::*;
use crate::base::clock::cycles_in_us;
use crate::sched::{Priority, Topology};

/// Late enough that nothing is older than the machine.
const NOON: u64 = 1 << 50;

fn at(us: u64) -> u64 {
    NOON + cycles_in_us(us)
}

/// Makes a strand. The time when it became ready identifies it.
fn strand(past: Past, ready_at: u64) -> Ready {
    let ready = Ready::simulated(Priority::Normal);
    ready.simulate_past(past);
    ready.stamp(ready_at);
    ready
}

fn woken(strand: Ready) -> Ready {
    strand.simulate_past(Past::Woken);
    strand
}

fn retire(strand: Ready) -> u64 {
    let ready_at = strand.ready_at();
    strand.retire();
    ready_at
}

fn ends(scheduler: &Locality, topology: Topology) -> Vec<End<Nearest>> {
    let topology = Arc::new(topology);
    let place = |cpu| Placement::simulated(cpu as u16, Arc::clone(&topology), cpu);
    let ends: Vec<_> = (0..topology.cpus()).map(|cpu| End::new(&scheduler.deques, place(cpu))).collect();
    ends.iter().for_each(|end| end.beat(NOON));
    ends
}

fn fill(end: &End<Nearest>, number: u64) {
    let _ = end.push(strand(Past::New, number), NOON);
}

fn rest(ends: &[End<Nearest>]) -> Vec<u64> {
    ends.iter().flat_map(|end| std::iter::from_fn(|| end.next(NOON))).map(retire).collect()
}

/// 16 CPUs: pairs that share a level 2 cache, 4 CPUs for each last-level cache, 2 nodes of 8.
fn pairs_and_nodes() -> Topology {
    let pairs: Vec<_> = (0..8).map(|pair| vec![2 * pair, 2 * pair + 1]).collect();
    let nodes = [(0..8).collect(), (8..16).collect()];
    Topology::uniform(16, 4).with_cores(&pairs).with_nodes(&nodes, vec![vec![10, 21], vec![21, 10]])
}

#[test]
fn a_woken_strand_goes_to_the_head_where_it_is_woken() {
    let ends = ends(&Locality::new(Woken::Here), Topology::flat(2));
    let _ = ends[1].push(strand(Past::New, 1), NOON);
    let ran_there = ends[1].next(NOON).unwrap();
    let _ = ends[0].push(strand(Past::New, 2), NOON);
    assert_eq!(ends[0].push(woken(ran_there), NOON), Wake::Backlog);
    assert_eq!(rest(&ends), [1, 2]);
}

#[test]
fn a_woken_strand_goes_to_the_tail_where_it_ran() {
    let scheduler = Locality::new(Woken::WhereItRan);
    let ends = ends(&scheduler, Topology::flat(2));
    let _ = ends[1].push(strand(Past::New, 1), NOON);
    let ran_there = ends[1].next(NOON).unwrap();
    // Its processor is busy and has nothing else to do, then has something else, then waits.
    assert_eq!(ends[0].push(woken(ran_there), NOON), Wake::Lone);
    let ran_there = ends[1].next(NOON).unwrap();
    let _ = ends[1].push(strand(Past::New, 2), NOON);
    assert_eq!(ends[0].push(woken(ran_there), NOON), Wake::Backlog);
    assert_eq!(ends[1].next(NOON).map(retire), Some(2));
    let ran_there = ends[1].next(NOON).unwrap();
    assert!(ends[1].next(NOON).is_none());
    let Wake::Processor(home) = ends[0].push(woken(ran_there), NOON) else { panic!("its processor is not woken") };
    assert_eq!(home.index(), 1);
    // On its own processor it goes to the tail as well. A thread from outside sends it home.
    let ran_there = ends[1].next(NOON).unwrap();
    let _ = ends[1].push(strand(Past::New, 3), NOON);
    let _ = ends[1].push(woken(ran_there), NOON);
    assert_eq!(ends[1].next(NOON).map(retire), Some(3));
    let ran_there = ends[1].next(NOON).unwrap();
    assert_eq!(scheduler.inject(woken(ran_there), NOON), Wake::Lone);
    assert_eq!(rest(&ends[1..]), [1]);
}

#[test]
fn a_strand_moves_only_with_a_thief() {
    let ends = ends(&Locality::new(Woken::WhereItRan), Topology::flat(2));
    let _ = ends[1].push(strand(Past::New, 1), NOON);
    let stolen = ends[0].search(at(10), Effort::Polite).unwrap();
    let _ = ends[1].push(woken(stolen), at(10));
    assert_eq!(ends[0].next(at(10)).map(retire), Some(1));
}

#[test]
fn a_strand_whose_processor_has_left_stays_where_it_is_woken() {
    let ends = ends(&Locality::new(Woken::WhereItRan), Topology::flat(2));
    let _ = ends[1].push(strand(Past::New, 1), NOON);
    let ran_there = ends[1].next(NOON).unwrap();
    assert!(ends[1].drain().is_none());
    assert_eq!(ends[0].push(woken(ran_there), NOON), Wake::Lone);
    // One that was on its way is found at the vacant station.
    ends[1].station.inbox().arrive(strand(Past::New, 2), NOON);
    assert_eq!(ends[0].search(NOON, Effort::Polite).map(retire), Some(2));
    assert_eq!(rest(&ends[..1]), [1]);
}

#[test]
fn new_hubs_are_spread_over_nodes_and_then_over_caches() {
    let scheduler = Locality::default();
    let ends = ends(&scheduler, pairs_and_nodes());
    let cache = |end: usize| end / 4;
    let hub = || {
        let hub = Ready::simulated_hub();
        hub.stamp(NOON);
        hub
    };
    // The first one stays. Each that follows is as far away as possible.
    let mut hubs = Vec::new();
    for _ in 0..8 {
        let _ = ends[1].push(hub(), NOON);
        let found = (0..16).find_map(|end| Some((end, ends[end].next(NOON)?)));
        let (end, strand) = found.expect("it is somewhere");
        hubs.push(strand);
        assert!(ends.iter().all(|end| end.next(NOON).is_none()));
        if hubs.len() == 1 {
            assert_eq!(end, 1);
        }
        hubs.last().unwrap().set_note(end as u32);
    }
    let caches: Vec<_> = hubs.iter().map(|hub| cache(hub.note() as usize)).collect();
    assert_eq!(caches, [0, 2, 1, 3, 0, 2, 1, 3]);
    // Under one cache, the spawner's own comes first, then the one that has the fewest.
    let stations: Vec<_> = hubs.iter().map(|hub| hub.note()).collect();
    assert_eq!(stations, [1, 8, 4, 12, 1, 9, 5, 13]);
    // A hub that has run is like any other strand.
    let ran = woken(hubs.pop().unwrap());
    let _ = ends[1].push(ran, NOON);
    assert_eq!(ends[1].next(NOON).map(retire), Some(NOON));
    hubs.into_iter().for_each(Ready::retire);
    // So is a strand that is no hub. A hub from outside is placed too.
    let _ = ends[1].push(strand(Past::New, 1), NOON);
    assert_eq!(ends[1].next(NOON).map(retire), Some(1));
    assert!(matches!(scheduler.inject(hub(), NOON), Wake::Processor(_)));
    assert_eq!(rest(&ends).len(), 1);
}

#[test]
fn a_thief_goes_to_the_nearest_level_that_has_strands() {
    let ends = ends(&Locality::default(), pairs_and_nodes());
    // From processor 5: the other node, its own node, its last-level cache, its level 2 cache.
    let victims = [12, 1, 7, 4];
    for (number, victim) in victims.into_iter().enumerate() {
        (0..2).for_each(|more| fill(&ends[victim], number as u64 + 10 * more));
    }
    let order: Vec<_> = std::iter::from_fn(|| ends[5].search(at(3), Effort::Polite)).map(retire).collect();
    assert_eq!(order, [3, 13, 2, 12, 1, 11, 0, 10]);
}

#[test]
fn a_thief_picks_at_random_among_the_neighbours_that_have_strands() {
    let ends = ends(&Locality::default(), Topology::flat(9));
    let mut times = [0_u32; 9];
    for _ in 0..400 {
        let full = [1, 2, 6, 8];
        full.into_iter().flat_map(|end| [end, end]).for_each(|end| fill(&ends[end], NOON));
        ends[0].search(NOON, Effort::Polite).unwrap().retire();
        let robbed = full.into_iter().find(|&end| rest(&ends[end..=end]).len() == 1).unwrap();
        times[robbed] += 1;
        rest(&ends);
    }
    assert!([1, 2, 6, 8].iter().all(|&end| times[end] > 60), "{times:?}");
}

/// Lets thieves search while the lock of `full` is held. Returns the number of those that tried its deque, and of those that
/// backed off.
fn tries(scheduler: &Locality, full: &End<Nearest>, thieves: &[End<Nearest>], us: u64) -> (u64, u64) {
    let before = scheduler.meter().read();
    let held = full.station.lock();
    thieves.iter().for_each(|thief| assert!(thief.search(at(us), Effort::Polite).is_none()));
    drop(held);
    // Each thief tells what it has tried when it has stolen something.
    thieves.iter().for_each(|thief| retire_one(thief.search(at(us), Effort::Greedy)));
    let after = scheduler.meter().read();
    (after.tries - before.tries - thieves.len() as u64, after.back_offs - before.back_offs)
}

fn retire_one(strand: Option<Ready>) {
    strand.expect("a greedy thief finds it").retire();
}

#[test]
fn thieves_back_off_from_the_only_full_deque_if_more_than_half_of_the_node_polls() {
    // A greedy thief takes one strand.
    let scheduler = Locality::published(Woken::Here);
    let ends = ends(&scheduler, Topology::flat(16));
    (0..100).for_each(|number| fill(&ends[0], NOON + number));
    let tries = |thieves, us| tries(&scheduler, &ends[0], thieves, us);
    assert_eq!(tries(&ends[1..], 100), (9, 6));
    // The same nine go on. When they have not polled for a while, there is room for the others.
    assert_eq!(tries(&ends[10..], 101), (0, 6));
    assert_eq!(tries(&ends[1..10], 101), (9, 0));
    assert_eq!(tries(&ends[10..], 110), (6, 0));
    // With a second deque there is room for all. It is locked too, or each thief would get something there.
    (0..2).for_each(|number| fill(&ends[15], NOON + number));
    let held = ends[15].station.lock();
    let before = scheduler.meter().read().back_offs;
    let locked = ends[0].station.lock();
    assert!(ends[1..15].iter().all(|end| end.search(at(120), Effort::Polite).is_none()));
    drop((held, locked));
    ends[1..15].iter().for_each(|end| retire_one(end.search(at(120), Effort::Greedy)));
    assert_eq!(scheduler.meter().read().back_offs, before);
    let left = rest(&ends).len();
    assert_eq!(left, 102 - 15 - 6 - 9 - 6 - 14);
}

#[test]
fn strands_in_the_inbox_of_a_busy_processor_can_be_stolen() {
    let ends = ends(&Locality::new(Woken::WhereItRan), Topology::flat(3));
    let _ = ends[1].push(strand(Past::New, 1), NOON);
    let ran_there = ends[1].next(NOON).unwrap();
    let _ = ends[0].push(woken(ran_there), NOON);
    assert!(ends[2].search(at(1), Effort::Polite).is_none());
    assert_eq!(ends[2].search(at(3), Effort::Polite).map(retire), Some(1));
}
