//! Futures that are forgotten, moved elsewhere and woken by wakers that misbehave: nobody
//! else suffers from that.

mod fixture;

use fixture::alone;
use sinew::sync::{Mutex, Semaphore};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Polls once, with this waker, and has to find that it is not ready.
fn begin<F: Future + ?Sized>(future: &mut Pin<Box<F>>, waker: &Waker) {
    assert!(future.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
}

#[test]
fn a_waker_may_drop_another_future_that_got_its_permit_at_the_same_time() {
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
