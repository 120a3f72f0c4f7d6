//! `block_on`: wake-ups before, while and after it waits.

use crate::base::Deadline;
use crate::base::models::{Watched, check};
use crate::base::spin::SpinLock;
use crate::task::block_on::{Blocked, block_on};
use crate::wait::{self, Limit, Outcome, Party};
use loom::sync::Arc;
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::Duration;

/// Something that happens once.
struct Event {
    /// The waker of the future that waits for it; `None` when it has happened.
    waker: SpinLock<Option<Waker>>,
    done: Watched<u32>,
}

impl Event {
    fn new() -> [Arc<Event>; 2] {
        let event = Arc::new(Event { waker: SpinLock::new(Some(Waker::noop().clone())), done: Watched::new(0) });
        [Arc::clone(&event), event]
    }

    fn happen(&self, wake_ups: usize) {
        self.done.set(7);
        let waker = self.waker.lock().take().unwrap();
        for _ in 0..wake_ups {
            waker.wake_by_ref();
        }
    }

    /// Leaves a waker. A future that `trusts` is ready when it is polled again, without a look.
    async fn wait(&self, trusts: bool) -> u32 {
        let mut was_polled = false;
        poll_fn(|context| {
            if was_polled && trusts {
                return Poll::Ready(());
            }
            was_polled = true;
            match &mut *self.waker.lock() {
                None => Poll::Ready(()),
                Some(waker) => {
                    *waker = context.waker().clone();
                    Poll::Pending
                }
            }
        })
        .await;
        self.done.get()
    }
}

#[test]
fn a_future_that_is_woken_is_polled_again_and_sees_what_the_waker_did() {
    for wake_ups in [1, 2] {
        check(2, 4, move |turn| {
            let [event, other] = Event::new();
            let (seen, ()) = turn.two(move || block_on(event.wait(true)), move || other.happen(wake_ups));
            assert_eq!(seen, 7);
        });
    }
}

#[test]
fn a_caller_that_is_woken_twice_for_one_event_is_woken_for_the_next() {
    check(2, 3, |turn| {
        let [[one, first], [two, second]] = [Event::new(), Event::new()];
        let happen = move || {
            first.happen(2);
            second.happen(1);
        };
        let wait = move || block_on(async { one.wait(false).await + two.wait(false).await });
        assert_eq!(turn.two(wait, happen), (14, ()));
    });
}

/// Waits between two polls, with a timer that is due. Returns whether it was woken.
fn wait_overdue(blocked: &Blocked) -> bool {
    let enter = |wait: &wait::Wait| blocked.enter(Party::timed(wait));
    let limit = Limit::until(Deadline::after(Duration::ZERO));
    let outcome = wait::block_within(limit, wait::Why::SLEEP, enter, |_| blocked.withdraw());
    blocked.begin_poll();
    outcome == Outcome::Told
}

#[test]
fn a_caller_whose_timer_is_due_withdraws_or_is_woken_and_sees_what_the_waker_did() {
    check(2, 4, |turn| {
        let blocked = std::sync::Arc::new(Blocked::new());
        let waker = Waker::from(std::sync::Arc::clone(&blocked));
        let done = Arc::new(Watched::new(0));
        let its = Arc::clone(&done);
        let wake = move || {
            its.set(7);
            waker.wake();
        };
        let wait = move || {
            if wait_overdue(&blocked) {
                assert_eq!(done.get(), 7);
            }
        };
        turn.two(wait, wake);
    });
}
