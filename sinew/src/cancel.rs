//! Cancellation: asking fibres to end what they do, and time limits for what they wait for.
//!
//! # The problem
//!
//! A server stops, a client goes away, a request takes too long: then the fibres that work for it
//! should end, soon and in order. They cannot be stopped from outside, because only they can put
//! right what they have borrowed, locked and half written. So they are *asked*. They notice the
//! request where they spend most of their time: in a call that blocks.
//!
//! # What there is
//!
//! - [`Fibre::cancel`](crate::Fibre::cancel) and [`Scope::cancel`](crate::Scope::cancel) ask. A
//!   request cannot be taken back: the blocking calls that notice it fail from then on.
//! - [`try_scope`](crate::try_scope) asks all fibres of a group when the first of them fails.
//! - [`Leftovers::Cancel`](crate::Leftovers::Cancel) asks what is left when a runtime is dropped.
//! - [`time::timeout`](crate::time::timeout) and [`time::deadline`](crate::time::deadline) run a part
//!   of the program with a time limit. The limit ends with that part.
//! - [`shield`] runs a part that is to be left alone, such as the farewell to a peer or the flush of
//!   a buffer. Time limits that begin inside of it still count.
//! - [`check`] is for code that computes and does not block.
//!
//! # How it follows the structure of the program
//!
//! A fibre that waits for fibres that work for it passes its own cancellation on to them: see the row
//! for scopes below.
//!
//! A time limit is *inherited*. A fibre of a [`scope`](crate::scope()) or of a
//! [`Group`](crate::Group) carries the earlier one of two deadlines from its beginning: that which the
//! owner carried when it opened the scope, and that which the spawner carries. So each fibre sees the
//! deadline itself, when it comes, as [`Cancelled::Overdue`]. The tasks of a
//! [`JoinSet`](crate::task::JoinSet) inherit the deadline of their spawner. A fibre or a task keeps what
//! it has inherited for life, even if the part of its spawner with that limit ends before.
//!
//! A plain [`spawn`](crate::spawn) and a plain [`task::spawn`](crate::task::spawn()) inherit nothing:
//! what they start may outlive the part with the limit. Nothing passes a [`shield`], except the
//! deadline of a scope that was opened outside of it.
//!
//! ```
//! use sinew::{cancel::Cancelled, time};
//! use std::time::Duration;
//! const LONG: Duration = Duration::from_secs(60);
//! sinew::run(|| {
//!     let slept = time::timeout(Duration::from_millis(5), || {
//!         sinew::scope(|scope| {
//!             let fibres = [0; 3].map(|_| scope.spawn(|| time::try_sleep(LONG)));
//!             fibres.map(|fibre| fibre.join().unwrap())
//!         })
//!     });
//!     assert_eq!(slept, [Err(Cancelled::Overdue); 3]);
//! });
//! ```
//!
//! # Which calls notice
//!
//! A call notices if its result can say so, and if it would have to wait. The result is an error
//! value, never a panic: no lock is poisoned, and destructors run when the program returns through
//! them. A call that need not wait succeeds as usual.
//!
//! | call | what a cancelled or overdue fibre gets |
//! | --- | --- |
//! | `recv` and `send` of channels, `recv` of a [`oneshot`](crate::sync::oneshot), iterators over a receiver | the error for a closed channel; `send` returns the message in it |
//! | their forms with a limit | the same; the error for the limit if a carried deadline has passed |
//! | `recv` of a [`broadcast`](crate::sync::broadcast); `changed` and `wait_for` of a [`watch`](crate::sync::watch) | the error for a closed channel |
//! | [`Select::run`](crate::sync::Select::run) | the arm of `cancelled`; else the first arm of a channel or socket, with its error; else it waits on |
//! | its forms with a limit | the same; `None` if a carried deadline has passed and there is no arm of `cancelled`, or if no arm can say it |
//! | `Semaphore::acquire` and `acquire_many`, their `_owned`, `_timeout` and `_deadline` forms; `wait_timeout`, `wait_deadline` | [`AcquireError`](crate::sync::AcquireError) |
//! | the forms whose names end in `_cancellable`, of locks, condition variables, barriers, wait groups, `Once` and semaphores | the error or value of their forms with a limit |
//! | sockets of [`net`](crate::net), TCP, UDP and Unix: `connect`, `accept`, `incoming`, `read`, `write`, `peek`, `send`, `recv`, [`sendfile`](crate::net::sendfile), and all that is made of these, such as `write_all` and [`io::copy`](crate::io::copy) | an [`io::Error`] made from [`Cancelled`]; no byte and no connection is lost |
//! | a socket with a timeout of its own | the same; `WouldBlock` if that timeout is over |
//! | [`Pollable`](crate::io::Pollable): `readable`, `writable`, `read_with`, `write_with`, and their forms with a limit | the same |
//! | [`io::stdin`](crate::io::stdin), `stdout` and `stderr` on a pipe or a socket | the same |
//! | [`Signals`](crate::signal::Signals): `recv` and its forms; [`signal::ctrl_c`](crate::signal::ctrl_c) | the same |
//! | [`process`](crate::process): `Child::wait` and its forms, `output`, `status`, reads and writes of pipes | the same; the child is killed if it is dropped and `kill_on_drop` is set |
//! | [`net::lookup`](crate::net::lookup), and each call that looks up a host's name | the same; a thread of the pool finishes the lookup |
//! | [`time::try_sleep`](crate::time::try_sleep), `Interval::try_tick` | [`Cancelled`], also if there is nothing to wait for |
//! | a [`scope`](crate::scope()) or [`try_scope`](crate::try_scope) that waits for its fibres, `join` of a fibre of these, [`Group::spawn`](crate::Group::spawn) that waits for a place | goes on waiting, and cancels the fibres. Fibres that carry the deadline themselves are not cancelled when it comes |
//!
//! All other calls wait on:
//!
//! | call | why |
//! | --- | --- |
//! | locks, condition variables, barriers, wait groups, `Once`, `Semaphore::wait` | their results have no room for it; each has a `_cancellable` form. A loop around a condition variable would never sleep again if it returned early, and a lock is held for a moment only |
//! | `sleep`, `park`, `Interval::tick` | the same |
//! | `join` of a fibre of no scope, `join` of a task, `JoinSet::join_next`, [`block_on`](crate::block_on()) | the same; the forms with a limit keep to their own limit |
//! | [`blocking`](crate::blocking()), [`fs`](crate::fs), `process::Command::spawn`, `stdin` and its kin on a terminal or a file | a thread of the pool or the kernel runs the call, which is not stopped |
//!
//! Tasks are not cancelled but [aborted](crate::task::JoinHandle::abort).
//!
//! # What others do
//!
//! Go hands a context through every call, and every call that blocks selects on it. That is explicit
//! and composable, and in every signature. Java interrupts a thread: one flag, which any library may
//! swallow. Its structured scopes cancel what was forked in them; so do scopes here. Trio has the
//! clearest model: scopes with deadlines and shields that nest. It raises an exception. Deadlines
//! and shields nest here too, and the exception is an error value. In Trio and Kotlin a child has the
//! limits of the scope that it is spawned in, not those of its spawner. Here it has both, because a
//! spawner with a limit usually joins the child within that limit. `may` unwinds the coroutine by a
//! panic, which poisons its locks.
//!
//! The kind of the [`io::Error`] is not `Interrupted`: std's `read_exact`, `write_all` and `copy` try
//! again after that, for ever.

use crate::wait::{Limits, carried, carrying, with_stackful};
use std::{fmt, io};

/// Why a blocking call gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cancelled {
    /// The fibre was cancelled.
    Requested,
    /// A time limit was reached that the fibre carries.
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

/// The kind is `TimedOut` for a time limit and `Other` for a request. The error holds the `Cancelled`.
impl From<Cancelled> for io::Error {
    fn from(cancelled: Cancelled) -> io::Error {
        let kind = match cancelled {
            Cancelled::Requested => io::ErrorKind::Other,
            Cancelled::Overdue => io::ErrorKind::TimedOut,
        };
        io::Error::new(kind, cancelled)
    }
}

/// Checks whether the caller may go on: for loops that compute and do not block.
///
/// # Errors
/// [`Cancelled`] if the fibre was cancelled and is not [shielded](shield), or if a time limit was
/// reached.
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

/// Runs `f` as if the fibre had not been cancelled, and without the time limits from outside of `f`.
/// For work that has to be finished once it has begun.
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
