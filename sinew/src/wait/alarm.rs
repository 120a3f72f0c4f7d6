//! Alarms: a waker that is called at a time, where no lock is held. Nobody waits meanwhile, so an alarm keeps no
//! runtime from its end.
#![allow(unsafe_code)]

use super::timers::{Expiry, Timer};
use super::{Outcome, Party, Wait};
use crate::base::Deadline;
use crate::processor::cluster::ClusterShared;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

/// An alarm of a cluster. It can be set again when it has gone off.
pub(crate) struct Alarm {
    cluster: Arc<ClusterShared>,
    /// From `set` to `clear`.
    armed: Mutex<Option<Box<Armed>>>,
}

/// A timer and its wait. Neither moves while the timer is armed: they lie in a box.
struct Armed {
    wait: Wait,
    timer: Option<Timer<Expiry>>,
}

// SAFETY: the wait may be settled from any thread, and the timer is used under the lock of its wheel.
unsafe impl Send for Armed {}

impl Alarm {
    pub(crate) fn new(cluster: &ClusterShared) -> Alarm {
        Alarm { cluster: cluster.to_arc(), armed: Mutex::new(None) }
    }

    /// Sets the alarm, which is clear: `waker` is called at `deadline`. Whoever is called clears the alarm.
    pub(crate) fn set(&self, deadline: Deadline, waker: Waker) {
        let mut place = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        debug_assert!(place.is_none());
        let armed = place.insert(Box::new(Armed { wait: Wait::new(Party::of_waker(waker)), timer: None }));
        let expiry = Expiry(NonNull::from(&armed.wait));
        let timer = armed.timer.insert(Timer::new(expiry));
        // SAFETY: both lie in the box, which `clear` drops after it has disarmed the timer. So does `drop`.
        if unsafe { self.cluster.timers().arm(timer, deadline) } {
            self.cluster.idle().wake_sentinel();
        }
    }

    /// Makes the alarm clear. A waker that has not been called is dropped.
    pub(crate) fn clear(&self) {
        let armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(armed) = armed else { return };
        if let Some(timer) = &armed.timer {
            self.cluster.timers().disarm(timer);
        }
        if let Some(owed) = armed.wait.settle(Outcome::Cancelled) {
            Party::of_owed(owed).discard();
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.clear();
    }
}
