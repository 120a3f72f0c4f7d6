//! How a strand of any kind enters a runtime.

use super::cluster::{BuildError, Cluster, ClusterShared};
use super::{Event, Processor, enqueue};
use crate::base::probe;
use crate::stack::arena::{Class, LARGEST_STACK};
use crate::stack::pool;
use crate::strand::blocks::Blocks;
use crate::strand::{Ready, fresh_ids};
use std::num::NonZeroU64;
use std::{fmt, io};

/// The reason why a fibre or a task could not be spawned.
#[derive(Debug)]
#[non_exhaustive]
pub enum SpawnError {
    /// The caller runs on no processor, and named no cluster.
    NoRuntime,
    /// The process's own runtime, which [`thread`](crate::thread) uses outside of fibres, could not be
    /// built.
    NoProcessWideRuntime(BuildError),
    /// The name contains a NUL byte.
    NameContainsNul,
    /// The requested stack is larger than the largest size that there is.
    StackTooLarge {
        /// The size that was requested.
        bytes: usize,
    },
    /// The kernel refuses memory, or a mapping, for another stack.
    OutOfStacks(io::Error),
    /// The runtime of the cluster has been dropped, and the caller is not one of its fibres or tasks.
    Ended,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpawnError::NoRuntime => f.write_str(
                "there is no runtime here: call this inside of `sinew::run`, or spawn on a `Runtime` or `Cluster`",
            ),
            SpawnError::NoProcessWideRuntime(error) => write!(f, "the process's own runtime cannot be built: {error}"),
            SpawnError::Ended => f.write_str(
                "the runtime has ended: spawn before its `Runtime` is dropped, or in one of its own fibres and tasks",
            ),
            SpawnError::NameContainsNul => f.write_str("the name of a fibre may not contain a NUL byte"),
            SpawnError::StackTooLarge { bytes } => {
                write!(f, "a stack of {bytes} bytes is too large: the largest has {LARGEST_STACK}")
            }
            SpawnError::OutOfStacks(error) => write!(
                f,
                "no memory for another stack: {error}; a limit of the process is too low, or vm.max_map_count if each guard needs a mapping"
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
    /// Returns the value of a spawn that has to succeed.
    ///
    /// # Panics
    /// If it did not.
    #[track_caller]
    #[inline(always)]
    pub(crate) fn expect_none<T>(what: &str, spawned: Result<T, SpawnError>) -> T {
        match spawned {
            Ok(value) => value,
            // Not in a closure: `track_caller` does not reach into one.
            Err(error) => error.panic(what),
        }
    }

    /// Says that it cannot be done to `spawn a fibre`, or `what` else it is.
    ///
    /// # Panics
    /// Always.
    #[track_caller]
    #[cold]
    pub(crate) fn panic(self, what: &str) -> ! {
        panic!("cannot {what}: {self}")
    }
}

/// The spawner, and the cluster that it spawns to.
pub(crate) enum Origin<'a> {
    /// A strand that runs on this processor spawns to a cluster of its own runtime. The runtime
    /// cannot end before the strand does.
    Strand(&'a Processor, &'a ClusterShared),
    /// Another caller spawns: a kernel thread, a strand of another runtime, or a waker that a
    /// processor calls between two strands. The cluster's runtime may refuse it.
    Outside(&'a ClusterShared),
}

impl<'a> Origin<'a> {
    /// Makes the origin of a spawn by `caller`, the processor that runs the calling code. The cluster
    /// is the named one, or else the processor's.
    ///
    /// # Errors
    /// [`SpawnError::NoRuntime`] if there is neither.
    #[inline(always)]
    pub(crate) fn new(named: Option<&'a Cluster>, caller: Option<&'a Processor>) -> Result<Self, SpawnError> {
        let cluster = match (named, caller) {
            (Some(cluster), _) => cluster.shared(),
            (None, Some(processor)) => processor.cluster(),
            (None, None) => return Err(SpawnError::NoRuntime),
        };
        Ok(Origin::of(cluster, caller))
    }

    /// Makes the origin of a spawn to `cluster`.
    #[inline(always)]
    pub(crate) fn of(cluster: &'a ClusterShared, caller: Option<&'a Processor>) -> Self {
        match caller {
            Some(processor) if processor.runs_a_strand() && processor.is_of_runtime(cluster) => {
                Origin::Strand(processor, cluster)
            }
            _ => Origin::Outside(cluster),
        }
    }

    /// As [`new`](Origin::new), and counts the strand. The caller has to create it then.
    ///
    /// # Errors
    /// As `new`; and [`SpawnError::Ended`].
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

    /// Returns the processor's own memory for records, if a strand spawns.
    #[inline(always)]
    pub(crate) fn blocks(&self) -> Option<&'a Blocks> {
        match self {
            Origin::Strand(processor, _) => Some(processor.blocks()),
            Origin::Outside(_) => None,
        }
    }

    #[inline(always)]
    pub(crate) fn promise_stack(&self, class: Class) -> io::Result<()> {
        match self {
            Origin::Strand(processor, _) => processor.stacks().promise(class),
            Origin::Outside(_) => pool::promise(class),
        }
    }

    pub(crate) fn fresh_id(&self) -> NonZeroU64 {
        match self {
            Origin::Strand(processor, _) => processor.fresh_id(),
            Origin::Outside(_) => fresh_ids(1),
        }
    }

    /// Counts the new strand. Returns `false` if the runtime ends and refuses it.
    #[inline]
    pub(crate) fn count(&self) -> bool {
        match self {
            Origin::Strand(processor, _) => {
                processor.post().tally().count_spawned();
                true
            }
            Origin::Outside(cluster) => cluster.runtime().count_spawned_outside(),
        }
    }

    /// Takes back a count: the strand was not started.
    #[cold]
    pub(crate) fn take_back(&self) {
        match self {
            Origin::Strand(processor, _) => processor.count_finished(),
            Origin::Outside(cluster) => cluster.runtime().take_back_outside(),
        }
    }

    #[inline]
    pub(crate) fn start(&self, ready: Ready) {
        probe::spawn(std::ptr::from_ref(ready.strand()).cast());
        match self {
            Origin::Strand(processor, _) => processor.enqueue(ready, Some(Event::Spawned)),
            // The caller may be a waker that a processor of the cluster calls: the strand stays there.
            Origin::Outside(_) => enqueue(ready),
        }
    }
}
