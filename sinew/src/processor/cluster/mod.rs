//! Clusters: scheduling domains.

mod crew;
mod errors;
mod shared;

pub use errors::{BuildError, MigrateError, ResizeError};
pub(crate) use shared::{ClusterPlan, ClusterShared, ENTRIES};

use super::post::{Hold, Post};
use super::shared::RuntimeShared;
use super::with_current;
use crate::base::clock::{cycles, duration_of};
use crate::sched::ProcessorId;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

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

    /// Returns the public side of `shared`.
    pub(crate) fn of(shared: &ClusterShared) -> Cluster {
        Cluster { shared: shared.to_arc() }
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

    /// Returns the number of processors that serve the cluster. Retiring processors do not count, nor do
    /// [spare ones](Cluster::spares).
    pub fn processors(&self) -> usize {
        self.shared.serving().saturating_sub(self.shared.spares.load(Ordering::Relaxed)) as usize
    }

    /// Returns the number of processors that stand in for others at this moment. See
    /// [`ClusterBuilder::spares`](crate::ClusterBuilder::spares).
    pub fn spares(&self) -> usize {
        self.shared.spares.load(Ordering::Relaxed) as usize
    }

    /// Returns the processors that are held up at this moment: a strand computes for long without giving
    /// way, or waits in the kernel. This is noticed after about 10 ms.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let rt = sinew::Runtime::builder().processors(1).build().unwrap();
    /// // Not `sinew::sleep`: this keeps the kernel thread.
    /// let rude = rt.spawn(|| std::thread::sleep(Duration::from_millis(300)));
    /// let held_up = loop {
    ///     if let Some(held_up) = rt.main_cluster().held_up().pop() {
    ///         break held_up;
    ///     }
    /// };
    /// assert_eq!(held_up.residents, 1);
    /// # rude.join().unwrap();
    /// ```
    pub fn held_up(&self) -> Vec<HeldUp> {
        let now = cycles();
        let posts = self.shared.all_posts().filter(|post| post.hold() != Hold::None);
        let report = |post: &Post| HeldUp {
            processor: post.id(),
            is_blocked: post.hold() == Hold::Blocked,
            since: duration_of(now.saturating_sub(post.pulse())),
            residents: post.bound() as usize,
        };
        posts.map(report).collect()
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

/// A processor that is held up: see [`Cluster::held_up`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HeldUp {
    /// The number of the processor.
    pub processor: ProcessorId,
    /// Whether the strand that runs waits in the kernel. If not, it computes.
    pub is_blocked: bool,
    /// For how long the processor has been held up.
    pub since: Duration,
    /// The number of fibres that live on the processor, and cannot run now. One of them may be the one
    /// that runs.
    pub residents: usize,
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
            .field("held_up", &self.held_up().len())
            .field("spares", &self.spares())
            .finish()
    }
}
