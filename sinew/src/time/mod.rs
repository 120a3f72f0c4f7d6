#![doc = include_str!("README.md")]

mod interval;
mod sleep;
mod timeout;

pub use interval::Interval;
pub(crate) use sleep::until_async;
pub use sleep::{Elapsed, Sleep, Timeout, deadline_async, sleep_async, sleep_until_async, timeout_async};
pub use timeout::{deadline, timeout, try_sleep};

use crate::base::Deadline;
use crate::wait::{self, Limit, budget};
use std::time::{Duration, Instant};

/// Blocks the calling fibre for at least `duration`. A kernel thread that runs no fibre sleeps.
///
/// Does not notice [cancellation](crate::cancel): see [`try_sleep`].
pub fn sleep(duration: Duration) {
    let deadline = Deadline::after(duration);
    if deadline.is_past() {
        budget::spend(budget::MESSAGE);
    } else {
        let _ = wait::sleep(Limit::until(deadline));
    }
}

/// Blocks the calling fibre, or the kernel thread that runs none, until `deadline`.
pub fn sleep_until(deadline: Instant) {
    sleep(deadline.saturating_duration_since(Instant::now()));
}
