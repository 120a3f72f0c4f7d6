//! `Select` waits for sockets, timers, joins and futures as it waits for channels.

mod fixture;

use fixture::loopback::{listener, narrow_pair, pair};
use fixture::{LONG, alone, everywhere, process_bytes, wait_until, wherever};
use sinew::cancel::Cancelled;
use sinew::io::Pollable;
use sinew::net::{TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use sinew::sync::{Select, SelectReader, SelectWriter, broadcast, mpmc, mpsc, oneshot, watch};
use sinew::{task, time};
use std::future::{pending, poll_fn};
use std::io::{ErrorKind, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

/// Runs `select` beside an arm that is never done. Another fibre calls `then` meanwhile.
fn beside_silence<T>(select: Select<'_, T>, then: impl FnOnce() + Send) -> T {
    sinew::scope(|scope| {
        scope.spawn(then);
        select.future(pending::<()>(), |()| unreachable!("nothing is ever ready")).run()
    })
}

/// Waits until `reader` is ready, which `make_ready` makes it. It is not ready before.
fn waits_to_read(reader: &(impl SelectReader + Sync), make_ready: impl FnOnce() + Send) {
    let try_read = || Select::new().readable(reader, |ready| ready.unwrap()).try_run();
    assert_eq!(try_read(), None, "there is nothing to read");
    beside_silence(Select::new().readable(reader, |ready| ready.unwrap()), make_ready);
    assert_eq!(try_read(), Some(()), "the select takes nothing");
}

#[test]
fn a_select_waits_until_a_socket_can_be_read() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (listener, address) = listener();
            waits_to_read(&listener, || drop(TcpStream::connect(address).unwrap()));
            let (mut here, mut there) = pair();
            for size in [1, 5, 1000] {
                waits_to_read(&here, || there.write_all(&vec![7; size]).unwrap());
                // This read takes all there is, and shows nothing of what is left.
                here.read_exact(&mut vec![0; size]).unwrap();
            }
            waits_to_read(&here, || drop(there));
            assert_eq!(here.read(&mut [0; 8]).unwrap(), 0);

            let (one, two) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
            let address = one.local_addr().unwrap();
            waits_to_read(&one, || assert_eq!(two.send_to(b"datagram", address).unwrap(), 8));
            assert_eq!(one.recv(&mut [0; 20]).unwrap(), 8);

            let (mut here, mut there) = UnixStream::pair().unwrap();
            waits_to_read(&here, || there.write_all(b"x").unwrap());
            assert_eq!(here.read(&mut [0; 8]).unwrap(), 1);
            let (here, there) = UnixDatagram::pair().unwrap();
            waits_to_read(&here, || assert_eq!(there.send(b"xy").unwrap(), 2));
            assert_eq!(here.recv(&mut [0; 8]).unwrap(), 2);

            let (reader, mut writer) = std::io::pipe().unwrap();
            let mut reader = Pollable::new(reader).unwrap();
            waits_to_read(&reader, || writer.write_all(b"pipe").unwrap());
            assert_eq!(reader.read(&mut [0; 8]).unwrap(), 4);
        });
    });
}

#[test]
fn a_select_waits_until_a_unix_listener_can_accept() {
    let folder = fixture::Scratch::new();
    wherever(
        |setup| setup.processors == 2,
        |rt, setup| {
            let path = folder.at(&format!("{:?}-{}", setup.scheduling, setup.migrating));
            rt.run(|| {
                let listener = UnixListener::bind(&path).unwrap();
                waits_to_read(&listener, || drop(UnixStream::connect(&path).unwrap()));
                assert!(listener.accept().is_ok());
            });
        },
    );
}

#[test]
fn a_select_waits_until_there_is_room_to_write() {
    everywhere(|rt, _| {
        rt.run(|| {
            /// `fill` writes, and returns the number of bytes. `take` reads all of these.
            fn waits_to_write(
                writer: &(impl SelectWriter + Sync),
                fill: impl Fn() -> std::io::Result<usize>,
                take: impl FnOnce(usize) + Send,
            ) {
                let mut written = 0;
                while let Ok(count) = fill() {
                    written += count;
                }
                assert!(Select::new().writable(writer, |ready| ready.unwrap()).try_run().is_none(), "there is room");
                beside_silence(Select::new().writable(writer, |ready| ready.unwrap()), || take(written));
                assert!(fill().is_ok(), "there is no room");
            }
            let (here, mut there) = narrow_pair();
            here.set_nonblocking(true).unwrap();
            let take = |count| there.read_exact(&mut vec![0; count]).unwrap();
            waits_to_write(&here, || (&here).write(&[0; 4096]), take);
            let (here, mut there) = UnixStream::pair().unwrap();
            here.set_nonblocking(true).unwrap();
            let take = |count| there.read_exact(&mut vec![0; count]).unwrap();
            waits_to_write(&here, || (&here).write(&[0; 4096]), take);
            let (here, there) = UnixDatagram::pair().unwrap();
            here.set_nonblocking(true).unwrap();
            let take = |count| (0..count).for_each(|_| assert_eq!(there.recv(&mut [0; 8]).unwrap(), 1));
            waits_to_write(&here, || here.send(b"1"), take);
            // A datagram socket of the internet always has room.
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            assert!(Select::new().writable(&socket, |ready| ready.is_ok()).run());
            let (mut reader, writer) = std::io::pipe().unwrap();
            let writer = Pollable::new(writer).unwrap();
            let take = |count| reader.read_exact(&mut vec![0; count]).unwrap();
            waits_to_write(&writer, || writer.get_ref().write(&[0; 4096]), take);
        });
    });
}

#[test]
fn one_stream_is_waited_for_on_both_sides() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, mut there) = pair();
            let both = || Select::new().readable(&here, |_| "read").writable(&here, |_| "write");
            assert_eq!(both().run(), "write");
            there.write_all(b"x").unwrap();
            // Each is chosen in the end, because both are ready.
            wait_until(|| both().run() == "read");
            wait_until(|| both().run() == "write");
        });
    });
}

#[test]
fn two_selects_on_one_socket_are_both_told() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, mut there) = pair();
            sinew::scope(|scope| {
                let select = || Select::new().readable(&here, |ready| ready.is_ok()).run();
                let selects = [scope.spawn(select), scope.spawn(select)];
                fixture::let_others_wait();
                there.write_all(b"x").unwrap();
                assert!(selects.into_iter().all(|select| select.join().unwrap()));
            });
        });
    });
}

#[test]
fn a_socket_that_no_runtime_polls_gives_an_error_to_a_thread_that_would_wait() {
    alone(|| {
        let (here, mut there) = pair();
        let select = || Select::new().readable(&here, |ready| ready.map_err(|error| error.kind())).run();
        assert_eq!(select(), Err(ErrorKind::Unsupported));
        there.write_all(b"x").unwrap();
        assert_eq!(select(), Ok(()), "it need not wait");
    });
}

#[test]
fn a_timer_is_done_at_its_time_and_not_before() {
    everywhere(|rt, _| {
        let check = || {
            let (_quiet, silence) = mpsc::channel::<()>();
            let began = Instant::now();
            let select = || Select::new().recv(&silence, |_| "received").after(LONG, || "too late");
            assert_eq!(select().after(2 * MS, || "timer").run(), "timer");
            assert!(began.elapsed() >= 2 * MS);
            let deadline = Instant::now() + 2 * MS;
            assert_eq!(select().at(deadline, || "timer").run(), "timer");
            assert!(Instant::now() >= deadline);
            assert_eq!(select().at(deadline, || "timer").run_timeout(LONG), Some("timer"));
            assert_eq!(select().after(Duration::ZERO, || "timer").try_run(), Some("timer"));
            assert_eq!(select().try_run(), None);
            assert_eq!(select().run_timeout(MS), None);
            assert_eq!(Select::new().after(Duration::MAX, || ()).run_timeout(MS), None);
        };
        rt.run(check);
        check();
    });
}

#[test]
fn a_timer_that_is_due_starves_no_message_and_no_message_a_timer() {
    alone(|| {
        let (sender, receiver) = mpsc::channel();
        let mut counts = [0; 2];
        for _ in 0..400 {
            sender.send(()).unwrap();
            counts[Select::new().recv(&receiver, |_| 0).after(Duration::ZERO, || 1).run()] += 1;
        }
        assert!(counts.iter().all(|&count| count > 50), "{counts:?}");
    });
}

#[test]
fn a_select_waits_until_a_fibre_or_task_has_finished() {
    everywhere(|rt, _| {
        rt.run(|| {
            let go = Arc::new(AtomicUsize::new(0));
            let gate = |number: usize| {
                let go = Arc::clone(&go);
                move || go.load(Ordering::Relaxed) >= number
            };
            let (may_end, also_may_end, third) = (gate(1), gate(2), gate(3));
            let mut fibre = sinew::spawn(move || {
                wait_until(may_end);
                1
            });
            let mut panicking = sinew::spawn(move || {
                wait_until(also_may_end);
                panic!("expected: the select sees the end of a fibre that panics")
            });
            let mut task = task::spawn(async move {
                while !third() {
                    task::yield_now_async().await;
                }
                3
            });
            let mut select = || {
                Select::new()
                    .finished(&mut fibre, || 1)
                    .finished(&mut panicking, || 2)
                    .finished(&mut task, || 3)
                    .run_timeout(LONG)
            };
            go.store(1, Ordering::Relaxed);
            assert_eq!(select(), Some(1));
            assert_eq!(select(), Some(1), "a finished fibre stays finished");
            assert_eq!(fibre.join().unwrap(), 1);
            let mut select =
                || Select::new().finished(&mut panicking, || 2).finished(&mut task, || 3).run_timeout(LONG);
            go.store(2, Ordering::Relaxed);
            assert_eq!(select(), Some(2));
            let payload: Box<dyn std::any::Any + Send> = match panicking.join() {
                Err(payload) => payload,
                Ok(()) => unreachable!("it panics"),
            };
            assert!(fixture::message(&*payload).contains("expected"));
            go.store(3, Ordering::Relaxed);
            assert_eq!(Select::new().finished(&mut task, || 3).run(), 3);
            assert_eq!(task.join().unwrap(), 3);

            let number = 7;
            sinew::scope(|scope| {
                let mut scoped = scope.spawn(|| number + 1);
                Select::new().finished(&mut scoped, || ()).run();
                assert!(scoped.is_finished());
                assert_eq!(scoped.join().unwrap(), 8);
            });
        });
    });
}

#[test]
fn a_handle_is_joined_after_a_select_that_chose_another_arm() {
    everywhere(|rt, _| {
        rt.run(|| {
            let stop = Arc::new(AtomicBool::new(false));
            let stops = || {
                let stop = Arc::clone(&stop);
                move || stop.load(Ordering::Relaxed)
            };
            let (fibre_stops, task_stops) = (stops(), stops());
            let mut fibre = sinew::spawn(move || wait_until(fibre_stops));
            let mut task = task::spawn(async move {
                while !task_stops() {
                    task::yield_now_async().await;
                }
            });
            // The task's handle has a waker of its own in the join word.
            let mut context = Context::from_waker(Waker::noop());
            assert!(Pin::new(&mut task).poll(&mut context).is_pending());
            for _ in 0..10 {
                let select = Select::new().finished(&mut fibre, || 1).finished(&mut task, || 2);
                assert_eq!(select.after(Duration::from_micros(50), || 3).run(), 3);
            }
            let fibre = fibre.join_timeout(Duration::ZERO).expect_err("the fibre has not been told to stop");
            stop.store(true, Ordering::Relaxed);
            fibre.join().unwrap();
            task.join().unwrap();
        });
    });
}

#[test]
fn any_future_is_an_arm() {
    everywhere(|rt, _| {
        let check = || {
            let (_quiet, silence) = mpsc::channel::<()>();
            assert_eq!(Select::new().recv(&silence, |_| 0).future(async { 7 }, |number| number).run(), 7);
            // Polled again by its own waker.
            let mut polls = 0;
            let third_time = poll_fn(|context| {
                polls += 1;
                context.waker().wake_by_ref();
                if polls == 3 { Poll::Ready(()) } else { Poll::Pending }
            });
            Select::new().recv(&silence, |_| ()).future(third_time, |()| ()).run();
            assert_eq!(polls, 3);
            // Its waker is called on another thread.
            let (sender, mut receiver) = oneshot::channel();
            let thread = thread::spawn(move || sender.send(8));
            let received = Select::new().recv(&silence, |_| Ok(0)).future(receiver.recv_async(), |sent| sent).run();
            assert_eq!(received, Ok(8));
            thread.join().unwrap().unwrap();
            // A timer of a future goes off, also on a thread that has no runtime.
            let began = Instant::now();
            Select::new().recv(&silence, |_| ()).future(time::sleep_async(2 * MS), |()| ()).run();
            assert!(began.elapsed() >= 2 * MS);
            let sleep = Select::new().future(time::sleep_async(LONG), |()| ());
            assert_eq!(sleep.run_timeout(MS), None);
            assert_eq!(Select::new().future(pending::<()>(), |()| ()).try_run(), None);
        };
        rt.run(check);
        check();
    });
}

#[test]
fn a_future_that_wakes_itself_gives_other_fibres_a_turn() {
    everywhere(|rt, _| {
        rt.run(|| {
            let stop = Arc::new(AtomicBool::new(false));
            let stops = Arc::clone(&stop);
            let other = sinew::spawn(move || stops.store(true, Ordering::Relaxed));
            let until_stopped = async {
                while !stop.load(Ordering::Relaxed) {
                    task::yield_now_async().await;
                }
            };
            Select::new().after(LONG, || ()).future(until_stopped, |()| ()).run();
            other.join().unwrap();
        });
    });
}

#[test]
fn the_other_channels_are_arms_by_their_futures() {
    everywhere(|rt, _| {
        rt.run(|| {
            let ((news, mut reader), (setting, mut seen)) = (broadcast::channel(4), watch::channel(1));
            let (commands, some_commands) = mpsc::channel();
            let mut select = || {
                Select::new()
                    .recv(&some_commands, |command| command.unwrap_or("commands are closed"))
                    .future(reader.recv_async(), |message| message.unwrap_or("news are closed"))
                    .future(seen.changed_async(), |changed| changed.map_or("settings are closed", |()| "changed"))
                    .run_timeout(LONG)
            };
            news.send("news").unwrap();
            assert_eq!(select(), Some("news"));
            setting.send(2).unwrap();
            assert_eq!(select(), Some("changed"));
            commands.send("command").unwrap();
            assert_eq!(select(), Some("command"));
            drop(setting);
            assert_eq!(select(), Some("settings are closed"));
        });
    });
}

#[test]
fn a_cancelled_fibre_is_told_by_the_arm_that_can_say_so() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, _there) = pair();
            let (_open, quiet) = mpsc::channel::<()>();
            sinew::current().cancel();
            let timer = || Select::new().after(LONG, || "timer");
            let cancelled = |why| if why == Cancelled::Requested { "requested" } else { "overdue" };
            assert_eq!(timer().recv(&quiet, |_| "channel").cancelled(cancelled).run(), "requested");
            assert_eq!(timer().recv(&quiet, |_| "channel").run(), "channel");
            let is_requested = |ready: std::io::Result<()>| {
                let why = ready.unwrap_err().downcast::<Cancelled>().unwrap();
                cancelled(why)
            };
            let select = || timer().readable(&here, is_requested);
            assert_eq!(select().recv(&quiet, |_| "channel").run(), "requested");
            assert_eq!(select().run_timeout(LONG), Some("requested"));
            assert_eq!(timer().run_timeout(LONG), None, "no arm can say it, but the result can");
            // Nothing can say it: the select waits on. What need not wait is done.
            assert_eq!(Select::new().after(MS, || "timer").run(), "timer");
            assert_eq!(timer().after(Duration::ZERO, || "due").cancelled(cancelled).run(), "due");
            assert_eq!(timer().cancelled(cancelled).try_run(), None);
        });
        let overdue = || {
            let cancelled = |why| if why == Cancelled::Overdue { "overdue" } else { "requested" };
            time::timeout(MS, || {
                assert_eq!(Select::new().after(LONG, || "timer").cancelled(cancelled).run(), "overdue");
                let limited = Select::new().after(LONG, || "timer").cancelled(cancelled).run_timeout(LONG);
                assert_eq!(limited, Some("overdue"));
                assert_eq!(Select::new().after(LONG, || "timer").run_timeout(LONG), None);
                assert_eq!(Select::new().after(2 * MS, || "timer").run(), "timer");
            });
        };
        rt.run(overdue);
        overdue();
    });
}

#[test]
fn a_cancellation_during_the_wait_ends_it() {
    everywhere(|rt, _| {
        let begun = Arc::new(AtomicBool::new(false));
        let its_begun = Arc::clone(&begun);
        let waiting = rt.spawn(move || {
            let (here, _there) = pair();
            let mut worker = task::spawn(pending::<()>());
            its_begun.store(true, Ordering::Relaxed);
            let ended = Select::new()
                .finished(&mut worker, || false)
                .after(LONG, || false)
                .readable(&here, |ready| ready.is_err())
                .run();
            worker.abort();
            ended
        });
        wait_until(|| begun.load(Ordering::Relaxed));
        waiting.fibre().cancel();
        assert!(waiting.join().unwrap());
    });
}

#[test]
fn no_event_is_lost_that_comes_while_a_select_enters() {
    const ROUNDS: usize = 400;
    wherever(
        |setup| setup.processors == 2,
        |rt, _| {
            let (setting, mut seen) = watch::channel(0);
            let (_noise, quiet) = mpmc::channel::<()>();
            let done = Arc::new(AtomicUsize::new(0));
            let is_done = Arc::clone(&done);
            let (mut there, here) = {
                let (sender, receiver) = std::sync::mpsc::channel();
                rt.run(move || sender.send(pair()).unwrap());
                receiver.recv().unwrap()
            };
            let partner = rt.spawn(move || {
                for round in 0..ROUNDS {
                    wait_until(|| is_done.load(Ordering::Relaxed) == round);
                    (0..(round * 37) % 1500).for_each(|_| std::hint::spin_loop());
                    if round % 2 == 0 {
                        setting.send(round + 1).unwrap();
                    } else {
                        there.write_all(b"x").unwrap();
                    }
                }
                (setting, there)
            });
            let selecting = rt.spawn(move || {
                let mut here = here;
                for round in 0..ROUNDS {
                    let select = Select::new().readable(&here, |_| 1).future(seen.changed_async(), |_| 0);
                    let select = (0..20).fold(select, |select, _| select.recv(&quiet, |_| 2));
                    assert_eq!(select.run(), round % 2);
                    if round % 2 == 1 {
                        here.read_exact(&mut [0]).unwrap();
                    }
                    done.store(round + 1, Ordering::Relaxed);
                }
            });
            let _open = partner.join().unwrap();
            selecting.join().unwrap();
        },
    );
}

/// Arms that are never done leave no waiters in queues, and no memory.
#[test]
fn a_hundred_thousand_selects_leave_nothing_behind() {
    const SELECTS: usize = 100_000;
    const MOST_GROWTH: usize = 4 << 20;
    wherever(
        |setup| setup.processors == 1 && !setup.migrating,
        |rt, _| {
            rt.run(|| {
                let (here, _there) = pair();
                let ((open, quiet), (pings, some_pings)) = (mpsc::channel::<()>(), mpsc::sync_channel(0));
                let ((news, mut reader), (setting, mut seen)) = (broadcast::channel::<u8>(1), watch::channel(0));
                let stop = Arc::new(AtomicBool::new(false));
                let its_stop = Arc::clone(&stop);
                let (end, mut ended) = watch::channel(());
                let mut fibre = sinew::spawn(move || ended.changed().is_err());
                let mut task = task::spawn(pending::<()>());
                let partner =
                    sinew::spawn(move || while !its_stop.load(Ordering::Relaxed) && pings.send(()).is_ok() {});
                let mut select = || {
                    let select = Select::new()
                        .recv(&quiet, |_| false)
                        .readable(&here, |_| false)
                        .finished(&mut fibre, || false)
                        .finished(&mut task, || false)
                        .future(reader.recv_async(), |_| false)
                        .future(seen.changed_async(), |_| false)
                        .after(LONG, || false)
                        .cancelled(|_| false);
                    assert!(select.recv(&some_pings, |ping| ping.is_ok()).run());
                };
                (0..1000).for_each(|_| select());
                let before = process_bytes("RssAnon");
                (0..SELECTS).for_each(|_| select());
                let growth = process_bytes("RssAnon").saturating_sub(before);
                assert!(growth < MOST_GROWTH, "the process has grown by {growth} bytes");
                for channel in [format!("{open:?}"), format!("{news:?}"), format!("{setting:?}")] {
                    assert!(channel.contains("waiters: 0"), "{channel}");
                }
                stop.store(true, Ordering::Relaxed);
                drop(some_pings);
                drop(end);
                task.abort();
                partner.join().unwrap();
                assert!(fibre.join().unwrap());
            });
        },
    );
}
