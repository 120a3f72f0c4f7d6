//! kameo, on Tokio's multi-thread runtime. Its mailboxes are unbounded here, and messages are told
//! by `try_send`, which is no future and so has none to box.

use std::convert::Infallible;
use std::future::Future;

use ::kameo::actor::{Actor, ActorRef, Spawn};
use ::kameo::mailbox;
use ::kameo::message::{Context, Message};

use super::{Behaviour, Flow, Sum, System};
use crate::case::Case;
use crate::peers::Peer;
use crate::peers::tokio_tasks::TokioTasks;

pub struct Kameo;

/// An actor.
pub struct Host<B>(B);

/// A message to it.
struct Letter<B: Behaviour<Kameo>>(B::Message);

impl<B: Send + 'static> Actor for Host<B> {
    type Args = B;
    type Error = Infallible;

    async fn on_start(behaviour: B, _: ActorRef<Self>) -> Result<Self, Infallible> {
        Ok(Host(behaviour))
    }
}

impl<B: Behaviour<Kameo>> Message<Letter<B>> for Host<B> {
    type Reply = ();

    async fn handle(&mut self, Letter(message): Letter<B>, context: &mut Context<Self, ()>) {
        if self.0.receive(message) == Flow::End {
            context.stop();
        }
    }
}

impl Message<u64> for Host<Sum> {
    type Reply = u64;

    async fn handle(&mut self, number: u64, _: &mut Context<Self, u64>) -> u64 {
        self.0.add(number)
    }
}

impl System for Kameo {
    type Strands = TokioTasks;
    type Address<B: Behaviour<Kameo>> = ActorRef<Host<B>>;
    type Asked = ActorRef<Host<Sum>>;

    fn run<R: Send + 'static>(case: &Case, root: impl Future<Output = R> + Send + 'static) -> R {
        TokioTasks::new(case.processors).run(root)
    }

    fn spawn<B: Behaviour<Kameo>>(behaviour: B) -> ActorRef<Host<B>> {
        Host::spawn_with_mailbox(behaviour, mailbox::unbounded())
    }

    #[inline]
    fn tell<B: Behaviour<Kameo>>(to: &ActorRef<Host<B>>, message: B::Message) {
        assert!(to.tell(Letter::<B>(message)).try_send().is_ok(), "an actor that has not ended");
    }

    fn spawn_sum() -> ActorRef<Host<Sum>> {
        Host::spawn_with_mailbox(Sum::default(), mailbox::unbounded())
    }

    async fn ask(sum: &ActorRef<Host<Sum>>, number: u64) -> u64 {
        sum.ask(number).send().await.expect("a reply")
    }
}
