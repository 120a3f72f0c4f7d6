//! Fibres that borrow: `std::thread::scope` for fibres.
#![allow(unsafe_code)]

use super::Fibre;
use super::builder::{Elsewhere, FibreBuilder};
use super::handle::JoinHandle;
use super::headcount::{self, Headcount, Left};
use crate::processor::spawn::SpawnError;
use crate::wait::{self, Lent, Limit, Party, Wait};
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// What a scope and its fibres share. The records of the fibres hold it, so it may outlive
/// the scope.
pub(crate) struct ScopeShared {
    headcount: Headcount,
    /// How many fibres have panicked and have not been joined.
    panicked: AtomicUsize,
    members: Mutex<Members>,
}

/// Whom to cancel with the scope. Empty when the scope has ended: the records of fibres hold
/// the scope, and would be held by it for ever.
#[derive(Default)]
struct Members {
    fibres: Vec<Fibre>,
    is_cancelled: bool,
}

/// Fewer than this are never worth clearing away.
const FEW_MEMBERS: usize = 32;

/// A fibre of a scope that is counted and not yet spawned. Dropped, it is not counted any
/// more.
pub(crate) struct Entered(Arc<ScopeShared>);

impl Entered {
    fn new(scope: &Arc<ScopeShared>) -> Entered {
        scope.headcount.enter();
        Entered(Arc::clone(scope))
    }

    /// For the fibre, which calls `one_finished` at its end.
    #[inline]
    pub(super) fn into_shared(self) -> Arc<ScopeShared> {
        let entered = ManuallyDrop::new(self);
        // SAFETY: `entered` is neither dropped nor used again.
        unsafe { std::ptr::read(&entered.0) }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.one_finished();
    }
}

impl ScopeShared {
    fn new() -> ScopeShared {
        ScopeShared { headcount: Headcount::new(), panicked: AtomicUsize::new(0), members: Mutex::default() }
    }

    /// By a fibre of the scope, when nothing of the scope is used any more.
    pub(super) fn one_finished(&self) {
        match self.headcount.leave() {
            Left::Others => {}
            Left::Last(owner) => Party::signal_owed(owner),
        }
    }

    /// Waits until all fibres have finished. By the owner, which, if it is cancelled,
    /// passes that on to them.
    fn wait(&self) {
        let enter = |wait: &Wait| self.headcount.wait(Party::timed(wait).number()) == headcount::Wait::Entered;
        let pass_on = |_: &Wait| {
            self.cancel();
            false
        };
        let _ = wait::block_within(Limit::CARRIED, enter, pass_on);
        self.members().fibres = Vec::new();
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn enter(&self, fibre: &Fibre) {
        let mut members = self.members();
        // Those that have finished are cleared away when they are more than the others.
        if members.fibres.len() > 2 * self.headcount.count() + FEW_MEMBERS {
            members.fibres.retain(|fibre| !fibre.is_finished());
        }
        members.fibres.push(fibre.clone());
        if members.is_cancelled {
            fibre.cancel();
        }
    }

    fn cancel(&self) {
        let mut members = self.members();
        members.is_cancelled = true;
        members.fibres.iter().for_each(Fibre::cancel);
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
    /// The cluster for callers that are not fibres.
    elsewhere: Option<Elsewhere>,
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
/// where there is no runtime: see [`spawn`](super::spawn). In a task, which may not block
/// its processor; `f` is not called then.
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    scope_in(None, f)
}

/// As [`scope`]. Callers that are not fibres spawn on the cluster that `elsewhere` returns.
pub(crate) fn scope_in<'env, F, T>(elsewhere: Option<Elsewhere>, f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    wait::refuse_tasks();
    let shared = Arc::new(ScopeShared::new());
    let scope = Scope { shared, elsewhere, scope: PhantomData, env: PhantomData };
    let lent = Lent::begin();
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    scope.shared.wait();
    lent.returned();
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
        let entered = Entered::new(&self.shared);
        // SAFETY: `scope` does not return before `one_finished` was called for
        // this fibre, which is after its closure has ended; the result is
        // dropped by the fibre before that, or by the handle, which cannot
        // outlive 'scope.
        let handle = unsafe { builder.or_on(self.elsewhere).spawn_borrowing(f, Some(entered)) }?;
        self.shared.enter(handle.fibre());
        Ok(ScopedJoinHandle { handle, scope: PhantomData })
    }

    /// Asks all fibres of the scope, and those that are still to come, to end what
    /// they do. See [`cancel`](crate::cancel).
    pub fn cancel(&self) {
        self.shared.cancel();
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("running", &self.shared.headcount.count()).finish_non_exhaustive()
    }
}

/// The right to the result of a fibre of a [`Scope`].
#[derive(Debug)]
pub struct ScopedJoinHandle<'scope, T> {
    handle: JoinHandle<T>,
    scope: PhantomData<&'scope ()>,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// See [`JoinHandle::join`]. Who is [cancelled](crate::cancel) while it waits here
    /// passes that on to the fibre, and goes on waiting.
    pub fn join(self) -> std::thread::Result<T> {
        self.handle.join_passing_on()
    }

    /// See [`JoinHandle::join_timeout`].
    ///
    /// # Errors
    /// The handle itself, if the time was up first.
    pub fn join_timeout(self, timeout: Duration) -> Result<std::thread::Result<T>, Self> {
        self.handle.join_timeout(timeout).map_err(|handle| ScopedJoinHandle { handle, scope: PhantomData })
    }

    /// See [`JoinHandle::join_deadline`].
    ///
    /// # Errors
    /// The handle itself, if the time was up first.
    pub fn join_deadline(self, deadline: Instant) -> Result<std::thread::Result<T>, Self> {
        self.handle.join_deadline(deadline).map_err(|handle| ScopedJoinHandle { handle, scope: PhantomData })
    }

    /// See [`JoinHandle::is_finished`].
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// See [`JoinHandle::fibre`].
    pub fn fibre(&self) -> &Fibre {
        self.handle.fibre()
    }

    /// See [`JoinHandle::thread`].
    pub fn thread(&self) -> &Fibre {
        self.fibre()
    }
}
