//! Locks and channels that fibres, tasks and kernel threads share.

mod fixture;

use fixture::{Random, alone, everywhere, wait_until, wherever, within_turns};
use sinew::sync::{
    Barrier, BinarySemaphore, Condvar, LazyLock, Mutex, Once, OnceLock, Policy, RwLock, Semaphore, WaitGroup, mpmc,
    mpsc, oneshot,
};
use sinew::task::{self, JoinHandle};
use sinew::{Runtime, block_on, time};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// Polls a future once, with a waker that does nothing.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs the same work as fibres, as tasks and as kernel threads, `each` of every kind.
fn on_all_kinds<F, A>(rt: &Runtime, each: usize, blocking: impl Fn() + Sync, awaiting: A)
where
    A: Fn() -> F + Sync,
    F: Future<Output = ()> + Send + 'static,
{
    let blocking = &blocking;
    thread::scope(|threads| {
        (0..each).for_each(|_| drop(threads.spawn(blocking)));
        rt.run(|| {
            let tasks: Vec<JoinHandle<()>> = (0..each).map(|_| task::spawn(awaiting())).collect();
            sinew::scope(|fibres| (0..each).for_each(|_| drop(fibres.spawn(blocking))));
            tasks.into_iter().for_each(|task| task.join().unwrap());
        });
    });
}

#[test]
fn fibres_tasks_and_threads_exclude_each_other() {
    const EACH: usize = 4;
    const ROUNDS: usize = 50;
    for policy in [Policy::Barge, Policy::HandOver, Policy::Spin] {
        everywhere(|rt, _| {
            let lock = Arc::new(Mutex::with_policy((0, false), policy));
            let awaiting = || {
                let lock = Arc::clone(&lock);
                async move {
                    for _ in 0..ROUNDS {
                        let mut guard = lock.lock_async().await.unwrap();
                        assert!(!std::mem::replace(&mut guard.1, true));
                        task::yield_now_async().await;
                        guard.0 += 1;
                        guard.1 = false;
                    }
                }
            };
            let blocking = || {
                for _ in 0..ROUNDS {
                    let mut guard = lock.lock().unwrap();
                    assert!(!std::mem::replace(&mut guard.1, true));
                    sinew::yield_now();
                    guard.0 += 1;
                    guard.1 = false;
                }
            };
            on_all_kinds(rt, EACH, blocking, awaiting);
            assert_eq!(lock.lock().unwrap().0, 3 * EACH * ROUNDS);
        });
    }
}

#[test]
fn fibres_tasks_and_threads_can_share_a_channel() {
    const EACH: u64 = 3;
    const MESSAGES: u64 = 100;
    for capacity in [0, 1, 7, usize::MAX] {
        everywhere(|rt, _| {
            let (sender, receiver) = mpmc::sync_channel(capacity);
            let sum = Arc::new(AtomicU64::new(0));
            let sending = {
                let sender = sender.clone();
                let awaiting = || {
                    let sender = sender.clone();
                    async move {
                        for message in 1..=MESSAGES {
                            sender.send_async(message).await.unwrap();
                        }
                    }
                };
                let blocking = || (1..=MESSAGES).for_each(|message| sender.send(message).unwrap());
                let received = Arc::clone(&sum);
                let receive = || {
                    let (receiver, sum) = (receiver.clone(), Arc::clone(&sum));
                    async move {
                        while let Ok(message) = receiver.recv_async().await {
                            sum.fetch_add(message, Relaxed);
                        }
                    }
                };
                let by_task: Vec<_> = (0..2).map(|_| rt.run(|| task::spawn(receive()))).collect();
                let by_fibre = rt.spawn({
                    let receiver = receiver.clone();
                    move || {
                        for message in receiver {
                            received.fetch_add(message, Relaxed);
                        }
                    }
                });
                on_all_kinds(rt, EACH as usize, blocking, awaiting);
                (by_task, by_fibre)
            };
            drop(sender);
            sending.0.into_iter().for_each(|task| task.join().unwrap());
            sending.1.join().unwrap();
            assert_eq!(sum.load(Relaxed), 3 * EACH * MESSAGES * (MESSAGES + 1) / 2);
        });
    }
}

#[test]
fn tasks_can_wait_for_each_primitive() {
    everywhere(|rt, _| {
        rt.run(|| {
            let semaphore = Arc::new(Semaphore::new(0));
            let its = Arc::clone(&semaphore);
            let waits = task::spawn(async move {
                its.wait_async().await;
                let one = its.acquire_async().await;
                its.acquire_many_async(3).await.count() + one.count()
            });
            (0..5).for_each(|_| semaphore.post(1));
            assert_eq!(waits.join().unwrap(), 4);
            assert_eq!(semaphore.available(), 4);

            let event = Arc::new(BinarySemaphore::new(false));
            let its = Arc::clone(&event);
            let waits = task::spawn(async move { its.wait_async().await });
            event.post();
            waits.join().unwrap();

            let barrier = Arc::new(Barrier::new(3));
            let arrive = || {
                let barrier = Arc::clone(&barrier);
                task::spawn(async move { barrier.wait_async().await.is_leader() })
            };
            let parties = [arrive(), arrive()];
            let leaders = u32::from(barrier.wait().is_leader());
            assert_eq!(leaders + parties.map(|party| u32::from(party.join().unwrap())).iter().sum::<u32>(), 1);

            let once = Arc::new((Once::new(), OnceLock::new()));
            let its = Arc::clone(&once);
            let waits = task::spawn(async move {
                its.0.wait_async().await;
                *its.1.wait_async().await + 1
            });
            once.0.call_once(|| ());
            once.1.set(6).unwrap();
            assert_eq!(waits.join().unwrap(), 7);

            let group = WaitGroup::new();
            let party = group.clone();
            let waits = task::spawn(group.wait_async());
            sinew::yield_now();
            assert!(!waits.is_finished());
            drop(party);
            waits.join().unwrap();

            let (sender, mut receiver) = oneshot::channel();
            let waits = task::spawn(async move { receiver.recv_async().await });
            sender.send(7).unwrap();
            assert_eq!(waits.join().unwrap(), Ok(7));

            let (sender, mut receiver) = mpsc::channel::<u32>();
            let waits = task::spawn(async move { (receiver.recv_async().await, receiver.recv_async().await) });
            sender.send(7).unwrap();
            drop(sender);
            assert_eq!(waits.join().unwrap(), (Ok(7), Err(mpsc::RecvError)));
        });
    });
}

#[test]
fn readers_share_and_writers_exclude_across_tasks_and_fibres() {
    everywhere(|rt, _| {
        let lock = Arc::new(RwLock::new(0u32));
        let readers = Arc::new(AtomicU32::new(0));
        let awaiting = || {
            let (lock, readers) = (Arc::clone(&lock), Arc::clone(&readers));
            async move {
                for _ in 0..30 {
                    {
                        let _guard = lock.read_async().await.unwrap();
                        readers.fetch_add(1, Relaxed);
                        task::yield_now_async().await;
                        readers.fetch_sub(1, Relaxed);
                    }
                    let mut guard = lock.write_async().await.unwrap();
                    task::yield_now_async().await;
                    assert_eq!(readers.load(Relaxed), 0);
                    *guard += 1;
                }
            }
        };
        let blocking = || {
            for _ in 0..30 {
                {
                    let _guard = lock.read().unwrap();
                    readers.fetch_add(1, Relaxed);
                    sinew::yield_now();
                    readers.fetch_sub(1, Relaxed);
                }
                let mut guard = lock.write().unwrap();
                assert_eq!(readers.load(Relaxed), 0);
                *guard += 1;
            }
        };
        on_all_kinds(rt, 3, blocking, awaiting);
        assert_eq!(*lock.read().unwrap(), 9 * 30);
    });
}

#[test]
fn a_condition_can_be_awaited_and_notified_by_every_kind() {
    everywhere(|rt, _| {
        rt.run(|| {
            let shared = Arc::new((Mutex::new(0), Condvar::new()));
            let waits: Vec<_> = (1..=4)
                .map(|wanted| {
                    let shared = Arc::clone(&shared);
                    task::spawn(async move {
                        let guard = shared.0.lock_async().await.unwrap();
                        let guard = shared.1.wait_while_async(guard, |count| *count < wanted).await.unwrap();
                        *guard
                    })
                })
                .collect();
            for _ in 0..4 {
                *shared.0.lock().unwrap() += 1;
                shared.1.notify_all();
                sinew::yield_now();
            }
            waits.into_iter().zip(1..).for_each(|(task, wanted)| assert!(task.join().unwrap() >= wanted));
            // A waiter that was notified and gives up passes the notification on.
            let (mut first, mut second) = (
                Box::pin(async { drop(shared.1.wait_async(shared.0.lock().unwrap()).await) }),
                Box::pin(async { drop(shared.1.wait_async(shared.0.lock().unwrap()).await) }),
            );
            assert!(poll_once(first.as_mut()).is_pending() && poll_once(second.as_mut()).is_pending());
            shared.1.notify_one();
            drop(first);
            assert!(poll_once(second.as_mut()).is_ready());
            let (mut first, mut second) = (
                Box::pin(async { drop(shared.1.wait_async(shared.0.lock().unwrap()).await) }),
                Box::pin(async { drop(shared.1.wait_async(shared.0.lock().unwrap()).await) }),
            );
            assert!(poll_once(first.as_mut()).is_pending() && poll_once(second.as_mut()).is_pending());
            let guard = shared.0.lock().unwrap();
            shared.1.notify_one();
            // The waiter is notified, and now waits for the lock.
            assert!(poll_once(first.as_mut()).is_pending());
            drop(first);
            drop(guard);
            assert!(poll_once(second.as_mut()).is_ready());
        });
    });
}

#[test]
fn the_message_of_an_abandoned_receiver_goes_to_the_next_after_the_last_sender_left() {
    alone(|| {
        let (sender, receiver) = mpmc::sync_channel(1);
        let (mut first, mut second) = (Box::pin(receiver.recv_async()), pin!(receiver.recv_async()));
        assert!(poll_once(first.as_mut()).is_pending() && poll_once(second.as_mut()).is_pending());
        sender.try_send(1).unwrap();
        drop(sender);
        drop(first);
        assert_eq!(poll_once(second.as_mut()), Poll::Ready(Ok(1)));
    });
}

#[test]
fn a_grant_to_an_abandoned_future_goes_to_the_next() {
    alone(|| {
        let semaphore = Semaphore::new(0);
        let (mut first, mut second) = (Box::pin(semaphore.wait_async()), pin!(semaphore.wait_async()));
        assert!(poll_once(first.as_mut()).is_pending() && poll_once(second.as_mut()).is_pending());
        semaphore.post(1);
        drop(first);
        assert!(poll_once(second.as_mut()).is_ready());

        // A waiter that wanted many permits and left does not hold up the others.
        let (mut first, mut second) = (Box::pin(semaphore.acquire_many_async(2)), pin!(semaphore.wait_async()));
        semaphore.post(1);
        assert!(poll_once(first.as_mut()).is_pending() && poll_once(second.as_mut()).is_pending());
        drop(first);
        assert!(poll_once(second.as_mut()).is_ready());

        for policy in [Policy::Barge, Policy::HandOver] {
            let lock = Mutex::with_policy((), policy);
            let guard = lock.lock().unwrap();
            let (mut first, mut second) = (Box::pin(lock.lock_async()), pin!(lock.lock_async()));
            assert!(poll_once(first.as_mut()).is_pending() && poll_once(second.as_mut()).is_pending());
            drop(guard);
            drop(first);
            assert!(poll_once(second.as_mut()).is_ready(), "{policy:?}");
        }

        let lock = RwLock::new(());
        let guard = lock.write().unwrap();
        let (mut first, mut second) = (Box::pin(lock.write_async()), pin!(lock.read_async()));
        assert!(poll_once(first.as_mut()).is_pending() && poll_once(second.as_mut()).is_pending());
        drop(guard);
        drop(first);
        assert!(poll_once(second.as_mut()).is_ready());

        let (sender, receiver) = mpmc::sync_channel(1);
        let (mut first, mut second) = (Box::pin(receiver.recv_async()), pin!(receiver.recv_async()));
        assert!(poll_once(first.as_mut()).is_pending() && poll_once(second.as_mut()).is_pending());
        sender.try_send(1).unwrap();
        drop(first);
        assert_eq!(poll_once(second.as_mut()), Poll::Ready(Ok(1)));

        // No other receiver waits. The message stays before those sent later, and takes its room.
        let mut first = Box::pin(receiver.recv_async());
        assert!(poll_once(first.as_mut()).is_pending());
        sender.try_send(2).unwrap();
        sender.try_send(3).unwrap();
        let mut waits = pin!(sender.send_async(4));
        assert!(poll_once(waits.as_mut()).is_pending());
        drop(first);
        assert_eq!(receiver.try_recv(), Ok(2));
        assert!(poll_once(waits.as_mut()).is_pending());
        assert_eq!(receiver.try_recv(), Ok(3));
        assert!(poll_once(waits.as_mut()).is_ready());
        assert_eq!(receiver.try_recv(), Ok(4));

        // A sender that gives up takes its message along, unless it was accepted.
        sender.try_send(5).unwrap();
        let mut waits = Box::pin(sender.send_async(6));
        assert!(poll_once(waits.as_mut()).is_pending());
        drop(waits);
        let mut waits = Box::pin(sender.send_async(7));
        assert!(poll_once(waits.as_mut()).is_pending());
        assert_eq!(receiver.try_recv(), Ok(5));
        drop(waits);
        assert_eq!(receiver.try_recv(), Ok(7));
        assert!(receiver.try_recv().is_err());

        let barrier = Barrier::new(2);
        let mut first = Box::pin(barrier.wait_async());
        assert!(poll_once(first.as_mut()).is_pending());
        drop(first);
        let mut second = pin!(barrier.wait_async());
        assert!(poll_once(second.as_mut()).is_pending());
        assert!(barrier.wait().is_leader());
        assert!(poll_once(second.as_mut()).is_ready());
    });
}

/// Has a task make a call that would block, and checks that the call is refused.
fn refused(rt: &Runtime, call: impl FnOnce() + Send + 'static) {
    let task = rt.run(|| task::spawn(async move { call() }));
    let said = task.join().unwrap_err().to_string();
    assert!(said.contains("a task may not block its processor"), "{said}");
}

#[test]
fn a_refused_call_of_a_task_changes_nothing() {
    everywhere(|rt, _| {
        let barrier = Arc::new(Barrier::new(2));
        let its_own = Arc::clone(&barrier);
        refused(rt, move || {
            its_own.wait();
        });
        assert!(barrier.wait_timeout(Duration::from_millis(1)).is_err(), "the refused task is counted");

        let semaphore = Arc::new(Semaphore::new(3));
        let its_own = Arc::clone(&semaphore);
        refused(rt, move || drop(its_own.acquire_many(5)));
        assert!(semaphore.try_acquire().is_some(), "the refused task is in the queue");

        let lock = Arc::new(RwLock::new(0));
        let reader = lock.read().unwrap();
        let its_own = Arc::clone(&lock);
        refused(rt, move || *its_own.write().unwrap() += 1);
        assert!(lock.try_read().is_ok(), "the refused task is in the queue");
        drop(reader);
    });
}

#[test]
fn a_future_that_moves_to_another_waker_is_woken_there() {
    struct Counts(AtomicU32);
    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    alone(|| {
        let wakers = [(); 2].map(|()| Arc::new(Counts(AtomicU32::new(0))));
        let semaphore = Semaphore::new(0);
        let mut future = pin!(semaphore.wait_async());
        for counts in &wakers {
            let waker = Waker::from(Arc::clone(counts));
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        assert_eq!(Arc::strong_count(&wakers[0]), 1, "the first waker is kept");
        semaphore.post(1);
        assert_eq!(wakers.each_ref().map(|counts| counts.0.load(Relaxed)), [0, 1]);
        assert_eq!(Arc::strong_count(&wakers[1]), 1);
        assert!(poll_once(future.as_mut()).is_ready());
    });
}

#[test]
fn abandoned_waits_lose_neither_permits_nor_messages() {
    const PERMITS: usize = 3;
    let seeds = Random::new(u64::from(std::process::id()) | 1 << 40).below(u64::MAX);
    everywhere(|rt, _| {
        let semaphore = Arc::new(Semaphore::new(PERMITS));
        let lock = Arc::new(Mutex::new(0u64));
        let (sender, receiver) = mpmc::sync_channel::<Parcel>(2);
        let received = Arc::new(AtomicU64::new(0));
        let (made, given_up) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let uses = rt.run(|| {
            let tasks: Vec<_> = (0..8u64)
                .map(|number| {
                    let (semaphore, lock) = (Arc::clone(&semaphore), Arc::clone(&lock));
                    let (sender, receiver) = (sender.clone(), receiver.clone());
                    let (made, given_up, received) = (Arc::clone(&made), Arc::clone(&given_up), Arc::clone(&received));
                    let mut random = RandomNumbers(seeds ^ (number + 1).wrapping_mul(0x9e37_79b9));
                    task::spawn(async move {
                        let mut uses = 0;
                        for _ in 0..100 {
                            let turns = random.below(4);
                            if let Some(permit) =
                                within_turns(turns, semaphore.acquire_many_async(1 + turns as usize % 2)).await
                            {
                                task::yield_now_async().await;
                                drop(permit);
                            }
                            if let Some(guard) = within_turns(random.below(4), lock.lock_async()).await {
                                let mut guard = guard.unwrap();
                                task::yield_now_async().await;
                                *guard += 1;
                                uses += 1;
                            }
                            if number % 2 == 0 {
                                let parcel = Parcel(1 + random.below(9), Arc::clone(&given_up));
                                made.fetch_add(parcel.0, Relaxed);
                                let _ = within_turns(random.below(3), sender.send_async(parcel)).await;
                            } else if let Some(message) = within_turns(random.below(3), receiver.recv_async()).await {
                                received.fetch_add(message.unwrap().open(), Relaxed);
                            }
                        }
                        uses
                    })
                })
                .collect();
            tasks.into_iter().map(|task| task.join().unwrap()).sum::<u64>()
        });
        assert_eq!(semaphore.available(), PERMITS);
        assert_eq!(*lock.try_lock().unwrap(), uses);
        let left: u64 = receiver.try_iter().map(Parcel::open).sum();
        assert_eq!(received.load(Relaxed) + left + given_up.load(Relaxed), made.load(Relaxed));
    });
}

/// A message that notices if it is dropped unopened.
#[derive(Debug)]
struct Parcel(u64, Arc<AtomicU64>);

impl Parcel {
    fn open(mut self) -> u64 {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        self.1.fetch_add(self.0, Relaxed);
    }
}

/// A generator like `Random` that does not print its seed.
struct RandomNumbers(u64);

impl RandomNumbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn a_sleep_is_not_too_short_and_a_limit_ends_a_wait() {
    const MS: Duration = Duration::from_millis(1);
    everywhere(|rt, _| {
        rt.run(|| {
            let began = Instant::now();
            let sleeps: Vec<_> = (1..=5).map(|n| task::spawn(time::sleep_async(n * MS))).collect();
            sleeps.into_iter().for_each(|task| task.join().unwrap());
            assert!(began.elapsed() >= 5 * MS);
            let (_sender, receiver) = mpmc::channel::<u32>();
            let late = task::spawn(async move { time::timeout_async(2 * MS, receiver.recv_async()).await });
            assert_eq!(late.join().unwrap(), Err(time::Elapsed));
            let in_time = task::spawn(time::timeout_async(1000 * MS, async { 7 }));
            assert_eq!(in_time.join().unwrap(), Ok(7));
            let ticks = task::spawn(async {
                let mut clock = time::Interval::new(MS);
                let first = clock.tick_async().await;
                clock.tick_async().await;
                clock.tick_async().await - first
            });
            assert!(ticks.join().unwrap() >= 2 * MS);
            // In a fibre.
            block_on(time::sleep_async(MS));
        });
    });
    alone(|| {
        let began = Instant::now();
        // On a kernel thread outside of any runtime.
        block_on(async {
            time::sleep_async(2 * MS).await;
            assert_eq!(time::timeout_async(MS, std::future::pending::<()>()).await, Err(time::Elapsed));
        });
        assert!(began.elapsed() >= 3 * MS);
        let refused = std::panic::catch_unwind(|| poll_once(pin!(time::sleep_async(MS))).is_ready());
        assert!(fixture::message(&*refused.unwrap_err()).contains("sinew::block_on"));
    });
}

#[test]
fn a_sleep_may_be_dropped_or_moved() {
    const MS: Duration = Duration::from_millis(1);
    everywhere(|rt, _| {
        rt.run(|| {
            task::spawn(async {
                for _ in 0..50 {
                    let mut sleep = Box::pin(time::sleep_async(1000 * MS));
                    assert!(poll_once(sleep.as_mut()).is_pending());
                    sleep.as_mut().reset(Instant::now() + MS);
                    // The sleep may be over already, if the kernel paused this thread for longer.
                    let _ = poll_once(sleep.as_mut());
                }
                time::sleep_async(MS).await;
            })
            .join()
            .unwrap();
            // A sleep begins on a kernel thread and ends in a task.
            let moved = sinew::blocking(|| {
                let mut sleep = Box::pin(time::sleep_async(60 * MS));
                block_on(async { assert!(poll_once(sleep.as_mut()).is_pending()) });
                sleep
            });
            task::spawn(moved).join().unwrap();
        });
    });
}

#[test]
fn tasks_and_fibres_together_make_a_value_once() {
    everywhere(|rt, _| {
        let made = Arc::new(AtomicU32::new(0));
        let place = Arc::new(OnceLock::new());
        let awaiting = || {
            let (made, place) = (Arc::clone(&made), Arc::clone(&place));
            async move {
                let value = place
                    .get_or_init_async(async || {
                        task::yield_now_async().await;
                        made.fetch_add(1, Relaxed)
                    })
                    .await;
                assert_eq!(*value, 0);
            }
        };
        let blocking = || {
            let value = place.get_or_init(|| {
                sinew::yield_now();
                made.fetch_add(1, Relaxed)
            });
            assert_eq!(*value, 0);
        };
        on_all_kinds(rt, 4, blocking, awaiting);
        assert_eq!(made.load(Relaxed), 1);
        rt.run(|| {
            let lazy = Arc::new(LazyLock::new(|| 7));
            task::spawn(async move { assert_eq!(*LazyLock::force_async(&lazy).await, 7) }).join().unwrap();
            // A task that gives up leaves the place to the next one.
            let place = OnceLock::new();
            let mut given_up = Box::pin(place.get_or_init_async(async || std::future::pending::<u32>().await));
            assert!(poll_once(given_up.as_mut()).is_pending());
            drop(given_up);
            assert_eq!(*place.get_or_init(|| 3), 3);
        });
    });
}

#[test]
fn tasks_and_fibres_wait_for_the_closure_that_a_task_awaits() {
    everywhere(|rt, _| {
        rt.run(|| {
            let once = Arc::new((Once::new(), BinarySemaphore::new(false), AtomicU32::new(0)));
            let its = Arc::clone(&once);
            let first = task::spawn(async move {
                let closure = async || {
                    its.2.store(1, Relaxed);
                    its.1.wait_async().await;
                    its.2.store(2, Relaxed);
                };
                its.0.call_once_async(closure).await;
            });
            wait_until(|| once.2.load(Relaxed) == 1);
            let its = Arc::clone(&once);
            let task = task::spawn(async move {
                its.0.call_once_async(async || unreachable!()).await;
                its.2.load(Relaxed)
            });
            let its = Arc::clone(&once);
            let fibre = sinew::spawn(move || {
                its.0.call_once(|| unreachable!());
                its.2.load(Relaxed)
            });
            wait_until(|| format!("{:?}", once.0) == "Once { stage: running, waiters: 2 }");
            once.1.post();
            first.join().unwrap();
            assert_eq!((task.join().unwrap(), fibre.join().unwrap()), (2, 2));
            assert!(once.0.is_completed());
        });
    });
}

#[test]
fn a_once_whose_future_is_dropped_is_poisoned() {
    everywhere(|rt, _| {
        rt.run(|| {
            let once = Once::new();
            let mut given_up = Box::pin(once.call_once_async(async || std::future::pending::<()>().await));
            assert!(poll_once(given_up.as_mut()).is_pending());
            let mut waits = Box::pin(once.wait_force_async());
            assert!(poll_once(waits.as_mut()).is_pending());
            drop(given_up);
            assert!(poll_once(waits.as_mut()).is_pending(), "it waits for the next closure");
            let call = Box::pin(once.call_once_force_async(async |state| assert!(state.is_poisoned())));
            task::block_on(call);
            assert!(poll_once(waits.as_mut()).is_ready());
            assert!(poll_once(pin!(once.call_once_async(async || unreachable!()))).is_ready());
        });
    });
}

#[test]
fn a_value_is_set_by_one_task() {
    everywhere(|rt, _| {
        rt.run(|| {
            let place = Arc::new(OnceLock::new());
            let set = |value| {
                let place = Arc::clone(&place);
                task::spawn(async move { place.set_async(value).await })
            };
            let tasks: Vec<_> = (0..8u32).map(set).collect();
            let outcomes: Vec<_> = tasks.into_iter().map(|task| task.join().unwrap()).collect();
            let winner = *place.get().unwrap();
            for (value, outcome) in (0..).zip(outcomes) {
                assert_eq!(outcome, if value == winner { Ok(()) } else { Err(value) });
            }
        });
    });
}

#[test]
fn a_task_that_never_waits_gives_way() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            rt.run(|| {
                let stop = Arc::new(AtomicU32::new(0));
                let its_stop = Arc::clone(&stop);
                let task = task::spawn(async move {
                    let (sender, receiver) = mpmc::channel();
                    let mut rounds = 0u64;
                    while its_stop.load(Relaxed) == 0 {
                        sender.send_async(()).await.unwrap();
                        receiver.recv_async().await.unwrap();
                        rounds += 1;
                    }
                    rounds
                });
                // The only processor comes back to this fibre.
                (0..10).for_each(|_| sinew::yield_now());
                stop.store(1, Relaxed);
                assert!(task.join().unwrap() > 0);
            });
        },
    );
}
