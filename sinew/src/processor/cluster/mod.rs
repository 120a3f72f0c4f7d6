//! Clusters: scheduling domains.

mod crew;
mod errors;
mod shared;

pub use errors::{BuildError, MigrateError, ResizeError};
pub(crate) use shared::{ClusterPlan, ClusterShared};

use super::shared::RuntimeShared;
use super::with_current;
use crate::sched::ProcessorId;
use std::fmt;
use std::sync::Arc;

/// A scheduling domain: some processors, one scheduler, and their drivers. A fibre stays in the
/// cluster that it was spawned on, unless it calls [`migrate_to`](crate::migrate_to).
///
/// A runtime begins with one cluster. [`Runtime::cluster`](crate::Runtime::cluster) makes others, for
/// parts of the program that need CPUs of their own, or another scheduler.
///
/// Processors can be added and removed while fibres run. A removed processor *retires*. It gives all
/// fibres that may move to the other processors at once. Fibres that are bound to it go on running
/// there, and its kernel thread ends after the last of them. Pinned fibres are bound. So are all
/// fibres that the processor started, unless the runtime is [migrating](crate::Builder::migrating).
/// No fibre is lost, and no fibre runs on a kernel thread that it must not run on.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<ClusterShared>,
}

impl Cluster {
    pub(crate) fn start(plan: ClusterPlan, runtime: Arc<RuntimeShared>) -> Result<Cluster, BuildError> {
        let processors = plan.processors;
        let cluster = Cluster { shared: ClusterShared::new(plan, runtime) };
        for _ in 0..processors {
            if let Err(error) = cluster.add_processor() {
                cluster.shared.stop();
                return Err(match error {
                    ResizeError::Kernel(error) => BuildError::Kernel(error),
                    _ => BuildError::TooManyProcessors,
                });
            }
        }
        cluster.shared.runtime().enter(&cluster.shared);
        Ok(cluster)
    }

    pub(crate) fn shared(&self) -> &ClusterShared {
        &self.shared
    }

    /// Returns the cluster that the calling fibre or task belongs to; `None` for any other caller.
    pub fn current() -> Option<Cluster> {
        with_current(|processor| Some(Cluster { shared: processor?.cluster().to_arc() }))
    }

    /// Returns the cluster's name. Its kernel threads have the same name, with a number.
    pub fn name(&self) -> &str {
        self.shared.name()
    }

    /// Returns the name of the cluster's scheduler.
    pub fn scheduler(&self) -> &'static str {
        self.shared.scheduler().name()
    }

    /// Returns the number of processors that serve the cluster. Retiring processors do not count.
    pub fn processors(&self) -> usize {
        self.shared.serving() as usize
    }

    /// Returns the numbers of the processors that serve the cluster, in the order in which they
    /// came.
    pub fn processor_ids(&self) -> Vec<ProcessorId> {
        self.shared.crew().serving_ids()
    }

    /// Returns the number of removed processors whose threads have not ended: they run fibres that
    /// are bound to them.
    pub fn retiring(&self) -> usize {
        self.shared.crew().retiring()
    }

    /// Adds a processor. Returns its number.
    ///
    /// # Errors
    /// If the cluster has too many processors, if the kernel refuses, or if the runtime has ended.
    /// Then nothing has changed.
    pub fn add_processor(&self) -> Result<ProcessorId, ResizeError> {
        self.shared.hire()
    }

    /// Removes the processor that was added last, and does not wait for its thread: see [`Cluster`].
    /// Returns its number.
    ///
    /// # Errors
    /// If it is the only processor, or if the kernel refuses.
    pub fn remove_processor(&self) -> Result<ProcessorId, ResizeError> {
        self.shared.dismiss(None)
    }

    /// Removes the processor with this number, as [`remove_processor`](Cluster::remove_processor)
    /// does.
    ///
    /// # Errors
    /// If it is the only processor, if no processor has this number, or if the kernel refuses.
    pub fn remove_processor_by_id(&self, processor: ProcessorId) -> Result<(), ResizeError> {
        self.shared.dismiss(Some(processor)).map(|_| ())
    }
}

impl PartialEq for Cluster {
    fn eq(&self, other: &Cluster) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for Cluster {}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("name", &self.name())
            .field("scheduler", &self.scheduler())
            .field("processors", &self.processors())
            .field("sleeping", &self.shared.idle().sleeping())
            .field("retiring", &self.retiring())
            .finish()
    }
}
