//! Sleeping and time limits for futures.
//!
//! A sleep arms a timer of the cluster that polls it. Outside of runtimes it arms a timer of its
//! kernel thread, which [`block_on`](crate::block_on) minds while it waits.
#![allow(unsafe_code)]

use crate::base::Deadline;
use crate::wait::Why;
use crate::wait::budget;
use crate::wait::{Awaiting, Expiry, Limits, TestClock, Timer, TimerOwner, carried, carrying};
use std::fmt;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Sleeps for at least `duration`, counted from this call: the form of [`sleep`](crate::sleep) for
/// tasks.
///
/// ```
/// use std::time::{Duration, Instant};
/// let began = Instant::now();
/// sinew::block_on(sinew::time::sleep_async(Duration::from_millis(2)));
/// assert!(began.elapsed() >= Duration::from_millis(2));
/// ```
pub fn sleep_async(duration: Duration) -> Sleep {
    Sleep::until(Deadline::after(duration))
}

/// Sleeps until `deadline`: the form of [`sleep_until`](crate::sleep_until) for tasks.
pub fn sleep_until_async(deadline: Instant) -> Sleep {
    Sleep::until(Deadline::at(deadline))
}

/// The future of [`sleep_async`] and [`sleep_until_async`].
///
/// # Panics
/// If it is polled where nobody minds its timer: neither in a runtime nor inside of
/// [`block_on`](crate::block_on).
#[must_use = "futures do nothing unless they are awaited"]
pub struct Sleep {
    deadline: Deadline,
    awaiting: Awaiting,
    /// The owner of the timer, from arming to disarming. The timer may have fired meanwhile.
    owner: Option<TimerOwner>,
    timer: Option<Timer<Expiry>>,
}

// SAFETY: an armed timer is touched under its wheel's lock alone.
unsafe impl Send for Sleep {}
// SAFETY: a shared reference gives access to the deadline alone.
unsafe impl Sync for Sleep {}

impl Sleep {
    fn until(deadline: Deadline) -> Sleep {
        Sleep { deadline, awaiting: Awaiting::new(), owner: None, timer: None }
    }

    /// Returns whether the deadline has passed.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.deadline.is_past()
    }

    /// Starts again, with another deadline.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        let this = self.parts();
        this.disarm();
        this.deadline = Deadline::at(deadline);
    }

    fn parts(self: Pin<&mut Self>) -> &mut Self {
        // SAFETY: no method moves the timer or the wait while the timer is armed.
        unsafe { self.get_unchecked_mut() }
    }

    /// Arms the timer. By `poll`, which has pinned the whole.
    fn arm(&mut self, context: &Context<'_>) {
        let owner = self.owner.insert(TimerOwner::current());
        // SAFETY: `poll` has pinned the whole.
        let awaiting = unsafe { Pin::new_unchecked(&mut self.awaiting) };
        let expiry = Expiry(NonNull::from(awaiting.begin(context.waker())));
        let timer = self.timer.insert(Timer::new(expiry));
        // SAFETY: the whole is pinned and its drop disarms, so neither the timer nor the wait is
        // moved or dropped before `disarm`.
        let earliest = unsafe { owner.timers().arm(timer, self.deadline) };
        if let (true, TimerOwner::Cluster(cluster)) = (earliest, owner) {
            cluster.idle().wake_sentinel();
        }
    }

    fn disarm(&mut self) {
        let (Some(owner), Some(timer)) = (self.owner.take(), &self.timer) else { return };
        if owner.timers().disarm(timer) {
            drop(self.awaiting.retract());
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.parts();
        loop {
            if let Some(owner) = &this.owner {
                if owner.is_minded() && this.awaiting.poll(context).is_pending() {
                    Why::SLEEP.leave_in_task();
                    return Poll::Pending;
                }
                this.disarm();
            } else if budget::poll_spend(context).is_pending() {
                return Poll::Pending;
            }
            if this.deadline.is_past() {
                return Poll::Ready(());
            }
            this.arm(context);
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.disarm();
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("remaining", &self.deadline.remaining()).finish()
    }
}

/// The error of a future whose time limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time was up")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for std::io::Error {
    fn from(elapsed: Elapsed) -> std::io::Error {
        std::io::Error::new(std::io::ErrorKind::TimedOut, elapsed)
    }
}

/// Awaits `future`, but no longer than `duration`. This is the form with a time limit for all
/// futures. A future of this crate that is dropped because its time is up loses nothing: what it was
/// given (a permit, a lock, a message) goes to the next in the queue.
///
/// The future returns [`Elapsed`] if the time was up first. Tasks that it has spawned in a
/// [`JoinSet`](crate::task::JoinSet) have the same limit.
///
/// ```
/// use sinew::{sync::mpsc, time};
/// use std::time::Duration;
/// let (_sender, mut receiver) = mpsc::channel::<u32>();
/// let answer = sinew::block_on(time::timeout_async(Duration::from_millis(2), receiver.recv_async()));
/// assert_eq!(answer, Err(time::Elapsed));
/// ```
pub fn timeout_async<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout { future: future.into_future(), limit: sleep_async(duration) }
}

/// Awaits `future` as [`timeout_async`] does, but no longer than until `deadline`.
pub fn deadline_async<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout { future: future.into_future(), limit: sleep_until_async(deadline) }
}

/// Awaits `future` as [`deadline_async`] does.
pub(crate) fn until_async<F: Future>(deadline: Deadline, future: F) -> Timeout<F> {
    Timeout { future, limit: Sleep::until(deadline) }
}

/// The future of [`timeout_async`] and [`deadline_async`].
#[must_use = "futures do nothing unless they are awaited"]
#[derive(Debug)]
pub struct Timeout<F> {
    future: F,
    limit: Sleep,
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: both fields are pinned with the whole, which has no destructor of its own.
        let (future, limit) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.future), Pin::new_unchecked(&mut this.limit))
        };
        // For tasks that the future spawns in a set.
        let outer = carried();
        let limits = Limits { deadline: outer.deadline.min(limit.deadline), ..outer };
        if let Poll::Ready(value) = carrying(limits, || future.poll(context)) {
            return Poll::Ready(Ok(value));
        }
        limit.poll(context).map(|()| Err(Elapsed))
    }
}

impl TestClock {
    /// As [`advance`](TestClock::advance), for tasks.
    pub fn advance_async(&self, duration: Duration) -> Sleep {
        Sleep::until(self.move_end(duration))
    }
}
