//! Asking fibres to end what they do, and limits in time to what they wait for.
//!
//! # The problem
//!
//! A server stops, a client goes away, a request takes too long: what fibres still do
//! for it should end, soon and in order. They cannot be stopped from outside: what
//! they have borrowed, locked and half written is theirs to put right. So they are
//! *asked*, and the place where they notice is the one where they spend their lives:
//! a call that blocks.
//!
//! # What there is
//!
//! - [`Fibre::cancel`](crate::Fibre::cancel) and [`Scope::cancel`](crate::Scope::cancel)
//!   ask. That cannot be taken back: every blocking call from then on fails.
//! - [`time::timeout`](crate::time::timeout) and
//!   [`time::deadline`](crate::time::deadline) run a part of the program with a limit
//!   in time, which ends with that part.
//! - [`shield`] runs a part that is to be left alone: the farewell to a peer, the
//!   flush of a buffer. Limits of its own still count in it.
//! - [`check`] is for code that computes and does not block.
//!
//! # Which calls notice
//!
//! Those whose result can say so. It is an error value, never a panic: no lock is
//! poisoned by it, destructors run when the program returns through them.
//!
//! | call | what a cancelled or overdue fibre gets |
//! | --- | --- |
//! | `recv`, `send` of channels | the error for a closed channel, with the message in the case of `send` |
//! | their forms with a limit | that error, or the one for the limit if it was a deadline |
//! | `Semaphore::wait_timeout`, `acquire_timeout` and the like | [`AcquireError`](crate::sync::AcquireError) |
//! | [`time::try_sleep`](crate::time::try_sleep), `Interval::try_tick` | [`Cancelled`] |
//! | a scope that waits for its fibres, the `join` of one of them | goes on waiting, and cancels them |
//!
//! Locks, condition variables, barriers, `sleep`, `park` and the `join` of a fibre of
//! no scope are std's, whose results have no room for it; they wait on. A condition
//! variable could return early, but the loop around it would then never sleep again.
//! A lock is held for a moment only, so nothing is gained.
//!
//! The scope's rule makes cancellation follow the program's structure without a tree
//! of its own: whoever waits for fibres that work on its behalf passes on that it has
//! been cancelled.
//!
//! # What others do
//!
//! Go hands a context through every call, and every call that blocks selects on it:
//! explicit, composable, and in every signature. Java interrupts a thread: one flag,
//! which any library may swallow; its structured scopes cancel what was forked in
//! them, which is kept here. Trio has the clearest model, scopes with deadlines and
//! shields that nest, and raises an exception; the deadlines and shields are kept, the
//! exception is an error value. `may` unwinds the coroutine by a panic, which poisons
//! its locks.
//!
//! The kind of the [`io::Error`] is not `Interrupted`: std's `read_exact`, `write_all`
//! and `copy` try again after that, for ever.

use crate::wait::{Limits, carried, carrying, with_stackful};
use std::{fmt, io};

/// Why a call that blocks gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cancelled {
    /// Somebody asked the fibre to end what it does.
    Requested,
    /// The time was up that it had for this.
    Overdue,
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cancelled::Requested => "the fibre was cancelled",
            Cancelled::Overdue => "the time was up",
        })
    }
}

impl std::error::Error for Cancelled {}

/// `TimedOut` for what is overdue, `Other` for a request; the source is in it.
impl From<Cancelled> for io::Error {
    fn from(cancelled: Cancelled) -> io::Error {
        let kind = match cancelled {
            Cancelled::Requested => io::ErrorKind::Other,
            Cancelled::Overdue => io::ErrorKind::TimedOut,
        };
        io::Error::new(kind, cancelled)
    }
}

/// Whether the caller may go on: for loops that compute and do not block.
///
/// # Errors
/// If its fibre was cancelled and is not [shielded](shield), or its time is up.
///
/// ```
/// use sinew::cancel::{self, Cancelled};
/// use std::time::Duration;
/// sinew::run(|| {
///     let fibre = sinew::spawn(|| {
///         while cancel::check().is_ok() {
///             sinew::yield_now();
///         }
///         cancel::check()
///     });
///     fibre.fibre().cancel();
///     assert_eq!(fibre.join().unwrap(), Err(Cancelled::Requested));
///     let overdue = sinew::time::timeout(Duration::ZERO, cancel::check);
///     assert_eq!(overdue, Err(Cancelled::Overdue));
/// });
/// ```
pub fn check() -> Result<(), Cancelled> {
    let limits = carried();
    let is_requested = || with_stackful(|fibre| fibre.is_some_and(|fibre| fibre.cancel().is_requested()));
    if !limits.shielded && is_requested() {
        Err(Cancelled::Requested)
    } else if limits.deadline.is_past() {
        Err(Cancelled::Overdue)
    } else {
        Ok(())
    }
}

/// Runs `f` as if nobody had cancelled its fibre, and without the deadlines from
/// further out. For what has to be finished once it has begun.
///
/// ```
/// use sinew::{cancel, sync::mpsc};
/// sinew::run(|| {
///     let (farewell, received) = mpsc::channel();
///     let session = sinew::spawn(move || {
///         let (_idle, requests) = mpsc::channel::<u32>();
///         // Nobody ever sends one: this ends when the fibre is cancelled.
///         while requests.recv().is_ok() {}
///         cancel::shield(|| farewell.send("goodbye").unwrap());
///     });
///     session.fibre().cancel();
///     session.join().unwrap();
///     assert_eq!(received.recv(), Ok("goodbye"));
/// });
/// ```
pub fn shield<T>(f: impl FnOnce() -> T) -> T {
    carrying(Limits { shielded: true, ..Limits::NONE }, f)
}
