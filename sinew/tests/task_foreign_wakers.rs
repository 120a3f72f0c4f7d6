//! Wakers run foreign code when they are cloned, called and dropped. Whatever this code does, no
//! other strand waits for ever because of it.
#![allow(unsafe_code)]

mod fixture;

use fixture::{LONG, SOON, alone, happens_within, one_of, wherever};
use sinew::net::UnixStream;
use sinew::sync::{Semaphore, mpmc};
use sinew::{Runtime, block_on, time};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::time::Duration;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>, waker: &Waker) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(waker))
}

/// Drops its contents when it is called.
#[derive(Default)]
struct Drops {
    held: Mutex<Option<Boxed<()>>>,
    is_done: AtomicBool,
}

impl Wake for Drops {
    fn wake(self: Arc<Self>) {
        drop(self.held.lock().unwrap().take());
        self.is_done.store(true, SeqCst);
    }
}

/// Returns a waker that calls `on_clone` before it is cloned.
fn waker(on_clone: impl Fn() + Send + Sync + 'static) -> Waker {
    type Called = Arc<dyn Fn() + Send + Sync>;
    static TABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            // SAFETY: the data are those of `new` below.
            let called = unsafe { &*data.cast::<Called>() };
            called();
            new(Arc::clone(called))
        },
        // SAFETY: as above, and they are not used again.
        |data| drop(unsafe { Box::from_raw(data.cast_mut().cast::<Called>()) }),
        |_| (),
        // SAFETY: as above.
        |data| drop(unsafe { Box::from_raw(data.cast_mut().cast::<Called>()) }),
    );
    fn new(called: Called) -> RawWaker {
        RawWaker::new(Box::into_raw(Box::new(called)).cast(), &TABLE)
    }
    // SAFETY: the functions of the table keep the contract of wakers.
    unsafe { Waker::from_raw(new(Arc::new(on_clone))) }
}

/// Makes a socket with a waiting future on each side. The reader's waker drops the writer. Returns
/// the futures with the socket's other end.
fn both_sides(drops: &Arc<Drops>) -> (Boxed<()>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let ours = Arc::new(ours);
    ours.set_nonblocking(true).unwrap();
    while (&*ours).write(&[0; 4096]).is_ok() {}
    ours.set_nonblocking(false).unwrap();
    let stream = Arc::clone(&ours);
    let mut writes: Boxed<()> = Box::pin(async move { drop(stream.write_async(&[0; 1]).await) });
    assert!(poll(&mut writes, Waker::noop()).is_pending());
    let mut reads: Boxed<()> = Box::pin(async move { drop(ours.read_async(&mut [0; 1]).await) });
    assert!(poll(&mut reads, &Waker::from(Arc::clone(drops))).is_pending());
    *drops.held.lock().unwrap() = Some(writes);
    (reads, theirs)
}

#[test]
fn a_waker_may_drop_the_future_on_the_other_side_of_its_socket() {
    wherever(
        |setup| setup.processors <= 2,
        |runtime, _| {
            runtime.run(|| {
                let drops = Arc::new(Drops::default());
                let (reads, theirs) = both_sides(&drops);
                // The end of the connection signals both sides.
                drop(theirs);
                assert!(happens_within(SOON, || drops.is_done.load(SeqCst)));
                block_on(reads);
            });
        },
    );
}

#[test]
fn a_waker_may_drop_the_future_on_the_other_side_when_their_runtime_ends() {
    alone(|| {
        let drops = Arc::new(Drops::default());
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
        let kept = runtime.run(|| both_sides(&drops));
        drop(runtime);
        assert!(drops.is_done.load(SeqCst));
        drop(kept);
    });
}

#[test]
fn a_waker_may_use_the_channel_that_clones_it() {
    alone(|| {
        let (sender, receiver) = mpmc::channel();
        let clones = Arc::new(AtomicUsize::new(0));
        let sends = waker({
            let clones = Arc::clone(&clones);
            move || sender.send(clones.fetch_add(1, SeqCst)).unwrap()
        });
        let mut receives = Box::pin(receiver.recv_async());
        assert_eq!(poll(&mut receives, &sends), Poll::Ready(Ok(0)), "the message sent by the clone is lost");
        assert_eq!(clones.load(SeqCst), 1);
    });
}

#[test]
fn a_waker_that_panics_in_clone_leaves_the_queue_unchanged() {
    alone(|| {
        let (sender, receiver) = mpmc::channel();
        let panics = waker(|| panic!("this panic is part of the test"));
        let mut dropped = Box::pin(receiver.recv_async());
        assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut dropped, &panics))).is_err());
        let mut kept = Box::pin(receiver.recv_async());
        assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut kept, &panics))).is_err());
        drop(dropped);
        sender.send(7).unwrap();
        sender.send(8).unwrap();
        // Either the future entered the queue before the clone, or it never did. An async function
        // that has panicked is not polled again.
        drop(kept);
        assert_eq!(receiver.recv(), Ok(7));
        assert_eq!(receiver.recv(), Ok(8));
    });
}

#[test]
fn a_sleep_whose_waker_panicked_in_clone_may_be_polled_again() {
    alone(|| {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
        runtime.run(|| {
            let panics = waker(|| panic!("this panic is part of the test"));
            // A sleep that is over before its first poll clones no waker.
            let sleep = one_of(20, || {
                let mut sleep = Box::pin(time::sleep_async(Duration::from_millis(5)));
                let polled = catch_unwind(AssertUnwindSafe(|| poll(&mut sleep, &panics)));
                if polled.is_err() { Ok(sleep) } else { Err(polled.is_ok()) }
            });
            block_on(sleep);
            let mut sleep = Box::pin(time::sleep_async(LONG));
            assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut sleep, &panics))).is_err());
            drop(sleep);
        });
    });
}

#[test]
fn a_waker_that_panics_in_drop_keeps_no_other_waiter_from_its_turn() {
    struct PanicsOnDrop;
    impl Wake for PanicsOnDrop {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("this panic is part of the test");
        }
    }
    alone(|| {
        let semaphore = Semaphore::new(1);
        let mut two = Box::pin(semaphore.acquire_many_async(2));
        let waker = Waker::from(Arc::new(PanicsOnDrop));
        assert!(poll(&mut two, &waker).is_pending());
        // The future has the last reference.
        drop(waker);
        let mut one = Box::pin(semaphore.acquire_async());
        assert!(poll(&mut one, Waker::noop()).is_pending(), "the second waiter passed the first");
        assert!(catch_unwind(AssertUnwindSafe(|| drop(two))).is_err());
        assert!(poll(&mut one, Waker::noop()).is_ready());
    });
}
