//! Fibres that borrow: `std::thread::scope` for fibres.
#![allow(unsafe_code)]

use super::builder::{FibreBuilder, SpawnError};
use super::handle::JoinHandle;
use super::{Fibre, current, park};
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What a scope and its fibres share. It may outlive the scope by the moment
/// that the last fibre needs to wake the owner.
pub(crate) struct ScopeShared {
    running: AtomicUsize,
    /// How many fibres have panicked and have not been joined.
    panicked: AtomicUsize,
    owner: Fibre,
}

impl ScopeShared {
    /// By a fibre of the scope, when nothing of the scope is used any more.
    pub(super) fn one_finished(&self) {
        // Release pairs with the Acquire in `scope`: what the fibre did to what
        // it borrowed is seen by the owner.
        if self.running.fetch_sub(1, Ordering::Release) == 1 {
            self.owner.unpark();
        }
    }

    /// By a fibre of the scope, before `one_finished`.
    pub(super) fn one_panicked(&self) {
        self.panicked.fetch_add(1, Ordering::Relaxed);
    }

    /// Somebody has got the payload of a panic.
    pub(super) fn one_was_looked_at(&self) {
        self.panicked.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The scope that fibres are spawned in; see [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    shared: Arc<ScopeShared>,
    /// Invariant over both, as std's is.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Runs `f` with a scope in which fibres may be spawned that borrow from
/// outside; returns when `f` has returned and all of them have finished.
///
/// ```
/// sinew::run(|| {
///     let mut words = vec!["fibres", "borrow"];
///     let letters: usize = sinew::scope(|scope| {
///         let counts: Vec<_> = words.iter().map(|word| scope.spawn(|| word.len())).collect();
///         counts.into_iter().map(|count| count.join().unwrap()).sum()
///     });
///     words.clear();
///     assert_eq!(letters, 12);
/// });
/// ```
///
/// # Panics
///
/// If a fibre of the scope panicked and was not joined; if `f` panics. In either
/// case only after all fibres of the scope have finished. If a fibre is spawned
/// where there is no runtime: see [`spawn`](super::spawn).
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let shared = ScopeShared { running: AtomicUsize::new(0), panicked: AtomicUsize::new(0), owner: current() };
    let scope = Scope { shared: Arc::new(shared), scope: PhantomData, env: PhantomData };
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    // Acquire pairs with the Release in `one_finished`.
    while scope.shared.running.load(Ordering::Acquire) != 0 {
        park();
    }
    match result {
        Err(payload) => resume_unwind(payload),
        Ok(_) if scope.shared.panicked.load(Ordering::Relaxed) > 0 => panic!("a scoped fibre panicked"),
        Ok(value) => value,
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Spawns a fibre that may borrow what outlives the scope.
    ///
    /// # Panics
    /// As [`spawn`](super::spawn) does.
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        SpawnError::expect_none(FibreBuilder::new().spawn_scoped(self, f))
    }

    #[track_caller]
    pub(super) fn spawn_built<F, T>(
        &'scope self,
        builder: FibreBuilder,
        f: F,
    ) -> Result<ScopedJoinHandle<'scope, T>, SpawnError>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.shared.running.fetch_add(1, Ordering::Relaxed);
        // SAFETY: `scope` does not return before `one_finished` was called for
        // this fibre, which is after its closure has ended; the result is
        // dropped by the fibre before that, or by the handle, which cannot
        // outlive 'scope.
        let spawned = unsafe { builder.spawn_borrowing(f, Some(Arc::clone(&self.shared))) };
        if spawned.is_err() {
            self.shared.running.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(ScopedJoinHandle { handle: spawned?, scope: PhantomData })
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("running", &self.shared.running).finish_non_exhaustive()
    }
}

/// The right to the result of a fibre of a [`Scope`].
#[derive(Debug)]
pub struct ScopedJoinHandle<'scope, T> {
    handle: JoinHandle<T>,
    scope: PhantomData<&'scope ()>,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// See [`JoinHandle::join`].
    pub fn join(self) -> std::thread::Result<T> {
        self.handle.join()
    }

    /// See [`JoinHandle::join_timeout`].
    ///
    /// # Errors
    /// The handle itself, if the time was up first.
    pub fn join_timeout(self, timeout: Duration) -> Result<std::thread::Result<T>, Self> {
        self.handle.join_timeout(timeout).map_err(|handle| ScopedJoinHandle { handle, scope: PhantomData })
    }

    /// See [`JoinHandle::is_finished`].
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// See [`JoinHandle::fibre`].
    pub fn fibre(&self) -> &Fibre {
        self.handle.fibre()
    }
}
