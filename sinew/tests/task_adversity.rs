//! Futures that are forgotten or moved to another runtime, and wakers that misbehave, do not harm
//! anything else.
#![allow(unsafe_code)]

mod fixture;

use fixture::{alone, begin_sleep, wait_asleep_until, wherever};
use sinew::io::{EventScope, OtherScope};
use sinew::net::{TcpListener, TcpStream, UnixStream};
use sinew::sync::{Condvar, Mutex, Semaphore, oneshot};
use sinew::{Cluster, Runtime, block_on, task};
use std::future::poll_fn;
use std::io::{Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Panics whenever it is called.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("this panic is part of the test");
    }
}

/// Counts its calls.
#[derive(Default)]
struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Polls the future once with this waker. It must be pending.
fn begin<F: Future + ?Sized>(future: &mut Pin<Box<F>>, waker: &Waker) {
    assert!(future.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
}

/// Polls the future once with the caller's waker. It must be pending.
fn begin_here<F: Future + ?Sized>(future: &mut Pin<Box<F>>) {
    let is_pending = block_on(poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())));
    assert!(is_pending);
}

#[test]
fn a_socket_may_be_dropped_after_its_futures_were_forgotten() {
    wherever(
        |setup| setup.processors == 1,
        |runtime, _| {
            runtime.run(|| {
                let (mut ours, theirs) = UnixStream::pair().unwrap();
                for _ in 0..3 {
                    let (stream, mut buffer) = (&theirs, [0; 8]);
                    let mut read = Box::pin(async move { stream.read_async(&mut buffer).await });
                    begin_here(&mut read);
                    std::mem::forget(read);
                }
                drop(theirs);
                assert!(ours.write_all(b"nobody").is_err());
            });
        },
    );
}

#[test]
fn a_waker_may_drop_a_future_that_got_its_permit_at_the_same_time() {
    struct Drops(std::sync::Mutex<Option<Boxed<()>>>);
    impl Wake for Drops {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
        }
    }
    alone(|| {
        let semaphore: &'static Semaphore = Box::leak(Box::new(Semaphore::new(3)));
        let all = semaphore.try_acquire_many(3).unwrap();
        let drops = Arc::new(Drops(std::sync::Mutex::new(None)));
        let mut first = Box::pin(semaphore.acquire_async());
        begin(&mut first, &Waker::from(Arc::clone(&drops)));
        let mut second: Boxed<()> = Box::pin(async { drop(semaphore.acquire_async().await) });
        begin(&mut second, Waker::noop());
        *drops.0.lock().unwrap() = Some(second);
        drop(all);
        drop(first);
        assert_eq!(semaphore.available(), 3);
    });
}

#[test]
fn a_waker_that_panics_when_a_timer_calls_it_ends_no_processor() {
    wherever(
        |setup| setup.processors == 1,
        |runtime, _| {
            runtime.run(|| {
                let sleep = begin_sleep(Duration::from_millis(1), &Waker::from(Arc::new(Panics)));
                wait_asleep_until(|| sleep.is_elapsed());
                block_on(sleep);
            });
        },
    );
}

#[test]
fn a_waker_that_panics_when_a_task_ends_ends_no_processor() {
    wherever(
        |setup| setup.processors == 1,
        |runtime, _| {
            runtime.run(|| {
                let mut handle = Box::pin(task::spawn(task::yield_now_async()));
                begin(&mut handle, &Waker::from(Arc::new(Panics)));
                while !handle.is_finished() {
                    sinew::yield_now();
                }
                assert_eq!(sinew::spawn(|| 7).join().unwrap(), 7);
                block_on(handle).unwrap();
            });
        },
    );
}

#[test]
fn a_waker_that_panics_when_a_poller_calls_it_ends_no_processor() {
    wherever(
        |setup| setup.processors == 1,
        |runtime, _| {
            runtime.run(|| {
                let (mut ours, theirs) = UnixStream::pair().unwrap();
                let (mut others, mut another) = UnixStream::pair().unwrap();
                let reader = sinew::spawn(move || another.read(&mut [0; 8]).unwrap());
                sinew::yield_now();
                let (stream, mut buffer) = (&theirs, [0; 8]);
                let mut read = Box::pin(async move { stream.read_async(&mut buffer).await });
                begin(&mut read, &Waker::from(Arc::new(Panics)));
                others.write_all(b"another").unwrap();
                ours.write_all(b"theirs").unwrap();
                assert_eq!(reader.join().unwrap(), 7);
                assert_eq!(block_on(read).unwrap(), 6);
            });
        },
    );
}

#[test]
fn a_waker_that_panics_does_not_keep_another_one_from_being_called() {
    alone(|| {
        let (condvar, counts) = (Condvar::new(), Arc::new(Counts::default()));
        let mutex = Mutex::new(());
        let wakers =
            [Waker::from(Arc::new(Panics)), Waker::from(Arc::clone(&counts)), Waker::from(Arc::clone(&counts))];
        let mut waiting: Vec<_> = wakers
            .iter()
            .map(|waker| {
                let mut wait = Box::pin(async { drop(condvar.wait_async(mutex.lock().unwrap()).await) });
                begin(&mut wait, waker);
                wait
            })
            .collect();
        condvar.notify_all();
        assert_eq!(counts.0.load(Ordering::Relaxed), 2);
        waiting.iter_mut().for_each(block_on);
    });
}

#[test]
fn a_sleep_whose_runtime_has_ended_goes_on_elsewhere() {
    const TIME: Duration = Duration::from_millis(20);
    alone(|| {
        let runtime = || Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
        let asleep = || runtime().run(|| block_on(poll_fn(|context| Poll::Ready(begin_sleep(TIME, context.waker())))));
        block_on(asleep());
        let sleep = asleep();
        runtime().run(|| block_on(sleep));
        let sleep = asleep();
        runtime().run(|| task::spawn(sleep).join().unwrap());
    });
}

#[test]
fn a_socket_whose_runtime_has_ended_can_be_waited_for_in_another() {
    alone(|| {
        let runtime = || Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
        let session = |listener: TcpListener| {
            runtime().run(|| {
                let address = listener.local_addr().unwrap();
                let (waited, has_waited) = oneshot::channel();
                let server = sinew::spawn(move || {
                    assert!(listener.accept_timeout(Duration::from_millis(1)).is_err());
                    waited.send(()).unwrap();
                    drop(listener.accept().unwrap());
                    listener
                });
                has_waited.recv().unwrap();
                drop(TcpStream::connect(address).unwrap());
                server.join().unwrap()
            })
        };
        let listener = session(TcpListener::bind("127.0.0.1:0").unwrap());
        session(listener);
    });
}

#[test]
fn a_future_begun_in_one_event_scope_does_not_touch_descriptors_of_another() {
    alone(|| {
        // SAFETY: only sockets of Sinew move between the event scopes.
        let scope = unsafe { EventScope::new() }.unwrap();
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
        let cluster = runtime.cluster(Cluster::builder().processors(1).event_scope(&scope)).unwrap();
        let (read, mut ours) = cluster
            .spawn(|| {
                let (ours, theirs) = UnixStream::pair().unwrap();
                let mut read: Boxed<std::io::Result<usize>> =
                    Box::pin(async move { theirs.read_async(&mut [0; 8]).await });
                begin_here(&mut read);
                (read, ours)
            })
            .join()
            .unwrap();
        cluster.spawn(move || ours.write_all(b"secret").unwrap()).join().unwrap();
        let error = runtime.run(|| block_on(read)).unwrap_err();
        assert!(error.get_ref().is_some_and(|source| source.is::<OtherScope>()), "{error}");
    });
}
