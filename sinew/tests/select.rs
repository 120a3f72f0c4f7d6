//! `Select` does the first possible one of several channel operations, and no other.

mod fixture;

use fixture::{LONG, Random, alone, everywhere, message, wait_until, wherever};
use sinew::sync::{Select, mpmc, mpsc, oneshot};
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvError, SendError, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

/// Spawns a fibre that runs until it waits. Needs a runtime with one processor.
fn spawn_and_let_wait<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> sinew::JoinHandle<T> {
    let begun = Arc::new(AtomicUsize::new(0));
    let begins = Arc::clone(&begun);
    let handle = sinew::spawn(move || {
        begins.store(1, Ordering::Relaxed);
        f()
    });
    wait_until(|| begun.load(Ordering::Relaxed) == 1);
    handle
}

#[test]
fn a_ready_arm_is_done_and_the_others_are_not() {
    everywhere(|rt, _| {
        let check = || {
            let (tx, rx) = mpsc::channel();
            let (full, unread) = mpsc::sync_channel(1);
            full.send("old").unwrap();
            tx.send(1).unwrap();
            let select = Select::new().send(&full, "new", |_| 0).recv(&rx, |number| number.unwrap());
            assert_eq!(select.run(), 1);
            assert!(unread.try_iter().eq(["old"]), "the other arm was done, too");
            let select = Select::new().send(&full, "new", |sent| sent.map_or(0, |()| 2)).recv(&rx, |_| 0);
            assert_eq!(select.run(), 2);
            assert!(unread.try_iter().eq(["new"]));
        };
        rt.run(check);
        check();
    });
}

#[test]
fn a_select_waits_for_the_first_of_its_arms() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            rt.run(|| {
                let (numbers, some_numbers) = mpsc::channel();
                let (answer, question) = oneshot::channel();
                let (requests, responder) = mpsc::sync_channel(0);
                let arms = move || {
                    let select = Select::new()
                        .recv(&some_numbers, |number| format!("number {}", number.unwrap()))
                        .recv(&question, |answer: Result<i32, _>| format!("answer {}", answer.unwrap()))
                        .send(&requests, 3, |sent| format!("request {sent:?}"));
                    select.run()
                };
                let waiting = spawn_and_let_wait(move || [arms(), arms(), arms()]);
                numbers.send(1).unwrap();
                sinew::yield_now();
                assert_eq!(responder.recv(), Ok(3));
                sinew::yield_now();
                answer.send(2).unwrap();
                assert_eq!(waiting.join().unwrap(), ["number 1", "request Ok(())", "answer 2"]);
                assert_eq!(responder.try_recv(), Err(TryRecvError::Disconnected));
            });
        },
    );
}

#[test]
fn the_default_is_taken_when_no_arm_is_ready() {
    alone(|| {
        let (tx, rx) = mpmc::sync_channel(1);
        assert_eq!(Select::new().recv(&rx, |_| ()).try_run(), None);
        assert_eq!(Select::new().send(&tx, 1, |sent| sent).try_run(), Some(Ok(())));
        assert_eq!(Select::new().send(&tx, 2, |sent| sent).try_run(), None);
        assert_eq!(Select::new().recv(&rx, |message| message).try_run(), Some(Ok(1)));
        assert_eq!(Select::<()>::new().try_run(), None);
    });
}

#[test]
fn a_deadline_ends_the_wait_and_no_arm_is_done() {
    const WAIT: Duration = Duration::from_millis(2);
    everywhere(|rt, _| {
        let check = || {
            let (tx, rx) = mpmc::sync_channel(0);
            let (other_tx, other_rx) = mpmc::sync_channel(0);
            let select = || Select::new().recv(&rx, |_| ()).send(&other_tx, 1, |_| ());
            let began = Instant::now();
            assert_eq!(select().run_timeout(WAIT), None);
            assert!(began.elapsed() >= WAIT);
            assert_eq!(select().run_deadline(began + 2 * WAIT), None);
            assert!(began.elapsed() >= 2 * WAIT);
            assert_eq!(select().run_timeout(Duration::ZERO), None);
            assert_eq!(select().run_deadline(began), None);
            assert_eq!(Select::<()>::new().run_deadline(began + 3 * WAIT), None);
            assert!(began.elapsed() >= 3 * WAIT, "a select without arms is a sleep");
            // The select has left both channels.
            assert!(tx.try_send(2).is_err());
            assert_eq!(other_rx.try_recv(), Err(TryRecvError::Empty));
        };
        rt.run(check);
        check();
    });
}

#[test]
fn a_message_that_comes_before_the_deadline_is_received() {
    everywhere(|rt, _| {
        let (tx, rx) = mpsc::channel();
        let (_quiet, silence) = mpsc::channel::<()>();
        let selecting = rt.spawn(move || {
            let all_time = Select::new().recv(&silence, |_| 0).recv(&rx, Result::unwrap).run_timeout(Duration::MAX);
            let long = Select::new().recv(&silence, |_| 0).recv(&rx, Result::unwrap).run_timeout(LONG);
            (all_time, long)
        });
        tx.send(1).unwrap();
        tx.send(2).unwrap();
        assert_eq!(selecting.join().unwrap(), (Some(1), Some(2)));
    });
}

#[test]
fn a_closed_channel_is_ready_and_gives_its_error() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            rt.run(|| {
                let (_quiet, silence) = mpsc::channel::<()>();
                // Closed before the select.
                let (tx, rx) = mpmc::sync_channel::<u8>(0);
                drop(tx);
                let select = Select::new().recv(&silence, |_| None).recv(&rx, Some);
                assert_eq!(select.run(), Some(Err(RecvError)));
                let (tx, rx) = mpmc::sync_channel(0);
                drop(rx);
                let select = Select::new().recv(&silence, |_| None).send(&tx, 7, Some);
                assert_eq!(select.run(), Some(Err(SendError(7))));
                // Closed while the select waits.
                let (_quiet, silence) = mpsc::channel::<()>();
                let (tx, rx) = mpmc::sync_channel::<u8>(0);
                let waiting = spawn_and_let_wait(move || {
                    let result = Select::new().recv(&silence, |_| None).recv(&rx, Some).run();
                    (result, silence)
                });
                drop(tx);
                let (result, silence) = waiting.join().unwrap();
                assert_eq!(result, Some(Err(RecvError)));
                let (tx, rx) = mpmc::sync_channel(0);
                let waiting =
                    spawn_and_let_wait(move || Select::new().recv(&silence, |_| None).send(&tx, 8, Some).run());
                drop(rx);
                assert_eq!(waiting.join().unwrap(), Some(Err(SendError(8))));
            });
        },
    );
}

#[test]
fn no_ready_arm_starves() {
    const ROUNDS: usize = 600;
    everywhere(|rt, _| {
        let counts = rt.run(|| {
            let channels: Vec<_> = (0..3).map(|_| mpsc::channel()).collect();
            let (_quiet, silence) = mpsc::channel::<()>();
            for (tx, _) in &channels {
                (0..ROUNDS).for_each(|_| tx.send(()).unwrap());
            }
            let mut counts = [0; 3];
            for _ in 0..ROUNDS {
                let mut select = Select::new().recv(&silence, |_| usize::MAX);
                for (arm, (_, rx)) in channels.iter().enumerate() {
                    select = select.recv(rx, move |_| arm);
                }
                counts[select.run()] += 1;
            }
            counts
        });
        // Arms next to the silent one get three eighths each, the other one gets two.
        assert!(counts.iter().all(|&count| count > ROUNDS / 8), "{counts:?}");
    });
}

#[test]
fn a_select_does_not_hand_its_own_message_to_itself() {
    everywhere(|rt, _| {
        let check = || {
            let (tx, rx) = mpmc::sync_channel(0);
            for wait in [Duration::ZERO, Duration::from_millis(1)] {
                let select = Select::new().recv(&rx, |_| "received").send(&tx, 1, |_| "sent");
                assert_eq!(select.run_timeout(wait), None);
                let select = Select::new().send(&tx, 1, |_| "sent").recv(&rx, |_| "received");
                assert_eq!(select.run_timeout(wait), None);
            }
        };
        rt.run(check);
        check();
        // Two of them hand over to each other.
        let (tx, rx) = mpmc::sync_channel(0);
        let select = |own: u8| {
            let (tx, rx) = (tx.clone(), rx.clone());
            move || Select::new().recv(&rx, Result::ok).send(&tx, own, |sent| sent.err().map(|error| error.0)).run()
        };
        let selecting = [rt.spawn(select(1)), rt.spawn(select(2))];
        let mut got = selecting.map(|fibre| fibre.join().unwrap());
        got.sort_unstable();
        assert!(got == [None, Some(1)] || got == [None, Some(2)], "{got:?}");
    });
}

#[test]
fn a_select_without_arms_and_without_a_deadline_panics() {
    alone(|| {
        let payload = catch_unwind(|| Select::<()>::new().run()).unwrap_err();
        assert!(message(&*payload).contains("without arms"));
    });
}

#[test]
fn a_message_that_is_not_sent_is_dropped_once_before_the_closure_runs() {
    alone(|| {
        let (tx, rx) = mpsc::sync_channel(0);
        let (ready, some) = mpsc::channel();
        ready.send(()).unwrap();
        let unsent = Arc::new(());
        let select = Select::new().send(&tx, Arc::clone(&unsent), |_| 0).recv(&some, |_| Arc::strong_count(&unsent));
        assert_eq!(select.run(), 1);
        assert_eq!(Arc::strong_count(&unsent), 1);
        drop(rx);
        let select = Select::new().send(&tx, Arc::clone(&unsent), |sent| sent);
        assert!(select.run().is_err_and(|SendError(back)| Arc::ptr_eq(&back, &unsent)));
    });
}

#[test]
fn a_select_that_chose_another_arm_does_not_hold_up_other_waiters() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            rt.run(|| {
                let (first, some) = mpmc::sync_channel(0);
                let (second, more) = mpmc::sync_channel(0);
                let also_more = more.clone();
                let selecting =
                    spawn_and_let_wait(move || Select::new().recv(&some, Result::ok).recv(&more, Result::ok).run());
                let receiving = spawn_and_let_wait(move || also_more.recv().ok());
                // The selecting fibre is signalled, and still stands in the other queue.
                assert_eq!(first.try_send(1), Ok(()));
                assert_eq!(second.try_send(2), Ok(()));
                assert_eq!(selecting.join().unwrap(), Some(1));
                assert_eq!(receiving.join().unwrap(), Some(2));
            });
        },
    );
}

#[test]
fn selects_that_race_with_plain_receivers_lose_no_message() {
    // There are 18 set-ups, so these are more than 10,000 rounds in all.
    const MESSAGES: usize = 600;
    everywhere(|rt, setup| {
        let seed = 0x5EED_0010 + setup.processors as u64;
        for capacity in [0, 2] {
            let [one, two] = [(); 2].map(|()| mpmc::sync_channel(capacity));
            let send = |tx: &mpmc::Sender<usize>, numbers: std::ops::Range<usize>| {
                let tx = tx.clone();
                rt.spawn(move || numbers.for_each(|number| tx.send(number).unwrap()))
            };
            // Sends to the channel that accepts first.
            let scatter = |numbers: std::ops::Range<usize>| {
                let (first, second) = (one.0.clone(), two.0.clone());
                rt.spawn(move || {
                    for number in numbers {
                        Select::new().send(&first, number, Result::unwrap).send(&second, number, Result::unwrap).run();
                    }
                })
            };
            let receive = |rx: &mpmc::Receiver<usize>| {
                let rx = rx.clone();
                move || rx.into_iter().collect::<Vec<_>>()
            };
            let gather = |number: u64| {
                let (first, second) = (one.1.clone(), two.1.clone());
                move || {
                    let mut random = Random::new(seed + number);
                    let mut received = Vec::new();
                    let (mut first, mut second) = (Some(first), Some(second));
                    while first.is_some() || second.is_some() {
                        let mut select = Select::new();
                        if let Some(rx) = &first {
                            select = select.recv(rx, |message| (0, message));
                        }
                        if let Some(rx) = &second {
                            select = select.recv(rx, |message| (1, message));
                        }
                        let limit = if random.below(2) == 0 { LONG } else { Duration::from_micros(random.below(20)) };
                        match select.run_timeout(limit) {
                            Some((_, Ok(number))) => received.push(number),
                            Some((0, Err(RecvError))) => first = None,
                            Some((_, Err(RecvError))) => second = None,
                            None => {}
                        }
                    }
                    received
                }
            };
            let receivers = [rt.spawn(receive(&one.1)), rt.spawn(gather(1)), rt.spawn(gather(2))];
            let threads = [thread::spawn(receive(&two.1)), thread::spawn(gather(3))];
            let third = MESSAGES / 3;
            let senders = [send(&one.0, 0..third), send(&two.0, third..2 * third), scatter(2 * third..MESSAGES)];
            drop((one, two));
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            let mut received: Vec<_> = receivers.into_iter().flat_map(|receiver| receiver.join().unwrap()).collect();
            received.extend(threads.into_iter().flat_map(|receiver| receiver.join().unwrap()));
            received.sort_unstable();
            assert!(received.into_iter().eq(0..MESSAGES), "at capacity {capacity}");
        }
    });
}

#[test]
fn a_cancelled_fibre_that_would_wait_finds_the_first_arm_closed() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (tx, rx) = mpmc::sync_channel(0);
            let (ready, some) = mpsc::channel();
            ready.send(1).unwrap();
            sinew::current().cancel();
            let select = || Select::new().recv(&some, Result::ok).send(&tx, 2, |_| None);
            assert_eq!(select().run(), Some(1), "the operation need not wait");
            let select = || Select::new().send(&tx, 3, |sent| sent.is_err()).recv(&rx, |_| false);
            assert!(select().run());
            assert_eq!(select().run_timeout(LONG), Some(true));
            assert_eq!(Select::<()>::new().run_timeout(LONG), None);
        });
        let overdue = || {
            let (_tx, rx) = mpmc::sync_channel::<()>(0);
            sinew::time::timeout(Duration::from_millis(1), || {
                assert_eq!(Select::new().recv(&rx, |message| message).run(), Err(RecvError));
                assert_eq!(Select::new().recv(&rx, |message| message).run_timeout(LONG), None);
            });
        };
        rt.run(overdue);
        overdue();
    });
}

/// Calls `selecting` repeatedly, and `partner` at some moment during each call. Both run on kernel
/// threads, then on fibres.
fn race<P, S>(make: impl Fn() -> (P, S))
where
    P: Fn(usize) + Send + 'static,
    S: Fn(usize) + Send + 'static,
{
    let roles = |rounds: usize| {
        let (partner, selecting) = make();
        let done = Arc::new(AtomicUsize::new(0));
        let is_done = Arc::clone(&done);
        let partner = move || {
            let mut random = Random::new(0x5EED_0020);
            for round in 0..rounds {
                wait_until(|| is_done.load(Ordering::Relaxed) == round);
                (0..random.below(2_000)).for_each(|_| std::hint::spin_loop());
                partner(round);
            }
        };
        let selecting = move || {
            for round in 0..rounds {
                selecting(round);
                done.store(round + 1, Ordering::Relaxed);
            }
        };
        (partner, selecting)
    };
    alone(|| {
        let (partner, selecting) = roles(1_000);
        let partner = thread::spawn(partner);
        selecting();
        partner.join().unwrap();
    });
    wherever(
        |setup| setup.processors == 2,
        |rt, _| {
            let (partner, selecting) = roles(250);
            let fibres = [rt.spawn(partner), rt.spawn(selecting)];
            fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
        },
    );
}

/// Adds arms that never become ready, so that entering all of them takes a while.
fn with_quiet_arms<'a>(select: Select<'a, usize>, quiet: &'a mpmc::Receiver<()>) -> Select<'a, usize> {
    (0..100).fold(select, |select, _| select.recv(quiet, |_| usize::MAX))
}

#[test]
fn a_message_that_comes_while_a_select_enters_is_received() {
    race(|| {
        let ([one, two], (noise, quiet)) = ([(); 2].map(|()| mpmc::channel()), mpmc::channel());
        let (end, is_over) = mpsc::channel();
        let asked = Arc::new(AtomicUsize::new(0));
        let asks = Arc::clone(&asked);
        let open = (noise, one.0.clone(), two.0.clone());
        let partner = move |round| {
            let [first, second] = if round % 2 == 0 { [&one.0, &two.0] } else { [&two.0, &one.0] };
            first.send(2 * round).unwrap();
            second.send(2 * round + 1).unwrap();
            wait_until(|| asked.load(Ordering::Relaxed) > round);
            end.send(round).unwrap();
        };
        let selecting = move |round| {
            let _open = &open;
            let receive = || {
                let select = Select::new().recv(&one.1, Result::unwrap);
                with_quiet_arms(select, &quiet).recv(&two.1, Result::unwrap).run()
            };
            let mut both = [receive(), receive()];
            both.sort_unstable();
            assert_eq!(both, [2 * round, 2 * round + 1]);
            // No signal for one of the selects may end this wait.
            asks.store(round + 1, Ordering::Relaxed);
            assert_eq!(is_over.recv(), Ok(round));
        };
        (partner, selecting)
    });
}

#[test]
fn a_receiver_that_comes_while_a_select_enters_is_sent_to() {
    race(|| {
        let ([one, two], (noise, quiet)) = ([(); 2].map(|()| mpmc::sync_channel(0)), mpmc::channel());
        let partner = move |round| {
            let rx = if round % 2 == 0 { &one.1 } else { &two.1 };
            assert_eq!(rx.recv(), Ok(round));
        };
        let selecting = move |round| {
            let _noise = &noise;
            let select = Select::new().send(&one.0, round, |sent| sent.map_or(usize::MAX, |()| 0));
            let select = with_quiet_arms(select, &quiet).send(&two.0, round, |sent| sent.map_or(usize::MAX, |()| 1));
            assert_eq!(select.run(), round % 2);
        };
        (partner, selecting)
    });
}

#[test]
fn two_selects_in_opposite_order_always_meet() {
    const ROUNDS: usize = 100;
    everywhere(|rt, _| {
        let [one, two] = [(); 2].map(|()| mpmc::sync_channel(0));
        let left = {
            let (tx, rx) = (one.0.clone(), two.1.clone());
            move || {
                Select::new()
                    .send(&tx, 'l', |sent| sent.map_or('?', |()| 's'))
                    .recv(&rx, |got| got.unwrap_or('?'))
                    .run()
            }
        };
        let right = {
            let (rx, tx) = (one.1.clone(), two.0.clone());
            move || {
                Select::new()
                    .send(&tx, 'r', |sent| sent.map_or('?', |()| 's'))
                    .recv(&rx, |got| got.unwrap_or('?'))
                    .run()
            }
        };
        let lefts = rt.spawn(move || (0..ROUNDS).map(|_| left()).collect::<String>());
        let rights = rt.spawn(move || (0..ROUNDS).map(|_| right()).collect::<String>());
        for pair in lefts.join().unwrap().chars().zip(rights.join().unwrap().chars()) {
            assert!(matches!(pair, ('s', 'l') | ('r', 's')), "{pair:?}");
        }
    });
}
