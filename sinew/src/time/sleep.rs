//! Time for futures: sleeping, and a limit to anything that is awaited.
//!
//! A sleep is a timer of the cluster that first polls it. Outside of any runtime it is one
//! of the kernel thread's own, which [`block_on`](crate::block_on) minds while it waits.
#![allow(unsafe_code)]

use crate::base::Deadline;
use crate::wait::budget;
use crate::wait::{Awaiting, Expiry, Timer, TimerOwner};
use std::fmt;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Lets `duration` pass, at least, when it is awaited.
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

/// Lets time pass until `deadline`, when it is awaited.
pub fn sleep_until_async(deadline: Instant) -> Sleep {
    Sleep::until(Deadline::at(deadline))
}

/// See [`sleep_async`].
///
/// # Panics
/// If it is polled neither by a task nor by [`block_on`](crate::block_on).
#[must_use = "futures do nothing unless they are awaited"]
pub struct Sleep {
    deadline: Deadline,
    awaiting: Awaiting,
    /// While the timer is armed, or has fired and this does not know it yet.
    owner: Option<TimerOwner>,
    timer: Option<Timer<Expiry>>,
}

// SAFETY: the timer is touched under its wheel's lock alone.
unsafe impl Send for Sleep {}
// SAFETY: through a shared reference nothing but the deadline can be reached.
unsafe impl Sync for Sleep {}

impl Sleep {
    fn until(deadline: Deadline) -> Sleep {
        Sleep { deadline, awaiting: Awaiting::new(), owner: None, timer: None }
    }

    /// Whether the time has come.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.deadline.is_past()
    }

    /// Begins anew, with another end.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        // SAFETY: what is pinned is not moved, and disarmed first.
        let this = unsafe { self.get_unchecked_mut() };
        this.disarm();
        this.deadline = Deadline::at(deadline);
    }

    fn arm(&mut self, context: &Context<'_>) {
        let owner = self.owner.insert(TimerOwner::current());
        // SAFETY: the caller is pinned.
        let awaiting = unsafe { Pin::new_unchecked(&mut self.awaiting) };
        let alarm = Expiry(NonNull::from(awaiting.begin(context.waker())));
        let timer = self.timer.insert(Timer::new(alarm));
        // SAFETY: as above.
        let timer = unsafe { Pin::new_unchecked(&*timer) };
        // SAFETY: neither the timer nor the wait is moved or dropped before `disarm`.
        let earliest = unsafe { owner.timers().arm(timer, self.deadline) };
        if let (true, TimerOwner::Cluster(cluster)) = (earliest, owner) {
            cluster.idle().wake_sentinel();
        }
    }

    fn disarm(&mut self) {
        let (Some(owner), Some(timer)) = (self.owner.take(), &self.timer) else { return };
        // SAFETY: it has been pinned since it was armed.
        let timer = unsafe { Pin::new_unchecked(timer) };
        if owner.timers().disarm(timer) {
            drop(self.awaiting.retract());
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // SAFETY: what is pinned is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        loop {
            if let Some(owner) = &this.owner {
                if owner.is_minded() && this.awaiting.poll(context).is_pending() {
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

/// The time was up that a future had.
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

/// Awaits `future`, but for no longer than `duration`. The form with a limit of everything
/// that is awaited: a future of this crate that is dropped because its time is up gives
/// back what it may have been given.
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

/// As [`timeout_async`], with the moment at which the time is up.
pub fn deadline_async<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout { future: future.into_future(), limit: sleep_until_async(deadline) }
}

/// See [`timeout_async`].
#[must_use = "futures do nothing unless they are awaited"]
#[derive(Debug)]
pub struct Timeout<F> {
    future: F,
    limit: Sleep,
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: both parts are pinned with the whole, which has no destructor of its own.
        let (future, limit) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.future), Pin::new_unchecked(&mut this.limit))
        };
        if let Poll::Ready(value) = future.poll(context) {
            return Poll::Ready(Ok(value));
        }
        limit.poll(context).map(|()| Err(Elapsed))
    }
}
