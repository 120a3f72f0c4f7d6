//! Channels lose no message and deliver none twice, and every waiting fibre is served.

mod fixture;

use fixture::{LONG, Random, alone, everywhere, wait_until, wherever};
use sinew::sync::mpmc::{self, SendTimeoutError};
use sinew::sync::{mpsc, oneshot};
use sinew::{JoinHandle, Runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

type Ends<T> = (mpmc::Sender<T>, mpmc::Receiver<T>);

/// Returns a channel of each kind, with its capacity.
fn channels<T>() -> [(Option<usize>, Ends<T>); 4] {
    [None, Some(0), Some(1), Some(3)]
        .map(|capacity| (capacity, capacity.map_or_else(mpmc::channel, mpmc::sync_channel)))
}

/// A fibre or a kernel thread.
enum Hand<T> {
    Fibre(JoinHandle<T>),
    Thread(thread::JoinHandle<T>),
}

impl<T: Send + 'static> Hand<T> {
    /// Spawns a kernel thread for every third number, and a fibre for the others.
    fn new(rt: &Runtime, number: usize, f: impl FnOnce() -> T + Send + 'static) -> Self {
        if number % 3 == 2 { Hand::Thread(thread::spawn(f)) } else { Hand::Fibre(rt.spawn(f)) }
    }

    fn join(self) -> T {
        match self {
            Hand::Fibre(fibre) => fibre.join().unwrap(),
            Hand::Thread(thread) => thread.join().unwrap(),
        }
    }
}

/// Spawns `count` fibres that run `f` with their number. Each one has reached its wait before the
/// next one begins. Needs a runtime with one processor.
fn one_after_another<T: Send + 'static>(
    count: usize,
    f: impl Fn(usize) -> T + Clone + Send + 'static,
) -> Vec<JoinHandle<T>> {
    let begun = Arc::new(AtomicUsize::new(0));
    let spawn = |number| {
        let (f, has_begun) = (f.clone(), Arc::clone(&begun));
        let handle = sinew::spawn(move || {
            has_begun.fetch_add(1, Ordering::Relaxed);
            f(number)
        });
        wait_until(|| begun.load(Ordering::Relaxed) > number);
        handle
    };
    (0..count).map(spawn).collect()
}

#[test]
fn messages_of_one_sender_arrive_in_the_order_of_sending() {
    const SENDERS: usize = 4;
    const MESSAGES: usize = 200;
    everywhere(|rt, _| {
        for (_, (tx, rx)) in channels() {
            let send = |sender: usize| {
                let tx = tx.clone();
                Hand::new(rt, sender, move || (0..MESSAGES).for_each(|number| tx.send((sender, number)).unwrap()))
            };
            let senders: Vec<_> = (0..SENDERS).map(send).collect();
            drop(tx);
            let next = rt.run(move || {
                let mut next = [0; SENDERS];
                for (sender, number) in rx {
                    assert_eq!(number, next[sender], "of sender {sender}");
                    next[sender] += 1;
                }
                next
            });
            assert_eq!(next, [MESSAGES; SENDERS]);
            senders.into_iter().for_each(Hand::join);
        }
    });
}

#[test]
fn many_senders_and_receivers_lose_and_duplicate_nothing() {
    const ENDS: usize = 5;
    const MESSAGES: usize = 100;
    everywhere(|rt, _| {
        for (capacity, (tx, rx)) in channels() {
            let send = |sender: usize| {
                let tx = tx.clone();
                Hand::new(rt, sender, move || {
                    for number in sender * MESSAGES..(sender + 1) * MESSAGES {
                        match number % 3 {
                            0 => tx.send_timeout(number, LONG).unwrap(),
                            _ => tx.send(number).unwrap(),
                        }
                    }
                })
            };
            let receive = |receiver: usize| {
                let rx = rx.clone();
                Hand::new(rt, receiver, move || {
                    let next = || if receiver == 0 { rx.recv_timeout(LONG).ok() } else { rx.recv().ok() };
                    std::iter::from_fn(next).collect::<Vec<_>>()
                })
            };
            let receivers: Vec<_> = (0..ENDS).map(receive).collect();
            let senders: Vec<_> = (0..ENDS).map(send).collect();
            drop((tx, rx));
            senders.into_iter().for_each(Hand::join);
            let mut received: Vec<_> = receivers.into_iter().flat_map(Hand::join).collect();
            received.sort_unstable();
            assert!(received.into_iter().eq(0..ENDS * MESSAGES), "at capacity {capacity:?}");
        }
    });
}

#[test]
fn a_full_channel_makes_its_senders_wait() {
    everywhere(|rt, _| {
        for capacity in [1, 2, 7] {
            let (tx, rx) = mpsc::sync_channel(capacity);
            let sent = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&sent);
            let sender = rt.spawn(move || {
                for number in 0..=capacity {
                    tx.send(number).unwrap();
                    count.fetch_add(1, Ordering::Relaxed);
                }
                tx
            });
            wait_until(|| sent.load(Ordering::Relaxed) == capacity);
            rt.run(|| (0..20).for_each(|_| sinew::yield_now()));
            assert_eq!(sent.load(Ordering::Relaxed), capacity);
            assert_eq!(rx.try_recv(), Ok(0));
            let tx = sender.join().unwrap();
            assert_eq!(tx.try_send(99), Err(TrySendError::Full(99)));
            assert!(rx.try_iter().eq(1..=capacity));
            assert_eq!(tx.try_send(99), Ok(()));
        }
    });
}

#[test]
fn a_rendezvous_channel_hands_over_without_a_buffer() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            rt.run(|| {
                let (tx, rx) = mpmc::sync_channel(0);
                assert_eq!(tx.try_send(1), Err(TrySendError::Full(1)));
                assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
                // A receiver waits.
                let receiving = rx.clone();
                let receiver = one_after_another(1, move |_| receiving.recv());
                assert_eq!(tx.try_send(2), Ok(()));
                assert_eq!(tx.try_send(3), Err(TrySendError::Full(3)), "one receiver took more than one message");
                assert!(receiver.into_iter().all(|receiver| receiver.join().unwrap() == Ok(2)));
                // A sender waits.
                let sending = tx.clone();
                let sender = one_after_another(1, move |_| sending.send(4)).pop().unwrap();
                (0..20).for_each(|_| sinew::yield_now());
                assert!(!sender.is_finished(), "the send returned before the message was received");
                assert_eq!((tx.len(), rx.capacity()), (0, Some(0)));
                assert_eq!(rx.try_recv(), Ok(4));
                assert_eq!(sender.join().unwrap(), Ok(()));
            });
        },
    );
}

#[test]
fn waiting_receivers_are_served_in_order_of_arrival() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            rt.run(|| {
                for (_, (tx, rx)) in channels() {
                    let receivers = one_after_another(8, move |_| rx.recv());
                    (0..8).for_each(|number| tx.try_send(number).unwrap());
                    for (number, receiver) in receivers.into_iter().enumerate() {
                        assert_eq!(receiver.join().unwrap(), Ok(number));
                    }
                }
            });
        },
    );
}

#[test]
fn waiting_senders_are_served_in_order_of_arrival() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            rt.run(|| {
                for capacity in [0, 1, 3] {
                    let (tx, rx) = mpmc::sync_channel(capacity);
                    let senders = one_after_another(8, move |number| tx.send(number));
                    assert_eq!(rx.len(), capacity);
                    for number in 0..8 {
                        assert_eq!(rx.try_recv(), Ok(number));
                        assert_eq!(rx.len(), capacity.min(7 - number), "a newcomer took the room of a waiting sender");
                    }
                    assert!(senders.into_iter().all(|sender| sender.join().unwrap() == Ok(())));
                }
            });
        },
    );
}

#[test]
fn a_waiter_that_times_out_does_not_keep_the_others_from_being_served() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            rt.run(|| {
                let (tx, rx) = mpmc::sync_channel(0);
                let wait = |number| if number % 2 == 0 { Duration::from_millis(1) } else { LONG };
                let receiving = rx.clone();
                let receivers = one_after_another(6, move |number| receiving.recv_timeout(wait(number)));
                wait_until(|| receivers.iter().step_by(2).all(JoinHandle::is_finished));
                (0..3).for_each(|number| tx.try_send(number).unwrap());
                assert_eq!(tx.try_send(3), Err(TrySendError::Full(3)));
                for (number, receiver) in receivers.into_iter().enumerate() {
                    let expected = if number % 2 == 0 { Err(RecvTimeoutError::Timeout) } else { Ok(number / 2) };
                    assert_eq!(receiver.join().unwrap(), expected);
                }
                let senders = one_after_another(6, move |number| tx.send_timeout(number, wait(number)));
                wait_until(|| senders.iter().step_by(2).all(JoinHandle::is_finished));
                assert!(rx.try_iter().eq([1, 3, 5]));
                for (number, sender) in senders.into_iter().enumerate() {
                    let expected = if number % 2 == 0 { Err(SendTimeoutError::Timeout(number)) } else { Ok(()) };
                    assert_eq!(sender.join().unwrap(), expected);
                }
            });
        },
    );
}

/// Spins for a short time of a random length.
fn dawdle(random: &mut Random) {
    let spins = random.below(300);
    (0..spins).for_each(|_| std::hint::spin_loop());
    if random.below(4) == 0 {
        sinew::yield_now();
    }
}

#[test]
fn dropping_the_last_sender_at_any_moment_wakes_all_receivers() {
    const ROUNDS: u64 = 25;
    everywhere(|rt, _| {
        let mut random = Random::new(0x5EED_0001);
        for _ in 0..ROUNDS {
            for (_, (tx, rx)) in channels::<()>() {
                let receive = |number| {
                    let rx = rx.clone();
                    Hand::new(rt, number, move || {
                        if number == 0 {
                            rx.recv_timeout(LONG).map_err(|error| error == RecvTimeoutError::Disconnected)
                        } else {
                            rx.recv().map_err(|RecvError| true)
                        }
                    })
                };
                let receivers: Vec<_> = (0..3).map(receive).collect();
                let others: Vec<_> = (0..2).map(|_| tx.clone()).collect();
                dawdle(&mut random);
                drop(others);
                dawdle(&mut random);
                drop(tx);
                assert!(receivers.into_iter().all(|receiver| receiver.join() == Err(true)));
                assert_eq!(rx.try_recv(), Err(TryRecvError::Disconnected));
            }
        }
    });
}

#[test]
fn dropping_the_last_receiver_at_any_moment_returns_all_senders_their_messages() {
    const ROUNDS: u64 = 25;
    everywhere(|rt, _| {
        let mut random = Random::new(0x5EED_0002);
        for _ in 0..ROUNDS {
            for capacity in [0, 1] {
                let (tx, rx) = mpmc::sync_channel(capacity);
                let send = |number| {
                    let tx = tx.clone();
                    Hand::new(rt, number, move || {
                        let mut sent = 0;
                        loop {
                            let result = if number == 0 {
                                tx.send_timeout(number, LONG).map_err(|error| match error {
                                    SendTimeoutError::Timeout(_) => panic!("timed out"),
                                    SendTimeoutError::Disconnected(message) => message,
                                })
                            } else {
                                tx.send(number).map_err(|SendError(message)| message)
                            };
                            match result {
                                Ok(()) => sent += 1,
                                Err(message) => return (message, sent),
                            }
                        }
                    })
                };
                let senders: Vec<_> = (0..3).map(send).collect();
                let other = rx.clone();
                dawdle(&mut random);
                let received = other.try_iter().take(2).count();
                drop(other);
                dawdle(&mut random);
                drop(rx);
                let results: Vec<_> = senders.into_iter().map(Hand::join).collect();
                assert!(results.iter().map(|result| result.0).eq(0..3), "a sender got another one's message back");
                let sent: usize = results.iter().map(|result| result.1).sum();
                assert!((received..=received + capacity).contains(&sent), "{sent} sent, {received} received");
                assert_eq!(tx.try_send(9), Err(TrySendError::Disconnected(9)));
            }
        }
    });
}

/// Counts how often it is dropped.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn messages_that_are_never_received_are_dropped_exactly_once() {
    alone(|| {
        for receiver_goes_first in [true, false] {
            for (_, (tx, rx)) in channels() {
                let dropped = Arc::new(AtomicUsize::new(0));
                let drops = || dropped.load(Ordering::Relaxed);
                let sent = (0..3).filter(|_| tx.try_send(Counted(Arc::clone(&dropped))).is_ok()).count();
                assert_eq!(drops(), 3 - sent, "a refused message is dropped");
                let other = rx.clone();
                drop(rx);
                assert_eq!(drops(), 3 - sent, "a message is dropped while a receiver is left");
                if receiver_goes_first {
                    drop(other);
                    assert_eq!(drops(), 3, "messages outlive the last receiver");
                    assert!(tx.send(Counted(Arc::clone(&dropped))).is_err());
                    assert_eq!(drops(), 4);
                } else {
                    drop(tx);
                    assert_eq!(drops(), 3 - sent, "a message is dropped although it can be received");
                    drop(other.recv());
                    assert_eq!(drops(), 3 - sent + sent.min(1));
                    drop(other);
                    assert_eq!(drops(), 3);
                }
            }
        }
    });
}

#[test]
fn every_message_is_dropped_once_however_its_channel_ends() {
    const ROUNDS: u64 = 15;
    everywhere(|rt, _| {
        let mut random = Random::new(0x5EED_0003);
        for _ in 0..ROUNDS {
            for (_, (tx, rx)) in channels() {
                let (made, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
                let send = |number| {
                    let (tx, made, dropped) = (tx.clone(), Arc::clone(&made), Arc::clone(&dropped));
                    let next = move || {
                        made.fetch_add(1, Ordering::Relaxed);
                        Counted(Arc::clone(&dropped))
                    };
                    let send = move || tx.send_timeout(next(), Duration::from_micros(20)).is_ok();
                    Hand::new(rt, number, move || (0..20).take_while(|_| send()).count())
                };
                let receive = |number, messages| {
                    let rx = rx.clone();
                    Hand::new(rt, number, move || rx.iter().take(messages).count())
                };
                let senders: Vec<_> = (0..3).map(send).collect();
                let receivers: Vec<_> = (0..3).map(|number| receive(number, random.below(20) as usize)).collect();
                drop((tx, rx));
                let sent: usize = senders.into_iter().map(Hand::join).sum();
                let received: usize = receivers.into_iter().map(Hand::join).sum();
                assert!(received <= sent);
                assert_eq!(dropped.load(Ordering::Relaxed), made.load(Ordering::Relaxed));
            }
        }
    });
}

#[test]
fn a_message_that_is_dropped_with_its_channel_may_use_it() {
    struct Curious(mpmc::Sender<Curious>, Arc<AtomicUsize>);
    impl Drop for Curious {
        fn drop(&mut self) {
            // The channel's lock is free here, and the channel has no receivers.
            if self.0.is_empty() {
                self.1.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    alone(|| {
        let (tx, rx) = mpmc::channel();
        let seen = Arc::new(AtomicUsize::new(0));
        (0..3).for_each(|_| assert!(tx.send(Curious(tx.clone(), Arc::clone(&seen))).is_ok()));
        drop(rx);
        assert_eq!(seen.load(Ordering::Relaxed), 3);
    });
}

#[test]
fn a_timeout_that_races_with_a_hand_over_loses_no_message() {
    const MESSAGES: usize = 150;
    everywhere(|rt, setup| {
        let seed = 0x5EED_0004 + setup.processors as u64;
        for (capacity, (tx, rx)) in channels() {
            let sender = Hand::new(rt, 0, move || {
                let mut random = Random::new(seed);
                for number in 0..MESSAGES {
                    dawdle(&mut random);
                    let mut message = number;
                    while let Err(error) = tx.send_timeout(message, Duration::from_micros(random.below(30))) {
                        message = error.into_inner();
                    }
                }
            });
            let receive = |number: usize| {
                let rx = rx.clone();
                Hand::new(rt, number, move || {
                    let mut random = Random::new(seed + number as u64);
                    let mut received = Vec::new();
                    loop {
                        match rx.recv_timeout(Duration::from_micros(random.below(30))) {
                            Ok(message) => received.push(message),
                            Err(RecvTimeoutError::Timeout) => dawdle(&mut random),
                            Err(RecvTimeoutError::Disconnected) => return received,
                        }
                    }
                })
            };
            let receivers = [receive(1), receive(2)];
            sender.join();
            let mut received: Vec<_> = receivers.into_iter().flat_map(Hand::join).collect();
            received.sort_unstable();
            assert!(received.into_iter().eq(0..MESSAGES), "at capacity {capacity:?}");
        }
    });
}

#[test]
fn a_huge_capacity_takes_no_memory_before_it_is_used() {
    alone(|| {
        for capacity in [usize::MAX, usize::MAX - 1, 1 << 60] {
            let (tx, rx) = mpsc::sync_channel(capacity);
            (0..100).for_each(|number: u64| tx.try_send(number).unwrap());
            drop(tx);
            assert!(rx.into_iter().eq(0..100));
            let (tx, rx) = mpmc::sync_channel::<[u8; 4096]>(capacity);
            assert_eq!(tx.capacity(), (capacity != usize::MAX).then_some(capacity));
            assert_eq!((tx.len(), rx.is_empty()), (0, true));
        }
        assert_eq!(mpmc::channel::<()>().0.capacity(), None);
    });
}

#[test]
fn messages_without_size_are_counted() {
    alone(|| {
        let (tx, rx) = mpmc::sync_channel(3);
        (0..3).for_each(|_| tx.send(()).unwrap());
        assert_eq!(tx.try_send(()), Err(TrySendError::Full(())));
        assert_eq!(rx.try_iter().count(), 3);
    });
}

#[test]
fn a_timeout_of_zero_and_the_longest_timeout_work() {
    everywhere(|rt, _| {
        let check = || {
            let (tx, rx) = mpmc::sync_channel(1);
            assert_eq!(rx.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
            assert_eq!(rx.recv_deadline(Instant::now()), Err(RecvTimeoutError::Timeout));
            assert_eq!(tx.send_timeout(1, Duration::ZERO), Ok(()));
            assert_eq!(tx.send_timeout(2, Duration::ZERO), Err(SendTimeoutError::Timeout(2)));
            assert_eq!(tx.send_deadline(3, Instant::now()), Err(SendTimeoutError::Timeout(3)));
            assert_eq!(rx.recv_timeout(Duration::ZERO), Ok(1));
            assert_eq!(tx.send_timeout(4, Duration::MAX), Ok(()));
            assert_eq!(rx.recv_timeout(Duration::MAX), Ok(4));
            drop(tx);
            assert_eq!(rx.recv_timeout(Duration::MAX), Err(RecvTimeoutError::Disconnected));
        };
        rt.run(check);
        check();
        let (tx, rx) = mpsc::sync_channel(0);
        let sender = rt.spawn(move || tx.send_timeout(5, Duration::MAX));
        assert_eq!(rx.recv_timeout(Duration::MAX), Ok(5));
        assert_eq!(sender.join().unwrap(), Ok(()));
    });
}

#[test]
fn a_deadline_ends_a_wait_and_not_too_early() {
    const WAIT: Duration = Duration::from_millis(2);
    everywhere(|rt, _| {
        rt.run(|| {
            let (tx, rx) = mpsc::sync_channel(0);
            let began = Instant::now();
            assert_eq!(rx.recv_timeout(WAIT), Err(RecvTimeoutError::Timeout));
            assert!(began.elapsed() >= WAIT);
            assert_eq!(rx.recv_deadline(began + 2 * WAIT), Err(RecvTimeoutError::Timeout));
            assert!(began.elapsed() >= 2 * WAIT);
            assert_eq!(tx.send_deadline(1, began + 3 * WAIT), Err(SendTimeoutError::Timeout(1)));
            assert!(began.elapsed() >= 3 * WAIT);
        });
    });
}

#[test]
fn kernel_threads_use_channels_without_a_runtime() {
    const MESSAGES: usize = 1_000;
    alone(|| {
        for (_, (tx, rx)) in channels() {
            let sender = thread::spawn(move || (0..MESSAGES).for_each(|number| tx.send(number).unwrap()));
            assert!(rx.iter().eq(0..MESSAGES));
            sender.join().unwrap();
        }
    });
}

#[test]
fn each_iterator_ends_at_its_own_condition() {
    alone(|| {
        let (tx, rx) = mpsc::channel();
        (0..4).for_each(|number| tx.send(number).unwrap());
        assert!(rx.iter().take(2).eq([0, 1]));
        assert!(rx.try_iter().eq([2, 3]));
        assert_eq!(rx.try_iter().next(), None);
        tx.clone().send(4).unwrap();
        drop(tx);
        assert_eq!((&rx).into_iter().next(), Some(4));
        assert_eq!(rx.into_iter().next(), None);
    });
}

#[test]
fn the_ends_are_send_and_sync_as_those_of_std_are() {
    trait IsNotSync<Which> {
        fn holds() -> bool {
            true
        }
    }
    struct Sync_;
    impl<T: ?Sized> IsNotSync<()> for T {}
    impl<T: ?Sized + Sync> IsNotSync<Sync_> for T {}
    // This call would be ambiguous, and would not compile, if the type were `Sync`.
    assert!(<mpsc::Receiver<u8> as IsNotSync<_>>::holds());
    assert!(<oneshot::Receiver<u8> as IsNotSync<_>>::holds());

    fn sent_and_shared<T: Send + Sync + Clone + std::panic::UnwindSafe + std::fmt::Debug>(end: &T) {
        let _ = end.clone();
    }
    type OnlySent = std::cell::Cell<u8>;
    sent_and_shared(&mpsc::channel::<OnlySent>().0);
    sent_and_shared(&mpsc::sync_channel::<OnlySent>(1).0);
    sent_and_shared(&mpmc::channel::<OnlySent>().0);
    sent_and_shared(&mpmc::channel::<OnlySent>().1);
}

#[test]
fn a_oneshot_carries_one_message_or_an_error() {
    everywhere(|rt, _| {
        rt.run(|| {
            // The message is sent before, and after, the receiver waits.
            let (tx, rx) = oneshot::channel();
            assert!(!tx.is_closed() && !rx.is_closed());
            assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
            assert_eq!(rx.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
            assert_eq!(tx.send(1), Ok(()));
            assert!(!rx.is_closed(), "the message has arrived");
            assert_eq!(rx.recv_deadline(Instant::now()), Ok(1));
            assert!(rx.is_closed());
            assert_eq!(rx.try_recv(), Err(TryRecvError::Disconnected));
            assert_eq!(rx.recv(), Err(RecvError));
            let (tx, rx) = oneshot::channel();
            let receiver = sinew::spawn(move || rx.recv());
            sinew::yield_now();
            assert_eq!(tx.send(2), Ok(()));
            assert_eq!(receiver.join().unwrap(), Ok(2));
            // The sender is dropped, or the receiver is.
            let (tx, rx) = oneshot::channel::<u8>();
            let receiver = sinew::spawn(move || rx.recv_timeout(Duration::MAX));
            sinew::yield_now();
            drop(tx);
            assert_eq!(receiver.join().unwrap(), Err(RecvTimeoutError::Disconnected));
            let (tx, rx) = oneshot::channel();
            drop(rx);
            assert!(tx.is_closed());
            assert_eq!(tx.send(3), Err(3));
            let dropped = Arc::new(AtomicUsize::new(0));
            let (tx, rx) = oneshot::channel();
            assert!(tx.send(Counted(Arc::clone(&dropped))).is_ok());
            drop(rx);
            assert_eq!(dropped.load(Ordering::Relaxed), 1);
        });
    });
}

#[test]
fn a_oneshot_receiver_that_races_with_its_sender_gets_the_message_or_the_error() {
    const ROUNDS: u64 = 60;
    everywhere(|rt, _| {
        let mut random = Random::new(0x5EED_0005);
        for round in 0..ROUNDS {
            let (tx, rx) = oneshot::channel();
            let receiver = Hand::new(rt, round as usize, move || match rx.recv_timeout(Duration::from_micros(5)) {
                Err(RecvTimeoutError::Timeout) => rx.recv().ok(),
                result => result.ok(),
            });
            dawdle(&mut random);
            let message = (random.below(2) == 0).then_some(round);
            match message {
                Some(message) => assert_eq!(tx.send(message), Ok(())),
                None => drop(tx),
            }
            assert_eq!(receiver.join(), message);
        }
    });
}

#[test]
fn a_cancelled_fibre_that_would_wait_finds_the_channel_closed() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (tx, rx) = mpsc::sync_channel(1);
            sinew::current().cancel();
            assert_eq!(rx.recv(), Err(RecvError));
            assert_eq!(rx.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
            assert_eq!(tx.send(1), Ok(()), "the operation need not wait");
            assert_eq!(tx.send(2), Err(SendError(2)));
            assert_eq!(tx.send_timeout(3, LONG), Err(SendTimeoutError::Disconnected(3)));
            assert_eq!(rx.recv(), Ok(1), "the operation need not wait");
            assert_eq!(oneshot::channel::<u8>().1.recv(), Err(RecvError));
        });
        let overdue = || {
            let (tx, rx) = mpsc::sync_channel(0);
            sinew::time::timeout(Duration::from_millis(1), || {
                assert_eq!(rx.recv(), Err(RecvError));
                assert_eq!(tx.send(1), Err(SendError(1)));
                assert_eq!(rx.recv_timeout(LONG), Err(RecvTimeoutError::Timeout));
                assert_eq!(tx.send_timeout(2, LONG), Err(SendTimeoutError::Timeout(2)));
            });
        };
        rt.run(overdue);
        overdue();
    });
}

#[test]
fn a_cancellation_that_races_with_a_hand_over_loses_no_message() {
    const ROUNDS: usize = 40;
    everywhere(|rt, _| {
        let mut random = Random::new(0x5EED_0006);
        for capacity in [0, 1] {
            for _ in 0..ROUNDS {
                let (tx, rx) = mpmc::sync_channel(capacity);
                let (left, rest) = (rx.clone(), rx.clone());
                let (tx_of_one, tx_of_two) = (tx.clone(), tx.clone());
                let send = |tx: mpmc::Sender<()>| rt.spawn(move || (0..20).take_while(|_| tx.send(()).is_ok()).count());
                let receive = |rx: mpmc::Receiver<()>| rt.spawn(move || rx.iter().take(20).count());
                let senders = [send(tx_of_one), send(tx_of_two)];
                let receivers = [receive(rx), receive(left)];
                drop(tx);
                dawdle(&mut random);
                receivers[0].fibre().cancel();
                senders[0].fibre().cancel();
                dawdle(&mut random);
                receivers[1].fibre().cancel();
                senders[1].fibre().cancel();
                let sent: usize = senders.into_iter().map(|sender| sender.join().unwrap()).sum();
                let received: usize = receivers.into_iter().map(|receiver| receiver.join().unwrap()).sum();
                assert_eq!(sent, received + rest.try_iter().count());
            }
        }
    });
}
