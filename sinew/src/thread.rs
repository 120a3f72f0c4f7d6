//! `std::thread`, with fibres for threads. To port a program of threads, change its `use` lines.
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
//! Names and signatures are std's. [`Thread`] is another name for [`Fibre`](crate::Fibre). The
//! handles and scopes are those of the crate's root, so both ways of writing mix.
//!
//! # Where it runs
//!
//! In a fibre, [`spawn`], [`scope`] and [`Builder`] do what those of the crate's root do: the new
//! fibre runs on the cluster of the fibre that spawns it.
//!
//! On a kernel thread that runs no fibre, such as the thread of `main`, the new fibre runs on a
//! runtime of the process's own. This runtime is built when it is first needed, with one processor
//! for each CPU, and serves all kernel threads from then on. `join`, sockets and locks block a kernel
//! thread as they block a fibre, so `main` may stay a plain function. The runtime never ends. As
//! with threads, the process ends when `main` returns, whatever its fibres are doing, and
//! destructors on their stacks do not run.
//!
//! Its stacks have the size of std's, 2 MiB, or the size in the environment variable
//! `RUST_MIN_STACK`: a program of threads may rely on that. There is room for 490,000 of them. With
//! `RUST_MIN_STACK=262144`, the size that fibres of [`sinew::run`](crate::run) have, there is room for
//! two million, and each takes 5 KiB of memory instead of 8.5, page tables included. [`Builder::stack_size`]
//! sets the size for one fibre.
//!
//! [`sinew::spawn`](crate::spawn) and [`sinew::scope`](crate::scope) refuse where there is no runtime.
//! A program that builds its own runtime means that one, and would hardly notice that a fibre has
//! gone to another.
//!
//! # What is different
//!
//! - A variable that `thread_local!` declares belongs to a kernel thread, and so to many fibres. One
//!   more line gives each fibre its own: `use sinew::fibre_local as thread_local;`.
//! - A fibre that computes for long without a call that may block keeps its processor. Call
//!   [`yield_now`] now and then.
//! - The message of a panic names the fibre and its kernel thread. If the program has a panic hook of its
//!   own, that hook decides.
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

/// Starts a fibre that runs `f`. The caller may be any thread, fibre or task.
///
/// # Panics
/// If the process's own runtime is needed and cannot be built, or if there is no memory for another
/// stack. [`Builder::spawn`] returns these as errors.
#[track_caller]
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    SpawnError::expect_none("spawn a fibre", FibreBuilder::new().or_on(Some(process_wide)).spawn(f))
}

/// Runs `f` with a scope. Fibres that are spawned in the scope may borrow from outside of it. Returns
/// when `f` has returned and all fibres of the scope have finished. The caller may be a fibre or any
/// kernel thread.
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
/// - If `f` panics, or if a fibre of the scope panicked and was not joined. In both cases all fibres
///   of the scope have finished before.
/// - In a task, which may not block its processor. `f` is not called then.
#[track_caller]
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    scope_in(Some(process_wide), f)
}

/// Returns whether the caller is unwinding from a panic.
pub fn panicking() -> bool {
    std::thread::panicking()
}

/// Starts fibres with a name or another size of stack. [`FibreBuilder`] can do more.
#[derive(Debug)]
#[must_use]
pub struct Builder(FibreBuilder);

impl Builder {
    /// Returns a builder for a fibre as [`spawn`] starts it.
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
    /// An [`io::Error`] made from [`SpawnError`]. Then nothing has been started, and `f` has been dropped.
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
