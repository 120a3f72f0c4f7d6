//! ractor, on Tokio's multi-thread runtime. Its mailboxes are unbounded. Actors are spawned by
//! `spawn_instant`, which does not wait until the actor has started.

use std::future::Future;
use std::marker::PhantomData;

use ::ractor::{Actor, ActorProcessingErr, ActorRef, ActorRuntime, RpcReplyPort};

use super::{Behaviour, Flow, Sum, System};
use crate::case::Case;
use crate::peers::Peer;
use crate::peers::tokio_tasks::TokioTasks;

pub struct Ractor;

/// An actor's fixed part. Its state is the behaviour.
struct Host<B>(PhantomData<fn() -> B>);

impl<B: Behaviour<Ractor>> Actor for Host<B> {
    type Msg = B::Message;
    type State = B;
    type Arguments = B;

    async fn pre_start(&self, _: ActorRef<B::Message>, behaviour: B) -> Result<B, ActorProcessingErr> {
        Ok(behaviour)
    }

    async fn handle(
        &self,
        own: ActorRef<B::Message>,
        message: B::Message,
        behaviour: &mut B,
    ) -> Result<(), ActorProcessingErr> {
        if behaviour.receive(message) == Flow::End {
            own.stop(None);
        }
        Ok(())
    }
}

/// The actor that is asked.
struct Adder;

pub struct Question(u64, RpcReplyPort<u64>);

impl Actor for Adder {
    type Msg = Question;
    type State = Sum;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Question>, (): ()) -> Result<Sum, ActorProcessingErr> {
        Ok(Sum::default())
    }

    async fn handle(
        &self,
        _: ActorRef<Question>,
        Question(number, reply): Question,
        sum: &mut Sum,
    ) -> Result<(), ActorProcessingErr> {
        let _ = reply.send(sum.add(number));
        Ok(())
    }
}

impl System for Ractor {
    type Strands = TokioTasks;
    type Address<B: Behaviour<Ractor>> = ActorRef<B::Message>;
    type Asked = ActorRef<Question>;

    fn run<R: Send + 'static>(case: &Case, root: impl Future<Output = R> + Send + 'static) -> R {
        TokioTasks::new(case.processors).run(root)
    }

    fn spawn<B: Behaviour<Ractor>>(behaviour: B) -> ActorRef<B::Message> {
        ActorRuntime::spawn_instant(None, Host(PhantomData::<fn() -> B>), behaviour).expect("an actor").0
    }

    #[inline]
    fn tell<B: Behaviour<Ractor>>(to: &ActorRef<B::Message>, message: B::Message) {
        assert!(to.cast(message).is_ok(), "an actor that has not ended");
    }

    fn spawn_sum() -> ActorRef<Question> {
        ActorRuntime::spawn_instant(None, Adder, ()).expect("an actor").0
    }

    async fn ask(sum: &ActorRef<Question>, number: u64) -> u64 {
        let called = sum.call(|reply| Question(number, reply), None).await;
        called.unwrap_or_else(|_| panic!("an actor that has not ended")).expect("a reply")
    }
}
