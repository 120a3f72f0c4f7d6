//! Time: sleeping, limits, intervals.
//!
//! Each cluster has one timer wheel. A busy processor looks at it at its beats. The
//! *sentinel*, the one sleeping processor that minds the clock, sleeps until the next deadline
//! at most. There is no timer thread, and nothing wakes up when nothing is due.

mod interval;
mod sleep;
mod timeout;

pub use crate::fibre::{sleep, sleep_until};
pub use interval::Interval;
pub(crate) use sleep::minder;
pub use sleep::{Elapsed, Sleep, Timeout, deadline_async, sleep_async, sleep_until_async, timeout_async};
pub use timeout::{deadline, timeout, try_sleep};
