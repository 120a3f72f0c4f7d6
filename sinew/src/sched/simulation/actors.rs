//! The loads of the thesis on actors, for [`Random`] and [`Locality`].

use super::Machine;
use super::plant::{NOBODY, Plant, eight_in_pairs, sixty_four_in_four_nodes, two_hundred_and_fifty_six};
use crate::sched::{Effort, Locality, Past, Priority, Random, Ready, Scheduler, Topology, Weight, Woken};
use crate::strand::SimulatedColour;

/// What a steal costs, in nanoseconds. Nearby it takes 300 ns, and 500 ns for the lines that come after the strand, as
/// measured on two CPUs under one cache. Far away is a guess: three times as much.
const STEAL_NS: [u64; 2] = [800, 2_400];

fn random(topology: Topology) -> Plant {
    let (scheduler, cpus) = (Random::default(), topology.cpus() as u16);
    Plant::new(&scheduler, scheduler.meter(), topology, cpus).with_cost(STEAL_NS)
}

fn locality(topology: Topology) -> Plant {
    let (scheduler, cpus) = (Locality::default(), topology.cpus() as u16);
    Plant::new(&scheduler, scheduler.meter(), topology, cpus).with_cost(STEAL_NS)
}

/// Returns the share of the stolen strands that did not leave their cache, in per cent.
fn near_share(plant: Plant, rounds: usize) -> u64 {
    let (stolen, us) = plant.run_cache_efficient(rounds);
    assert!(stolen.strands > 100, "{stolen:?}");
    let near = 100 - stolen.far_strands * 100 / stolen.strands;
    let steals = stolen.steals + stolen.rescues;
    println!("{near} % of {} strands stay near, {} of {steals} steals are far, {us} µs", stolen.strands, stolen.far);
    near
}

#[test]
fn thieves_go_to_their_neighbours() {
    for (topology, rounds) in
        [(eight_in_pairs as fn() -> Topology, 2), (sixty_four_in_four_nodes, 1), (two_hundred_and_fifty_six, 1)]
    {
        let near = near_share(locality(topology()), rounds);
        assert!(near >= 80, "{near} %");
        let near = near_share(random(topology()), rounds);
        assert!(near < 50, "{near} % at random");
    }
}

/// Lets one processor have strands that take this long, and the others nothing. Returns the time until all have run,
/// the number of steals, and the number of those in vain.
fn one_full_deque(mut plant: Plant, strands: usize, ns: u64) -> (u64, u64, u64) {
    (0..strands).for_each(|_| plant.push(0, ns));
    let began = plant.machine.now_us;
    while plant.step(NOBODY, |_, _, strand| strand.retire()) {}
    let stolen = plant.stolen();
    (plant.machine.now_us - began, stolen.steals, stolen.tries - stolen.steals)
}

fn published(topology: Topology) -> Plant {
    let (scheduler, cpus) = (Locality::published(Woken::Here), topology.cpus() as u16);
    Plant::new(&scheduler, scheduler.meter(), topology, cpus).with_cost(STEAL_NS)
}

#[test]
fn strands_of_one_full_deque_run_everywhere() {
    for ns in [500, 2_000, 20_000] {
        let by_random = one_full_deque(random(Topology::flat(16)), 10_000, ns);
        let by_locality = one_full_deque(locality(Topology::flat(16)), 10_000, ns);
        let one_by_one = one_full_deque(published(Topology::flat(16)), 10_000, ns);
        println!("{ns} ns: {by_random:?}, {by_locality:?}, {one_by_one:?} (time in µs, steals, tries in vain)");
        if ns < 20_000 {
            assert!(by_locality.0 < one_by_one.0 && by_locality.1 * 3 < one_by_one.1);
        }
        let alone = 10 * ns;
        for (us, steals, _) in [by_random, by_locality] {
            assert!(steals > 300 && us < alone / 4, "{us} of {alone} µs with {steals} steals");
        }
    }
}

/// The number of actors in each ring.
const RING: usize = 8;

/// Actors in rings. In each ring there is one message, which each actor sends to the next one.
struct Rings {
    machine: Machine,
    /// The actors that wait for the message.
    idle: Vec<Option<Ready>>,
    /// Where each actor ran last.
    ran: Vec<usize>,
    moves: u32,
}

impl Rings {
    /// Makes rings whose actors have all run on processor 0. The first one of each ring has the message.
    fn new(scheduler: &dyn Scheduler, rings: usize) -> Rings {
        let machine = Machine::new(scheduler, Topology::uniform(2, 2), 2);
        let now = machine.now();
        for number in 0..RING * rings {
            let (actor, _) = SimulatedColour::new(Priority::Normal, Weight::new(0, number as u32));
            let _ = machine.ends[0].push(actor, now);
        }
        let mut idle: Vec<_> = (0..RING * rings).map(|_| None).collect();
        while let Some(actor) = machine.ends[0].next(now) {
            let number = actor.weight().letters as usize;
            idle[number] = Some(actor);
        }
        let mut rings_of = Rings { machine, idle, ran: vec![0; RING * rings], moves: 0 };
        (0..rings).for_each(|ring| rings_of.send(RING * ring, 0));
        rings_of
    }

    fn send(&mut self, to: usize, from_processor: usize) {
        let (actor, now) = (self.idle[to].take().expect("there is one message"), self.machine.now());
        actor.simulate_past(Past::Woken);
        actor.stamp(now);
        let _ = self.machine.ends[from_processor].push(actor, now);
    }

    /// Lets an actor handle the message.
    fn run(&mut self, actor: Ready, processor: usize) {
        let number = actor.weight().letters as usize;
        self.moves += u32::from(self.ran[number] != processor);
        self.ran[number] = processor;
        self.idle[number] = Some(actor);
        self.send(number / RING * RING + (number + 1) % RING, processor);
    }

    /// Lets processor 1 steal one actor. Then both run what they have, and neither steals. Returns the number of actors
    /// that ran on processor 1 last, and how often any of them has moved.
    fn run_with_one_steal(mut self) -> (usize, u32) {
        let stolen = self.machine.ends[1].search(self.machine.now(), Effort::Greedy).expect("an actor is ready");
        self.run(stolen, 1);
        for _ in 0..10_000 {
            self.machine.now_us += 1;
            for processor in 0..2 {
                if let Some(actor) = self.machine.ends[processor].next(self.machine.now()) {
                    self.run(actor, processor);
                }
            }
        }
        (0..2).for_each(|end| {
            self.machine.empty(end);
        });
        self.idle.into_iter().flatten().for_each(Ready::retire);
        (self.ran.into_iter().filter(|&processor| processor == 1).count(), self.moves)
    }
}

#[test]
fn a_group_follows_a_stolen_actor_unless_actors_return_to_where_they_ran() {
    assert_eq!(Rings::new(&Random::default(), 4).run_with_one_steal(), (RING, RING as u32));
    assert_eq!(Rings::new(&Locality::new(Woken::Here), 4).run_with_one_steal(), (RING, RING as u32));
    assert_eq!(Rings::new(&Locality::new(Woken::WhereItRan), 4).run_with_one_steal(), (1, 1));
}

/// Makes 16 hubs on one processor, and returns the number of hubs that are in each node before any thief comes.
fn hubs_by_node(scheduler: &dyn Scheduler) -> [usize; 4] {
    let machine = Machine::new(scheduler, sixty_four_in_four_nodes(), 64);
    let now = machine.now();
    for _ in 0..16 {
        let hub = Ready::simulated_hub();
        hub.stamp(now);
        let _ = machine.ends[20].push(hub, now);
    }
    std::array::from_fn(|node| (node * 16..(node + 1) * 16).map(|end| machine.empty(end)).sum())
}

#[test]
fn hubs_are_spread_over_the_nodes() {
    assert_eq!(hubs_by_node(&Locality::default()), [4, 4, 4, 4]);
    assert_eq!(hubs_by_node(&Random::default()), [0, 16, 0, 0]);
}

/// An actor wanders from processor to processor as it is woken. It is lost nowhere.
#[test]
fn no_actor_is_lost_while_processors_come_and_leave() {
    for woken in [Woken::Here, Woken::WhereItRan] {
        let scheduler = Locality::new(woken);
        let mut machine = Machine::new(&scheduler, Topology::uniform(4, 2), 4);
        let mut idle: Vec<_> = (0..100).map(|_| super::strand(machine.now())).collect();
        for round in 0..40 {
            machine.now_us += 10;
            let now = machine.now();
            machine.scatter(&scheduler, idle.drain(..), round);
            machine.resize(&scheduler, round);
            // Every end takes some, so that actors have run everywhere. The first one takes the rest.
            let ends = machine.ends.iter().rev();
            let some = ends.flat_map(|end| std::iter::from_fn(|| end.next(now)).take(5)).collect::<Vec<_>>();
            let rest = std::iter::from_fn(|| machine.ends[0].search(now, Effort::Greedy));
            for strand in some.into_iter().chain(rest) {
                strand.simulate_past(Past::Woken);
                idle.push(strand);
            }
            assert_eq!(idle.len(), 100, "in round {round}");
        }
        idle.into_iter().for_each(Ready::retire);
    }
}
