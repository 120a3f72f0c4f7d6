//! Time: one timer wheel per cluster, minded by whoever is awake, and by one
//! of the sleepers when nobody is.
//!
//! A processor that is busy looks at the wheel at its ticks; the *sentinel*,
//! the one sleeper that minds the clock, sleeps no longer than to the next
//! deadline. Arming a timer that is due before that wakes the sentinel. There
//! is no timer thread, and nothing wakes up when nothing is due.
#![allow(unsafe_code)]

mod asleep;
mod interval;
mod limits;
mod wheel;

pub use crate::fibre::{sleep, sleep_until};
pub(crate) use asleep::minder;
pub use asleep::{Elapsed, Sleep, Timeout, deadline_async, sleep_async, sleep_until_async, timeout_async};
pub use interval::Interval;
pub use limits::{deadline, timeout, try_sleep};

use crate::clock;
use crate::idle::Idle;
use crate::wait::{Lent, Outcome, Signalled, Wait};
use std::pin::{Pin, pin};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use wheel::{Timer, Wheel};

/// A point in time on the monotonic clock, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Deadline {
    ns: u64,
}

impl Deadline {
    pub(crate) const NEVER: Deadline = Deadline { ns: u64::MAX };

    /// What lies beyond the clock's range is never.
    pub(crate) fn after(duration: Duration) -> Deadline {
        let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Deadline { ns: clock::now_ns().saturating_add(duration_ns) }
    }

    pub(crate) fn at(instant: Instant) -> Deadline {
        Deadline { ns: clock::instant_ns(instant) }
    }

    pub(crate) fn is_never(self) -> bool {
        self == Deadline::NEVER
    }

    pub(crate) fn is_past(self) -> bool {
        !self.is_never() && self.ns <= clock::now_ns()
    }

    /// How long it is until then.
    pub(crate) fn remaining(self) -> Duration {
        Duration::from_nanos(self.ns.saturating_sub(clock::now_ns()))
    }
}

/// The wait to end when its time has come.
#[derive(Clone, Copy)]
struct Alarm(NonNull<Wait>);

// SAFETY: a wait may be settled from anywhere; `Timers` says why it is there.
unsafe impl Send for Alarm {}

/// The timers of a cluster.
pub(crate) struct Timers {
    wheel: Mutex<Wheel<Alarm>>,
    /// Not later than the first deadline; `u64::MAX` when there is none.
    /// Written under the lock, read by anyone.
    next_ns: AtomicU64,
}

impl Timers {
    pub(crate) fn new() -> Self {
        Timers { wheel: Mutex::new(Wheel::new(clock::now_ns())), next_ns: AtomicU64::new(u64::MAX) }
    }

    fn wheel(&self) -> MutexGuard<'_, Wheel<Alarm>> {
        self.wheel.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Calls `stop`, in which the caller, a fibre, stops until its wait is settled;
    /// at `deadline` the timer settles it.
    pub(crate) fn with_alarm(&self, idle: &Idle, wait: &Wait, deadline: Deadline, stop: impl FnOnce()) {
        if deadline.is_never() {
            return stop();
        }
        let timer = pin!(Timer::new(Alarm(NonNull::from(wait))));
        let timer = timer.as_ref();
        let lent = Lent::begin();
        // SAFETY: disarmed below, before the timer and the wait go out of scope: nothing
        // unwinds before that.
        if unsafe { self.arm(timer, deadline) } {
            idle.rouse_sentinel();
        }
        stop();
        self.disarm(timer);
        lent.returned();
    }

    /// Whether a deadline has passed, as far as that is worth asking the clock: one that is not
    /// the first is noticed with the first, if it has. To look at the clock takes as long as arming
    /// a timer and disarming it: some 30 ns.
    #[inline]
    pub(crate) fn has_come(&self, deadline: Deadline) -> bool {
        deadline.ns < self.next_ns.load(Ordering::Relaxed) && deadline.is_past()
    }

    /// Arms a timer. Whether whoever sleeps until the next deadline has to be told.
    ///
    /// # Safety
    /// Neither the timer nor its wait moves or ends before `disarm`.
    #[must_use]
    unsafe fn arm(&self, timer: Pin<&Timer<Alarm>>, deadline: Deadline) -> bool {
        let mut wheel = self.wheel();
        // SAFETY: by the contract.
        let earliest = unsafe { wheel.arm(timer, deadline.ns) };
        if earliest {
            self.next_ns.store(wheel.next_deadline_ns().unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        earliest
    }

    /// Takes a timer out. `false` if it has gone off: then whoever waits has been told.
    fn disarm(&self, timer: Pin<&Timer<Alarm>>) -> bool {
        self.wheel().cancel(timer)
    }

    /// When to look again.
    fn next(&self) -> Deadline {
        Deadline { ns: self.next_ns.load(Ordering::Relaxed) }
    }

    /// How long a sleeper that minds the clock may sleep.
    pub(crate) fn until_next(&self) -> Option<Duration> {
        let next_ns = self.next_ns.load(Ordering::Relaxed);
        (next_ns != u64::MAX).then(|| Duration::from_nanos(next_ns.saturating_sub(clock::now_ns())))
    }

    /// Ends the waits whose time has come. Whether there were any.
    #[inline]
    pub(crate) fn fire_due(&self) -> bool {
        let next_ns = self.next_ns.load(Ordering::Relaxed);
        next_ns != u64::MAX && self.fire_due_slow(next_ns)
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
                signalled.add(unsafe { party.rouse() });
            }
        });
        self.next_ns.store(wheel.next_deadline_ns().unwrap_or(u64::MAX), Ordering::Relaxed);
        drop(wheel);
        signalled.go_on() > 0
    }
}
