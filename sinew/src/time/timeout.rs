//! Time limits for a part of the program.

use crate::base::Deadline;
use crate::cancel::Cancelled;
use crate::wait::{self, Limit, Limits, Outcome, carried, carrying};
use std::time::{Duration, Instant};

/// Runs `f` with a time limit. When `duration` has passed, the blocking calls in `f` that can
/// report it fail; see [`cancel`](crate::cancel) for the list of these calls. Returns what `f`
/// returns.
///
/// Limits nest: the earlier one counts. Fibres that `f` spawns in a scope, and tasks that it spawns in a
/// set, inherit the limit.
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

/// Runs `f` with a time limit as [`timeout`] does, which ends at `deadline`.
pub fn deadline<T>(deadline: Instant, f: impl FnOnce() -> T) -> T {
    within(Deadline::at(deadline), f)
}

fn within<T>(deadline: Deadline, f: impl FnOnce() -> T) -> T {
    let outer = carried();
    carrying(Limits { deadline: outer.deadline.min(deadline), ..outer }, f)
}

/// Sleeps as [`sleep`](crate::sleep) does, but notices [cancellation](crate::cancel).
///
/// # Errors
/// [`Cancelled`] if the fibre was cancelled, or a limit that it carries was reached, before
/// `duration` had passed.
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
        // Either the sleep is over, or a carried deadline came first.
        _ if deadline.is_past() => Ok(()),
        _ => Err(Cancelled::Overdue),
    }
}
