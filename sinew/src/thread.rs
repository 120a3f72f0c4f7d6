//! `std::thread`, with fibres for threads: a program of threads is ported by its `use`
//! lines.
//!
//! ```
//! use sinew::sync::mpsc;
//! use sinew::thread;
//!
//! fn main() {
//!     let (squares, results) = mpsc::channel();
//!     let worker = thread::spawn(move || (1..=3).try_for_each(|n| squares.send(n * n)));
//!     assert_eq!(results.iter().sum::<u32>(), 14);
//!     worker.join().unwrap().unwrap();
//! }
//! ```
//!
//! Names and signatures are std's. [`Thread`] is [`Fibre`](crate::Fibre) by another name,
//! and the handles and scopes are those of the crate's root, so both ways of writing mix.
//!
//! # Where it runs
//!
//! In a fibre, [`spawn`], [`scope`] and [`Builder`] do what those of the crate's root do:
//! the new fibre runs on the cluster of the one that spawns it.
//!
//! On a kernel thread that runs no fibre, such as the one of `main`, it runs on a runtime
//! of the process's own. That is built when it is first needed, with one processor for
//! each CPU, and serves all kernel threads from then on. `join`, sockets and locks block
//! a kernel thread as they block a fibre, so `main` may stay where it is. The runtime is
//! never ended: as with threads, the process ends when `main` returns, whatever its fibres
//! are doing, and destructors on their stacks do not run.
//!
//! Its stacks are as large as std's, 2 MiB, or what the environment's `RUST_MIN_STACK`
//! says, for whoever wrote the program counted on that. There is room for 131,000 of them;
//! with `RUST_MIN_STACK=65536`, which is what fibres of [`sinew::run`](crate::run) have,
//! there is room for millions, and each costs half as much.
//!
//! [`sinew::spawn`](crate::spawn) and [`sinew::scope`](crate::scope) do not do this: they
//! refuse where there is no runtime. A program that builds its own means that one, and
//! would hardly notice that a fibre has gone to another.
//!
//! # What is different
//!
//! - What `thread_local!` declares belongs to a kernel thread, and so to many fibres. One
//!   more line makes it theirs: `use sinew::fibre_local as thread_local;`.
//! - A fibre that computes for long without a call that may block keeps its processor:
//!   [`yield_now`] now and then.
//! - The message of a panic names the kernel thread.
//! - A name with a NUL byte is an error, not a panic.

pub use crate::fibre::{
    AccessError, Fibre as Thread, FibreId as ThreadId, JoinHandle, LocalKey, Scope, ScopedJoinHandle, current, park,
    park_timeout, yield_now,
};
pub use crate::time::{sleep, sleep_until};
pub use std::thread::{Result, available_parallelism};

use crate::fibre::{FibreBuilder, scope_in};
use crate::processor::spawn::SpawnError;
use crate::runtime::process_wide;
use std::io;

/// Starts a fibre that runs `f`, from anywhere.
///
/// # Panics
/// If the process's own runtime is needed and cannot be built, or if there is no memory
/// for another stack; [`Builder::spawn`] returns that as an error.
#[track_caller]
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    SpawnError::expect_none(FibreBuilder::new().or_on(Some(process_wide)).spawn(f))
}

/// Runs `f` with a scope in which fibres may be spawned that borrow from outside, from
/// anywhere; returns when `f` has returned and all of them have finished.
///
/// ```
/// let mut counts = [0; 3];
/// sinew::thread::scope(|scope| {
///     for (count, word) in counts.iter_mut().zip(["main", "is", "no fibre"]) {
///         scope.spawn(|| *count = word.len());
///     }
/// });
/// assert_eq!(counts, [4, 2, 8]);
/// ```
///
/// # Panics
/// If a fibre of the scope panicked and was not joined; if `f` panics. In either case only
/// after all fibres of the scope have finished. In a task, which may not block its processor;
/// `f` is not called then.
#[track_caller]
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    scope_in(Some(process_wide), f)
}

/// Whether the caller is unwinding from a panic.
pub fn panicking() -> bool {
    std::thread::panicking()
}

/// Makes fibres with a name or a stack of their own; [`FibreBuilder`] can do more.
#[derive(Debug)]
#[must_use]
pub struct Builder(FibreBuilder);

impl Builder {
    /// A fibre as [`spawn`] makes it.
    pub fn new() -> Builder {
        Builder(FibreBuilder::new().or_on(Some(process_wide)))
    }

    /// See [`FibreBuilder::name`].
    pub fn name(self, name: String) -> Builder {
        Builder(self.0.name(name))
    }

    /// See [`FibreBuilder::stack_size`].
    pub fn stack_size(self, bytes: usize) -> Builder {
        Builder(self.0.stack_size(bytes))
    }

    /// Starts the fibre.
    ///
    /// # Errors
    /// That of [`SpawnError`]; nothing has been started then, and `f` has been dropped.
    #[track_caller]
    pub fn spawn<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        Ok(self.0.spawn(f)?)
    }

    /// Starts the fibre in a scope, so that it may borrow.
    ///
    /// # Errors
    /// As [`spawn`](Builder::spawn).
    #[track_caller]
    pub fn spawn_scoped<'scope, F, T>(
        self,
        scope: &'scope Scope<'scope, '_>,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        Ok(self.0.spawn_scoped(scope, f)?)
    }
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}
