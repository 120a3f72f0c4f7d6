//! Spawning.
#![allow(unsafe_code)]

use super::enter_roll;
use super::handle::JoinHandle;
use super::record::{Plan, Record, ResultOf};
use super::scope::{Entered, Scope, ScopedJoinHandle};
use crate::processor::cluster::{BuildError, Cluster};
use crate::processor::spawn::{Origin, SpawnError};
use crate::processor::{self, Processor};
use crate::stack::arena::Class;
use crate::stack::pool;
use crate::strand::Priority;
use std::panic::Location;

/// Starts a fibre that runs `f` on the cluster of the caller.
///
/// ```
/// sinew::run(|| {
///     let answer = sinew::spawn(|| 6 * 7);
///     assert_eq!(answer.join().unwrap(), 42);
/// });
/// ```
///
/// # Panics
///
/// - If the caller is neither a fibre nor a task: then there is no runtime.
/// - If the caller is a waker that a processor calls, and the runtime has ended.
/// - If there is no memory for another stack.
///
/// [`FibreBuilder::spawn`] returns these as errors.
#[track_caller]
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    SpawnError::expect_none("spawn a fibre", FibreBuilder::new().spawn(f))
}

/// Starts fibres with other properties than those of [`spawn`].
///
/// ```
/// sinew::run(|| {
///     let fibre = sinew::FibreBuilder::new().name("worker").stack_size(1024 * 1024);
///     let handle = fibre.spawn(|| sinew::current().name().map(str::to_owned)).unwrap();
///     assert_eq!(handle.join().unwrap().as_deref(), Some("worker"));
/// });
/// ```
#[derive(Debug, Default)]
#[must_use]
pub struct FibreBuilder {
    name: Option<Box<str>>,
    stack_size: Option<usize>,
    priority: Priority,
    pinned: bool,
    cluster: Option<Cluster>,
    /// The cluster for callers that are not fibres.
    elsewhere: Option<Elsewhere>,
}

/// Returns the cluster for callers that are not fibres: one of the process's own runtime.
pub(crate) type Elsewhere = fn() -> Result<&'static Cluster, BuildError>;

impl FibreBuilder {
    /// Returns a builder for a fibre as [`spawn`] starts it.
    #[inline]
    pub fn new() -> Self {
        FibreBuilder::default()
    }

    /// Names the fibre, for messages and for [`Fibre::name`](super::Fibre::name).
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into().into_boxed_str());
        self
    }

    /// Gives the fibre a stack of at least `bytes`. Without this, it has the size that
    /// [`Builder::stack_size`](crate::Builder::stack_size) sets, 256 KiB by default. Stacks come in
    /// powers of two from 16 KiB to 256 MiB.
    ///
    /// Until it is used, a larger stack costs address space, and 2 bytes of page tables for each KiB, up
    /// to 4 KiB of them. [`memory::stack_use`](crate::memory::stack_use) says what the fibres of each
    /// spawn site have used.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Makes the fibre more or less urgent than others.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Keeps the fibre on the processor that first runs it. Where started fibres do not migrate, all
    /// of them stay.
    pub fn pinned(mut self) -> Self {
        self.pinned = true;
        self
    }

    /// Runs the fibre on `cluster` instead of the caller's.
    pub fn cluster(mut self, cluster: &Cluster) -> Self {
        self.cluster = Some(cluster.clone());
        self
    }

    /// If the caller is not a fibre, runs the fibre on the cluster that `elsewhere` returns.
    pub(crate) fn or_on(mut self, elsewhere: Option<Elsewhere>) -> Self {
        self.elsewhere = self.elsewhere.or(elsewhere);
        self
    }

    /// Starts the fibre.
    ///
    /// # Errors
    /// [`SpawnError`] says what is wrong. Then nothing has been started, and `f` has been dropped.
    #[track_caller]
    #[inline]
    pub fn spawn<F, T>(self, f: F) -> Result<JoinHandle<T>, SpawnError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: nothing is borrowed.
        unsafe { self.spawn_borrowing(f, None) }
    }

    /// Starts the fibre in a scope, so that it may borrow.
    ///
    /// # Errors
    /// As [`spawn`](FibreBuilder::spawn).
    #[track_caller]
    pub fn spawn_scoped<'scope, F, T>(
        self,
        scope: &'scope Scope<'scope, '_>,
        f: F,
    ) -> Result<ScopedJoinHandle<'scope, T>, SpawnError>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        scope.spawn_built(self, f)
    }

    /// # Safety
    /// As for [`Record::create`].
    #[track_caller]
    #[inline]
    pub(crate) unsafe fn spawn_borrowing<F, T>(
        mut self,
        f: F,
        scope: Option<Entered>,
    ) -> Result<JoinHandle<T>, SpawnError>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let spawned_at = Location::caller();
        let name = self.name.take();
        if name.as_ref().is_some_and(|name| name.contains('\0')) {
            return Err(SpawnError::NameContainsNul);
        }
        let spawned = processor::with_current(|processor| {
            let (origin, class) = match self.admit(processor) {
                Ok(admitted) => admitted,
                Err(error) => return Err((error, f)),
            };
            let plan = Plan {
                cluster: origin.cluster(),
                blocks: origin.blocks(),
                priority: self.priority,
                class,
                pinned: self.pinned,
                id: origin.fresh_id(),
                name,
                scope,
                spawned_at,
            };
            // SAFETY: the caller's promise.
            let (ready, strand) = unsafe { Record::create(plan, f) };
            // SAFETY: the fibre has this `T` and `F`, and no handle yet.
            let handle = unsafe { JoinHandle::new(strand, ResultOf::new::<F>()) };
            if let Some(roll) = origin.cluster().runtime().roll() {
                enter_roll(roll, ready.strand());
            }
            origin.start(ready);
            Ok(handle)
        });
        // A closure that was refused is dropped here, where its drop may block or panic.
        spawned.map_err(|(error, _f)| error)
    }

    /// Promises a stack and counts the fibre. The caller has to create it then.
    #[inline(always)]
    fn admit<'a>(&'a self, caller: Option<&'a Processor>) -> Result<(Origin<'a>, Class), SpawnError> {
        let origin = match (Origin::new(self.cluster.as_ref(), caller), self.elsewhere) {
            (Err(SpawnError::NoRuntime), Some(elsewhere)) => {
                Origin::Outside(elsewhere().map_err(SpawnError::NoProcessWideRuntime)?.shared())
            }
            (origin, _) => origin?,
        };
        let class = match self.stack_size {
            None => origin.cluster().default_class(),
            Some(bytes) => Class::of_size(bytes).ok_or(SpawnError::StackTooLarge { bytes })?,
        };
        origin.promise_stack(class).map_err(SpawnError::OutOfStacks)?;
        if !origin.count() {
            pool::refund(class);
            return Err(SpawnError::Ended);
        }
        Ok((origin, class))
    }
}

impl Cluster {
    /// Starts a fibre on this cluster. The caller may be any thread, fibre or task.
    ///
    /// # Panics
    /// If there is no memory for another stack, or if the runtime has ended.
    #[track_caller]
    pub fn spawn<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        SpawnError::expect_none("spawn a fibre", FibreBuilder::new().cluster(self).spawn(f))
    }
}
