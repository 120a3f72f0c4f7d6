//! Fibres that borrow: `std::thread::scope` for fibres.
#![allow(unsafe_code)]

use super::Fibre;
use super::builder::{Elsewhere, FibreBuilder};
use super::handle::JoinHandle;
use super::headcount::{self, Headcount, Left};
use super::record::Record;
use crate::base::Deadline;
use crate::processor::spawn::SpawnError;
use crate::wait::{self, Cancel, Lent, Limit, Outcome, Party, Wait, carried};
use crate::wait::{Reason, Why};
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// What a scope and its fibres share. The fibres' records hold it, so it may outlive the scope.
pub(crate) struct ScopeShared {
    headcount: Headcount,
    /// The deadline that the owner carried when it opened the scope.
    deadline: Deadline,
    /// The number of fibres that have panicked and have not been joined.
    panicked: AtomicUsize,
    members: Mutex<Members>,
}

/// The fibres that are cancelled with the scope. Emptied when the scope ends: the fibres' records hold
/// this in turn, and would never be freed.
#[derive(Default)]
struct Members {
    fibres: Vec<Fibre>,
    is_cancelled: bool,
    /// Says that the owner's closure has ended. From then on a panic cancels the others.
    is_closing: bool,
}

impl Members {
    fn cancel(&mut self) {
        self.is_cancelled = true;
        Cancel::cancel_all(self.fibres.iter().filter_map(Fibre::record).map(Record::cancel));
    }
}

/// A list of members that is shorter than this is not searched for fibres that have finished.
/// Unmeasured.
const FEW_MEMBERS: usize = 32;

/// A fibre of a scope that is counted and not yet spawned. Its drop takes it out of the count.
pub(crate) struct Entered(Option<Arc<ScopeShared>>);

impl Entered {
    fn new(scope: &Arc<ScopeShared>) -> Entered {
        scope.headcount.enter();
        Entered(Some(Arc::clone(scope)))
    }

    /// Returns the deadline that the fibre inherits. By the spawner.
    #[inline]
    pub(super) fn inherited(&self) -> Deadline {
        self.0.as_ref().map_or(Deadline::NEVER, |scope| scope.inherited())
    }

    /// Passes the place in the count to the fibre, which calls `one_finished` at its end.
    #[inline]
    pub(super) fn into_shared(mut self) -> Option<Arc<ScopeShared>> {
        self.0.take()
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(scope) = &self.0 {
            scope.one_finished();
        }
    }
}

impl ScopeShared {
    fn new() -> ScopeShared {
        ScopeShared {
            headcount: Headcount::new(),
            deadline: carried().deadline,
            panicked: AtomicUsize::new(0),
            members: Mutex::default(),
        }
    }

    /// Returns the deadline that a fibre of the scope inherits from the caller, its spawner.
    #[inline]
    fn inherited(&self) -> Deadline {
        carried().deadline.min(self.deadline)
    }

    /// Takes a fibre out of the count. By the fibre, when it uses nothing of the scope any more.
    pub(super) fn one_finished(&self) {
        match self.headcount.leave() {
            Left::Others => {}
            Left::Last(owner) => Party::signal_owed(owner),
        }
    }

    /// Waits until all fibres have finished. By the owner: if it is cancelled meanwhile, it cancels
    /// them. If its time is up, it does not: they carry the same deadline, or an earlier one.
    fn wait(&self) {
        let enter = |wait: &Wait| self.headcount.wait(Party::timed(wait).number()) == headcount::Wait::Entered;
        let pass_on = |wait: &Wait| {
            if wait.outcome() == Outcome::Cancelled {
                self.cancel();
            }
            false
        };
        let _ = wait::block_within(Limit::CARRIED, Why::at(Reason::Scope, self), enter, pass_on);
        self.members().fibres = Vec::new();
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn enter(&self, fibre: &Fibre) {
        let mut members = self.members();
        // Remove the fibres that have finished when they outnumber the others.
        if members.fibres.len() > 2 * self.headcount.count() + FEW_MEMBERS {
            members.fibres.retain(|fibre| !fibre.is_finished());
        }
        members.fibres.push(fibre.clone());
        if members.is_cancelled {
            fibre.cancel();
        }
    }

    fn cancel(&self) {
        self.members().cancel();
    }

    /// Begins the end of the scope: from now on, a panic that was not joined cancels the fibres. If
    /// there was one, or if the owner panics itself, cancels them now. By the owner, before `wait`.
    fn close(&self, owner_panics: bool) {
        let mut members = self.members();
        members.is_closing = true;
        if owner_panics || self.panicked.load(Ordering::Relaxed) > 0 {
            members.cancel();
        }
    }

    /// Counts a panic. By a fibre of the scope, before `one_finished`.
    pub(super) fn one_panicked(&self) {
        // Under the lock, so that this or `close` sees the other.
        let mut members = self.members();
        self.panicked.fetch_add(1, Ordering::Relaxed);
        if members.is_closing {
            members.cancel();
        }
    }

    /// Uncounts a panic: a join has returned its payload.
    pub(super) fn one_was_looked_at(&self) {
        self.panicked.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A scope in which fibres are spawned; see [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    shared: Arc<ScopeShared>,
    /// The cluster for callers that are not fibres.
    elsewhere: Option<Elsewhere>,
    /// Invariant over both, as std's is.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Runs `f` with a scope. Fibres that are spawned in the scope may borrow from outside of it.
/// Returns when `f` has returned and all fibres of the scope have finished.
///
/// The fibres inherit the time limits of the scope's owner and of their spawner: see
/// [`cancel`](crate::cancel). For fibres that return errors, see [`try_scope`](crate::try_scope).
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
/// - If `f` panics, or if a fibre of the scope panicked and was not joined. In both cases all fibres
///   of the scope have finished before. They are [cancelled](crate::cancel), so that the scope does
///   not wait for ever for fibres that wait for the one that panicked. This happens when `f` has
///   ended. Before that, a panic ends its fibre only, and `f` may join it.
/// - If a fibre is spawned where there is no runtime: see [`spawn`](super::spawn).
/// - In a task, which may not block its processor. `f` is not called then.
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    scope_in(None, f)
}

/// Runs `f` as [`scope`] does. Callers that are not fibres spawn on the cluster that `elsewhere`
/// returns.
pub(crate) fn scope_in<'env, F, T>(elsewhere: Option<Elsewhere>, f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    wait::refuse_tasks();
    // SAFETY: `f` gets the scope within `hold` alone.
    let scope = unsafe { Scope::open(elsewhere) };
    hold(&scope, || f(&scope))
}

/// Runs `f`, which spawns fibres in `scope`. Returns when `f` has returned and all fibres of the scope
/// have finished.
///
/// # Panics
/// As [`scope`].
pub(super) fn hold<T>(scope: &Scope<'_, '_>, f: impl FnOnce() -> T) -> T {
    let lent = Lent::begin();
    let result = catch_unwind(AssertUnwindSafe(f));
    scope.shared.close(result.is_err());
    scope.shared.wait();
    lent.returned();
    match result {
        Err(payload) => resume_unwind(payload),
        Ok(_) if scope.shared.panicked.load(Ordering::Relaxed) > 0 => panic!("a scoped fibre panicked"),
        Ok(value) => value,
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Opens a scope.
    ///
    /// # Safety
    /// Fibres are spawned in the scope only within [`hold`].
    pub(super) unsafe fn open(elsewhere: Option<Elsewhere>) -> Scope<'scope, 'env> {
        Scope { shared: Arc::new(ScopeShared::new()), elsewhere, scope: PhantomData, env: PhantomData }
    }

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
        SpawnError::expect_none("spawn a fibre", FibreBuilder::new().spawn_scoped(self, f))
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
        let deadline = self.shared.inherited();
        // SAFETY: `hold` returns only after `one_finished` was called for this fibre, which is
        // after its closure has ended. The fibre drops the result before that, or the handle does,
        // which cannot outlive 'scope.
        let handle = unsafe { builder.or_on(self.elsewhere).spawn_borrowing(f, Some(entered)) }?;
        self.shared.enter(handle.fibre());
        Ok(ScopedJoinHandle { handle, deadline, scope: PhantomData })
    }

    /// Cancels all fibres of the scope, and each fibre that is spawned in it later. See
    /// [`cancel`](crate::cancel).
    pub fn cancel(&self) {
        self.shared.cancel();
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = &self.shared;
        // The owner is counted while the scope can be printed.
        f.debug_struct("Scope")
            .field("running", &shared.headcount.count().saturating_sub(1))
            .field("panicked", &shared.panicked.load(Ordering::Relaxed))
            .field("is_cancelled", &shared.members().is_cancelled)
            .finish()
    }
}

/// The right to the result of a fibre of a [`Scope`].
pub struct ScopedJoinHandle<'scope, T> {
    handle: JoinHandle<T>,
    /// The deadline that the fibre has carried from the beginning.
    deadline: Deadline,
    scope: PhantomData<&'scope ()>,
}

impl<T> ScopedJoinHandle<'_, T> {
    pub(super) fn handle_mut(&mut self) -> &mut JoinHandle<T> {
        &mut self.handle
    }

    /// Joins as [`JoinHandle::join`] does. If the caller is [cancelled](crate::cancel) while it
    /// waits, it cancels the fibre and goes on waiting.
    ///
    /// # Errors
    /// As [`JoinHandle::join`].
    pub fn join(self) -> std::thread::Result<T> {
        self.handle.join_passing_on(self.deadline)
    }

    /// See [`JoinHandle::join_timeout`].
    ///
    /// # Errors
    /// Returns the handle if the fibre did not finish in time.
    pub fn join_timeout(self, timeout: Duration) -> Result<std::thread::Result<T>, Self> {
        let deadline = self.deadline;
        self.handle.join_timeout(timeout).map_err(|handle| ScopedJoinHandle { handle, deadline, scope: PhantomData })
    }

    /// See [`JoinHandle::join_deadline`].
    ///
    /// # Errors
    /// Returns the handle if the fibre did not finish in time.
    pub fn join_deadline(self, deadline: Instant) -> Result<std::thread::Result<T>, Self> {
        let carried = self.deadline;
        let back = |handle| ScopedJoinHandle { handle, deadline: carried, scope: PhantomData };
        self.handle.join_deadline(deadline).map_err(back)
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

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle").field("fibre", self.fibre()).finish()
    }
}
