//! Errors of building and resizing a cluster, and of moving to one.

use crate::sched::MAX_PROCESSORS;
use crate::stack::arena::LARGEST_STACK;
use std::{fmt, io};

/// The reason why a runtime or a cluster could not be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// Zero processors were requested.
    NoProcessors,
    /// More than [`MAX_PROCESSORS`] were requested.
    TooManyProcessors,
    /// The requested stack is larger than the largest size that there is.
    StackTooLarge {
        /// The size that was requested.
        bytes: usize,
    },
    /// The name contains a NUL byte.
    NameContainsNul,
    /// The list of CPUs to pin processors to is empty.
    EmptyCpuSet,
    /// The kernel refused to start a thread, or to pin it to its CPU.
    Kernel(io::Error),
    /// The kernel refused the range of addresses for stacks.
    NoAddressSpace(io::Error),
    /// Fibres cannot have thread-local variables of their own here. The text says why.
    NoThreadLocals(&'static str),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::NoProcessors => {
                f.write_str("a runtime needs at least one processor: give `processors` 1 or more")
            }
            BuildError::TooManyProcessors => {
                write!(f, "a cluster has at most {MAX_PROCESSORS} processors: give `processors` a smaller number")
            }
            BuildError::StackTooLarge { bytes } => {
                write!(f, "a stack of {bytes} bytes is too large: give `stack_size` at most {LARGEST_STACK}")
            }
            BuildError::NameContainsNul => f.write_str("the name of a runtime or cluster may not contain a NUL byte"),
            BuildError::EmptyCpuSet => f.write_str("the list of CPUs is empty: give `pin_cpus` at least one CPU"),
            BuildError::Kernel(error) => write!(f, "the kernel refused to start or pin a thread: {error}"),
            BuildError::NoAddressSpace(error) => {
                write!(f, "no address space for stacks: {error}; raise the limit on it (ulimit -v)")
            }
            BuildError::NoThreadLocals(reason) => {
                write!(
                    f,
                    "fibres cannot have thread-local variables of their own: {reason}; do without `own_thread_locals`"
                )
            }
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::Kernel(error) | BuildError::NoAddressSpace(error) => Some(error),
            _ => None,
        }
    }
}

impl BuildError {
    pub(crate) fn kind(&self) -> io::ErrorKind {
        match self {
            BuildError::Kernel(error) => error.kind(),
            BuildError::NoAddressSpace(_) => io::ErrorKind::OutOfMemory,
            BuildError::NoThreadLocals(_) => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::InvalidInput,
        }
    }
}

impl From<BuildError> for io::Error {
    fn from(error: BuildError) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}

/// The reason why a processor could not be added or removed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ResizeError {
    /// It is the last processor that serves the cluster.
    LastProcessor,
    /// No processor of the cluster has that number, or it has been removed already.
    NoSuchProcessor,
    /// The cluster has [`MAX_PROCESSORS`] already, including retiring ones.
    TooMany,
    /// The runtime has ended.
    Stopped,
    /// The kernel refused to start the thread, to pin it to its CPU, or to let another processor
    /// inherit the poller of the removed one.
    Kernel(io::Error),
}

impl fmt::Display for ResizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResizeError::LastProcessor => f.write_str("a cluster cannot lose its last processor"),
            ResizeError::NoSuchProcessor => f.write_str("the cluster has no such processor"),
            ResizeError::TooMany => write!(f, "a cluster has at most {MAX_PROCESSORS} processors"),
            ResizeError::Stopped => f.write_str("the runtime of the cluster has ended"),
            ResizeError::Kernel(error) => write!(f, "the kernel refused a processor: {error}"),
        }
    }
}

impl std::error::Error for ResizeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ResizeError::Kernel(error) => Some(error),
            _ => None,
        }
    }
}

/// The reason why a fibre could not move to another cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MigrateError {
    /// The caller is not a fibre.
    NotAFibre,
    /// Started fibres of this runtime do not migrate: see
    /// [`Builder::migrating`](crate::Builder::migrating).
    NotMigrating,
    /// The fibre is pinned, or it is unwinding from a panic.
    Bound,
    /// The cluster belongs to another runtime.
    OtherRuntime,
}

impl fmt::Display for MigrateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MigrateError::NotAFibre => "only a fibre can migrate: call this inside of `sinew::run`, and not in a task",
            MigrateError::NotMigrating => "started fibres of this runtime do not migrate: see `Builder::migrating`",
            MigrateError::Bound => "a fibre that is pinned or unwinding does not migrate",
            MigrateError::OtherRuntime => "the cluster belongs to another runtime",
        })
    }
}

impl std::error::Error for MigrateError {}
