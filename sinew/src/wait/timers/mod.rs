//! The timers of a cluster.
#![allow(unsafe_code)]

mod minder;
mod wheel;

pub(crate) use minder::{Minder, TimerOwner};
pub(crate) use wheel::Timer;

use super::{Lent, Outcome, Signalled, Wait};
use crate::base::Deadline;
use crate::base::clock;
use crate::processor::cluster::ClusterShared;
use crate::processor::driver::Driver;
use std::pin::{Pin, pin};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use wheel::Wheel;

/// The wait to end when its time has come.
#[derive(Clone, Copy)]
pub(crate) struct Expiry(pub(crate) NonNull<Wait>);

// SAFETY: a wait may be settled from anywhere; `Timers` says why it is there.
unsafe impl Send for Expiry {}

/// The timers of a cluster.
pub(crate) struct Timers {
    wheel: Mutex<Wheel<Expiry>>,
    /// Not later than the first deadline; `u64::MAX` when there is none.
    /// Written under the lock, read by anyone.
    next_ns: AtomicU64,
}

impl Timers {
    pub(crate) fn new() -> Self {
        Timers { wheel: Mutex::new(Wheel::new(clock::now_ns())), next_ns: AtomicU64::new(u64::MAX) }
    }

    fn wheel(&self) -> MutexGuard<'_, Wheel<Expiry>> {
        self.wheel.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether a deadline has passed, as far as that is worth asking the clock: one that is not
    /// the first is noticed with the first, if it has. To look at the clock takes as long as arming
    /// a timer and disarming it: some 30 ns.
    #[inline]
    pub(crate) fn has_come(&self, deadline: Deadline) -> bool {
        deadline.ns() < self.next_ns.load(Ordering::Relaxed) && deadline.is_past()
    }

    /// Arms a timer. Whether whoever sleeps until the next deadline has to be told.
    ///
    /// # Safety
    /// Neither the timer nor its wait moves or ends before `disarm`.
    #[must_use]
    pub(crate) unsafe fn arm(&self, timer: Pin<&Timer<Expiry>>, deadline: Deadline) -> bool {
        let mut wheel = self.wheel();
        // SAFETY: by the contract.
        let earliest = unsafe { wheel.arm(timer, deadline.ns()) };
        if earliest {
            self.next_ns.store(wheel.next_deadline_ns().unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        earliest
    }

    /// Takes a timer out. `false` if it has gone off: then whoever waits has been told.
    pub(crate) fn disarm(&self, timer: Pin<&Timer<Expiry>>) -> bool {
        self.wheel().cancel(timer)
    }

    /// When to look again.
    pub(crate) fn next(&self) -> Deadline {
        Deadline::at_ns(self.next_ns.load(Ordering::Relaxed))
    }

    #[cold]
    fn fire_due_slow(&self, next_ns: u64) -> bool {
        let now_ns = clock::now_ns();
        if now_ns < next_ns {
            return false;
        }
        let mut signalled = Signalled::new();
        let mut wheel = self.wheel();
        wheel.advance(now_ns, |alarm| {
            // SAFETY: nobody passes `cancel` in `with_alarm` before we release the
            // lock, so the wait is there.
            if let Some(party) = unsafe { alarm.0.as_ref() }.settle(Outcome::TimedOut) {
                // SAFETY: the wait was ours to settle, so nobody else signals.
                signalled.add(unsafe { party.signal_later() });
            }
        });
        self.next_ns.store(wheel.next_deadline_ns().unwrap_or(u64::MAX), Ordering::Relaxed);
        drop(wheel);
        signalled.go_on() > 0
    }
}

impl Driver for Timers {
    /// Ends the waits whose time has come.
    #[inline]
    fn fire_due(&self) -> bool {
        let next_ns = self.next_ns.load(Ordering::Relaxed);
        next_ns != u64::MAX && self.fire_due_slow(next_ns)
    }

    fn until_next(&self) -> Option<Duration> {
        let next_ns = self.next_ns.load(Ordering::Relaxed);
        (next_ns != u64::MAX).then(|| Duration::from_nanos(next_ns.saturating_sub(clock::now_ns())))
    }
}

impl ClusterShared {
    #[inline]
    pub(crate) fn timers(&self) -> &Timers {
        self.drivers().get()
    }

    /// Calls `stop`, in which the caller, a fibre, stops until its wait is settled. At `deadline` a
    /// timer settles it.
    pub(super) fn with_timer(&self, wait: &Wait, deadline: Deadline, stop: impl FnOnce()) {
        if deadline.is_never() {
            return stop();
        }
        let timer = pin!(Timer::new(Expiry(NonNull::from(wait))));
        let timer = timer.as_ref();
        let timers = self.timers();
        let lent = Lent::begin();
        // SAFETY: disarmed below, before the timer and the wait go out of scope: nothing unwinds
        // before that.
        if unsafe { timers.arm(timer, deadline) } {
            self.idle().wake_sentinel();
        }
        stop();
        timers.disarm(timer);
        lent.returned();
    }
}
