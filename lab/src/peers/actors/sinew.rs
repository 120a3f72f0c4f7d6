//! Sinew's actors, under the default scheduler and those that are made for actors. Actors migrate
//! without `unsafe`; the root is a fibre, and stays where it began. The actors promise not to block,
//! as those of the other systems must not either.

use std::future::{Future, ready};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ::sinew::Cluster;
use ::sinew::actor::{self, Actor, Address, Context, Handle};
use ::sinew::sched::{Locality, Random, Woken};

use super::{AFFINE, Behaviour, Flow, LOCAL, RANDOM, Sum, System};
use crate::case::Case;
use crate::peers::fibres::{Fibres, quiet};
use crate::peers::{DEFAULT, blocking};

pub struct Sinew;

/// An actor.
pub struct Host<B>(B);

/// A message to it.
struct Letter<B: Behaviour<Sinew>>(B::Message);

/// Asks an actor to set a timer, and says what it then gets.
struct Every<B: Behaviour<Sinew>> {
    first: Duration,
    period: Duration,
    tick: Tick<B>,
}

/// Makes the message of a timer.
struct Tick<B: Behaviour<Sinew>>(fn() -> B::Message);

impl<B: Behaviour<Sinew>> Clone for Tick<B> {
    fn clone(&self) -> Tick<B> {
        Tick(self.0)
    }
}

/// The actor that is asked.
pub struct Adder(Sum);

impl Actor for Adder {
    const BLOCKS: bool = false;
}

impl<B: Behaviour<Sinew>> Actor for Host<B> {
    /// No behaviour blocks.
    const BLOCKS: bool = false;
}

impl<B: Behaviour<Sinew>> Handle<Letter<B>> for Host<B> {
    type Reply = ();

    #[inline]
    fn handle(&mut self, Letter(message): Letter<B>, context: &mut Context<'_, Host<B>>) {
        if self.0.receive(message) == Flow::End {
            context.stop();
        }
    }
}

impl<B: Behaviour<Sinew>> Handle<Tick<B>> for Host<B> {
    type Reply = ();

    #[inline]
    fn handle(&mut self, Tick(message): Tick<B>, context: &mut Context<'_, Host<B>>) {
        self.handle(Letter(message()), context);
    }
}

/// The timer's first message; it sets the timer for the rest.
impl<B: Behaviour<Sinew>> Handle<Every<B>> for Host<B> {
    type Reply = ();

    fn handle(&mut self, Every { first, period, tick }: Every<B>, context: &mut Context<'_, Host<B>>) {
        if !first.is_zero() {
            context.after(first, Every { first: Duration::ZERO, period, tick });
            return;
        }
        context.every(period, tick.clone());
        self.handle(tick, context);
    }
}

impl Handle<u64> for Adder {
    type Reply = u64;

    #[inline]
    fn handle(&mut self, number: u64, _: &mut Context<'_, Adder>) -> u64 {
        self.0.add(number)
    }
}

impl System for Sinew {
    type Strands = Fibres;
    type Address<B: Behaviour<Sinew>> = Address<Host<B>>;
    type Asked = Address<Adder>;

    fn run<R: Send + 'static>(case: &Case, root: impl Future<Output = R> + Send + 'static) -> R {
        let cluster = Cluster::builder().processors(case.processors);
        let cluster = match case.peer.as_str() {
            DEFAULT => cluster,
            RANDOM => cluster.scheduler(Random::default()),
            LOCAL => cluster.scheduler(Locality::new(Woken::Here)),
            AFFINE => cluster.scheduler(Locality::new(Woken::WhereItRan)),
            other => panic!("no actors on {other}"),
        };
        quiet(cluster).build().expect("a runtime").run(move || blocking(root))
    }

    #[inline]
    fn spawn<B: Behaviour<Sinew>>(behaviour: B) -> Address<Host<B>> {
        match B::IS_HUB {
            true => actor::Builder::new().hub().spawn(Host(behaviour)),
            false => actor::spawn(Host(behaviour)),
        }
    }

    #[inline]
    fn tell<B: Behaviour<Sinew>>(to: &Address<Host<B>>, message: B::Message) {
        assert!(to.tell(Letter::<B>(message)).is_ok(), "an actor that has not ended");
    }

    /// Asks for the memory of actors some actors ahead.
    fn tell_all<B: Behaviour<Sinew>>(to: &[Address<Host<B>>], mut message: impl FnMut() -> B::Message) {
        const AHEAD: usize = 8;
        to.iter().take(AHEAD).for_each(Address::prefetch);
        for (place, one) in to.iter().enumerate() {
            if let Some(soon) = to.get(place + AHEAD) {
                soon.prefetch();
            }
            Sinew::tell(one, message());
        }
    }

    /// A timer of the actor's own. It ends with the actor, so it need not know when it is over.
    fn every<B: Behaviour<Sinew>>(
        to: &Address<Host<B>>,
        first: Duration,
        period: Duration,
        message: fn() -> B::Message,
        _: &'static AtomicBool,
    ) {
        let every = Every::<B> { first, period, tick: Tick(message) };
        assert!(to.tell(every).is_ok(), "an actor that has not ended");
    }

    fn spawn_sum() -> Address<Adder> {
        actor::spawn(Adder(Sum::default()))
    }

    #[inline]
    fn ask(sum: &Address<Adder>, number: u64) -> impl Future<Output = u64> + Send {
        ready(sum.ask(number).expect("a reply"))
    }
}
