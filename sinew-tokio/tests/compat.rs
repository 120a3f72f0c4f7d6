//! Tokio's sockets, timers and tasks on fibres and tasks of Sinew.

#[path = "../../sinew/tests/fixture/mod.rs"]
mod fixture;

use fixture::loopback::{SIZES, bytes, echo, listener};
use fixture::{SOON, everywhere, message};
use sinew::task;
use sinew_tokio::{Compat, WithTokio, block_on};
use std::future::{pending, poll_fn};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Sends bytes through a socket of Tokio's, and expects them back.
async fn exchange(address: SocketAddr, seed: u64) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    for (number, &size) in SIZES.iter().take(5).enumerate() {
        let sent = bytes(seed + number as u64, size);
        let mut received = vec![0; size];
        stream.write_all(&sent).await.unwrap();
        stream.read_exact(&mut received).await.unwrap();
        assert!(sent == received, "{size} bytes came back changed");
    }
}

/// Runs `body` beside a server of Sinew's that echoes on this number of connections.
fn beside_echo(connections: usize, body: impl FnOnce(SocketAddr)) {
    let (listener, address) = listener();
    sinew::scope(|scope| {
        scope.spawn(move || {
            sinew::scope(|sessions| {
                for stream in listener.incoming().take(connections) {
                    sessions.spawn(move || echo(stream.unwrap()).unwrap());
                }
            });
        });
        body(address);
    });
}

#[test]
fn fifty_fibres_use_sockets_of_tokio_at_once() {
    const FIBRES: usize = 50;
    everywhere(|rt, _| {
        rt.run(|| {
            beside_echo(FIBRES, |address| {
                sinew::scope(|scope| {
                    for fibre in 0..FIBRES {
                        scope.spawn(move || block_on(exchange(address, fibre as u64 * 100)));
                    }
                });
            });
        });
    });
}

#[test]
fn fifty_tasks_use_sockets_of_tokio_at_once() {
    const TASKS: usize = 50;
    everywhere(|rt, _| {
        rt.run(|| {
            beside_echo(TASKS, |address| {
                let exchanges = (0..TASKS).map(|task| exchange(address, task as u64 * 100).with_tokio());
                let tasks: Vec<_> = exchanges.map(task::spawn).collect();
                tasks.into_iter().for_each(|task| task.join().unwrap());
            });
        });
    });
}

/// The fibre waits for a byte that another fibre of the same processor sends.
#[test]
fn a_fibre_that_waits_for_tokio_leaves_its_processor_to_others() {
    everywhere(|rt, _| {
        rt.run(|| {
            let server = block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
            let address = server.local_addr().unwrap();
            sinew::scope(|scope| {
                scope.spawn(move || {
                    let mut stream = sinew::net::TcpStream::connect(address).unwrap();
                    stream.write_all(b"?").unwrap();
                    stream.read_exact(&mut [0]).unwrap();
                });
                block_on(async {
                    let mut stream = server.accept().await.unwrap().0;
                    assert_eq!(stream.read_u8().await.unwrap(), b'?');
                    stream.write_u8(b'!').await.unwrap();
                });
            });
        });
    });
}

#[test]
fn timers_spawned_tasks_and_blocking_calls_work() {
    const LIMIT: Duration = Duration::from_millis(3);
    everywhere(|rt, _| {
        rt.run(|| {
            let began = Instant::now();
            let body = async {
                tokio::time::sleep(LIMIT).await;
                assert!(tokio::time::timeout(LIMIT, pending::<()>()).await.is_err());
                let (sender, receiver) = oneshot::channel();
                let spawned = tokio::spawn(async { receiver.await.unwrap() });
                let blocking = tokio::task::spawn_blocking(|| sender.send(42).unwrap());
                blocking.await.unwrap();
                assert_eq!(tokio::task::block_in_place(|| 7), 7);
                spawned.await.unwrap()
            };
            assert_eq!(task::spawn(body.with_tokio()).join().unwrap(), 42);
            assert!(began.elapsed() >= 2 * LIMIT);
        });
    });
}

fn has_context() -> bool {
    Handle::try_current().is_ok()
}

#[test]
fn the_context_ends_with_each_poll() {
    everywhere(|rt, _| {
        rt.run(|| {
            assert!(!has_context());
            let (sender, receiver) = oneshot::channel::<()>();
            sinew::scope(|scope| {
                scope.spawn(|| {
                    block_on(async {
                        assert!(has_context());
                        receiver.await.unwrap();
                        assert!(has_context());
                    });
                    assert!(!has_context());
                });
                // The fibre above waits in the middle of its future.
                fixture::let_others_wait();
                assert!(!has_context());
                sender.send(()).unwrap();
            });
            sinew_tokio::enter(|| assert!(has_context()));
            assert!(!has_context());
        });
    });
}

#[test]
fn the_context_ends_with_a_poll_that_panics() {
    everywhere(|rt, _| {
        rt.run(|| {
            let task = task::spawn(async { panic!("in a task") }.with_tokio());
            assert_eq!(message(&*task.join().unwrap_err().into_panic().unwrap()), "in a task");
            let fibre = sinew::spawn(|| block_on(async { panic!("in a fibre") }));
            assert_eq!(message(&*fibre.join().unwrap_err()), "in a fibre");
            assert!(!has_context());
            assert!(!task::spawn(async { has_context() }).join().unwrap());
        });
    });
}

/// Counts the drops that happen in Tokio's context.
struct InContext(Arc<AtomicUsize>);

impl Drop for InContext {
    fn drop(&mut self) {
        self.0.fetch_add(usize::from(has_context()), Ordering::Relaxed);
    }
}

#[test]
fn a_future_is_dropped_in_the_context_whether_or_not_it_has_begun() {
    everywhere(|rt, _| {
        rt.run(|| {
            let drops = Arc::new(AtomicUsize::new(0));
            let future = |dropped: InContext| async move {
                let _dropped = dropped;
                pending::<()>().await;
            };
            drop(future(InContext(Arc::clone(&drops))).with_tokio());
            assert_eq!(drops.load(Ordering::Relaxed), 1);
            {
                let mut begun = pin!(future(InContext(Arc::clone(&drops))).with_tokio());
                assert!(begun.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            }
            assert_eq!(drops.load(Ordering::Relaxed), 2);
            let aborted = task::spawn(future(InContext(Arc::clone(&drops))).with_tokio());
            aborted.abort();
            drop(aborted.join());
            assert!(fixture::happens_within(SOON, || drops.load(Ordering::Relaxed) == 3));
        });
    });
}

#[test]
fn a_future_runs_on_a_runtime_of_the_callers() {
    let own = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let id = own.handle().id();
    assert_ne!(id, sinew_tokio::handle().id());
    everywhere(|rt, _| {
        rt.run(|| {
            let current = || async {
                tokio::time::sleep(Duration::from_millis(1)).await;
                Handle::current().id()
            };
            assert_eq!(sinew::block_on(Compat::on(own.handle(), current())), id);
            // One inside of the other.
            let both = async { (current().with_tokio().await, current().await) };
            let both = sinew::block_on(Compat::on(own.handle(), both));
            assert_eq!(both, (sinew_tokio::handle().id(), id));
        });
    });
}

#[test]
fn a_kernel_thread_without_a_runtime_of_sinew_may_block_too() {
    assert_eq!(block_on(async { tokio::task::spawn_blocking(|| 1).await.unwrap() }), 1);
}

/// A future that is woken from another thread while it is polled is polled again.
#[test]
fn no_wake_up_from_the_helper_is_lost() {
    const ROUNDS: usize = 500;
    everywhere(|rt, _| {
        rt.run(|| {
            let (mut polls, mut done) = (0, 0);
            let body = poll_fn(|context| {
                polls += 1;
                while done < ROUNDS {
                    let waker = context.waker().clone();
                    done += 1;
                    drop(sinew_tokio::handle().spawn(async move { waker.wake() }));
                    if done % 2 == 0 {
                        return Poll::Pending;
                    }
                }
                Poll::Ready(())
            });
            block_on(body);
            assert!(polls > 1);
        });
    });
}
