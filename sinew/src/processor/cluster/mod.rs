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

/// A scheduling domain: some processors and a scheduler of their own. Fibres
/// stay in the cluster that they were spawned on unless they ask to be moved.
///
/// A runtime has one to begin with; others are made by
/// [`Runtime::cluster`](crate::Runtime::cluster), for a part of the program that
/// is to have CPUs of its own, or another scheduler.
///
/// Processors can be added and removed while everything runs. A removed
/// processor gives all fibres that may move to the others at once. It *retires*:
/// fibres that are bound to it (all those that it started, unless the runtime is
/// [migrating](crate::Builder::migrating); those that are pinned to it) go on
/// running there, and its kernel thread ends after the last of them. So nobody
/// is stranded, and no fibre finds itself on a kernel thread that it must not be
/// on.
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

    /// Returns the cluster that the calling fibre or task belongs to.
    pub fn current() -> Option<Cluster> {
        with_current(|processor| Some(Cluster { shared: processor?.cluster().to_arc() }))
    }

    /// Returns its name. Its kernel threads have the same name, with a number.
    pub fn name(&self) -> &str {
        self.shared.name()
    }

    /// Returns the name of its scheduler.
    pub fn scheduler(&self) -> &'static str {
        self.shared.scheduler().name()
    }

    /// Returns the number of processors that serve the cluster. Retiring ones do not count.
    pub fn processors(&self) -> usize {
        self.shared.serving() as usize
    }

    /// Returns the numbers of the processors that serve the cluster, in the order in which they
    /// came.
    pub fn processor_ids(&self) -> Vec<ProcessorId> {
        self.shared.crew().serving_ids()
    }

    /// Returns the number of removed processors that still run fibres which are bound to them.
    pub fn retiring(&self) -> usize {
        self.shared.crew().retiring()
    }

    /// Adds a processor.
    ///
    /// # Errors
    /// If there are too many, or the kernel refuses. Nothing has changed then.
    pub fn add_processor(&self) -> Result<ProcessorId, ResizeError> {
        self.shared.hire()
    }

    /// Removes the processor that came last. Returns at once; see [`Cluster`] for what becomes of
    /// fibres that are bound to it.
    ///
    /// # Errors
    /// If it is the only one.
    pub fn remove_processor(&self) -> Result<ProcessorId, ResizeError> {
        self.shared.dismiss(None)
    }

    /// Removes the processor with this number, as [`remove_processor`](Cluster::remove_processor)
    /// does.
    ///
    /// # Errors
    /// If it is the only one, or not one of the cluster's.
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
