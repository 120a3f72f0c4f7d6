//! Limits in time for a part of the program.

use crate::base::Deadline;
use crate::cancel::Cancelled;
use crate::wait::{self, Limit, Limits, Outcome, carried, carrying};
use std::time::{Duration, Instant};

/// Runs `f` with a limit in time: what blocks in it, and can say so, fails when
/// `duration` has passed. See [`cancel`](crate::cancel) for which calls these are.
///
/// Limits nest: the earlier one counts. What `f` returns is what it made of it.
///
/// ```
/// use sinew::{sync::mpsc, time};
/// use std::time::Duration;
/// sinew::run(|| {
///     let (_sender, receiver) = mpsc::channel::<u32>();
///     let answer = time::timeout(Duration::from_millis(5), || receiver.recv());
///     assert!(answer.is_err());
/// });
/// ```
pub fn timeout<T>(duration: Duration, f: impl FnOnce() -> T) -> T {
    within(Deadline::after(duration), f)
}

/// As [`timeout`], with the moment at which the time is up.
pub fn deadline<T>(deadline: Instant, f: impl FnOnce() -> T) -> T {
    within(Deadline::at(deadline), f)
}

fn within<T>(deadline: Deadline, f: impl FnOnce() -> T) -> T {
    let outer = carried();
    carrying(Limits { deadline: outer.deadline.min(deadline), ..outer }, f)
}

/// As [`sleep`](crate::sleep), but ends early when the fibre is cancelled or a limit
/// that it carries is reached.
///
/// # Errors
/// If it did.
pub fn try_sleep(duration: Duration) -> Result<(), Cancelled> {
    sleep_within(Deadline::after(duration))
}

pub(super) fn sleep_within(deadline: Deadline) -> Result<(), Cancelled> {
    crate::cancel::check()?;
    if deadline.is_past() {
        return Ok(());
    }
    match wait::sleep(Limit::carried_until(deadline)) {
        Outcome::Cancelled => Err(Cancelled::Requested),
        // Its own end, or an earlier one that it carries.
        _ if deadline.is_past() => Ok(()),
        _ => Err(Cancelled::Overdue),
    }
}
