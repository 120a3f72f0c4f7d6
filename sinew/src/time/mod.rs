#![doc = include_str!("README.md")]

mod interval;
mod sleep;
mod timeout;

pub use crate::wait::TestClock;
pub use interval::Interval;
pub use sleep::{Elapsed, Sleep, Timeout, deadline_async, sleep_async, sleep_until_async, timeout_async};
pub use timeout::{deadline, timeout, try_sleep};

use crate::base::{Deadline, clock};
use crate::wait::{self, Limit, budget};
use std::time::{Duration, Instant};

/// Returns the present time: `Instant::now()`, unless the caller's runtime goes by a [`TestClock`].
///
/// A program that is to be tested by such a clock asks for the time by this function.
pub fn now() -> Instant {
    clock::instant_at(clock::now_ns())
}

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
    sleep(deadline.saturating_duration_since(now()));
}
