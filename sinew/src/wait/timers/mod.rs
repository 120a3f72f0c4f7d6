//! The timers of a cluster, as a driver. The essay of [`time`](crate::time) says how they work.
#![allow(unsafe_code)]

mod minder;
mod test_clock;
mod wheel;

pub(crate) use minder::{Minder, TimerOwner};
pub(crate) use test_clock::Hold;
pub use test_clock::TestClock;
pub(crate) use wheel::Timer;

use super::{Lent, Outcome, Party, Signalled, Wait};
use crate::base::Deadline;
use crate::base::clock;
use crate::processor::cluster::ClusterShared;
use crate::processor::driver::Driver;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use wheel::Wheel;

/// The payload of a timer: the wait that it ends when it fires.
#[derive(Clone, Copy)]
pub(crate) struct Expiry(pub(crate) NonNull<Wait>);

// SAFETY: a wait may be settled from any thread. `Timers::arm` demands that it exists until the
// timer is disarmed.
unsafe impl Send for Expiry {}

/// The timers of a cluster.
pub(crate) struct Timers {
    wheel: Mutex<Wheel<Expiry>>,
    /// Not later than the earliest deadline; `u64::MAX` if no timer is armed. Written under the lock,
    /// read without it.
    next_ns: AtomicU64,
    /// What the timers go by instead of the machine's clock.
    clock: Option<TestClock>,
    /// Whether the cluster has ended. Written and read for the clock alone.
    has_ended: AtomicBool,
}

impl Timers {
    pub(crate) fn new() -> Self {
        Timers::going_by(None)
    }

    /// Returns timers that go by `clock`, or by the machine's clock.
    pub(crate) fn going_by(clock: Option<TestClock>) -> Self {
        if let Some(clock) = &clock {
            clock.build();
        }
        let now_ns = clock.as_ref().map_or_else(clock::real_ns, TestClock::now_ns);
        Timers {
            wheel: Mutex::new(Wheel::new(now_ns)),
            next_ns: AtomicU64::new(u64::MAX),
            clock,
            has_ended: AtomicBool::new(false),
        }
    }

    fn wheel(&self) -> MutexGuard<'_, Wheel<Expiry>> {
        self.wheel.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns whether `deadline` has passed. Reads the clock only if `deadline` is earlier than all
    /// armed timers: otherwise it fires with them. To read the clock takes as long as to arm a timer
    /// and to disarm it, about 30 ns.
    #[inline]
    pub(crate) fn has_come(&self, deadline: Deadline) -> bool {
        deadline.ns() < self.next_ns.load(Ordering::Relaxed) && deadline.is_past()
    }

    /// Arms a timer. Returns whether it is the earliest: then the sentinel has to be woken.
    ///
    /// # Safety
    /// Neither the timer nor its wait is moved or dropped before [`disarm`](Timers::disarm), which is
    /// called on these `Timers` even if the timer has fired.
    #[must_use]
    pub(crate) unsafe fn arm(&self, timer: &Timer<Expiry>, deadline: Deadline) -> bool {
        let mut wheel = self.wheel();
        // SAFETY: by the contract.
        let earliest = unsafe { wheel.arm(timer, deadline.ns()) };
        if earliest {
            self.next_ns.store(wheel.next_deadline_ns().unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        earliest
    }

    /// Disarms a timer. Returns `false` if it has fired; then its wait has been settled.
    pub(crate) fn disarm(&self, timer: &Timer<Expiry>) -> bool {
        self.wheel().cancel(timer)
    }

    /// Returns the number of armed timers.
    pub(crate) fn armed(&self) -> usize {
        self.wheel().len()
    }

    /// Returns the time at which to call `fire_due` next.
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
        wheel.advance(now_ns, |expiry| {
            // SAFETY: the owner of the timer passes `disarm` only after we release the lock, and
            // by the contract of `arm` the wait exists until then.
            if let Some(owed) = unsafe { expiry.0.as_ref() }.settle(Outcome::TimedOut) {
                signalled.add(Party::signal_owed_later(owed));
            }
        });
        self.next_ns.store(wheel.next_deadline_ns().unwrap_or(u64::MAX), Ordering::Relaxed);
        drop(wheel);
        signalled.go_on() > 0
    }
}

impl Driver for Timers {
    /// Fires the timers that are due.
    #[inline]
    fn fire_due(&self) -> bool {
        let next_ns = self.next_ns.load(Ordering::Relaxed);
        next_ns != u64::MAX && self.fire_due_slow(next_ns)
    }

    fn until_next(&self) -> Option<Duration> {
        let next_ns = self.next_ns.load(Ordering::Relaxed);
        if let Some(clock) = &self.clock {
            return clock.pass();
        }
        (next_ns != u64::MAX).then(|| Duration::from_nanos(next_ns.saturating_sub(clock::now_ns())))
    }

    fn stop(&self) {
        if let Some(clock) = &self.clock {
            self.has_ended.store(true, Ordering::Relaxed);
            clock.abandon();
        }
    }
}

impl ClusterShared {
    #[inline]
    pub(crate) fn timers(&self) -> &Timers {
        self.drivers().get()
    }

    /// Calls `stop`, in which the calling fibre stops until its wait is settled. A timer settles the
    /// wait at `deadline`.
    pub(super) fn with_timer(&self, wait: &Wait, deadline: Deadline, stop: impl FnOnce()) {
        if deadline.is_never() {
            return stop();
        }
        let timer = Timer::new(Expiry(NonNull::from(wait)));
        let timers = self.timers();
        let lent = Lent::begin();
        // SAFETY: disarmed below, before the timer and the wait are dropped; `lent` sees to it that
        // nothing unwinds before that.
        if unsafe { timers.arm(&timer, deadline) } {
            self.idle().wake_sentinel();
        }
        stop();
        timers.disarm(&timer);
        lent.returned();
    }
}
