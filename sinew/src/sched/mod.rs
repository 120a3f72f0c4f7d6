#![doc = include_str!("README.md")]

mod fair;
mod guarded;
mod inverted;
#[cfg(all(test, sinew_loom))]
pub(crate) mod models;
mod shared;
#[cfg(all(test, not(sinew_loom)))]
mod simulation;
mod stations;
mod topology;

pub use fair::Fair;
pub(crate) use guarded::admit;
pub use inverted::Inverted;
pub use shared::Shared;
pub use topology::{CacheId, Topology};

pub use crate::strand::{Claim, Priority, Ready};

use std::sync::Arc;

/// How many processors a cluster can have at once.
pub const MAX_PROCESSORS: usize = 1024;

/// Which processor of a cluster: a small number, used again when a processor
/// has left and another one comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessorId(pub(crate) u16);

impl ProcessorId {
    /// The number itself, less than [`MAX_PROCESSORS`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// What a scheduler is told of a processor that joins.
#[derive(Clone, Debug)]
pub struct Placement {
    processor: ProcessorId,
    topology: Arc<Topology>,
    /// The address of the processor's cluster; 0 if it is simulated.
    cluster: usize,
    /// The CPU that a simulated processor runs on.
    simulated_cpu: Option<usize>,
}

impl Placement {
    pub(crate) fn new(processor: ProcessorId, topology: Arc<Topology>, cluster: usize) -> Self {
        Placement { processor, topology, cluster, simulated_cpu: None }
    }

    /// A place on a machine that need not exist, for simulating a scheduler:
    /// the processor stays on `cpu`.
    pub fn simulated(index: u16, topology: Arc<Topology>, cpu: usize) -> Self {
        Placement { processor: ProcessorId(index), topology, cluster: 0, simulated_cpu: Some(cpu) }
    }

    /// The processor's number within its cluster.
    pub fn processor(&self) -> ProcessorId {
        self.processor
    }

    /// The machine's caches.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The cache that the processor runs under at this moment.
    pub fn cache(&self) -> CacheId {
        if self.topology.is_flat() {
            return self.topology.cache_of(0);
        }
        self.topology.cache_of(self.simulated_cpu.unwrap_or_else(crate::base::kernel::current_cpu))
    }
}

/// Whom a strand that was just made ready concerns, as far as its scheduler
/// can tell. Processors that are awake need no telling.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Nobody: an awake processor is certain to find it.
    Nobody,
    /// The processor that pushed it will run it next, unless what it runs now
    /// goes on for long: worth waking another only if nobody keeps watch.
    Lone,
    /// There is more to do than the awake processors will soon get to.
    Backlog,
    /// This processor, which has been given it.
    Processor(ProcessorId),
}

/// How much a processor that found nothing of its own may take from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// What somebody else would not get to soon: it leaves a single strand that
    /// its processor is just about to run.
    Polite,
    /// Anything that is ready anywhere.
    Greedy,
}

/// A scheduling idea: decides which strand of a cluster runs next, and where.
///
/// One value serves one cluster. Each processor of the cluster gets an end of
/// its own by [`attach`](Scheduler::attach), and everything that a processor
/// does goes through that end; [`inject`](Scheduler::inject) is for the rest of
/// the world.
///
/// An application may write its own: the example `earliest_deadline` is one of
/// fifty lines. What a strand is, a fibre or a task, makes no difference to it.
///
/// # What it may rely on
///
/// - Every strand that it is given is ready, and may run on any processor of
///   the cluster. Strands that are bound to one processor, and those of
///   [`Priority::Background`], are kept elsewhere.
/// - `now` never goes far back.
/// - Nothing of a user's program runs while a method runs, so it may take locks
///   of its own, which it holds for a moment.
/// - A method that has begun ends before another begins on the same kernel thread.
/// - A strand keeps its priority; [`Ready::ready_at`] stays until it is given back.
///
/// # What it owes
///
/// - A strand that was given is given back exactly once, by some end. To drop one
///   ends the process.
/// - No method blocks for long, or calls what blocks a fibre.
/// - After `push` or `inject` has returned, a `search` with [`Effort::Greedy`]
///   by any end finds the strand, unless another end has taken it. (The ends
///   that sleep rely on this; the runtime supplies the memory barriers.)
/// - The [`Wake`] that it returns names everyone who has to be told.
///
/// # What becomes of one that does not
///
/// A strand that is never given back never runs again. No mistake harms memory; these end
/// the process with one line:
///
/// - to drop a strand;
/// - to panic, also in `drop`;
/// - to give a processor a strand of another cluster: two clusters cannot share one
///   scheduler's state;
/// - to make a strand of the same cluster ready from within a method, by `unpark` for
///   instance. To spawn one there panics, for a method runs as on a kernel thread that has
///   no runtime; what blocks in it blocks the processor.
pub trait Scheduler: Send + Sync + 'static {
    /// A short name, for reports.
    fn name(&self) -> &'static str;

    /// A processor joins the cluster. Called on that processor's kernel thread,
    /// where the result stays.
    fn attach(&self, place: Placement) -> Box<dyn Local>;

    /// Takes a strand that became ready outside of the cluster's processors.
    fn inject(&self, strand: Ready, now: u64) -> Wake;
}

/// A processor's own end of a scheduler. Used by one kernel thread only.
pub trait Local {
    /// Takes a strand that this processor made ready.
    fn push(&self, strand: Ready, now: u64) -> Wake;

    /// Takes strands that this processor made ready at once, and calls `tell` with
    /// whomever they concern.
    fn push_all(&self, strands: &mut dyn Iterator<Item = Ready>, now: u64, tell: &mut dyn FnMut(Wake)) {
        strands.for_each(|strand| tell(self.push(strand, now)));
    }

    /// The next strand to run, of those that are this processor's to run.
    fn next(&self, now: u64) -> Option<Ready>;

    /// Takes back the strand that ran last, which is still ready, and gives the
    /// next one: `push` and `next` in one step.
    ///
    /// # Errors
    /// The strand itself, from a scheduler that has no quicker way than `push` and
    /// `next`: the processor calls these then.
    fn exchange(&self, strand: Ready, _now: u64) -> Result<Ready, Ready> {
        Err(strand)
    }

    /// What [`next`](Local::next) would give, to be weighed against strands
    /// that only this processor may run.
    fn claim(&self) -> Option<Claim>;

    /// Looks beyond what is this processor's own. Called when `next` had
    /// nothing: several times while the processor lingers, and once more after
    /// it has announced that it will sleep.
    fn search(&self, now: u64, effort: Effort) -> Option<Ready>;

    /// The processor will run something although `next` had nothing: what `search`
    /// found, or something that did not come from this scheduler. A scheduler in
    /// which `next` announces that the processor waits takes that back here; a
    /// strand that the processor has been given meanwhile it passes on.
    fn retract(&self, _now: u64) -> Wake {
        Wake::Nobody
    }

    /// Called about every [`BEAT_US`] microseconds while the processor is busy:
    /// the moment to look at others.
    fn beat(&self, _now: u64) {}

    /// The processor leaves: gives back one strand after the other until none
    /// is left. Nothing is pushed to this end any more.
    fn drain(&self) -> Option<Ready>;
}

/// How far apart ticks are. Each is one look at another processor's queue, a
/// cache miss of about 100 ns on both sides: about one per cent of the time. The
/// mean of `transfer` is about four of them.
pub const BEAT_US: u64 = 16;
