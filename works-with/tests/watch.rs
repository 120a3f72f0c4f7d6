//! `watch`: the last value, and waiting until it changes.

#[path = "../../sinew/tests/fixture/mod.rs"]
mod fixture;

use fixture::{LONG, alone, everywhere, wait_until};
use proptest::prelude::*;
use sinew::sync::watch::{self, Receiver, RecvError, RecvTimeoutError, SendError, Sender};
use sinew::{block_on, task, time};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

#[test]
fn fibres_tasks_and_threads_see_the_last_value_and_never_an_older_one() {
    const LAST: usize = 2_000;
    everywhere(|rt, _| {
        let (sender, first) = watch::channel(0);
        let follow = |mut receiver: Receiver<usize>| {
            move || {
                let mut last = 0;
                while receiver.changed().is_ok() {
                    let value = *receiver.borrow_and_update();
                    assert!(value > last || value == LAST, "{value} comes after {last}");
                    last = value;
                }
                last
            }
        };
        let mut by_task = first.clone();
        let task = rt.spawn_task(async move {
            while by_task.changed_async().await.is_ok() {}
            *by_task.borrow()
        });
        let fibres: Vec<_> = (0..4).map(|_| rt.spawn(follow(sender.subscribe()))).collect();
        let by_thread = thread::spawn(follow(first));
        let sending = rt.spawn(move || {
            for value in 1..=LAST {
                sender.send(value).unwrap();
                if value.is_multiple_of(5) {
                    sinew::yield_now();
                }
            }
        });
        sending.join().unwrap();
        assert!(fibres.into_iter().all(|fibre| fibre.join().unwrap() == LAST));
        assert_eq!((task.join().unwrap(), by_thread.join().unwrap()), (LAST, LAST));
    });
}

#[test]
fn a_receiver_waits_for_a_condition() {
    everywhere(|rt, _| {
        let (sender, receiver) = watch::channel(0);
        let waiting: Vec<_> = (0..5)
            .map(|wanted| {
                let mut receiver = receiver.clone();
                rt.spawn(move || receiver.wait_for(|&value| value >= wanted).map(|value| *value))
            })
            .collect();
        let mut by_task = receiver.clone();
        let task = rt.spawn_task(async move { by_task.wait_for_async(|&value| value == 4).await.map(|value| *value) });
        let mut in_vain = receiver.clone();
        let in_vain = rt.spawn(move || in_vain.wait_for(|&value| value == 100).map(|value| *value));
        for value in 1..=4 {
            sinew::yield_now();
            sender.send(value).unwrap();
        }
        for (wanted, waiting) in waiting.into_iter().enumerate() {
            assert!(waiting.join().unwrap().is_ok_and(|value| value >= wanted));
        }
        assert_eq!(task.join().unwrap(), Ok(4));
        drop(sender);
        assert_eq!(in_vain.join().unwrap(), Err(RecvError));
        // The present value counts, also in a closed channel and if it has been seen.
        let mut receiver = receiver;
        assert_eq!(receiver.wait_for(|&value| value == 4).as_deref(), Ok(&4));
        assert_eq!(receiver.wait_for(|&value| value == 4).as_deref(), Ok(&4));
        assert_eq!(receiver.wait_for_timeout(|_| false, LONG), Err(RecvTimeoutError::Disconnected));
    });
}

#[test]
fn a_wait_ends_by_its_limit_by_a_change_or_by_the_last_sender() {
    everywhere(|rt, _| {
        let check = || {
            let (sender, mut receiver) = watch::channel(0);
            let began = Instant::now();
            assert_eq!(receiver.changed_timeout(MS), Err(RecvTimeoutError::Timeout));
            assert_eq!(receiver.changed_deadline(began + 2 * MS), Err(RecvTimeoutError::Timeout));
            assert!(began.elapsed() >= 2 * MS);
            assert_eq!(receiver.wait_for_timeout(|_| false, MS), Err(RecvTimeoutError::Timeout));
            assert_eq!(receiver.wait_for_deadline(|_| false, Instant::now() + MS), Err(RecvTimeoutError::Timeout));
            assert!(format!("{sender:?}").contains("waiters: 0"));
            let other = sender.clone();
            let thread = thread::spawn(move || other.send(1).unwrap());
            assert_eq!(receiver.changed_timeout(LONG), Ok(()));
            thread.join().unwrap();
            // An unseen value comes before the end.
            sender.send(2).unwrap();
            let thread = thread::spawn(move || drop(sender));
            assert_eq!(receiver.changed(), Ok(()));
            assert_eq!(receiver.changed_deadline(Instant::now() + LONG), Err(RecvTimeoutError::Disconnected));
            assert_eq!(block_on(receiver.changed_async()), Err(RecvError));
            assert_eq!((receiver.has_changed(), *receiver.borrow()), (Err(RecvError), 2));
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
            let (sender, mut receiver) = watch::channel(0);
            sender.send(1).unwrap();
            sinew::current().cancel();
            assert_eq!(receiver.changed(), Ok(()), "the operation need not wait");
            assert_eq!(receiver.changed(), Err(RecvError));
            assert_eq!(receiver.changed_timeout(LONG), Err(RecvTimeoutError::Disconnected));
            assert_eq!(receiver.wait_for(|_| false), Err(RecvError));
        });
        let (sender, mut receiver) = watch::channel(0);
        let waiting = rt.spawn(move || receiver.changed());
        wait_until(|| format!("{sender:?}").contains("waiters: 1"));
        waiting.fibre().cancel();
        assert_eq!(waiting.join().unwrap(), Err(RecvError));
        assert!(format!("{sender:?}").contains("waiters: 0"));
        let overdue = || {
            let (_sender, mut receiver) = watch::channel(0);
            time::timeout(MS, || {
                assert_eq!(receiver.changed(), Err(RecvError));
                assert_eq!(receiver.changed_timeout(LONG), Err(RecvTimeoutError::Timeout));
            });
        };
        rt.run(overdue);
        overdue();
    });
}

#[test]
fn a_future_that_is_dropped_has_seen_nothing() {
    everywhere(|rt, _| {
        let task = rt.spawn_task(async {
            let (sender, mut receiver) = watch::channel(0);
            for number in 1..50 {
                assert!(fixture::within_turns(number % 3, receiver.changed_async()).await.is_none());
                let sends = sender.clone();
                let sending = task::spawn(async move { sends.send(number).unwrap() });
                let early = fixture::within_turns(number % 4, receiver.changed_async()).await;
                sending.await.unwrap();
                if early.is_none() {
                    receiver.changed_async().await.unwrap();
                }
                assert_eq!(*receiver.borrow(), number);
            }
            format!("{sender:?}")
        });
        assert!(task.join().unwrap().contains("waiters: 0"));
    });
}

#[test]
fn a_value_that_is_kept_holds_up_nobody() {
    alone(|| {
        let (sender, mut receiver) = watch::channel(vec![1]);
        let kept = receiver.borrow();
        sender.send(vec![2]).unwrap();
        sender.send_modify(|value| value.push(3));
        assert_eq!((&*kept, &*receiver.borrow_and_update()), (&vec![1], &vec![2, 3]));
        assert_eq!(*sender.send_replace(vec![4]), [2, 3]);
        assert!(!sender.send_if_modified(|value| {
            value.clear();
            false
        }));
        assert_eq!((&*sender.borrow(), receiver.has_changed()), (&vec![4], Ok(true)));
        drop(receiver);
        assert!(sender.is_closed());
        assert_eq!(sender.send(vec![5]), Err(SendError(vec![5])));
        assert_eq!(*sender.borrow(), [4], "a value that was not sent is there");
        sender.send_replace(vec![6]);
        let receiver = sender.subscribe();
        assert_eq!((&*receiver.borrow(), receiver.has_changed()), (&vec![6], Ok(false)));
        let printed = format!("{receiver:?}");
        assert!(printed.contains("value: [6]") && printed.contains("receivers: 1"), "{printed}");
    });
}

#[test]
fn no_change_of_several_senders_is_lost() {
    const ROUNDS: usize = 200;
    everywhere(|rt, _| {
        let (sender, receiver) = watch::channel(0);
        fixture::on_fibres_and_threads(rt, 4, 2, |_| {
            for _ in 0..ROUNDS {
                sender.send_modify(|count| {
                    // The other senders come meanwhile.
                    sinew::yield_now();
                    *count += 1;
                });
            }
        });
        assert_eq!(*receiver.borrow(), 6 * ROUNDS);
    });
}

/// One operation. Its numbers choose among the existing ends.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send(usize),
    Replace(usize),
    Modify(usize, bool),
    Changed(usize),
    HasChanged(usize),
    Update(usize),
    CloneSender(usize),
    Subscribe(usize),
    CloneReceiver(usize),
    DropSender(usize),
    DropReceiver(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let end = 0..8_usize;
    prop_oneof![
        5 => end.clone().prop_map(Step::Send),
        2 => end.clone().prop_map(Step::Replace),
        2 => (end.clone(), any::<bool>()).prop_map(|(end, changes)| Step::Modify(end, changes)),
        5 => end.clone().prop_map(Step::Changed),
        2 => end.clone().prop_map(Step::HasChanged),
        2 => end.clone().prop_map(Step::Update),
        1 => end.clone().prop_map(Step::CloneSender),
        1 => end.clone().prop_map(Step::Subscribe),
        2 => end.clone().prop_map(Step::CloneReceiver),
        1 => end.clone().prop_map(Step::DropSender),
        2 => end.prop_map(Step::DropReceiver),
    ]
}

/// Runs the steps on a channel and on a model: the value, and for each receiver whether it has seen it.
fn run(steps: &[Step]) -> Result<(), TestCaseError> {
    type Value = (u32, Arc<()>);
    let alive = Arc::new(());
    let fresh = |number: u32| (number, Arc::clone(&alive));
    let (sender, receiver) = watch::channel(fresh(0));
    let (mut senders, mut receivers): (Vec<Sender<Value>>, Vec<_>) = (vec![sender], vec![receiver]);
    let (mut value, mut has_seen) = (0, vec![true]);
    for (&step, number) in steps.iter().zip(1..) {
        let sender = |end: usize| (!senders.is_empty()).then(|| end % senders.len());
        let receiver = |end: usize| (!receivers.is_empty()).then(|| end % receivers.len());
        let mut changed = false;
        match step {
            Step::Send(end) => {
                let Some(end) = sender(end) else { continue };
                changed = !receivers.is_empty();
                let sent = senders[end].send(fresh(number)).map_err(|SendError(value)| value.0);
                prop_assert_eq!(sent, if changed { Ok(()) } else { Err(number) });
            }
            Step::Replace(end) => {
                let Some(end) = sender(end) else { continue };
                prop_assert_eq!(senders[end].send_replace(fresh(number)).0, value);
                changed = true;
            }
            Step::Modify(end, changes) => {
                let Some(end) = sender(end) else { continue };
                let modified = senders[end].send_if_modified(|value| {
                    value.0 = number;
                    changes
                });
                prop_assert_eq!(modified, changes);
                changed = changes;
            }
            Step::Changed(end) => {
                let Some(end) = receiver(end) else { continue };
                let result = receivers[end].changed_timeout(Duration::ZERO);
                let expected = match (has_seen[end], senders.is_empty()) {
                    (false, _) => Ok(()),
                    (true, false) => Err(RecvTimeoutError::Timeout),
                    (true, true) => Err(RecvTimeoutError::Disconnected),
                };
                prop_assert_eq!(result, expected);
                has_seen[end] = true;
            }
            Step::HasChanged(end) => {
                let Some(end) = receiver(end) else { continue };
                let gone = has_seen[end] && senders.is_empty();
                prop_assert_eq!(receivers[end].has_changed(), if gone { Err(RecvError) } else { Ok(!has_seen[end]) });
            }
            Step::Update(end) => {
                let Some(end) = receiver(end) else { continue };
                prop_assert_eq!(receivers[end].borrow_and_update().0, value);
                has_seen[end] = true;
            }
            Step::CloneSender(end) => {
                let Some(end) = sender(end) else { continue };
                senders.push(senders[end].clone());
            }
            Step::Subscribe(end) => {
                let Some(end) = sender(end) else { continue };
                receivers.push(senders[end].subscribe());
                has_seen.push(true);
            }
            Step::CloneReceiver(end) => {
                let Some(end) = receiver(end) else { continue };
                receivers.push(receivers[end].clone());
                has_seen.push(has_seen[end]);
            }
            Step::DropSender(end) => {
                let Some(end) = sender(end) else { continue };
                drop(senders.swap_remove(end));
            }
            Step::DropReceiver(end) => {
                let Some(end) = receiver(end) else { continue };
                drop(receivers.swap_remove(end));
                has_seen.swap_remove(end);
            }
        }
        if changed {
            value = number;
            has_seen.fill(false);
        }
        prop_assert!(receivers.iter().all(|receiver| receiver.borrow().0 == value));
        for sender in &senders {
            prop_assert_eq!((sender.borrow().0, sender.receiver_count()), (value, receivers.len()));
        }
        let living = usize::from(!(senders.is_empty() && receivers.is_empty()));
        prop_assert_eq!(Arc::strong_count(&alive) - 1, living, "the number of living values differs");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_watch_is_a_value_and_a_flag_for_each_receiver(
        steps in proptest::collection::vec(step(), 0..120),
        on_fibre in any::<bool>(),
    ) {
        if on_fibre {
            sinew::run(move || run(&steps))?;
        } else {
            run(&steps)?;
        }
    }
}
