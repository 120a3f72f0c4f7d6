#![doc = include_str!("README.md")]

mod handler;
mod number;
mod registry;
mod signals;

pub use number::Signal;
pub use signals::{IntoIter, Iter, Signals};

use std::io;
use std::time::{Duration, Instant};

/// Waits for Ctrl-C: for SIGINT.
///
/// The signal is caught during the call only: see [`Signals`]. A program that waits more than once
/// makes a `Signals` and keeps it. After this call a second Ctrl-C ends the process, which is what
/// users expect of a program that takes long to stop.
///
/// ```no_run
/// sinew::run(|| {
///     println!("press Ctrl-C");
///     sinew::signal::ctrl_c().unwrap();
///     println!("goodbye");
/// });
/// ```
///
/// # Errors
/// The kernel's, and [`Cancelled`](crate::cancel::Cancelled).
pub fn ctrl_c() -> io::Result<()> {
    interrupts()?.recv().map(drop)
}

/// As [`ctrl_c`], for tasks. The signal is caught from the first poll on.
///
/// # Errors
/// The kernel's.
pub async fn ctrl_c_async() -> io::Result<()> {
    interrupts()?.recv_async().await;
    Ok(())
}

/// As [`ctrl_c`], but waits no longer than `timeout`.
///
/// # Errors
/// `TimedOut` as well.
pub fn ctrl_c_timeout(timeout: Duration) -> io::Result<()> {
    interrupts()?.recv_timeout(timeout).map(drop)
}

/// As [`ctrl_c`], but waits no longer than until `deadline`.
///
/// # Errors
/// `TimedOut` as well.
pub fn ctrl_c_deadline(deadline: Instant) -> io::Result<()> {
    interrupts()?.recv_deadline(deadline).map(drop)
}

fn interrupts() -> io::Result<Signals> {
    Signals::new([Signal::INT])
}
