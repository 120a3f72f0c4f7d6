//! Tokio without an actor library: each actor is a task that receives from an unbounded channel.

use std::future::Future;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::{Behaviour, Flow, Sum, System};
use crate::case::Case;
use crate::peers::Peer;
use crate::peers::tokio_tasks::TokioTasks;

pub struct Channels;

impl System for Channels {
    type Strands = TokioTasks;
    type Address<B: Behaviour<Channels>> = UnboundedSender<B::Message>;
    type Asked = UnboundedSender<(u64, oneshot::Sender<u64>)>;

    fn run<R: Send + 'static>(case: &Case, root: impl Future<Output = R> + Send + 'static) -> R {
        TokioTasks::new(case.processors).run(root)
    }

    fn spawn<B: Behaviour<Channels>>(mut behaviour: B) -> UnboundedSender<B::Message> {
        let (sender, mut messages) = unbounded_channel();
        tokio::spawn(async move {
            while let Some(message) = messages.recv().await {
                if behaviour.receive(message) == Flow::End {
                    break;
                }
            }
        });
        sender
    }

    #[inline]
    fn tell<B: Behaviour<Channels>>(to: &UnboundedSender<B::Message>, message: B::Message) {
        assert!(to.send(message).is_ok(), "an actor that has not ended");
    }

    fn spawn_sum() -> Self::Asked {
        let (sender, mut questions) = unbounded_channel::<(u64, oneshot::Sender<u64>)>();
        tokio::spawn(async move {
            let mut sum = Sum::default();
            while let Some((number, reply)) = questions.recv().await {
                let _ = reply.send(sum.add(number));
            }
        });
        sender
    }

    async fn ask(sum: &Self::Asked, number: u64) -> u64 {
        let (sender, reply) = oneshot::channel();
        assert!(sum.send((number, sender)).is_ok(), "an actor that has not ended");
        reply.await.expect("a reply")
    }
}
