//! Spawning.
#![allow(unsafe_code)]

use super::fresh_ids;
use super::handle::JoinHandle;
use super::record::{Plan, Record, ResultOf};
use super::scope::{Entered, Scope, ScopedJoinHandle};
use crate::processor::cluster::{Cluster, ClusterShared};
use crate::processor::{self, Processor};
use crate::runtime::{self, BuildError};
use crate::stack::arena::{Class, LARGEST_STACK};
use crate::stack::pool as stacks;
use crate::strand::{Priority, Ready};
use std::num::NonZeroU64;
use std::panic::Location;
use std::{fmt, io};

/// Starts a fibre that runs `f`, on the cluster of the caller.
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
/// If the caller is neither a fibre nor a task: there is no runtime then. If the caller is a
/// waker that a processor calls, and the runtime has ended. If there is no memory
/// for another stack. [`FibreBuilder::spawn`] returns these as errors.
#[track_caller]
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    SpawnError::expect_none(FibreBuilder::new().spawn(f))
}

/// Why a fibre could not be spawned.
#[derive(Debug)]
#[non_exhaustive]
pub enum SpawnError {
    /// The caller is a kernel thread that runs no fibre, and named no cluster.
    NoRuntime,
    /// The process's own runtime, which [`thread`](crate::thread) uses outside of fibres,
    /// could not be built.
    NoProcessWideRuntime(BuildError),
    /// The name contains a NUL byte.
    NameContainsNul,
    /// The stack asked for is larger than the largest that there is.
    StackTooLarge {
        /// What was asked for.
        bytes: usize,
    },
    /// The kernel gives no memory, or no mapping, for another stack.
    OutOfStacks(io::Error),
    /// The runtime of the cluster has been dropped, and the caller is not one of
    /// its fibres or tasks.
    Ended,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpawnError::NoRuntime => f.write_str(
                "there is no runtime here: call this inside of `sinew::run`, or spawn on a `Runtime` or `Cluster`",
            ),
            SpawnError::NoProcessWideRuntime(error) => write!(f, "the process's own runtime cannot be built: {error}"),
            SpawnError::Ended => f.write_str("the runtime has ended"),
            SpawnError::NameContainsNul => f.write_str("the name of a fibre may not contain a NUL byte"),
            SpawnError::StackTooLarge { bytes } => {
                write!(f, "a stack of {bytes} bytes is too large: the largest has {LARGEST_STACK}")
            }
            SpawnError::OutOfStacks(error) => write!(
                f,
                "no memory for another stack: {error} (a limit of the process or, where guards need one mapping each, vm.max_map_count)"
            ),
        }
    }
}

impl std::error::Error for SpawnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SpawnError::OutOfStacks(error) => Some(error),
            SpawnError::NoProcessWideRuntime(error) => Some(error),
            _ => None,
        }
    }
}

impl From<SpawnError> for io::Error {
    fn from(error: SpawnError) -> io::Error {
        let kind = match &error {
            SpawnError::NoProcessWideRuntime(error) => error.kind(),
            SpawnError::OutOfStacks(_) => io::ErrorKind::OutOfMemory,
            SpawnError::NoRuntime | SpawnError::Ended => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::InvalidInput,
        };
        io::Error::new(kind, error)
    }
}

impl SpawnError {
    /// The value of a spawn that has to succeed.
    #[track_caller]
    #[inline(always)]
    pub(crate) fn expect_none<T>(spawned: Result<T, SpawnError>) -> T {
        match spawned {
            Ok(value) => value,
            // Not in a closure, for which there is no caller to blame.
            Err(error) => error.panic(),
        }
    }

    #[track_caller]
    #[cold]
    fn panic(self) -> ! {
        panic!("cannot spawn a fibre: {self}")
    }
}

/// Makes fibres with other properties than [`spawn`] does.
///
/// ```
/// sinew::run(|| {
///     let fibre = sinew::FibreBuilder::new().name("worker").stack_size(256 * 1024);
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
    /// Whether the process's own runtime will do where there is no other.
    anywhere: bool,
}

impl FibreBuilder {
    /// A fibre as [`spawn`] makes it.
    #[inline]
    pub fn new() -> Self {
        FibreBuilder::default()
    }

    /// Names it, for messages and for [`Fibre::name`](super::Fibre::name).
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into().into_boxed_str());
        self
    }

    /// Gives it a stack of at least `bytes`. Stacks come in powers of two from
    /// 16 KiB to 256 MiB; a smaller wish gets the smallest. Address space is all
    /// that a larger stack costs until it is used.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Makes it more or less urgent than others.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Keeps it on the processor that first runs it. Where started fibres do not
    /// migrate, all of them are like this.
    pub fn pinned(mut self) -> Self {
        self.pinned = true;
        self
    }

    /// Runs it on `cluster` instead of the caller's.
    pub fn cluster(mut self, cluster: &Cluster) -> Self {
        self.cluster = Some(cluster.clone());
        self
    }

    /// Runs it on the process's own runtime if the caller is not a fibre.
    pub(crate) fn anywhere(mut self, anywhere: bool) -> Self {
        self.anywhere |= anywhere;
        self
    }

    /// Starts the fibre.
    ///
    /// # Errors
    /// [`SpawnError`] says what is wrong; nothing has been started then, and `f`
    /// has been dropped.
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
            origin.start(ready);
            Ok(handle)
        });
        // A closure that was refused is dropped here, where that may block, or panic.
        spawned.map_err(|(error, _f)| error)
    }

    /// Promises a stack and counts the fibre, which has to be created then.
    #[inline(always)]
    fn admit<'a>(&'a self, caller: Option<&'a Processor>) -> Result<(Origin<'a>, Class), SpawnError> {
        let origin = match Origin::new(self.cluster.as_ref(), caller) {
            Err(SpawnError::NoRuntime) if self.anywhere => {
                let runtime = runtime::process_wide().map_err(SpawnError::NoProcessWideRuntime)?;
                Origin::Outside(runtime.main_cluster().shared())
            }
            origin => origin?,
        };
        let class = match self.stack_size {
            None => origin.cluster().default_class(),
            Some(bytes) => Class::of_size(bytes).ok_or(SpawnError::StackTooLarge { bytes })?,
        };
        origin.promise_stack(class).map_err(SpawnError::OutOfStacks)?;
        if !origin.count() {
            stacks::refund(class);
            return Err(SpawnError::Ended);
        }
        Ok((origin, class))
    }
}

/// Who spawns, and where to.
pub(crate) enum Origin<'a> {
    /// A strand that runs on a processor, to a cluster of its own runtime, which cannot end
    /// before the strand does.
    Strand(&'a Processor, &'a ClusterShared),
    /// Anyone else, to whom the cluster's runtime may be closed: a kernel thread, a strand of
    /// another runtime, a waker that a processor calls between two strands.
    Outside(&'a ClusterShared),
}

impl<'a> Origin<'a> {
    /// The caller, on this processor if on any, and the cluster that was named or else the
    /// processor's.
    #[inline(always)]
    fn new(named: Option<&'a Cluster>, caller: Option<&'a Processor>) -> Result<Self, SpawnError> {
        let cluster = match (named, caller) {
            (Some(cluster), _) => cluster.shared(),
            (None, Some(processor)) => processor.cluster(),
            (None, None) => return Err(SpawnError::NoRuntime),
        };
        match caller {
            Some(processor) if processor.runs_a_strand() && processor.is_of_runtime(cluster) => {
                Ok(Origin::Strand(processor, cluster))
            }
            _ => Ok(Origin::Outside(cluster)),
        }
    }

    /// As [`new`](Origin::new), and counts the strand, which has to be created then.
    #[inline]
    pub(crate) fn admit(named: Option<&'a Cluster>, caller: Option<&'a Processor>) -> Result<Self, SpawnError> {
        let origin = Origin::new(named, caller)?;
        if origin.count() { Ok(origin) } else { Err(SpawnError::Ended) }
    }

    #[inline]
    pub(crate) fn cluster(&self) -> &'a ClusterShared {
        let (Origin::Strand(_, cluster) | Origin::Outside(cluster)) = *self;
        cluster
    }

    #[inline(always)]
    fn promise_stack(&self, class: Class) -> io::Result<()> {
        match self {
            Origin::Strand(processor, _) => processor.stacks().promise(class),
            Origin::Outside(_) => stacks::promise(class),
        }
    }

    fn fresh_id(&self) -> NonZeroU64 {
        match self {
            Origin::Strand(processor, _) => processor.fresh_id(),
            Origin::Outside(_) => fresh_ids(1),
        }
    }

    /// Counts the new strand; `false` if its runtime has ended.
    #[inline]
    fn count(&self) -> bool {
        match self {
            Origin::Strand(processor, _) => {
                processor.post().tally().count_spawned();
                true
            }
            Origin::Outside(cluster) => cluster.runtime().count_spawned_outside(),
        }
    }

    #[inline]
    pub(crate) fn start(&self, ready: Ready) {
        match self {
            Origin::Strand(processor, _) => processor.make_ready(ready),
            Origin::Outside(_) => processor::make_ready_from_outside(ready),
        }
    }
}
