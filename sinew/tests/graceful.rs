//! A server that is told to stop lets its sessions finish, up to a limit.

mod fixture;

use fixture::{LONG, alone, everywhere, let_others_wait, wait_until};
use sinew::cancel::Cancelled;
use sinew::shutdown::{Left, Shutdown};
use sinew::sync::mpmc;
use sinew::task;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Receives as a session reads.
fn receive<T>(receiver: &mpmc::Receiver<T>) -> io::Result<T> {
    receiver.recv().map_err(|_| io::ErrorKind::UnexpectedEof.into())
}

#[track_caller]
fn assert_cancelled<T: std::fmt::Debug>(outcome: io::Result<T>) {
    let error = outcome.unwrap_err();
    assert_eq!(error.get_ref().and_then(|error| error.downcast_ref()), Some(&Cancelled::Requested));
}

#[test]
fn a_server_without_sessions_stops_at_once() {
    alone(|| {
        let shutdown = Shutdown::new(LONG);
        assert!(!shutdown.is_told() && shutdown.deadline() > Instant::now());
        drop(shutdown.enter().unwrap());
        assert_eq!(shutdown.stop(), Ok(()));
        assert!(shutdown.is_told() && shutdown.enter().is_none());
        assert_eq!(shutdown.stop(), Ok(()), "a second time");
    });
}

#[test]
fn idle_sessions_end_when_told_and_busy_ones_when_they_have_finished() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let shutdown = Shutdown::new(LONG);
            let (work, some_work) = mpmc::channel::<()>();
            let (finish, may_finish) = mpmc::channel::<()>();
            sinew::scope(|scope| {
                let idle = scope.spawn(|| {
                    let session = shutdown.enter().unwrap();
                    session.idle(|| receive(&some_work))
                });
                let busy = scope.spawn(|| {
                    let session = shutdown.enter().unwrap();
                    session.idle(|| Ok(())).unwrap();
                    // Work that waits is not ended.
                    receive(&may_finish).unwrap();
                    session.idle(|| -> io::Result<()> { panic!("it is not called any more") })
                });
                wait_until(|| shutdown.sessions() == 2);
                let_others_wait();
                let stopper = scope.spawn(|| shutdown.stop());
                assert!(idle.join().unwrap().is_err());
                wait_until(|| shutdown.sessions() == 1);
                assert!(!stopper.is_finished());
                finish.send(()).unwrap();
                assert_cancelled(busy.join().unwrap());
                assert_eq!(stopper.join().unwrap(), Ok(()));
            });
            drop(work);
        });
    });
}

#[test]
fn sessions_that_are_left_at_the_limit_are_cancelled_and_counted() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let limit = Duration::from_millis(2);
            let shutdown = Shutdown::new(limit);
            let (_work, some_work) = mpmc::channel::<()>();
            sinew::scope(|scope| {
                let stuck: Vec<_> = (0..3)
                    .map(|_| {
                        scope.spawn(|| {
                            let _session = shutdown.enter().unwrap();
                            receive(&some_work)
                        })
                    })
                    .collect();
                wait_until(|| shutdown.sessions() == 3);
                let left = shutdown.stop().unwrap_err();
                assert_eq!(left, Left { sessions: 3, limit });
                assert_eq!(left.to_string(), "3 session(s) did not end within 2ms");
                assert!(stuck.into_iter().all(|session| session.join().unwrap().is_err()));
            });
            assert_eq!((shutdown.sessions(), shutdown.stop()), (0, Ok(())));
        });
    });
}

#[test]
fn sessions_of_tasks_are_told_as_well() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let shutdown = Arc::new(Shutdown::new(LONG));
            let (_work, some_work) = mpmc::channel::<u32>();
            let session = {
                let shutdown = Arc::clone(&shutdown);
                task::spawn(async move {
                    let session = shutdown.enter().unwrap();
                    assert_eq!(session.idle_async(async { Ok(7) }).await.unwrap(), 7);
                    let receive = async { some_work.recv_async().await.map_err(io::Error::other) };
                    let outcome = session.idle_async(receive).await;
                    assert_cancelled(session.idle_async(async { Ok(7) }).await);
                    outcome
                })
            };
            wait_until(|| shutdown.sessions() == 1);
            let_others_wait();
            let stopper = {
                let shutdown = Arc::clone(&shutdown);
                task::spawn(async move { shutdown.stop_async().await })
            };
            assert_cancelled(session.join().unwrap());
            assert_eq!(stopper.join().unwrap(), Ok(()));
            assert_eq!(sinew::block_on(shutdown.stop_async()), Ok(()));
        });
    });
}

#[test]
fn no_session_is_missed_that_becomes_idle_while_the_server_is_told() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            for _ in 0..50 {
                let shutdown = Shutdown::new(LONG);
                let (_work, some_work) = mpmc::channel::<()>();
                sinew::scope(|scope| {
                    for _ in 0..8 {
                        scope.spawn(|| {
                            let Some(session) = shutdown.enter() else { return };
                            sinew::yield_now();
                            assert!(session.idle(|| receive(&some_work)).is_err());
                        });
                    }
                    sinew::yield_now();
                    assert_eq!(shutdown.stop(), Ok(()));
                });
            }
        });
    });
}
