//! `broadcast`: every receiver gets every message, and a slow one is told what it has missed.

#[path = "../../sinew/tests/fixture/mod.rs"]
mod fixture;

use fixture::{LONG, Random, alone, everywhere, message, wait_until};
use proptest::prelude::*;
use sinew::sync::broadcast::{self, Receiver, RecvError, RecvTimeoutError, SendError, TryRecvError};
use sinew::{block_on, task, time};
use std::collections::VecDeque;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

#[test]
fn fibres_tasks_and_threads_get_all_messages_in_order() {
    const MESSAGES: usize = 300;
    everywhere(|rt, _| {
        let (sender, first) = broadcast::channel(MESSAGES);
        let collect = |mut receiver: Receiver<usize>| {
            move || {
                let mut all = Vec::new();
                loop {
                    match receiver.recv() {
                        Ok(message) => all.push(message),
                        Err(RecvError::Disconnected) => return all,
                        Err(RecvError::Lagged(missed)) => panic!("missed {missed}"),
                    }
                }
            }
        };
        let mut by_task = sender.subscribe();
        let task = rt.spawn_task(async move {
            let mut all = Vec::new();
            while let Ok(message) = by_task.recv_async().await {
                all.push(message);
            }
            all
        });
        let fibres: Vec<_> = (0..5).map(|_| rt.spawn(collect(sender.subscribe()))).collect();
        let by_thread = thread::spawn(collect(first));
        let sending = rt.spawn(move || {
            for number in 0..MESSAGES {
                assert_eq!(sender.send(number), Ok(7));
                if number.is_multiple_of(7) {
                    sinew::yield_now();
                }
            }
        });
        sending.join().unwrap();
        let mut all: Vec<Vec<usize>> = fibres.into_iter().map(|fibre| fibre.join().unwrap()).collect();
        all.push(by_thread.join().unwrap());
        all.push(task.join().unwrap());
        assert!(all.into_iter().all(|received| received.into_iter().eq(0..MESSAGES)));
    });
}

#[test]
fn slow_receivers_get_the_last_messages_and_learn_how_many_they_missed() {
    const MESSAGES: u64 = 2_000;
    everywhere(|rt, setup| {
        let (sender, receiver) = broadcast::channel(3);
        let receivers: Vec<_> = (0..4).map(|_| receiver.resubscribe()).collect();
        drop(receiver);
        let receiving: Vec<_> = receivers
            .into_iter()
            .zip(0..)
            .map(|(mut receiver, number)| {
                let mut random = Random::new(0x5eed_0071 + number + setup.processors as u64);
                rt.spawn(move || {
                    let (mut received, mut missed, mut last) = (0, 0, [None; 2]);
                    loop {
                        match receiver.recv() {
                            Ok((sender, number)) => {
                                assert!(last[sender] < Some(number), "the order is wrong");
                                last[sender] = Some(number);
                                received += 1;
                            }
                            Err(RecvError::Lagged(count)) => missed += count,
                            Err(RecvError::Disconnected) => break received + missed,
                        }
                        (0..random.below(3)).for_each(|_| sinew::yield_now());
                    }
                })
            })
            .collect();
        let sending: Vec<_> = [0, 1]
            .map(|number| {
                let sender = sender.clone();
                rt.spawn(move || {
                    for round in 0..MESSAGES {
                        sender.send((number, round)).unwrap();
                        if round.is_multiple_of(5) {
                            sinew::yield_now();
                        }
                    }
                })
            })
            .into();
        drop(sender);
        sending.into_iter().for_each(|sending| sending.join().unwrap());
        for receiver in receiving {
            assert_eq!(receiver.join().unwrap(), 2 * MESSAGES, "messages are neither received nor missed");
        }
    });
}

#[test]
fn a_wait_ends_by_its_limit_by_a_message_or_by_the_last_sender() {
    everywhere(|rt, _| {
        let check = || {
            let (sender, mut receiver) = broadcast::channel(2);
            let began = Instant::now();
            assert_eq!(receiver.recv_timeout(MS), Err(RecvTimeoutError::Timeout));
            assert_eq!(receiver.recv_deadline(began + 2 * MS), Err(RecvTimeoutError::Timeout));
            assert!(began.elapsed() >= 2 * MS);
            assert_eq!(receiver.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
            assert!(format!("{sender:?}").contains("waiters: 0"));
            let other = sender.clone();
            let thread = thread::spawn(move || {
                other.send(1).unwrap();
                drop(other);
            });
            assert_eq!(receiver.recv_timeout(LONG), Ok(1));
            thread.join().unwrap();
            let thread = thread::spawn(move || drop(sender));
            assert_eq!(receiver.recv_deadline(Instant::now() + LONG), Err(RecvTimeoutError::Disconnected));
            assert_eq!(block_on(receiver.recv_async()), Err(RecvError::Disconnected));
            thread.join().unwrap();
        };
        rt.run(check);
        check();
    });
}

#[test]
fn a_cancelled_or_overdue_receiver_finds_the_channel_closed() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (sender, mut receiver) = broadcast::channel(2);
            sender.send(1).unwrap();
            sinew::current().cancel();
            assert_eq!(receiver.recv(), Ok(1), "the operation need not wait");
            assert_eq!(receiver.recv(), Err(RecvError::Disconnected));
            assert_eq!(receiver.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        });
        let (sender, mut receiver) = broadcast::channel::<()>(2);
        let waiting = rt.spawn(move || receiver.recv());
        wait_until(|| format!("{sender:?}").contains("waiters: 1"));
        waiting.fibre().cancel();
        assert_eq!(waiting.join().unwrap(), Err(RecvError::Disconnected));
        assert!(format!("{sender:?}").contains("waiters: 0"));
        let overdue = || {
            let (_sender, mut receiver) = broadcast::channel::<()>(2);
            time::timeout(MS, || {
                assert_eq!(receiver.recv(), Err(RecvError::Disconnected));
                assert_eq!(receiver.recv_timeout(LONG), Err(RecvTimeoutError::Timeout));
            });
        };
        rt.run(overdue);
        overdue();
    });
}

#[test]
fn a_future_that_is_dropped_has_received_nothing() {
    everywhere(|rt, _| {
        let task = rt.spawn_task(async {
            let (sender, mut receiver) = broadcast::channel(2);
            let mut other = sender.subscribe();
            for number in 0..50 {
                assert!(fixture::within_turns(number % 3, receiver.recv_async()).await.is_none());
                let sends = sender.clone();
                let sending = task::spawn(async move { sends.send(number).unwrap() });
                let early = fixture::within_turns(number % 4, receiver.recv_async()).await;
                sending.await.unwrap();
                let received = match early {
                    Some(early) => early,
                    None => receiver.recv_async().await,
                };
                assert_eq!(received, Ok(number));
                assert_eq!(other.recv_async().await, Ok(number));
            }
            format!("{sender:?}")
        });
        assert!(task.join().unwrap().contains("waiters: 0"));
    });
}

#[test]
fn messages_are_dropped_when_all_have_them_and_the_last_one_need_not_clone() {
    struct Counted(Arc<AtomicUsize>);
    impl Clone for Counted {
        fn clone(&self) -> Counted {
            self.0.fetch_add(1, Ordering::Relaxed);
            Counted(Arc::clone(&self.0))
        }
    }
    alone(|| {
        let clones = Arc::new(AtomicUsize::new(0));
        let (sender, mut one) = broadcast::channel(4);
        let mut two = sender.subscribe();
        assert_eq!(sender.send(Counted(Arc::clone(&clones))).ok(), Some(2));
        drop((one.recv().unwrap_or_else(|_| panic!()), two.try_recv().unwrap_or_else(|_| panic!())));
        assert_eq!((clones.load(Ordering::Relaxed), sender.len(), Arc::strong_count(&clones)), (1, 0, 1));
        // A receiver that goes without having received them does not keep them.
        (0..3).for_each(|_| drop(sender.send(Counted(Arc::clone(&clones)))));
        drop(one.recv());
        drop(one);
        assert_eq!((sender.len(), sender.is_empty()), (3, false));
        drop(two);
        assert_eq!((sender.len(), Arc::strong_count(&clones)), (0, 1));
        let SendError(back) = sender.send(Counted(Arc::clone(&clones))).unwrap_err();
        assert!(Arc::ptr_eq(&back.0, &clones));
        // A channel without receivers gets new ones.
        let mut three = sender.subscribe();
        assert_eq!(sender.send(back).ok(), Some(1));
        assert!(three.recv().is_ok());
    });
}

#[test]
fn a_clone_that_panics_leaves_the_channel_in_order() {
    #[derive(Debug)]
    struct Fragile(u8);
    impl Clone for Fragile {
        fn clone(&self) -> Fragile {
            assert!(self.0 != 1, "expected: this one cannot be cloned");
            Fragile(self.0)
        }
    }
    alone(|| {
        let (sender, mut one) = broadcast::channel(4);
        let mut two = sender.subscribe();
        [1, 2].into_iter().for_each(|number| assert_eq!(sender.send(Fragile(number)).unwrap(), 2));
        let payload = catch_unwind(std::panic::AssertUnwindSafe(|| one.recv())).unwrap_err();
        assert!(message(&*payload).contains("expected"));
        assert_eq!(one.recv().unwrap().0, 2);
        assert_eq!((two.recv().unwrap().0, two.recv().unwrap().0), (1, 2));
        assert!(sender.is_empty());
    });
}

#[test]
fn a_channel_without_room_is_refused_and_errors_say_what_happened() {
    alone(|| {
        let payload = catch_unwind(|| broadcast::channel::<()>(0)).unwrap_err();
        assert!(message(&*payload).contains("needs room"));
        assert!(RecvError::Lagged(3).to_string().contains("missed 3 messages"));
        assert!(TryRecvError::Empty.to_string().contains("empty"));
        assert!(RecvTimeoutError::Timeout.to_string().contains("timed out"));
        let (sender, receiver) = broadcast::channel::<u8>(5);
        assert_eq!((sender.capacity(), sender.receiver_count(), receiver.is_empty()), (5, 1, true));
        assert_eq!(
            format!("{receiver:?}"),
            "Receiver { messages: 0, capacity: 5, senders: 1, receivers: 1, waiters: 0, closed: false }"
        );
    });
}

/// One operation. Its numbers choose among the existing ends.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send(usize),
    TryRecv(usize),
    RecvWithoutTime(usize),
    CloneSender(usize),
    Subscribe(usize),
    Resubscribe(usize),
    DropSender(usize),
    DropReceiver(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let end = 0..8_usize;
    prop_oneof![
        8 => end.clone().prop_map(Step::Send),
        6 => end.clone().prop_map(Step::TryRecv),
        4 => end.clone().prop_map(Step::RecvWithoutTime),
        1 => end.clone().prop_map(Step::CloneSender),
        2 => end.clone().prop_map(Step::Subscribe),
        1 => end.clone().prop_map(Step::Resubscribe),
        1 => end.clone().prop_map(Step::DropSender),
        2 => end.prop_map(Step::DropReceiver),
    ]
}

/// Each receiver has a queue of its own. Those of slow ones lose their oldest messages.
#[derive(Default)]
struct Model {
    capacity: usize,
    receivers: Vec<Behind>,
}

#[derive(Default)]
struct Behind {
    messages: VecDeque<u32>,
    missed: u64,
}

impl Model {
    fn recv(&mut self, receiver: usize, is_open: bool) -> Result<u32, TryRecvError> {
        let behind = &mut self.receivers[receiver];
        match std::mem::take(&mut behind.missed) {
            0 => {}
            missed => return Err(TryRecvError::Lagged(missed)),
        }
        let none = if is_open { TryRecvError::Empty } else { TryRecvError::Disconnected };
        behind.messages.pop_front().ok_or(none)
    }

    fn send(&mut self, message: u32) {
        for behind in &mut self.receivers {
            behind.messages.push_back(message);
            if behind.messages.len() > self.capacity {
                behind.messages.pop_front();
                behind.missed += 1;
            }
        }
    }
}

fn run(capacity: usize, steps: &[Step]) -> Result<(), TestCaseError> {
    let alive = Arc::new(());
    let (sender, receiver) = broadcast::channel(capacity);
    let (mut senders, mut receivers) = (vec![sender], vec![receiver]);
    let mut model = Model { capacity, receivers: vec![Behind::default()] };
    for (&step, number) in steps.iter().zip(0..) {
        let sender = |end: usize| (!senders.is_empty()).then(|| end % senders.len());
        let receiver = |end: usize| (!receivers.is_empty()).then(|| end % receivers.len());
        match step {
            Step::Send(end) => {
                let Some(end) = sender(end) else { continue };
                let sent = senders[end].send((number, Arc::clone(&alive))).map_err(|SendError(message)| message.0);
                let count = model.receivers.len();
                prop_assert_eq!(sent, if count == 0 { Err(number) } else { Ok(count) });
                model.send(number);
            }
            Step::TryRecv(end) => {
                let Some(end) = receiver(end) else { continue };
                let received = receivers[end].try_recv().map(|message| message.0);
                prop_assert_eq!(received, model.recv(end, !senders.is_empty()));
            }
            Step::RecvWithoutTime(end) => {
                let Some(end) = receiver(end) else { continue };
                let received = receivers[end].recv_timeout(Duration::ZERO).map(|message| message.0);
                let expected = model.recv(end, !senders.is_empty()).map_err(|error| match error {
                    TryRecvError::Empty => RecvTimeoutError::Timeout,
                    TryRecvError::Lagged(missed) => RecvTimeoutError::Lagged(missed),
                    TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                });
                prop_assert_eq!(received, expected);
            }
            Step::CloneSender(end) => {
                let Some(end) = sender(end) else { continue };
                senders.push(senders[end].clone());
            }
            Step::Subscribe(end) => {
                let Some(end) = sender(end) else { continue };
                receivers.push(senders[end].subscribe());
                model.receivers.push(Behind::default());
            }
            Step::Resubscribe(end) => {
                let Some(end) = receiver(end) else { continue };
                receivers.push(receivers[end].resubscribe());
                model.receivers.push(Behind::default());
            }
            Step::DropSender(end) => {
                let Some(end) = sender(end) else { continue };
                drop(senders.swap_remove(end));
            }
            Step::DropReceiver(end) => {
                let Some(end) = receiver(end) else { continue };
                drop(receivers.swap_remove(end));
                model.receivers.swap_remove(end);
            }
        }
        let kept = model.receivers.iter().map(|behind| behind.messages.len()).max().unwrap_or(0);
        for sender in &senders {
            prop_assert_eq!((sender.len(), sender.receiver_count()), (kept, receivers.len()));
        }
        for (receiver, behind) in receivers.iter().zip(&model.receivers) {
            prop_assert_eq!(receiver.len() as u64, behind.messages.len() as u64 + behind.missed);
        }
        prop_assert_eq!(Arc::strong_count(&alive) - 1, kept, "the number of living messages differs");
    }
    drop((senders, receivers));
    prop_assert_eq!(Arc::strong_count(&alive), 1, "messages outlive their channel");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_broadcast_is_a_queue_of_bounded_length_for_each_receiver(
        capacity in 1..5_usize,
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
