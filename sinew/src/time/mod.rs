//! Time: sleeping, limits, intervals.
//!
//! Each cluster has one timer wheel. A busy processor looks at it at its beats. The
//! *sentinel*, the one sleeping processor that minds the clock, sleeps until the next deadline
//! at most. There is no timer thread, and nothing wakes up when nothing is due.

mod interval;
mod sleep;
mod timeout;

pub use interval::Interval;
pub use sleep::{Elapsed, Sleep, Timeout, deadline_async, sleep_async, sleep_until_async, timeout_async};
pub use timeout::{deadline, timeout, try_sleep};

use crate::base::Deadline;
use crate::wait::{self, Limit, budget};
use std::time::{Duration, Instant};

/// Lets `duration` pass, at least. On a kernel thread that runs no fibre the
/// thread sleeps.
pub fn sleep(duration: Duration) {
    let deadline = Deadline::after(duration);
    if deadline.is_past() {
        budget::spend(budget::MESSAGE);
    } else {
        let _ = wait::sleep(Limit::until(deadline));
    }
}

/// Lets time pass until `deadline`.
pub fn sleep_until(deadline: Instant) {
    sleep(deadline.saturating_duration_since(Instant::now()));
}
