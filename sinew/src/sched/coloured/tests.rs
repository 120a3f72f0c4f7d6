//! What a queue gives its processor and its thieves, and where a colour goes.

use super::end::End;
use super::queue::{Growth, Queue, Seat};
use super::worth::{Shelf, Worth};
use super::*;
use crate::base::clock::cycles_in_us;
use crate::sched::meter::{Attempts, Cause, Tally};
use crate::sched::{Distance, Effort, Priority, Topology};
use crate::strand::SimulatedColour;

/// Late enough that nothing is older than the machine.
const NOON: u64 = 1 << 50;

const ALL: Stealing = Stealing::Improved(Heuristics { locality: true, time_left: true, penalty: true });
const NO_PENALTY: Stealing = Stealing::Improved(Heuristics { locality: true, time_left: true, penalty: false });

/// A steal costs 1,000 ns.
fn worth(stealing: Stealing) -> Worth {
    Worth { stealing, cost: 1_000 }
}

fn at(us: u64) -> u64 {
    NOON + cycles_in_us(us)
}

/// Makes a colour. The time when it became ready identifies it.
fn colour(ready_at: u64, ns: u64, letters: u32) -> Ready {
    grower(ready_at, ns, letters).0
}

fn grower(ready_at: u64, ns: u64, letters: u32) -> (Ready, SimulatedColour) {
    let (ready, handle) = SimulatedColour::new(Priority::Normal, Weight::new(ns, letters));
    ready.stamp(ready_at);
    (ready, handle)
}

fn plain(priority: Priority, ready_at: u64) -> Ready {
    let ready = Ready::simulated(priority);
    ready.stamp(ready_at);
    ready
}

fn woken(strand: Ready) -> Ready {
    strand.simulate_past(Past::Woken);
    strand
}

fn queue_of(worth: &Worth, strands: impl IntoIterator<Item = Ready>) -> Queue {
    let mut queue = Queue::new();
    strands.into_iter().for_each(|strand| {
        queue.push(strand, 0, worth);
    });
    queue
}

/// Ends a strand. Returns its number.
fn retire(strand: Ready) -> u64 {
    let ready_at = strand.ready_at();
    strand.retire();
    ready_at
}

fn pop_all(queue: &mut Queue) -> Vec<u64> {
    std::iter::from_fn(|| queue.pop()).map(|(strand, _)| retire(strand)).collect()
}

/// Steals colours one by one, until there is none for a thief.
fn stolen(queue: &mut Queue, worth: &Worth) -> Vec<u64> {
    let mut stolen = Vec::new();
    while let Some(mut loot) = queue.steal_colour(worth) {
        stolen.extend(std::iter::from_fn(|| loot.strands.pop()).map(retire));
    }
    stolen
}

fn ends(scheduler: &Coloured, number: u16, topology: Topology) -> Vec<End> {
    let topology = Arc::new(topology);
    let placement = |index| Placement::simulated(index, Arc::clone(&topology), index.into());
    let ends: Vec<End> = (0..number).map(|index| End::new(&scheduler.shared, placement(index))).collect();
    ends.iter().for_each(|end| end.beat(NOON));
    ends
}

fn retire_all(ends: &[End], now: u64) -> usize {
    ends.iter().flat_map(|end| std::iter::from_fn(|| end.next(now))).map(Ready::retire).count()
}

#[test]
fn colours_and_fibres_have_their_turns_in_one_order() {
    let worth = worth(ALL);
    let strands = [colour(1, 50, 1), plain(Priority::Normal, 2), colour(3, 9_000, 1), plain(Priority::High, 4)];
    let mut queue = queue_of(&worth, strands);
    assert_eq!((queue.len(), queue.claim().unwrap().ready_at), (4, 4));
    assert_eq!(pop_all(&mut queue), [4, 1, 2, 3]);
}

#[test]
fn a_low_strand_gets_the_64th_turn() {
    let worth = worth(ALL);
    let mut queue = queue_of(&worth, (1..200).map(|number| colour(number, 50, 1)));
    queue.push(plain(Priority::Low, 1_000), 0, &worth);
    assert_eq!(pop_all(&mut queue).iter().position(|&number| number == 1_000), Some(63));
}

#[test]
fn places_are_used_again_and_lists_survive_removals_from_their_midst() {
    let worth = worth(ALL);
    let mut queue = queue_of(&worth, (1..=6).map(|number| colour(number, if number % 2 == 0 { 2_000 } else { 50 }, 1)));
    assert_eq!(stolen(&mut queue, &worth), [2, 4, 6]);
    (7..=9).for_each(|number| {
        queue.push(colour(number, 50, 1), 0, &worth);
    });
    assert_eq!(pop_all(&mut queue), [1, 3, 5, 7, 8, 9]);
    assert_eq!((queue.len(), queue.stealable(), queue.letters()), (0, 0, 0));
}

#[test]
fn thieves_take_worthy_colours_and_the_richest_shelf_first() {
    let worth = worth(ALL);
    let times = [2_000, 900, 5_000, 1_000, 50_000, 3_000, 7_000];
    let mut queue = queue_of(&worth, (0..).zip(times).map(|(number, ns)| colour(number, ns, 1)));
    assert_eq!(queue.stealable(), 5);
    assert_eq!(stolen(&mut queue, &worth), [4, 2, 6, 0, 5]);
    assert_eq!(pop_all(&mut queue), [1, 3]);
}

#[test]
fn a_colour_that_grows_moves_up() {
    let worth = worth(ALL);
    let (ready, small) = grower(1, 600, 2);
    let mut queue = queue_of(&worth, [ready, colour(2, 10_000, 1)]);
    let seat = Seat::read(small.grown().note()).unwrap();
    small.set_weight(Weight::new(1_200, 4));
    assert_eq!(queue.grow(seat, &small.grown(), &worth), Growth::Worthy);
    assert_eq!((queue.stealable(), queue.letters()), (2, 5));
    small.set_weight(Weight::new(40_000, 100));
    assert_eq!(queue.grow(seat, &small.grown(), &worth), Growth::None);
    assert_eq!(stolen(&mut queue, &worth), [1, 2]);
}

#[test]
fn growth_touches_no_place_that_another_strand_has_now() {
    let worth = worth(ALL);
    let (ready, small) = grower(1, 600, 2);
    let mut queue = queue_of(&worth, [ready]);
    let seat = Seat::read(small.grown().note()).unwrap();
    let (taken, _) = queue.pop().unwrap();
    small.set_weight(Weight::new(90_000, 100));
    assert_eq!(queue.grow(seat, &small.grown(), &worth), Growth::None);
    queue.push(colour(2, 50, 1), 0, &worth);
    assert_eq!(queue.grow(seat, &small.grown(), &worth), Growth::None);
    assert_eq!((queue.stealable(), queue.letters()), (0, 1));
    assert_eq!((retire(taken), pop_all(&mut queue)), (1, vec![2]));
}

#[test]
fn a_colour_is_no_longer_worth_it_when_the_cost_has_risen() {
    let mut queue = queue_of(&worth(ALL), [colour(1, 2_000, 1), colour(2, 3_000, 1)]);
    let dear = Worth { cost: 2_500, ..worth(ALL) };
    assert_eq!(stolen(&mut queue, &dear), [2]);
    assert_eq!(queue.stealable(), 0);
    assert_eq!(pop_all(&mut queue), [1]);
}

#[test]
fn a_penalty_makes_a_colour_less_attractive_if_it_counts() {
    let penalised = || SimulatedColour::new(Priority::Normal, Weight::new(50, 1).undivided(50_000)).0;
    for (stealing, number) in [(ALL, 0), (NO_PENALTY, 1)] {
        let worth = worth(stealing);
        let mut queue = queue_of(&worth, [penalised()]);
        assert_eq!(stolen(&mut queue, &worth).len(), number);
        assert_eq!(pop_all(&mut queue).len(), 1 - number);
    }
}

#[test]
fn base_takes_the_first_colour_with_less_than_half_of_the_letters() {
    let worth = worth(Stealing::Base);
    let cases: [(&[u32], u32, Option<u64>); 8] = [
        // The letters of each colour in order, those of the running one, and what is stolen.
        (&[5, 2, 1], 0, Some(1)),
        (&[3, 3, 1], 0, Some(0)),
        (&[2, 2], 0, None),
        (&[1], 0, None),
        (&[1], 1, None),
        (&[1], 2, Some(0)),
        (&[4, 1], 1, Some(1)),
        (&[], 7, None),
    ];
    for (letters, running, expected) in cases {
        let mut queue = queue_of(&worth, (0..).zip(letters).map(|(number, &letters)| colour(number, 9, letters)));
        queue.set_running(running);
        let mut first = queue.steal_colour(&worth);
        let first = first.as_mut().and_then(|loot| loot.strands.pop()).map(retire);
        assert_eq!(first, expected, "{letters:?} and {running}");
        pop_all(&mut queue);
    }
}

#[test]
fn half_of_the_fibres_are_stolen_whatever_becomes_of_colours() {
    for stealing in [Stealing::Off, Stealing::Base, ALL] {
        let worth = worth(stealing);
        let mut queue = queue_of(&worth, (0..5).map(|number| plain(Priority::Normal, number)));
        let mut loot = queue.steal_plain(64).unwrap();
        assert_eq!(loot.strands.len(), 3);
        assert_eq!(std::iter::from_fn(|| loot.strands.pop()).map(retire).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(pop_all(&mut queue), [3, 4]);
    }
}

#[test]
fn the_base_begins_at_the_station_with_the_most_letters_and_goes_on_by_number() {
    let scheduler = Coloured::new(Stealing::Base);
    let ends = ends(&scheduler, 8, Topology::uniform(8, 4));
    for (end, letters) in [(6, 9), (3, 5), (4, 5)] {
        let _ = ends[end].push(colour(NOON, 50, letters), NOON);
    }
    let order = |thief: usize| {
        let _ = ends[thief].steal(NOON, Effort::Polite);
        ends[thief].victims.borrow().order.clone()
    };
    assert_eq!(order(1), [6, 7, 0, 2, 3, 4, 5]);
    retire_all(&ends[6..7], NOON);
    // Of two that have the most, the first.
    assert_eq!(order(1), [3, 4, 5, 6, 7, 0, 2]);
    assert_eq!(retire_all(&ends, NOON), 2);
}

#[test]
fn near_victims_come_first() {
    let pairs = (0..4).map(|pair| vec![2 * pair, 2 * pair + 1]).collect::<Vec<_>>();
    let nodes = [vec![0, 1, 2, 3], vec![4, 5, 6, 7]];
    let topology = Topology::uniform(8, 4).with_cores(&pairs).with_nodes(&nodes, vec![]);
    let ends = ends(&Coloured::default(), 8, topology);
    let _ = ends[5].steal(NOON, Effort::Polite);
    assert_eq!(ends[5].victims.borrow().order, [4, 6, 7, 0, 1, 2, 3]);
}

#[test]
fn a_colour_that_is_woken_goes_to_the_processor_that_ran_it_last() {
    let scheduler = Coloured::at_cost(ALL, 1_000);
    let ends = ends(&scheduler, 2, Topology::flat(2));
    let _ = ends[1].push(colour(NOON, 2_000, 1), NOON);
    let _ = ends[1].push(colour(NOON, 50, 1), NOON);
    let (worthy, other) = (ends[1].next(NOON).unwrap(), ends[1].next(NOON).unwrap());
    // Its processor is busy, and gets to it.
    assert_eq!(ends[0].push(woken(other), NOON), Wake::Lone);
    let other = ends[1].next(NOON).expect("it was sent there");
    assert_eq!(ends[0].push(woken(worthy), NOON), Wake::Backlog);
    let worthy = ends[1].next(NOON).expect("it was sent there");
    assert!(ends[1].next(NOON).is_none());
    // Its processor waits.
    let Wake::Processor(seat) = ends[0].push(woken(worthy), NOON) else { panic!("its processor is not woken") };
    assert_eq!(seat.index(), 1);
    ends[1].next(NOON).expect("it was sent there").retire();
    assert!(ends[1].next(NOON).is_none());
    assert_eq!(ends[0].push(woken(other), NOON), Wake::Lone);
    let other = ends[0].next(NOON).expect("it is not worth a wake-up");
    // It has a new seat now. A thread from outside finds it.
    assert_eq!(scheduler.inject(woken(other), NOON), Wake::Lone);
    ends[0].next(NOON).expect("it was sent there").retire();
}

#[test]
fn only_worthy_colours_and_fibres_are_a_backlog() {
    let ends = ends(&Coloured::at_cost(ALL, 1_000), 1, Topology::flat(1));
    for (ns, wake) in [(50, Wake::Lone), (50, Wake::Lone), (5_000, Wake::Backlog)] {
        assert_eq!(ends[0].push(colour(NOON, ns, 1), NOON), wake);
    }
    assert_eq!(ends[0].push(plain(Priority::Normal, NOON), NOON), Wake::Backlog);
    let mut wakes = Vec::new();
    ends[0].push_all(&mut [colour(NOON, 50, 1), colour(NOON, 50, 1)].into_iter(), NOON, &mut |wake| wakes.push(wake));
    assert_eq!(wakes, [Wake::Lone]);
    assert_eq!(retire_all(&ends, NOON), 6);
}

#[test]
fn growth_wakes_a_sleeper_when_it_makes_a_colour_worthy() {
    let scheduler = Coloured::at_cost(ALL, 1_000);
    let ends = ends(&scheduler, 1, Topology::flat(1));
    let (ready, small) = grower(NOON, 50, 1);
    let _ = ends[0].push(ready, NOON);
    small.set_weight(Weight::new(500, 10));
    assert_eq!(scheduler.grown(&small.grown(), NOON), Wake::Nobody);
    let _ = ends[0].push(colour(NOON, 50, 1), NOON);
    small.set_weight(Weight::new(5_000, 100));
    assert_eq!(scheduler.grown(&small.grown(), NOON), Wake::Backlog);
    assert_eq!(scheduler.grown(&small.grown(), NOON), Wake::Nobody);
    assert_eq!(retire_all(&ends, NOON), 2);
}

#[test]
fn what_is_not_worth_it_is_left_to_a_processor_that_gets_to_it() {
    let scheduler = Coloured::at_cost(ALL, 1_000);
    let ends = ends(&scheduler, 2, Topology::flat(2));
    (0..10).for_each(|_| {
        let _ = ends[0].push(colour(NOON, 50, 1), NOON);
    });
    // The colours have waited for long, and their processor has just dispatched.
    ends[0].beat(at(900));
    assert!(ends[1].search(at(1_000), Effort::Polite).is_none());
    ends[1].beat(at(1_000));
    assert!(ends[1].next(at(1_000)).is_none());
    // Half of them, when the processor is held up.
    assert!(ends[1].search(at(1_200), Effort::Polite).map(retire).is_some());
    assert_eq!(retire_all(&ends[1..], at(1_200)), 4);
    // A busy processor takes them at a beat, if its own beats are close to each other.
    ends[1].beat(at(1_200));
    assert!(ends[1].next(at(1_200)).is_none());
    ends[1].beat(at(1_210));
    assert_eq!(retire_all(&ends[1..], at(1_210)), 3);
    // A greedy one takes the rest, one by one.
    ends[0].beat(at(1_300));
    assert!(ends[1].search(at(1_301), Effort::Greedy).map(retire).is_some());
    assert_eq!(retire_all(&ends, at(1_301)), 1);
    let stolen = scheduler.meter().read();
    assert_eq!((stolen.steals, stolen.rescues, stolen.strands, stolen.letters), (0, 3, 9, 9));
}

#[test]
fn a_polite_thief_leaves_a_lone_young_colour_to_its_processor() {
    let ends = ends(&Coloured::at_cost(ALL, 1_000), 2, Topology::flat(2));
    let _ = ends[0].push(colour(NOON, 90_000, 1), NOON);
    assert!(ends[1].search(at(1), Effort::Polite).is_none());
    assert_eq!(ends[1].search(at(10), Effort::Polite).map(retire), Some(NOON));
}

#[test]
fn a_thief_finds_worthy_colours_in_the_inbox_of_a_busy_processor() {
    let scheduler = Coloured::at_cost(ALL, 1_000);
    let ends = ends(&scheduler, 2, Topology::flat(2));
    for (number, ns) in [(1, 50), (2, 90_000)] {
        let _ = ends[0].push(colour(number, ns, 1), NOON);
    }
    let strands = [(); 2].map(|()| ends[0].next(NOON).unwrap());
    for strand in strands {
        let _ = scheduler.inject(woken(strand), NOON);
    }
    assert_eq!(ends[1].search(at(10), Effort::Polite).map(retire), Some(2));
    assert_eq!(ends[0].next(at(10)).map(retire), Some(1));
}

#[test]
fn a_processor_that_leaves_gives_up_its_colours_and_is_sent_no_more() {
    let scheduler = Coloured::at_cost(ALL, 1_000);
    let ends = ends(&scheduler, 2, Topology::flat(2));
    (0..3).for_each(|_| {
        let _ = ends[1].push(colour(NOON, 50, 1), NOON);
    });
    let unseated = ends[1].next(NOON).unwrap();
    assert_eq!(std::iter::from_fn(|| ends[1].drain()).map(retire).count(), 2);
    assert_eq!(ends[0].push(woken(unseated), NOON), Wake::Lone);
    // One that was on its way is found at the vacant station.
    ends[1].station.inbox().arrive(colour(NOON, 50, 1), NOON);
    assert!(ends[0].next(NOON).map(retire).is_some());
    assert!(ends[0].search(NOON, Effort::Greedy).map(retire).is_some());
}

#[test]
fn the_cost_of_a_steal_is_an_average_of_what_steals_took() {
    let tally = Tally::default();
    let mut queue = queue_of(&worth(ALL), [colour(1, 70_000, 3)]);
    let mut loot = queue.steal_colour(&worth(ALL)).unwrap();
    let haul = loot.haul();
    retire(loot.strands.pop().unwrap());
    (0..100).for_each(|_| tally.count(&haul, &Attempts::default(), cycles_in_us(5), Distance::Core, Cause::Steal));
    let cost = tally.cost_ns();
    assert!((5_300..5_700).contains(&cost), "{cost}");
    // One that lost its CPU says nothing, and neither does one that moved many strands.
    tally.count(&haul, &Attempts::default(), cycles_in_us(3_000), Distance::Core, Cause::Steal);
    let mut queue = queue_of(&worth(ALL), [colour(1, 0, 1), colour(2, 0, 1), colour(3, 0, 1)]);
    let mut loot = queue.steal_turns(64).unwrap();
    tally.count(&loot.haul(), &Attempts::default(), cycles_in_us(15), Distance::Node, Cause::Rescue);
    std::iter::from_fn(|| loot.strands.pop()).for_each(Ready::retire);
    pop_all(&mut queue);
    let stolen = tally.read();
    assert_eq!((stolen.cost_ns, stolen.steals, stolen.rescues, stolen.near, stolen.far), (cost, 101, 1, 101, 1));
    assert_eq!((stolen.letters, stolen.expected_ns), (101 * 3 + 2, 101 * 70_000));
}

#[test]
fn shelves_divide_worthy_colours() {
    let shelf = |stealing, ns| worth(stealing).shelf(Weight::new(ns, 1));
    let shelves = [1_000, 1_001, 4_001, 16_001].map(|ns| shelf(ALL, ns));
    assert_eq!(shelves, [None, Some(Shelf::Poor), Some(Shelf::Middle), Some(Shelf::Rich)]);
    assert_eq!((shelf(Stealing::Base, 1), shelf(Stealing::Off, 90_000)), (Some(Shelf::Poor), None));
    assert_eq!(worth(Stealing::Off).shelf(Weight::default()), Some(Shelf::Plain));
}
