//! The loads of Mely's paper, for [`Coloured`]: colours that take time, processors that run and steal them.

use super::Machine;
use super::plant::{NOBODY, Plant, eight_in_pairs, two_hundred_and_fifty_six};
use crate::sched::{
    Coloured, Effort, Heuristics, Past, Priority, Ready, Scheduler, Stealing, Stolen, Topology, Weight,
};
use crate::strand::SimulatedColour;

/// What a steal costs, in nanoseconds.
const COST: u64 = 1_000;

const ALL: Stealing = Stealing::Improved(Heuristics { locality: true, time_left: true, penalty: true });
const NO_LOCALITY: Stealing = Stealing::Improved(Heuristics { locality: false, time_left: true, penalty: true });

/// Makes processors that run and steal colours.
fn plant(stealing: Stealing, topology: Topology, processors: u16) -> Plant {
    let scheduler = Coloured::at_cost(stealing, COST);
    Plant::new(&scheduler, scheduler.meter(), topology, processors)
}

/// Ends a colour that has run.
fn retire(_: &Plant, _: usize, colour: Ready) {
    colour.retire();
}

/// Runs the load *unbalanced*: one processor has all colours, of which 2 in 100 are long. Returns what was stolen,
/// and the time that it took.
fn unbalanced(stealing: Stealing) -> (Stolen, u64) {
    let mut plant = plant(stealing, Topology::flat(8), 8);
    for number in 0..20_000 {
        plant.push(0, if number % 50 == 0 { 5_000 + number % 20_000 } else { 50 });
    }
    let began = plant.machine.now_us;
    while plant.step(NOBODY, retire) {}
    (plant.stolen(), plant.machine.now_us - began)
}

#[test]
fn time_left_steals_only_what_takes_longer_than_a_steal() {
    let (improved, with_time_left) = unbalanced(ALL);
    assert!(improved.steals > 100 && improved.rescues == 0, "{improved:?}");
    assert!(improved.expected_ns >= improved.strands * 5_000, "{improved:?}");
    let (base, _) = unbalanced(Stealing::Base);
    assert!(base.expected_ns / base.steals < COST, "{base:?}");
    let (off, alone) = unbalanced(Stealing::Off);
    assert_eq!((off.steals, off.rescues), (0, 0));
    println!(
        "{with_time_left} µs, {alone} µs without stealing, {} and {} ns a steal",
        improved.expected_ns / improved.steals,
        base.expected_ns / base.steals
    );
    assert!(with_time_left * 4 < alone, "{with_time_left} and {alone} µs");
}

/// Returns the share of near steals in the load *cache efficient*, in per cent.
fn near_share(stealing: Stealing, topology: Topology, processors: u16, rounds: usize) -> u64 {
    let (stolen, _) = plant(stealing, topology, processors).run_cache_efficient(rounds);
    assert!(stolen.steals + stolen.rescues > 50, "{stolen:?}");
    let near = stolen.near * 100 / (stolen.near + stolen.far);
    println!("{near} % of the steals are near");
    near
}

#[test]
fn eight_cpus_in_pairs_steal_from_their_neighbours() {
    let near = near_share(ALL, eight_in_pairs(), 8, 2);
    assert!(near >= 80, "{near} %");
    let near = near_share(NO_LOCALITY, eight_in_pairs(), 8, 2);
    assert!(near < 50, "{near} % without the heuristic");
}

#[test]
fn two_hundred_and_fifty_six_cpus_steal_under_their_own_cache() {
    let near = near_share(ALL, two_hundred_and_fifty_six(), 256, 1);
    assert!(near >= 80, "{near} %");
    let near = near_share(NO_LOCALITY, two_hundred_and_fifty_six(), 256, 1);
    assert!(near < 50, "{near} % without the heuristic");
}

#[test]
fn colours_behind_a_processor_that_is_held_up_run_elsewhere() {
    let mut plant = plant(ALL, Topology::flat(3), 3);
    (0..300).for_each(|_| plant.push(0, 50));
    let mut ran = 0;
    let began = plant.machine.now_us;
    while ran < 300 {
        plant.step(0, |_, _, colour| {
            ran += 1;
            colour.retire();
        });
        assert!(plant.machine.now_us - began < 1_000, "{ran} colours ran within 1 ms");
        if plant.machine.now_us - began < 200 {
            assert_eq!(ran, 0, "a colour was stolen that is not worth it");
        }
    }
    assert!(plant.stolen().rescues > 0);
}

#[test]
fn busy_processors_take_the_colours_of_one_that_is_held_up() {
    let mut plant = plant(ALL, Topology::flat(3), 3);
    (0..300).for_each(|_| plant.push(0, 50));
    (1..3).for_each(|end| plant.push(end, 900));
    let (mut ran, began) = (0, plant.machine.now_us);
    while ran < 300 {
        // The others are never idle.
        plant.step(0, |plant, end, colour| {
            match colour.weight().undivided_nanoseconds {
                900 => plant.push(end, 900),
                _ => ran += 1,
            }
            colour.retire();
        });
        assert!(plant.machine.now_us - began < 2_000, "{ran} colours ran within 2 ms");
    }
    let steals = plant.stolen().steals;
    assert_eq!(steals, 0);
    plant.end();
}

/// A colour wanders from processor to processor as it is woken. It is lost nowhere, and its seat is where it ran.
#[test]
fn no_colour_is_lost_while_processors_come_and_leave() {
    let scheduler = Coloured::at_cost(ALL, COST);
    let mut machine = Machine::new(&scheduler, Topology::flat(4), 4);
    let now = machine.now();
    let colours: Vec<_> =
        (0..100).map(|number| SimulatedColour::new(Priority::Normal, Weight::new(number * 30, 1))).collect();
    let (mut idle, handles): (Vec<Ready>, Vec<SimulatedColour>) = colours.into_iter().unzip();
    for round in 0..40 {
        machine.scatter(&scheduler, idle.drain(..), round);
        for (number, handle) in handles.iter().enumerate() {
            handle.set_weight(Weight::new(((number + round) % 7 * 700) as u64, 1 + (number % 3) as u32));
            let _ = scheduler.grown(&handle.grown(), now);
        }
        machine.resize(&scheduler, round);
        let first = &machine.ends[0];
        let take = || first.next(now).or_else(|| first.search(now, Effort::Greedy));
        while let Some(strand) = take() {
            strand.simulate_past(Past::Woken);
            idle.push(strand);
        }
        assert_eq!(idle.len(), 100, "in round {round}");
    }
    idle.into_iter().for_each(Ready::retire);
}
