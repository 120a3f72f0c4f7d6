//! Schedulers on machines that need not exist, in simulated time: one thread drives all ends, one
//! microsecond at a time.

mod actors;
mod coloured;
mod plant;

use super::{BEAT_US, Effort, Fair, Inverted, Local, Placement, Priority, Ready, Scheduler, Shared, Topology, Wake};
use crate::base::clock::cycles_in_us;
use std::sync::Arc;

/// Returns a strand that is never run.
fn strand(now: u64) -> Ready {
    let ready = Ready::simulated(Priority::Normal);
    ready.stamp(now);
    ready
}

/// A cluster whose processors are on the CPUs with their own numbers.
struct Machine {
    ends: Vec<Box<dyn Local>>,
    topology: Arc<Topology>,
    now_us: u64,
}

impl Machine {
    fn new(scheduler: &dyn Scheduler, topology: Topology, processors: u16) -> Machine {
        // Far from 0, so that nothing is older than the machine.
        let mut machine = Machine { ends: Vec::new(), topology: Arc::new(topology), now_us: 1_000_000 };
        (0..processors).for_each(|_| machine.join(scheduler));
        machine
    }

    /// Adds a processor.
    fn join(&mut self, scheduler: &dyn Scheduler) {
        let cpu = self.ends.len();
        self.ends.push(scheduler.attach(Placement::simulated(cpu as u16, Arc::clone(&self.topology), cpu)));
    }

    fn now(&self) -> u64 {
        cycles_in_us(self.now_us)
    }

    fn fill(&self, end: usize, strands: usize) {
        for _ in 0..strands {
            let _ = self.ends[end].push(strand(self.now()), self.now());
        }
    }

    /// Lets one microsecond pass, in which each of these processors dispatches once. The strand is
    /// ready again at once.
    fn step(&mut self, awake: impl Iterator<Item = usize>) {
        self.now_us += 1;
        let now = self.now();
        for end in awake.map(|index| &self.ends[index]) {
            if let Some(strand) = end.next(now) {
                strand.stamp(now);
                let _ = end.push(strand, now);
            }
            if self.now_us.is_multiple_of(BEAT_US) {
                end.beat(now);
            }
        }
    }

    /// Makes strands ready, each in another place than in the last round: on a processor, or outside.
    fn scatter(&self, scheduler: &dyn Scheduler, strands: impl Iterator<Item = Ready>, round: usize) {
        let now = self.now();
        for (number, strand) in strands.enumerate() {
            strand.stamp(now);
            let end = (number + round) % (self.ends.len() + 1);
            let _ = match self.ends.get(end) {
                Some(end) => end.push(strand, now),
                None => scheduler.inject(strand, now),
            };
        }
    }

    /// Lets a processor leave or join, in two of four rounds.
    fn resize(&mut self, scheduler: &dyn Scheduler, round: usize) {
        match round % 4 {
            1 => {
                let left = self.ends.remove(round % self.ends.len());
                while let Some(strand) = left.drain() {
                    let _ = scheduler.inject(strand, self.now());
                }
            }
            3 => self.join(scheduler),
            _ => {}
        }
    }

    /// Takes everything from one end. Returns the number of strands.
    fn empty(&self, end: usize) -> usize {
        std::iter::from_fn(|| self.ends[end].next(self.now())).map(Ready::retire).count()
    }
}

#[test]
fn a_neglected_queue_is_rescued_on_256_cpus_with_8_caches() {
    let mut machine = Machine::new(&Fair::default(), Topology::uniform(256, 8), 256);
    machine.fill(0, 100);
    (1..256).for_each(|end| machine.fill(end, 10));
    // Processor 0 does not dispatch any more. Its claim says when its queue is empty.
    let began = machine.now_us;
    while machine.ends[0].claim().is_some() {
        machine.step(1..256);
        assert!(machine.now_us - began < 2_000, "not rescued within 2 ms");
    }
    let kept: usize = (0..256).map(|end| machine.empty(end)).sum();
    assert_eq!(kept, 100 + 255 * 10);
}

#[test]
fn a_neglected_queue_is_rescued_across_caches_by_the_only_other_processor() {
    let mut machine = Machine::new(&Fair::default(), Topology::uniform(2, 2), 2);
    machine.fill(0, 5);
    machine.fill(1, 5);
    let began = machine.now_us;
    while machine.ends[0].claim().is_some() {
        machine.step(std::iter::once(1));
        // One beat in 85 looks: 1.4 ms on average.
        assert!(machine.now_us - began < 50_000, "not rescued within 50 ms");
    }
    assert_eq!(machine.empty(1), 10);
}

#[test]
fn neighbours_under_one_cache_help_first() {
    let mut machine = Machine::new(&Fair::default(), Topology::uniform(32, 2), 32);
    let mut by_neighbours = 0;
    for _ in 0..20 {
        machine.fill(0, 7);
        (1..32).for_each(|end| machine.fill(end, 1));
        while machine.ends[0].claim().is_some() {
            machine.step(1..32);
        }
        let near: usize = (1..16).map(|end| machine.empty(end)).sum();
        let far: usize = (16..32).map(|end| machine.empty(end)).sum();
        assert_eq!(near + far, 31 + 7);
        by_neighbours += usize::from(near > 15);
    }
    assert!(by_neighbours >= 15, "only {by_neighbours} of 20 were helped under the same cache");
}

#[test]
fn waits_in_two_queues_even_out() {
    let mut machine = Machine::new(&Fair::default(), Topology::flat(2), 2);
    machine.fill(0, 150);
    machine.fill(1, 50);
    for _ in 0..20_000 {
        machine.step(0..2);
    }
    let (first, second) = (machine.empty(0), machine.empty(1));
    assert_eq!(first + second, 200);
    assert!(first.abs_diff(second) <= 40, "{first} and {second}");
}

#[test]
fn a_polite_search_leaves_a_lone_young_strand_to_its_owner_and_a_greedy_one_takes_it() {
    let mut machine = Machine::new(&Fair::default(), Topology::flat(2), 2);
    machine.fill(0, 1);
    let thief = &machine.ends[1];
    assert!(thief.search(machine.now(), Effort::Polite).is_none());
    let taken = thief.search(machine.now(), Effort::Greedy);
    taken.expect("a greedy search takes anything").retire();
    machine.fill(0, 1);
    machine.now_us += 100;
    let taken = machine.ends[1].search(machine.now(), Effort::Polite);
    taken.expect("it has waited for long").retire();
    machine.fill(0, 2);
    let taken = machine.ends[1].search(machine.now(), Effort::Polite);
    taken.expect("there are two").retire();
    assert_eq!(machine.empty(0) + machine.empty(1), 1);
}

#[test]
fn a_strand_that_arrives_at_a_vacant_station_is_found() {
    let scheduler = Fair::default();
    let mut machine = Machine::new(&scheduler, Topology::flat(2), 2);
    machine.fill(1, 3);
    let left = machine.ends.pop().unwrap();
    let drained = std::iter::from_fn(|| left.drain()).map(Ready::retire).count();
    assert_eq!(drained, 3);
    drop(left);
    let now = machine.now();
    for _ in 0..4 {
        let _ = scheduler.inject(strand(now), now);
    }
    let mut found = machine.empty(0);
    while let Some(strand) = machine.ends[0].search(now, Effort::Greedy) {
        strand.retire();
        found += 1;
    }
    assert_eq!(found, 4);
}

#[test]
fn inverted_keeps_the_first_strand_and_hands_the_second_to_the_processor_that_waited_last() {
    let scheduler = Inverted::default();
    let machine = Machine::new(&scheduler, Topology::flat(3), 3);
    let now = machine.now();
    let push = || machine.ends[2].push(strand(now), now);
    assert!(machine.ends.iter().take(2).all(|end| end.next(now).is_none()));
    assert_eq!(push(), Wake::Lone);
    let Wake::Processor(chosen) = push() else { panic!("no processor was chosen") };
    assert_eq!(chosen.index(), 1);
    machine.ends[1].search(now, Effort::Polite).expect("it was handed over").retire();
    // Processor 0 still waits: it is next, until it finds other work.
    assert_eq!(machine.ends[0].retract(now), Wake::Nobody);
    assert_eq!(push(), Wake::Nobody);
    machine.ends[0].next(now).expect("it steals along the ring").retire();
    assert!(machine.ends[0].next(now).is_none(), "a kept strand is not counted");
    machine.ends[2].next(now).expect("it has kept one").retire();
    assert!(machine.ends[2].next(now).is_none());
}

#[test]
fn inverted_takes_a_kept_strand_that_is_old_or_in_a_greedy_search() {
    let scheduler = Inverted::default();
    let mut machine = Machine::new(&scheduler, Topology::flat(2), 2);
    let search = |machine: &Machine, effort| {
        let found = machine.ends[1].next(machine.now()).or_else(|| machine.ends[1].search(machine.now(), effort));
        assert_eq!(machine.ends[1].retract(machine.now()), Wake::Nobody);
        found.map(Ready::retire).is_some()
    };
    machine.fill(0, 1);
    assert!(!search(&machine, Effort::Polite), "its owner is about to run it");
    assert!(search(&machine, Effort::Greedy));
    machine.fill(0, 1);
    machine.now_us += 100;
    assert!(search(&machine, Effort::Polite), "it has waited for long");
    assert_eq!(machine.empty(0), 0);
}

#[test]
fn inverted_takes_everything_from_a_processor_that_is_held_up() {
    let mut machine = Machine::new(&Inverted::default(), Topology::flat(3), 3);
    machine.fill(0, 100);
    (1..3).for_each(|end| machine.fill(end, 10));
    let began = machine.now_us;
    while machine.ends[0].claim().is_some() {
        machine.step(1..3);
        assert!(machine.now_us - began < 200, "not taken within 200 µs");
    }
    // Each processor may keep one strand, which the other leaves alone.
    assert_eq!(machine.empty(1) + machine.empty(2), 120);
}

#[test]
fn inverted_leaves_a_processor_alone_whose_strands_take_no_longer_than_those_of_the_looker() {
    let mut machine = Machine::new(&Inverted::default(), Topology::flat(2), 2);
    machine.fill(0, 5);
    let first = machine.now();
    machine.now_us += 50;
    machine.fill(1, 5);
    let second = machine.now();
    for turn in 0..100 {
        machine.now_us += 50;
        machine.ends[turn % 2].beat(machine.now());
    }
    for (end, filled) in machine.ends.iter().zip([first, second]) {
        let next = end.next(machine.now()).unwrap();
        assert_eq!(next.ready_at(), filled);
        next.retire();
    }
    assert_eq!(machine.empty(0), 8);
}

#[test]
fn inverted_gives_back_or_stages_the_strands_of_a_processor_that_leaves() {
    let scheduler = Inverted::default();
    let mut machine = Machine::new(&scheduler, Topology::flat(2), 2);
    machine.fill(1, 3);
    let left = machine.ends.pop().unwrap();
    let now = machine.now();
    while let Some(strand) = left.drain() {
        let _ = scheduler.inject(strand, now);
    }
    assert_eq!(machine.empty(0), 3);
}

#[test]
fn shared_is_first_in_first_out_for_all() {
    let scheduler = Shared::default();
    let machine = Machine::new(&scheduler, Topology::flat(2), 2);
    for time in 1..=4 {
        let _ = machine.ends[time as usize % 2].push(strand(time), time);
    }
    for time in 1..=4 {
        let next = machine.ends[0].next(9).unwrap();
        assert_eq!(next.ready_at(), time);
        next.retire();
    }
}
