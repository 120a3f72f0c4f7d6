//! Groups: scopes whose first error cancels the rest.

use super::builder::FibreBuilder;
use super::scope::{Scope, ScopedJoinHandle, hold};
use super::{Fibre, current};
use crate::cancel::shield;
use crate::processor::spawn::SpawnError;
use crate::sync::{AcquireError, Semaphore};
use crate::wait;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A group of fibres that fail together; see [`try_scope`].
pub struct Group<'scope, 'env: 'scope, E> {
    scope: Scope<'scope, 'env>,
    /// The fibre or kernel thread that runs the closure of `try_scope`.
    owner: Fibre,
    failure: Mutex<Failure<E>>,
    /// The places for fibres that run at once, if there is a limit.
    places: OnceLock<Semaphore>,
}

/// How a group has failed.
struct Failure<E> {
    /// The first error, until `try_scope` or a join returns it.
    error: Option<E>,
    /// Says that a fibre has failed or panicked, or that the closure has.
    has_failed: bool,
    /// Says that the owner has been interrupted, which its `try_scope` ends.
    has_interrupted: bool,
}

/// Runs `f` with a group of fibres. Fibres that are spawned in the group may borrow from outside of it,
/// as in a [`scope`](crate::scope). The first error of a fibre or of `f` cancels all fibres of the group.
/// Returns when `f` has returned and all fibres of the group have finished.
///
/// ```
/// fn parse(text: &str) -> Result<u32, std::num::ParseIntError> {
///     text.parse()
/// }
/// sinew::run(|| {
///     let sum = |texts: &[&str]| {
///         sinew::try_scope(|group| {
///             let numbers: Vec<_> = texts.iter().map(|text| group.spawn(|| parse(text))).collect();
///             numbers.into_iter().map(|number| number.join()).sum::<Result<u32, _>>()
///         })
///     };
///     assert_eq!(sum(&["1", "2", "3"]), Ok(6));
///     assert!(sum(&["1", "two", "3"]).is_err());
/// });
/// ```
///
/// # How a group fails
///
/// A group fails when one of its fibres returns an error or panics, and when `f` does. Then all its
/// fibres are [cancelled](crate::cancel), and those that are spawned later. If a fibre was the first,
/// `f` is interrupted: until it returns, its blocking calls fail as in a cancelled fibre. So an accept
/// loop in `f` ends when a session fails. A kernel thread that runs no fibre cannot be interrupted.
///
/// The error that made the group fail is the result. Errors that come later, because fibres were
/// cancelled, are dropped, unless a [`join`](GroupJoinHandle::join) returns them.
///
/// # Errors
/// Returns the first error. An error that a `join` has returned is the closure's: `f` passes it on, or
/// handles it and returns another result.
///
/// # Panics
/// As [`scope`](crate::scope). A panic wins over an error.
#[allow(unsafe_code)]
pub fn try_scope<'env, F, T, E>(f: F) -> Result<T, E>
where
    F: for<'scope> FnOnce(&'scope Group<'scope, 'env, E>) -> Result<T, E>,
    E: Send,
{
    wait::refuse_tasks();
    // SAFETY: `f` gets the group, and with it the scope, within `hold` alone.
    let scope = unsafe { Scope::open(None) };
    let group = Group::new(scope, current());
    // Ends the interrupt when all fibres have finished, even if this unwinds.
    let uninterrupt = EndInterrupt(&group);
    let result = hold(&group.scope, || f(&group).map_err(|error| group.fail_in_owner(error)));
    drop(uninterrupt);
    let first = group.failure().error.take();
    match (first, result) {
        (Some(error), _) | (None, Err(Some(error))) => Err(error),
        (None, Ok(value)) => Ok(value),
        (None, Err(None)) => unreachable!("the error of the closure was the first, and nobody has taken it"),
    }
}

/// Takes back the interrupt of the group's owner on drop. Then no fibre of the group is left.
struct EndInterrupt<'a, 'scope, 'env, E>(&'a Group<'scope, 'env, E>);

impl<E> Drop for EndInterrupt<'_, '_, '_, E> {
    fn drop(&mut self) {
        if self.0.failure().has_interrupted {
            self.0.owner.end_interrupt();
        }
    }
}

impl<'scope, 'env, E> Group<'scope, 'env, E> {
    fn new(scope: Scope<'scope, 'env>, owner: Fibre) -> Self {
        let failure = Failure { error: None, has_failed: false, has_interrupted: false };
        Group { scope, owner, failure: Mutex::new(failure), places: OnceLock::new() }
    }

    fn failure(&self) -> MutexGuard<'_, Failure<E>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels all fibres of the group, and each fibre that is spawned in it later. See
    /// [`cancel`](crate::cancel). The group fails if that makes one of them fail.
    pub fn cancel(&self) {
        self.scope.cancel();
    }

    /// Makes the group fail with this error, or because of a panic. By a fibre of the group. Returns the
    /// error if the group had failed before.
    fn fail(&self, error: Option<E>) -> Option<E> {
        let mut failure = self.failure();
        if failure.has_failed {
            return error;
        }
        *failure = Failure { error, has_failed: true, has_interrupted: true };
        drop(failure);
        self.scope.cancel();
        self.owner.interrupt();
        None
    }

    /// Makes the group fail with the error of the closure. By the owner. Returns the error if the group
    /// had failed before.
    fn fail_in_owner(&self, error: E) -> Option<E> {
        let mut failure = self.failure();
        if failure.has_failed {
            return Some(error);
        }
        *failure = Failure { error: Some(error), has_failed: true, has_interrupted: false };
        drop(failure);
        self.scope.cancel();
        None
    }
}

impl<'scope, 'env, E: Send> Group<'scope, 'env, E> {
    /// Spawns a fibre that may borrow what outlives the group. If the group has a
    /// [limit](Group::set_limit), waits for a place first.
    ///
    /// # Panics
    /// As [`spawn`](super::spawn) does.
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> GroupJoinHandle<'scope, 'env, T, E>
    where
        F: FnOnce() -> Result<T, E> + Send + 'scope,
        T: Send + 'scope,
    {
        SpawnError::expect_none("spawn a fibre", self.spawn_with(FibreBuilder::new(), f))
    }

    /// Spawns as [`spawn`](Group::spawn) does, a fibre with the properties that `builder` has.
    ///
    /// # Errors
    /// As [`FibreBuilder::spawn`].
    #[track_caller]
    pub fn spawn_with<F, T>(
        &'scope self,
        builder: FibreBuilder,
        f: F,
    ) -> Result<GroupJoinHandle<'scope, 'env, T, E>, SpawnError>
    where
        F: FnOnce() -> Result<T, E> + Send + 'scope,
        T: Send + 'scope,
    {
        let place = self.places.get().map(|places| {
            self.wait_for_place(places);
            Place(places)
        });
        self.spawn_at(place, builder, f)
    }

    /// Spawns as [`spawn`](Group::spawn) does if there is a place, and does not wait.
    ///
    /// # Errors
    /// Returns `f` if the group has a [limit](Group::set_limit), and all places are taken.
    ///
    /// # Panics
    /// As [`spawn`](Group::spawn).
    #[track_caller]
    pub fn try_spawn<F, T>(&'scope self, f: F) -> Result<GroupJoinHandle<'scope, 'env, T, E>, F>
    where
        F: FnOnce() -> Result<T, E> + Send + 'scope,
        T: Send + 'scope,
    {
        let place = match self.places.get() {
            None => None,
            Some(places) if places.try_wait() => Some(Place(places)),
            Some(_) => return Err(f),
        };
        Ok(SpawnError::expect_none("spawn a fibre", self.spawn_at(place, FibreBuilder::new(), f)))
    }

    #[track_caller]
    fn spawn_at<F, T>(
        &'scope self,
        place: Option<Place<'scope>>,
        builder: FibreBuilder,
        f: F,
    ) -> Result<GroupJoinHandle<'scope, 'env, T, E>, SpawnError>
    where
        F: FnOnce() -> Result<T, E> + Send + 'scope,
        T: Send + 'scope,
    {
        let run = move || {
            let _place = place;
            let fail_on_panic = FailOnPanic(self);
            let result = f();
            std::mem::forget(fail_on_panic);
            result.map_err(|error| self.fail(Some(error)))
        };
        let handle = builder.spawn_scoped(&self.scope, run)?;
        Ok(GroupJoinHandle { handle, group: self })
    }

    /// Takes a place, and waits for it if there is none. If the caller is cancelled meanwhile, cancels
    /// the fibres of the group, and goes on waiting.
    fn wait_for_place(&self, places: &Semaphore) {
        if places.try_wait() {
            return;
        }
        match places.wait_timeout(Duration::MAX) {
            Ok(()) => return,
            Err(AcquireError::Cancelled) => self.cancel(),
            // The caller's time is up. The fibres know it if it is theirs as well.
            Err(_) => {}
        }
        let taken = shield(|| places.wait_timeout(Duration::MAX));
        taken.expect("nothing else ends this wait");
    }

    /// Limits the number of fibres of the group that run at once. From now on [`spawn`](Group::spawn)
    /// waits until fewer than `fibres` are running, of those that are spawned from now on.
    ///
    /// A fibre of the group that spawns another one keeps its own place. If all places are taken by
    /// fibres that wait for one, the group waits for ever. There, use [`try_spawn`](Group::try_spawn), or
    /// a group within the fibre.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// let (running, most) = (AtomicU32::new(0), AtomicU32::new(0));
    /// sinew::run(|| {
    ///     sinew::try_scope::<_, _, std::io::Error>(|group| {
    ///         group.set_limit(3);
    ///         for _ in 0..20 {
    ///             group.spawn(|| {
    ///                 most.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
    ///                 sinew::yield_now();
    ///                 running.fetch_sub(1, Ordering::Relaxed);
    ///                 Ok(())
    ///             });
    ///         }
    ///         Ok(())
    ///     })
    /// }).unwrap();
    /// assert!(most.into_inner() <= 3);
    /// ```
    ///
    /// # Panics
    /// If `fibres` is 0, or if the group has a limit.
    pub fn set_limit(&self, fibres: usize) {
        assert!(fibres > 0, "a group with no place for a fibre");
        assert!(self.places.set(Semaphore::new(fibres)).is_ok(), "the limit of a group is set once");
    }
}

impl<E> fmt::Debug for Group<'_, '_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("scope", &self.scope)
            .field("has_failed", &self.failure().has_failed)
            .field("free_places", &self.places.get().map(Semaphore::available))
            .finish()
    }
}

/// Makes the group fail on drop: its fibre unwinds.
struct FailOnPanic<'a, 'scope, 'env, E>(&'a Group<'scope, 'env, E>);

impl<E> Drop for FailOnPanic<'_, '_, '_, E> {
    fn drop(&mut self) {
        self.0.fail(None);
    }
}

/// Frees a place on drop.
struct Place<'a>(&'a Semaphore);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.post(1);
    }
}

/// The right to the result of a fibre of a [`Group`].
pub struct GroupJoinHandle<'scope, 'env, T, E> {
    /// A fibre whose error is the group's first one returns `Err(None)`: the group has the error.
    handle: ScopedJoinHandle<'scope, Result<T, Option<E>>>,
    group: &'scope Group<'scope, 'env, E>,
}

impl<T, E> GroupJoinHandle<'_, '_, T, E> {
    /// Waits until the fibre has finished and returns its result. If the caller is
    /// [cancelled](crate::cancel) while it waits, it cancels the fibre and goes on waiting.
    ///
    /// # Errors
    /// Returns the error of the fibre.
    ///
    /// # Panics
    /// If the fibre panicked, with the same payload.
    pub fn join(self) -> Result<T, E> {
        self.group.result_of(self.handle.join())
    }

    /// Joins as [`join`](GroupJoinHandle::join) does, but waits no longer than `timeout`.
    ///
    /// # Errors
    /// Returns the handle if the fibre did not finish in time.
    pub fn join_timeout(self, timeout: Duration) -> Result<Result<T, E>, Self> {
        let group = self.group;
        match self.handle.join_timeout(timeout) {
            Ok(joined) => Ok(group.result_of(joined)),
            Err(handle) => Err(GroupJoinHandle { handle, group }),
        }
    }

    /// Joins as [`join`](GroupJoinHandle::join) does, but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// Returns the handle if the fibre did not finish in time.
    pub fn join_deadline(self, deadline: Instant) -> Result<Result<T, E>, Self> {
        let group = self.group;
        match self.handle.join_deadline(deadline) {
            Ok(joined) => Ok(group.result_of(joined)),
            Err(handle) => Err(GroupJoinHandle { handle, group }),
        }
    }

    /// See [`JoinHandle::is_finished`](crate::JoinHandle::is_finished).
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// See [`JoinHandle::fibre`](crate::JoinHandle::fibre).
    pub fn fibre(&self) -> &Fibre {
        self.handle.fibre()
    }
}

impl<E> Group<'_, '_, E> {
    /// Returns the result of a fibre that was joined.
    fn result_of<T>(&self, joined: std::thread::Result<Result<T, Option<E>>>) -> Result<T, E> {
        match joined {
            Ok(result) => result.map_err(|error| {
                let first = || self.failure().error.take();
                error.or_else(first).expect("the first error is taken once, by the join of its fibre")
            }),
            Err(payload) => resume_unwind(payload),
        }
    }
}

impl<T, E> fmt::Debug for GroupJoinHandle<'_, '_, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupJoinHandle").field("fibre", self.fibre()).finish()
    }
}

impl Fibre {
    /// Makes the blocking calls of the fibre fail until `end_interrupt`, as a cancellation does. Does
    /// nothing to a kernel thread.
    fn interrupt(&self) {
        if let Some(record) = self.record() {
            record.cancel().interrupt();
        }
    }

    /// Takes one interrupt back. By the fibre, after `interrupt` has returned.
    fn end_interrupt(&self) {
        if let Some(record) = self.record() {
            record.cancel().end_interrupt();
        }
    }
}
