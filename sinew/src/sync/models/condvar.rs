//! `Condvar`, with a `Mutex`.

use crate::base::models::{Watched, check};
use crate::sync::{Condvar, Mutex};
use loom::sync::Arc;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

/// A number of tokens, which loom watches, and a condition: there is a token.
struct Tokens {
    tokens: Mutex<Watched<u32>>,
    is_there: Condvar,
}

impl Tokens {
    fn new<const N: usize>() -> [Arc<Tokens>; N] {
        let tokens = Arc::new(Tokens { tokens: Mutex::new(Watched::new(0)), is_there: Condvar::new() });
        [(); N].map(|()| Arc::clone(&tokens))
    }

    fn put(&self) {
        self.tokens.lock().unwrap().change(|tokens| *tokens += 1);
        self.is_there.notify_one();
    }

    fn take(&self) {
        let tokens = self.tokens.lock().unwrap();
        let tokens = self.is_there.wait_while(tokens, |tokens| tokens.get() == 0).unwrap();
        tokens.change(|tokens| *tokens -= 1);
    }
}

#[test]
fn a_notification_between_the_check_and_the_wait_is_not_lost() {
    check(2, 3, |turn| {
        let [puts, takes, after] = Tokens::new();
        turn.two(move || puts.put(), move || takes.take());
        assert_eq!(after.tokens.lock().unwrap().get(), 0);
    });
}

#[test]
fn a_waiter_whose_time_is_up_has_the_lock_again_and_is_not_in_the_queue() {
    check(2, 3, |turn| {
        let [puts, waits, after] = Tokens::new();
        let wait = move || {
            let tokens = waits.tokens.lock().unwrap();
            let (tokens, end) = waits.is_there.wait_timeout(tokens, Duration::ZERO).unwrap();
            assert!(tokens.get() == 1 || end.timed_out(), "notified without a token");
        };
        turn.two(move || puts.put(), wait);
        after.is_there.notify_one();
        assert_eq!(after.tokens.lock().unwrap().get(), 1);
    });
}

/// A future that takes a token.
type Taking = Pin<Box<dyn Future<Output = ()>>>;

fn taking(tokens: &Arc<Tokens>) -> Taking {
    let its = Arc::clone(tokens);
    Box::pin(async move {
        let tokens = its.tokens.lock_async().await.unwrap();
        let tokens = its.is_there.wait_while_async(tokens, |tokens| tokens.get() == 0).await.unwrap();
        tokens.change(|tokens| *tokens -= 1);
    })
}

#[test]
fn a_future_that_is_notified_and_dropped_passes_the_notification_on() {
    check(2, 3, |turn| {
        let [puts, after] = Tokens::new();
        let mut context = Context::from_waker(Waker::noop());
        let [mut first, mut second] = [taking(&puts), taking(&puts)];
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        turn.two(move || puts.put(), move || drop(first));
        assert!(second.as_mut().poll(&mut context).is_ready(), "the second future is notified");
        assert_eq!(after.tokens.lock().unwrap().get(), 0);
    });
}
