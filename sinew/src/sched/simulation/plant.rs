//! Processors that run strands which take time, and steal them.

use super::Machine;
use crate::sched::{BEAT_US, Effort, Meter, Priority, Ready, Scheduler, Stolen, Topology, Weight};
use crate::strand::SimulatedColour;

/// Stands for no processor.
pub(super) const NOBODY: usize = usize::MAX;

pub(super) struct Plant {
    pub(super) machine: Machine,
    /// The strand that each processor runs, and how long that will take yet, in nanoseconds.
    running: Vec<Option<(Ready, u64)>>,
    meter: Meter,
    /// What a thief spends on a strand that it has stolen nearby, and far away, in nanoseconds.
    steal_ns: [u64; 2],
}

impl Plant {
    pub(super) fn new(scheduler: &dyn Scheduler, meter: Meter, topology: Topology, processors: u16) -> Plant {
        let machine = Machine::new(scheduler, topology, processors);
        let running = (0..processors).map(|_| None).collect();
        let plant = Plant { machine, running, meter, steal_ns: [0, 0] };
        plant.machine.ends.iter().for_each(|end| end.beat(plant.machine.now()));
        plant
    }

    /// Returns the same plant, in which a thief spends this time on a steal nearby, and far away.
    pub(super) fn with_cost(self, steal_ns: [u64; 2]) -> Plant {
        Plant { steal_ns, ..self }
    }

    /// Makes a strand with one letter that takes this long, ready on a processor.
    pub(super) fn push(&self, end: usize, ns: u64) {
        let now = self.machine.now();
        let (ready, _) = SimulatedColour::new(Priority::Normal, Weight::new(ns, 1));
        ready.stamp(now);
        let _ = self.machine.ends[end].push(ready, now);
    }

    /// Returns the next strand of a processor, and how long it will take with the steal.
    fn next(&self, end: usize) -> Option<(Ready, u64)> {
        let (local, now) = (&self.machine.ends[end], self.machine.now());
        let (ready, cost) = match local.next(now) {
            Some(ready) => (ready, 0),
            None => {
                let near = self.meter.read().near;
                let ready = local.search(now, Effort::Polite)?;
                (ready, self.steal_ns[usize::from(self.meter.read().near == near)])
            }
        };
        let ns = ready.weight().undivided_nanoseconds;
        Some((ready, ns + cost))
    }

    /// Lets one microsecond pass. `done` gets each strand that has run, and is told where. Returns whether any
    /// processor had something to run. One that has nothing searches once, politely.
    pub(super) fn step(&mut self, held_up: usize, mut done: impl FnMut(&Plant, usize, Ready)) -> bool {
        self.machine.now_us += 1;
        let now = self.machine.now();
        let mut any = false;
        for end in (0..self.running.len()).filter(|&end| end != held_up) {
            let mut left = 1_000;
            while left > 0 {
                let Some((ready, ns)) = self.running[end].take().or_else(|| self.next(end)) else { break };
                any = true;
                if ns > left {
                    self.running[end] = Some((ready, ns - left));
                    break;
                }
                left -= ns;
                done(self, end, ready);
            }
            if self.machine.now_us.is_multiple_of(BEAT_US) {
                self.machine.ends[end].beat(now);
            }
        }
        any
    }

    pub(super) fn stolen(&self) -> Stolen {
        self.meter.read()
    }

    /// Ends all strands that are left.
    pub(super) fn end(mut self) {
        self.running.iter_mut().filter_map(Option::take).for_each(|(ready, _)| ready.retire());
        (0..self.running.len()).for_each(|end| {
            self.machine.empty(end);
        });
    }

    /// Runs the load *cache efficient* of Mely's paper: every second processor has strands of type A, about the same
    /// number. Each makes two of type B, which work on the same array. Returns what was stolen, and the time that
    /// it took.
    pub(super) fn run_cache_efficient(mut self, rounds: usize) -> (Stolen, u64) {
        let began = self.machine.now_us;
        const A: u64 = 20_000;
        const B: u64 = 15_000;
        for _ in 0..rounds {
            for end in (0..self.running.len()).step_by(2) {
                (0..100 + end * 7 % 13).for_each(|_| self.push(end, A));
            }
            let split = |plant: &Plant, end: usize, strand: Ready| {
                if strand.weight().undivided_nanoseconds == A {
                    (0..2).for_each(|_| plant.push(end, B));
                }
                strand.retire();
            };
            while self.step(NOBODY, split) {}
        }
        (self.stolen(), self.machine.now_us - began)
    }
}

/// Returns groups of `size` numbers, one after the other.
fn groups(number: usize, size: usize) -> Vec<Vec<usize>> {
    (0..number).map(|group| (group * size..(group + 1) * size).collect()).collect()
}

/// 8 CPUs. Two at a time share their caches.
pub(super) fn eight_in_pairs() -> Topology {
    Topology::from_groups(&groups(4, 2)).with_cores(&groups(4, 2))
}

/// 64 CPUs in 4 nodes of 16. Each node has a last-level cache and a neighbour, and two nodes that are further away.
pub(super) fn sixty_four_in_four_nodes() -> Topology {
    let distance = |from: usize, to: usize| [10, 16, 22, 22][from ^ to];
    let rows = (0..4).map(|from| (0..4).map(|to| distance(from, to)).collect()).collect();
    Topology::uniform(64, 4).with_cores(&groups(32, 2)).with_nodes(&groups(4, 16), rows)
}

/// 256 CPUs in 4 nodes of 64, 8 for each last-level cache.
pub(super) fn two_hundred_and_fifty_six() -> Topology {
    let row = |from| (0..4).map(|to| if from == to { 10 } else { 32 }).collect::<Vec<u16>>();
    let rows = (0..4).map(row).collect();
    Topology::uniform(256, 32).with_cores(&groups(128, 2)).with_nodes(&groups(4, 64), rows)
}
