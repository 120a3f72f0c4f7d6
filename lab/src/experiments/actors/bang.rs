//! `bang`: many actors that send to one. Each of 1,000 senders sends 1,000 messages in a loop,
//! without waiting.

use std::sync::Arc;

use super::{NINE, Stopwatch, checked, one_size, scaled};
use crate::case::{Case, Outcome};
use crate::experiments::Experiment;
use crate::peers::actors::{self, Behaviour, Benchmark, Flow, Promise, System};

const SENDERS: usize = 1000;
/// Of each sender.
const MESSAGES: u64 = 1000;

pub static BANG: Experiment = Experiment {
    name: "bang",
    measures: "1,000 actors send 1,000 messages each to one receiver, without waiting.",
    good: "Faster than every other actor system. The receiver's mailbox is the bottleneck.",
    variants: |depth, _, _| one_size(depth, SENDERS + 1),
    measure: actors::measure::<Bang>,
    ..NINE
};

struct Bang;

struct Receiver<S: System> {
    expected: u64,
    count: u64,
    sum: u64,
    promise: Arc<Promise<S, (u64, u64)>>,
}

impl<S: System> Behaviour<S> for Receiver<S> {
    /// The sender's number.
    type Message = u64;
    const IS_HUB: bool = true;

    #[inline]
    fn receive(&mut self, sender: u64) -> Flow {
        self.count += 1;
        self.sum += sender;
        if self.count == self.expected {
            self.promise.keep((self.count, self.sum));
        }
        Flow::GoOn
    }
}

struct Sender<S: System> {
    number: u64,
    messages: u64,
    receiver: S::Address<Receiver<S>>,
}

struct Go;

impl<S: System> Behaviour<S> for Sender<S> {
    type Message = Go;

    fn receive(&mut self, Go: Go) -> Flow {
        for _ in 0..self.messages {
            S::tell(&self.receiver, self.number);
        }
        Flow::GoOn
    }
}

impl Benchmark for Bang {
    async fn root<S: System>(case: Case) -> Outcome {
        let messages = scaled(&case, MESSAGES);
        let promise = Promise::<S, _>::new();
        let watch = Stopwatch::start();
        let expected = SENDERS as u64 * messages;
        let receiver = S::spawn(Receiver { expected, count: 0, sum: 0, promise: Arc::clone(&promise) });
        let sender = |number| S::spawn(Sender::<S> { number, messages, receiver: receiver.clone() });
        let all: Vec<_> = (0..SENDERS as u64).map(sender).collect();
        all.iter().for_each(|sender| S::tell(sender, Go));
        let result = promise.kept().await;
        let reading = watch.stop();
        checked(result, (expected, (0..SENDERS as u64).sum::<u64>() * messages), reading)
    }
}
