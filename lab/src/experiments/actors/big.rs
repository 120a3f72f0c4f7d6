//! `big`: many actors that send to many. Each of 120 actors sends 20,000 pings, one after the
//! other, each to another actor at random, and waits for the pong before the next.

use super::{NINE, Random, Sink, Stopwatch, Table, checked, one_size, scaled};
use crate::case::{Case, Outcome};
use crate::experiments::Experiment;
use crate::peers::actors::{self, Behaviour, Benchmark, Flow, Promise, System};

const ACTORS: usize = 120;
/// Of each actor.
const PINGS: u64 = 20_000;

pub static BIG: Experiment = Experiment {
    name: "big",
    measures: "120 actors send 20,000 pings each to others at random, and wait for each pong.",
    good: "Faster than every other actor system. Locality is of no use here: at least 0.95 of random stealing.",
    variants: |depth, _, _| one_size(depth, ACTORS),
    measure: actors::measure::<Big>,
    ..NINE
};

struct Big;

struct Player<S: System> {
    number: usize,
    random: Random,
    /// Pings that are not answered.
    left: u64,
    pongs: u64,
    all: Table<S::Address<Player<S>>>,
    sink: S::Address<Sink<S, u64>>,
}

enum Message {
    Begin,
    /// From the actor of that number.
    Ping(u32),
    Pong,
}

impl<S: System> Player<S> {
    fn ping(&mut self) {
        let mut to = self.random.below(ACTORS as u64) as usize;
        if to == self.number {
            to = if to + 1 == ACTORS { 0 } else { to + 1 };
        }
        S::tell(&self.all[to], Message::Ping(self.number as u32));
    }
}

impl<S: System> Behaviour<S> for Player<S> {
    type Message = Message;

    fn receive(&mut self, message: Message) -> Flow {
        match message {
            Message::Begin => self.ping(),
            Message::Ping(from) => S::tell(&self.all[from as usize], Message::Pong),
            Message::Pong => {
                self.pongs += 1;
                self.left -= 1;
                match self.left {
                    0 => S::tell(&self.sink, (self.number, self.pongs)),
                    _ => self.ping(),
                }
            }
        }
        Flow::GoOn
    }
}

impl Benchmark for Big {
    async fn root<S: System>(case: Case) -> Outcome {
        let pings = scaled(&case, PINGS);
        let promise = Promise::<S, _>::new();
        let watch = Stopwatch::start();
        let sink = S::spawn(Sink::new(ACTORS, &promise));
        let all = Table::default();
        let player = |number| {
            let (random, all, sink) = (Random::of(number), all.clone(), sink.clone());
            S::spawn(Player::<S> { number, random, left: pings, pongs: 0, all, sink })
        };
        all.fill((0..ACTORS).map(player));
        all.iter().for_each(|player| S::tell(player, Message::Begin));
        let pongs: u64 = promise.kept().await.iter().sum();
        checked(pongs, ACTORS as u64 * pings, watch.stop())
    }
}
