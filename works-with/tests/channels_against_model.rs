//! Runs random sequences of operations that do not wait on a channel and on a model of it. The
//! model is a queue with a capacity and a count of the ends on each side.

use proptest::prelude::*;
use sinew::sync::mpmc::{self, Receiver, RecvTimeoutError, SendTimeoutError, Sender, TryRecvError, TrySendError};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// One operation. Its numbers choose among the existing ends.
#[derive(Clone, Copy, Debug)]
enum Step {
    TrySend(usize),
    SendWithoutTime(usize),
    TryRecv(usize),
    RecvWithoutTime(usize),
    TakeAll(usize),
    CloneSender(usize),
    CloneReceiver(usize),
    DropSender(usize),
    DropReceiver(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let end = 0..8_usize;
    prop_oneof![
        6 => end.clone().prop_map(Step::TrySend),
        4 => end.clone().prop_map(Step::SendWithoutTime),
        4 => end.clone().prop_map(Step::TryRecv),
        3 => end.clone().prop_map(Step::RecvWithoutTime),
        1 => end.clone().prop_map(Step::TakeAll),
        2 => end.clone().prop_map(Step::CloneSender),
        2 => end.clone().prop_map(Step::CloneReceiver),
        2 => end.clone().prop_map(Step::DropSender),
        2 => end.prop_map(Step::DropReceiver),
    ]
}

/// `None` means that there is always room.
fn capacity() -> impl Strategy<Value = Option<usize>> {
    prop_oneof![Just(None), Just(Some(usize::MAX)), (0..6_usize).prop_map(Some)]
}

/// A message: a number, and one reference to the counter of living messages.
type Message = (u32, Arc<()>);

struct Model {
    messages: VecDeque<u32>,
    capacity: usize,
    senders: usize,
    receivers: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum Sent {
    Accepted,
    Full(u32),
    Closed(u32),
}

#[derive(Debug, PartialEq, Eq)]
enum Received {
    Message(u32),
    Empty,
    Closed,
}

impl Model {
    fn send(&mut self, number: u32) -> Sent {
        if self.receivers == 0 {
            Sent::Closed(number)
        } else if self.messages.len() < self.capacity {
            self.messages.push_back(number);
            Sent::Accepted
        } else {
            Sent::Full(number)
        }
    }

    fn recv(&mut self) -> Received {
        match self.messages.pop_front() {
            Some(number) => Received::Message(number),
            None if self.senders == 0 => Received::Closed,
            None => Received::Empty,
        }
    }

    fn drop_receiver(&mut self) {
        self.receivers -= 1;
        if self.receivers == 0 {
            self.messages.clear();
        }
    }
}

struct Channel {
    senders: Vec<Sender<Message>>,
    receivers: Vec<Receiver<Message>>,
    alive: Arc<()>,
    sent: u32,
}

impl Channel {
    fn new(capacity: Option<usize>) -> Channel {
        let (sender, receiver) = capacity.map_or_else(mpmc::channel, mpmc::sync_channel);
        Channel { senders: vec![sender], receivers: vec![receiver], alive: Arc::new(()), sent: 0 }
    }

    fn next(&mut self) -> Message {
        self.sent += 1;
        (self.sent, Arc::clone(&self.alive))
    }

    /// Does one step on the channel and on the model. The results must be equal.
    fn step(&mut self, model: &mut Model, step: Step) -> Result<(), TestCaseError> {
        let sender = |end: usize| (model.senders > 0).then(|| end % model.senders);
        let receiver = |end: usize| (model.receivers > 0).then(|| end % model.receivers);
        match step {
            Step::TrySend(end) => {
                let Some(end) = sender(end) else { return Ok(()) };
                let message = self.next();
                let expected = model.send(message.0);
                let result = match self.senders[end].try_send(message) {
                    Ok(()) => Sent::Accepted,
                    Err(TrySendError::Full(message)) => Sent::Full(message.0),
                    Err(TrySendError::Disconnected(message)) => Sent::Closed(message.0),
                };
                prop_assert_eq!(result, expected);
            }
            Step::SendWithoutTime(end) => {
                let Some(end) = sender(end) else { return Ok(()) };
                let message = self.next();
                let expected = model.send(message.0);
                let result = match self.senders[end].send_timeout(message, Duration::ZERO) {
                    Ok(()) => Sent::Accepted,
                    Err(SendTimeoutError::Timeout(message)) => Sent::Full(message.0),
                    Err(SendTimeoutError::Disconnected(message)) => Sent::Closed(message.0),
                };
                prop_assert_eq!(result, expected);
            }
            Step::TryRecv(end) => {
                let Some(end) = receiver(end) else { return Ok(()) };
                let result = match self.receivers[end].try_recv() {
                    Ok(message) => Received::Message(message.0),
                    Err(TryRecvError::Empty) => Received::Empty,
                    Err(TryRecvError::Disconnected) => Received::Closed,
                };
                prop_assert_eq!(result, model.recv());
            }
            Step::RecvWithoutTime(end) => {
                let Some(end) = receiver(end) else { return Ok(()) };
                let result = match self.receivers[end].recv_timeout(Duration::ZERO) {
                    Ok(message) => Received::Message(message.0),
                    Err(RecvTimeoutError::Timeout) => Received::Empty,
                    Err(RecvTimeoutError::Disconnected) => Received::Closed,
                };
                prop_assert_eq!(result, model.recv());
            }
            Step::TakeAll(end) => {
                let Some(end) = receiver(end) else { return Ok(()) };
                let all: VecDeque<_> = self.receivers[end].try_iter().map(|message| message.0).collect();
                prop_assert_eq!(all, std::mem::take(&mut model.messages));
            }
            Step::CloneSender(end) => {
                let Some(end) = sender(end) else { return Ok(()) };
                self.senders.push(self.senders[end].clone());
                model.senders += 1;
            }
            Step::CloneReceiver(end) => {
                let Some(end) = receiver(end) else { return Ok(()) };
                self.receivers.push(self.receivers[end].clone());
                model.receivers += 1;
            }
            Step::DropSender(end) => {
                let Some(end) = sender(end) else { return Ok(()) };
                drop(self.senders.swap_remove(end));
                model.senders -= 1;
            }
            Step::DropReceiver(end) => {
                let Some(end) = receiver(end) else { return Ok(()) };
                drop(self.receivers.swap_remove(end));
                model.drop_receiver();
            }
        }
        Ok(())
    }

    fn check(&self, model: &Model, capacity: Option<usize>) -> Result<(), TestCaseError> {
        let capacity = capacity.filter(|&capacity| capacity != usize::MAX);
        for sender in &self.senders {
            prop_assert_eq!((sender.len(), sender.capacity()), (model.messages.len(), capacity));
        }
        for receiver in &self.receivers {
            prop_assert_eq!((receiver.len(), receiver.is_empty()), (model.messages.len(), model.messages.is_empty()));
        }
        prop_assert_eq!(
            Arc::strong_count(&self.alive) - 1,
            model.messages.len(),
            "the number of living messages differs"
        );
        Ok(())
    }
}

fn run(capacity: Option<usize>, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut channel = Channel::new(capacity);
    let messages = VecDeque::new();
    let mut model = Model { messages, capacity: capacity.unwrap_or(usize::MAX), senders: 1, receivers: 1 };
    for &step in steps {
        channel.step(&mut model, step)?;
        channel.check(&model, capacity)?;
    }
    let alive = Arc::clone(&channel.alive);
    drop(channel);
    prop_assert_eq!(Arc::strong_count(&alive), 1, "messages outlive their channel");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_channel_is_a_queue_with_a_capacity(
        capacity in capacity(),
        steps in proptest::collection::vec(step(), 0..120),
        on_fibre in any::<bool>(),
    ) {
        if on_fibre {
            sinew::run(move || run(capacity, &steps))?;
        } else {
            run(capacity, &steps)?;
        }
    }
}
