//! Actors of all kinds that tell, ask, stop, kill, fail and watch each other at random. Every message is handled once,
//! given back, or dropped with its actor. SINEW_STRESS_ROUNDS=100 makes it longer.

#[path = "fixture/actors.rs"]
mod actors;
mod fixture;

use actors::{DropsOldest, Plain, Quick, Refuses, Style, Waits, in_few};
use fixture::{Random, wait_until};
use sinew::actor::{
    self, Actor, Address, AskError, Builder, Context, Down, Failure, Handle, Mailbox, Recipient, Restart,
};
use sinew::{Runtime, task};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const NODES: usize = 16;

/// What has become of the messages.
#[derive(Default)]
struct World {
    nodes: Mutex<Vec<Peer>>,
    /// The number of messages that may still be made.
    left: AtomicIsize,
    made: AtomicUsize,
    handled: AtomicUsize,
    given_back: AtomicUsize,
    unread: AtomicUsize,
    /// Answers that came, and errors that did.
    answers: AtomicUsize,
    cycles: AtomicUsize,
    values: AtomicIsize,
}

/// A message with a seed for what its handler does.
struct Deed {
    world: Arc<World>,
    seed: u64,
    is_settled: bool,
}

impl Deed {
    /// Makes a message, unless there have been enough.
    fn new(world: &Arc<World>, random: &mut Random) -> Option<Deed> {
        if world.left.fetch_sub(1, SeqCst) <= 0 {
            return None;
        }
        world.made.fetch_add(1, SeqCst);
        Some(Deed { world: Arc::clone(world), seed: 1 + random.below(u64::MAX >> 12), is_settled: false })
    }

    fn settle(&mut self, count: impl Fn(&World) -> &AtomicUsize) {
        assert!(!std::mem::replace(&mut self.is_settled, true), "a message was settled twice");
        count(&self.world).fetch_add(1, SeqCst);
    }
}

impl Drop for Deed {
    fn drop(&mut self) {
        if !self.is_settled {
            self.world.unread.fetch_add(1, SeqCst);
        }
    }
}

/// An actor of the graph.
struct Node<S> {
    world: Arc<World>,
    style: PhantomData<fn() -> S>,
}

impl<S: Style> Node<S> {
    fn new(world: &Arc<World>) -> Node<S> {
        world.values.fetch_add(1, SeqCst);
        Node { world: Arc::clone(world), style: PhantomData }
    }
}

impl<S> Drop for Node<S> {
    fn drop(&mut self) {
        self.world.values.fetch_sub(1, SeqCst);
    }
}

impl<S: Style> Actor for Node<S> {
    const MAILBOX: Mailbox = S::MAILBOX;
    const BLOCKS: bool = S::BLOCKS;

    fn down(&mut self, who: Down, cx: &mut Context<'_, Self>) {
        if who.escalates() && who.actor.number().is_multiple_of(3) {
            cx.fail(Failure::new("a friend has failed"));
        }
    }
}

impl<S: Style> Handle<Deed> for Node<S> {
    type Reply = u64;

    fn handle(&mut self, mut deed: Deed, cx: &mut Context<'_, Self>) -> u64 {
        deed.settle(|world| &world.handled);
        let world = Arc::clone(&self.world);
        let mut random = Random::quiet(deed.seed);
        for _ in 0..1 + random.below(2) {
            let peer = world.peer(&mut random);
            match random.below(40) {
                0 => cx.stop(),
                1 => peer.kill(),
                2 => panic!("as it should"),
                3 => cx.fail(Failure::new("as it should")),
                4 => peer.watch(cx, &mut random),
                5 if S::BLOCKS => sinew::sleep(Duration::from_micros(random.below(20))),
                6 if S::BLOCKS => sinew::yield_now(),
                7..20 if S::BLOCKS => peer.ask(&world, &mut random),
                7 => drop(cx.after(Duration::from_micros(random.below(50)), Later)),
                8 => peer.stop(),
                _ => peer.tell(&world, &mut random, S::BLOCKS),
            }
        }
        deed.seed
    }
}

/// A message of a timer.
#[derive(Clone)]
struct Later;

impl<S: Style> Handle<Later> for Node<S> {
    type Reply = ();

    fn handle(&mut self, _: Later, _: &mut Context<'_, Self>) {}
}

/// The address of an actor of any kind.
#[derive(Clone)]
enum Peer {
    Plain(Address<Node<Plain>>),
    Quick(Address<Node<Quick>>),
    Waits(Address<Node<Waits<3>>>),
    Refuses(Address<Node<Refuses<3>>>),
    DropsOldest(Address<Node<DropsOldest<3>>>),
}

macro_rules! with {
    ($peer:expr, $address:ident => $do:expr) => {
        match $peer {
            Peer::Plain($address) => $do,
            Peer::Quick($address) => $do,
            Peer::Waits($address) => $do,
            Peer::Refuses($address) => $do,
            Peer::DropsOldest($address) => $do,
        }
    };
}

impl Peer {
    fn spawn(world: &Arc<World>, rt: &Runtime, number: u64) -> Peer {
        fn supervised<S: Style>(world: &Arc<World>, rt: &Runtime) -> Address<Node<S>> {
            let world = Arc::clone(world);
            let builder = Builder::new().cluster(rt.main_cluster());
            builder.supervised(Restart::limit(2, Duration::from_secs(60)), move || Node::new(&world))
        }
        fn plain<S: Style>(world: &Arc<World>, rt: &Runtime) -> Address<Node<S>> {
            Builder::new().cluster(rt.main_cluster()).spawn(Node::new(world))
        }
        match number % 10 {
            0 => Peer::Plain(supervised(world, rt)),
            1 => Peer::Quick(supervised(world, rt)),
            2 => Peer::Waits(supervised(world, rt)),
            3 => Peer::DropsOldest(supervised(world, rt)),
            4 => Peer::Quick(plain(world, rt)),
            5 => Peer::Waits(plain(world, rt)),
            6 => Peer::Refuses(plain(world, rt)),
            7 => Peer::DropsOldest(plain(world, rt)),
            _ => Peer::Plain(plain(world, rt)),
        }
    }

    fn stop(&self) {
        with!(self, address => address.stop());
    }

    fn kill(&self) {
        with!(self, address => address.kill());
    }

    fn join(&self) {
        with!(self, address => drop(address.join()));
    }

    fn is_alive(&self) -> bool {
        with!(self, address => address.is_alive())
    }

    fn recipient(&self) -> Recipient<Deed> {
        with!(self, address => address.recipient())
    }

    fn watch<A: Actor>(&self, cx: &mut Context<'_, A>, random: &mut Random) {
        match random.below(3) {
            0 => with!(self, address => cx.link(address)),
            1 => with!(self, address => cx.monitor(address)),
            _ => with!(self, address => cx.unlink(address)),
        }
    }

    fn tell(&self, world: &Arc<World>, random: &mut Random, may_wait: bool) {
        let Some(deed) = Deed::new(world, random) else { return };
        let told = match (may_wait, random.below(2)) {
            (true, 0) => with!(self, address => address.tell(deed)),
            (true, _) => self.recipient().tell(deed),
            (false, _) => with!(self, address => address.try_tell(deed)),
        };
        if let Err(error) = told {
            if matches!(error.reason(), actor::Reason::Cycle(_)) {
                world.cycles.fetch_add(1, SeqCst);
            }
            error.into_message().settle(|world| &world.given_back);
        }
    }

    fn ask(&self, world: &Arc<World>, random: &mut Random) {
        let Some(deed) = Deed::new(world, random) else { return };
        let seed = deed.seed;
        let answer = match random.below(3) {
            0 => with!(self, address => address.ask_timeout(Duration::from_micros(random.below(200)), deed)),
            _ => with!(self, address => address.ask(deed)),
        };
        world.note_answer(seed, answer);
    }
}

impl World {
    fn peer(&self, random: &mut Random) -> Peer {
        self.nodes.lock().unwrap()[random.below(NODES as u64) as usize].clone()
    }

    fn note_answer(&self, seed: u64, answer: Result<u64, AskError>) {
        match answer {
            Ok(answer) => {
                assert_eq!(answer, seed, "an answer came to another question");
                self.answers.fetch_add(1, SeqCst);
            }
            Err(AskError::Cycle(_)) => drop(self.cycles.fetch_add(1, SeqCst)),
            Err(_) => {}
        }
    }
}

/// Lets actors act until `messages` messages have been made, and looks what has become of these.
fn act(rt: &Runtime, seed: u64, messages: isize) {
    let world = Arc::new(World::default());
    world.left.store(messages, SeqCst);
    let nodes: Vec<_> = (0..NODES as u64).map(|number| Peer::spawn(&world, rt, number)).collect();
    *world.nodes.lock().unwrap() = nodes;
    let drive = |driver: usize| {
        let mut random = Random::quiet(seed + driver as u64);
        while world.left.load(SeqCst) > 0 {
            let peer = world.peer(&mut random);
            match random.below(4) {
                0 => peer.ask(&world, &mut random),
                _ => peer.tell(&world, &mut random, true),
            }
            // Actors that have ended are replaced.
            let place = random.below(NODES as u64) as usize;
            if !{ world.nodes.lock().unwrap()[place].clone() }.is_alive() {
                let fresh = Peer::spawn(&world, rt, random.below(100));
                drop(std::mem::replace(&mut world.nodes.lock().unwrap()[place], fresh));
            }
            sinew::yield_now();
        }
    };
    let its = Arc::clone(&world);
    let task = rt.spawn_task(async move {
        let mut random = Random::quiet(seed + 99);
        while its.left.load(SeqCst) > 0 {
            let Some(deed) = Deed::new(&its, &mut random) else { break };
            let (seed, peer) = (deed.seed, its.peer(&mut random));
            let answer = with!(&peer, address => address.ask_async(deed).await);
            its.note_answer(seed, answer);
            task::yield_now_async().await;
        }
    });
    fixture::on_fibres_and_threads(rt, 4, 1, drive);
    task.join().unwrap();
    let nodes = std::mem::take(&mut *world.nodes.lock().unwrap());
    nodes.iter().enumerate().for_each(|(number, node)| if number % 2 == 0 { node.stop() } else { node.kill() });
    nodes.iter().for_each(Peer::join);
    drop(nodes);
    let count = |count: &AtomicUsize| count.load(SeqCst);
    let settled = || count(&world.handled) + count(&world.given_back) + count(&world.unread);
    wait_until(|| settled() == count(&world.made) && world.values.load(SeqCst) == 0);
    assert_eq!(count(&world.made), messages as usize);
    println!(
        "handled {}, given back {}, unread {}, answers {}, cycles {}",
        count(&world.handled),
        count(&world.given_back),
        count(&world.unread),
        count(&world.answers),
        count(&world.cycles)
    );
    assert!(count(&world.answers) > 0 && count(&world.handled) > 0);
}

#[test]
fn every_message_of_a_random_graph_of_actors_is_handled_once_or_given_back_or_dropped() {
    in_few(|rt, setup| {
        let rounds = std::env::var("SINEW_STRESS_ROUNDS").map_or(3, |rounds| rounds.parse().unwrap());
        for round in 0..rounds {
            let seed = 0x5eed_ac70 + 1000 * setup.processors as u64 + 100 * round;
            println!("seed {seed:#x} at {setup}");
            act(rt, seed, 1500);
        }
    });
}
