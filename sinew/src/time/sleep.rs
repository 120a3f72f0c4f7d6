//! Time for futures: sleeping, and a limit to anything that is awaited.
//!
//! A sleep is a timer of the cluster that first polls it. Outside of any runtime it is one
//! of the kernel thread's own, which [`block_on`](crate::block_on) minds while it waits.
#![allow(unsafe_code)]

use crate::base::Deadline;
use crate::processor::cluster::ClusterShared;
use crate::processor::with_current;
use crate::task;
use crate::wait::Awaiting;
use crate::wait::{Expiry, Timer, Timers};
use std::cell::{Cell, OnceCell};
use std::fmt;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

thread_local! {
    /// How many calls of `block_on` are at work on this thread, outside of runtimes.
    static MINDED: Cell<u32> = const { Cell::new(0) };
    static OWN: OnceCell<Arc<Timers>> = const { OnceCell::new() };
}

/// Minds the timers of a kernel thread that is no processor, while it polls futures.
pub(crate) struct Minder {
    is_needed: bool,
}

/// For the caller, which may be a fibre: then there is nothing to mind.
pub(crate) fn minder() -> Minder {
    let is_needed = with_current(|processor| processor.is_none());
    if is_needed {
        MINDED.set(MINDED.get() + 1);
    }
    Minder { is_needed }
}

impl Minder {
    /// When to look again.
    pub(crate) fn next(&self) -> Deadline {
        if !self.is_needed {
            return Deadline::NEVER;
        }
        OWN.with(|own| own.get().map_or(Deadline::NEVER, |timers| timers.next()))
    }

    pub(crate) fn fire_due(&self) {
        if self.is_needed
            && let Some(timers) = OWN.with(|own| own.get().cloned())
        {
            timers.fire_due();
        }
    }
}

impl Drop for Minder {
    fn drop(&mut self) {
        if self.is_needed {
            MINDED.set(MINDED.get() - 1);
        }
    }
}

/// Whose timer it is.
enum Home {
    Cluster(Arc<ClusterShared>),
    Thread(Arc<Timers>),
}

impl Home {
    /// That of the caller.
    #[track_caller]
    fn current() -> Home {
        let cluster = with_current(|processor| processor.map(|processor| processor.cluster().to_arc()));
        match cluster {
            Some(cluster) => Home::Cluster(cluster),
            None if MINDED.get() > 0 => {
                Home::Thread(OWN.with(|own| Arc::clone(own.get_or_init(|| Arc::new(Timers::new())))))
            }
            None => panic!("nobody minds the time here: sleep in a task, or inside of `sinew::block_on`"),
        }
    }

    fn timers(&self) -> &Timers {
        match self {
            Home::Cluster(cluster) => cluster.timers(),
            Home::Thread(timers) => timers,
        }
    }

    /// Whether it will be minded although the future has moved to where it is polled now: the
    /// runtime that it comes from may end at any time.
    fn is_minded(&self) -> bool {
        match self {
            Home::Cluster(cluster) => with_current(|processor| match processor {
                Some(processor) => std::ptr::eq(processor.cluster(), &**cluster),
                None => MINDED.get() == 0,
            }),
            Home::Thread(timers) => OWN.with(|own| own.get().is_some_and(|own| Arc::ptr_eq(own, timers))),
        }
    }
}

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
    home: Option<Home>,
    timer: Option<Timer<Expiry>>,
}

// SAFETY: the timer is touched under its wheel's lock alone.
unsafe impl Send for Sleep {}
// SAFETY: through a shared reference nothing but the deadline can be reached.
unsafe impl Sync for Sleep {}

impl Sleep {
    fn until(deadline: Deadline) -> Sleep {
        Sleep { deadline, awaiting: Awaiting::new(), home: None, timer: None }
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
        let home = self.home.insert(Home::current());
        // SAFETY: the caller is pinned.
        let awaiting = unsafe { Pin::new_unchecked(&mut self.awaiting) };
        let alarm = Expiry(NonNull::from(awaiting.begin(context.waker())));
        let timer = self.timer.insert(Timer::new(alarm));
        // SAFETY: as above.
        let timer = unsafe { Pin::new_unchecked(&*timer) };
        // SAFETY: neither the timer nor the wait is moved or dropped before `disarm`.
        let earliest = unsafe { home.timers().arm(timer, self.deadline) };
        if let (true, Home::Cluster(cluster)) = (earliest, home) {
            cluster.idle().wake_sentinel();
        }
    }

    fn disarm(&mut self) {
        let (Some(home), Some(timer)) = (self.home.take(), &self.timer) else { return };
        // SAFETY: it has been pinned since it was armed.
        let timer = unsafe { Pin::new_unchecked(timer) };
        if home.timers().disarm(timer) {
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
            if let Some(home) = &this.home {
                if home.is_minded() && this.awaiting.poll(context).is_pending() {
                    return Poll::Pending;
                }
                this.disarm();
            } else if task::poll_spend(context).is_pending() {
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
