//! Sinew's actors, under the default scheduler and those that are made for actors. Actors migrate
//! without `unsafe`; the root is a fibre, and stays where it began. The actors promise not to block,
//! as those of the other systems must not either.

use std::future::{Future, ready};

use ::sinew::actor::{self, Actor, Address, Context, Handle};
use ::sinew::sched::{Locality, Random, Woken};
use ::sinew::{Builder, Cluster};

use super::{AFFINE, Behaviour, Flow, LOCAL, RANDOM, Sum, System};
use crate::case::Case;
use crate::peers::fibres::Fibres;
use crate::peers::{DEFAULT, blocking};

pub struct Sinew;

/// An actor.
pub struct Host<B>(B);

/// A message to it.
struct Letter<B: Behaviour<Sinew>>(B::Message);

impl<B: Send + 'static> Actor for Host<B> {
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

impl Handle<u64> for Host<Sum> {
    type Reply = u64;

    #[inline]
    fn handle(&mut self, number: u64, _: &mut Context<'_, Host<Sum>>) -> u64 {
        self.0.add(number)
    }
}

impl System for Sinew {
    type Strands = Fibres;
    type Address<B: Behaviour<Sinew>> = Address<Host<B>>;
    type Asked = Address<Host<Sum>>;

    fn run<R: Send + 'static>(case: &Case, root: impl Future<Output = R> + Send + 'static) -> R {
        let cluster = Cluster::builder().processors(case.processors);
        let cluster = match case.peer.as_str() {
            DEFAULT => cluster,
            RANDOM => cluster.scheduler(Random::default()),
            LOCAL => cluster.scheduler(Locality::new(Woken::Here)),
            AFFINE => cluster.scheduler(Locality::new(Woken::WhereItRan)),
            other => panic!("no actors on {other}"),
        };
        Builder::from(cluster).build().expect("a runtime").run(move || blocking(root))
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

    fn spawn_sum() -> Address<Host<Sum>> {
        actor::spawn(Host(Sum::default()))
    }

    #[inline]
    fn ask(sum: &Address<Host<Sum>>, number: u64) -> impl Future<Output = u64> + Send {
        ready(sum.ask(number).expect("a reply"))
    }
}
