//! The loads of Mely's paper, for [`Coloured`]: colours that take time, processors that run and steal them.

use super::Machine;
use crate::sched::{
    BEAT_US, Coloured, Effort, Heuristics, Past, Priority, Ready, Scheduler, Stealing, Stolen, Topology, Weight,
};
use crate::strand::SimulatedColour;

/// What a steal costs, in nanoseconds.
const COST: u64 = 1_000;

const ALL: Stealing = Stealing::Improved(Heuristics { locality: true, time_left: true, penalty: true });
const NO_LOCALITY: Stealing = Stealing::Improved(Heuristics { locality: false, time_left: true, penalty: true });

/// Makes a colour with one letter that takes this long.
fn colour(now: u64, ns: u64) -> Ready {
    let (ready, _) = SimulatedColour::new(Priority::Normal, Weight::new(ns, 1));
    ready.stamp(now);
    ready
}

/// Processors that run colours and steal them.
struct Plant {
    machine: Machine,
    /// The colour that each processor runs, and how long that will take yet, in nanoseconds.
    running: Vec<Option<(Ready, u64)>>,
    scheduler: Coloured,
}

impl Plant {
    fn new(stealing: Stealing, topology: Topology, processors: u16) -> Plant {
        let scheduler = Coloured::at_cost(stealing, COST);
        let machine = Machine::new(&scheduler, topology, processors);
        let running = (0..processors).map(|_| None).collect();
        let plant = Plant { machine, running, scheduler };
        plant.machine.ends.iter().for_each(|end| end.beat(plant.machine.now()));
        plant
    }

    fn push(&self, end: usize, ns: u64) {
        let now = self.machine.now();
        let _ = self.machine.ends[end].push(colour(now, ns), now);
    }

    /// Lets one microsecond pass. `done` is told each colour that has run, and where. Returns whether any
    /// processor had something to run. One that has nothing searches once, politely.
    fn step(&mut self, held_up: usize, mut done: impl FnMut(&Plant, usize, Weight)) -> bool {
        self.machine.now_us += 1;
        let now = self.machine.now();
        let mut any = false;
        for end in (0..self.running.len()).filter(|&end| end != held_up) {
            let mut left = 1_000;
            while left > 0 {
                let local = &self.machine.ends[end];
                let next = || {
                    let found = local.next(now).or_else(|| local.search(now, Effort::Polite));
                    found.map(|ready| (ready.weight().undivided_nanoseconds, ready)).map(|(ns, ready)| (ready, ns))
                };
                let Some((ready, ns)) = self.running[end].take().or_else(next) else { break };
                any = true;
                if ns > left {
                    self.running[end] = Some((ready, ns - left));
                    break;
                }
                left -= ns;
                let weight = ready.weight();
                ready.retire();
                done(self, end, weight);
            }
            if self.machine.now_us.is_multiple_of(BEAT_US) {
                self.machine.ends[end].beat(now);
            }
        }
        any
    }

    fn stolen(&self) -> Stolen {
        self.scheduler.meter().read()
    }
}

/// Stands for no processor.
const NOBODY: usize = usize::MAX;

/// Runs the load *unbalanced*: one processor has all colours, of which 2 in 100 are long. Returns what was stolen,
/// and the time that it took.
fn unbalanced(stealing: Stealing) -> (Stolen, u64) {
    let mut plant = Plant::new(stealing, Topology::flat(8), 8);
    for number in 0..20_000 {
        plant.push(0, if number % 50 == 0 { 5_000 + number % 20_000 } else { 50 });
    }
    let began = plant.machine.now_us;
    while plant.step(NOBODY, |_, _, _| ()) {}
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

/// Runs the load *cache efficient*: every second processor has colours of type A, about the same number.
/// Each colour makes two of type B, which work on the same array. Returns what was stolen.
fn cache_efficient(stealing: Stealing, topology: Topology, processors: u16, rounds: usize) -> Stolen {
    const A: u64 = 20_000;
    const B: u64 = 15_000;
    let mut plant = Plant::new(stealing, topology, processors);
    for _ in 0..rounds {
        for end in (0..usize::from(processors)).step_by(2) {
            (0..100 + end * 7 % 13).for_each(|_| plant.push(end, A));
        }
        let split = |plant: &Plant, end: usize, weight: Weight| {
            if weight.undivided_nanoseconds == A {
                (0..2).for_each(|_| plant.push(end, B));
            }
        };
        while plant.step(NOBODY, split) {}
    }
    plant.stolen()
}

fn near_share(stolen: Stolen) -> u64 {
    assert!(stolen.steals + stolen.rescues > 50, "{stolen:?}");
    let near = stolen.near * 100 / (stolen.near + stolen.far);
    println!("{near} % of the steals are near");
    near
}

#[test]
fn eight_cpus_in_pairs_steal_from_their_neighbours() {
    let pairs = (0..4).map(|pair| vec![2 * pair, 2 * pair + 1]).collect::<Vec<_>>();
    let topology = || Topology::from_groups(&pairs).with_cores(&pairs);
    let near = near_share(cache_efficient(ALL, topology(), 8, 2));
    assert!(near >= 80, "{near} %");
    let near = near_share(cache_efficient(NO_LOCALITY, topology(), 8, 2));
    assert!(near < 50, "{near} % without the heuristic");
}

#[test]
fn two_hundred_and_fifty_six_cpus_steal_under_their_own_cache() {
    let topology = || {
        let cores = (0..128).map(|core| vec![2 * core, 2 * core + 1]).collect::<Vec<_>>();
        let nodes = (0..4).map(|node| (64 * node..64 * (node + 1)).collect()).collect::<Vec<_>>();
        let row = |from| (0..4).map(|to| if from == to { 10 } else { 32 }).collect::<Vec<u16>>();
        Topology::uniform(256, 32).with_cores(&cores).with_nodes(&nodes, (0..4).map(row).collect())
    };
    let near = near_share(cache_efficient(ALL, topology(), 256, 1));
    assert!(near >= 80, "{near} %");
    let near = near_share(cache_efficient(NO_LOCALITY, topology(), 256, 1));
    assert!(near < 50, "{near} % without the heuristic");
}

#[test]
fn colours_behind_a_processor_that_is_held_up_run_elsewhere() {
    let mut plant = Plant::new(ALL, Topology::flat(3), 3);
    (0..300).for_each(|_| plant.push(0, 50));
    let mut ran = 0;
    let began = plant.machine.now_us;
    while ran < 300 {
        plant.step(0, |_, _, _| ran += 1);
        assert!(plant.machine.now_us - began < 1_000, "{ran} colours ran within 1 ms");
        if plant.machine.now_us - began < 200 {
            assert_eq!(ran, 0, "a colour was stolen that is not worth it");
        }
    }
    assert!(plant.stolen().rescues > 0);
}

#[test]
fn busy_processors_take_the_colours_of_one_that_is_held_up() {
    let mut plant = Plant::new(ALL, Topology::flat(3), 3);
    (0..300).for_each(|_| plant.push(0, 50));
    (1..3).for_each(|end| plant.push(end, 900));
    let (mut ran, began) = (0, plant.machine.now_us);
    while ran < 300 {
        // The others are never idle.
        plant.step(0, |plant, end, weight| match weight.undivided_nanoseconds {
            900 => plant.push(end, 900),
            _ => ran += 1,
        });
        assert!(plant.machine.now_us - began < 2_000, "{ran} colours ran within 2 ms");
    }
    let steals = plant.stolen().steals;
    assert_eq!(steals, 0);
    plant.running.iter_mut().filter_map(Option::take).for_each(|(ready, _)| ready.retire());
    (0..3).for_each(|end| {
        plant.machine.empty(end);
    });
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
        for (number, strand) in idle.drain(..).enumerate() {
            strand.stamp(now);
            let end = (number + round) % (machine.ends.len() + 1);
            let _ = match machine.ends.get(end) {
                Some(end) => end.push(strand, now),
                None => scheduler.inject(strand, now),
            };
        }
        for (number, handle) in handles.iter().enumerate() {
            handle.set_weight(Weight::new(((number + round) % 7 * 700) as u64, 1 + (number % 3) as u32));
            let _ = scheduler.grown(&handle.grown(), now);
        }
        match round % 4 {
            1 => {
                let left = machine.ends.remove(round % machine.ends.len());
                while let Some(strand) = left.drain() {
                    let _ = scheduler.inject(strand, now);
                }
            }
            3 => machine.join(&scheduler),
            _ => {}
        }
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
