#![doc = include_str!("README.md")]

mod arrivals;
mod coloured;
mod deques;
mod dice;
mod fair;
mod guarded;
mod inverted;
mod locality;
mod meter;
#[cfg(all(test, sinew_loom))]
pub(crate) mod models;
mod presence;
mod random;
mod shared;
#[cfg(all(test, not(sinew_loom)))]
mod simulation;
mod stations;
mod topology;
mod victims;

pub use coloured::{Coloured, Heuristics, Stealing};
pub use fair::Fair;
pub(crate) use guarded::admit;
pub use inverted::Inverted;
pub use locality::{Locality, Woken};
pub use meter::{Meter, Stolen};
pub use random::Random;
pub use shared::Shared;
pub use topology::{CacheId, Distance, Topology};

pub use crate::strand::{Claim, Grown, Past, Priority, Ready, Weight};

use std::fmt;
use std::sync::Arc;

/// The largest number of processors that a cluster can have at once.
pub const MAX_PROCESSORS: usize = 1024;

/// The number of a processor within its cluster. A new processor gets the lowest number that no
/// other processor has, so numbers stay small and are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessorId(pub(crate) u16);

impl ProcessorId {
    /// Returns the number, which is less than [`MAX_PROCESSORS`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// What a scheduler is told of a processor when it attaches.
#[derive(Clone)]
pub struct Placement {
    processor: ProcessorId,
    topology: Arc<Topology>,
    /// The address of the processor's cluster; 0 if it is simulated.
    cluster: usize,
    /// The CPU that a simulated processor runs on.
    simulated_cpu: Option<usize>,
    /// Where thefts are counted; `None` if the processor is simulated.
    ledger: Option<Arc<dyn Ledger>>,
}

impl Placement {
    pub(crate) fn new(
        processor: ProcessorId,
        topology: Arc<Topology>,
        cluster: usize,
        ledger: Arc<dyn Ledger>,
    ) -> Self {
        Placement { processor, topology, cluster, simulated_cpu: None, ledger: Some(ledger) }
    }

    /// Makes a placement on a machine that need not exist. The processor stays on `cpu`.
    #[cfg(any(test, sinew_loom))]
    #[cfg_attr(not(test), allow(dead_code))]
    pub(crate) fn simulated(index: u16, topology: Arc<Topology>, cpu: usize) -> Self {
        Placement { processor: ProcessorId(index), topology, cluster: 0, simulated_cpu: Some(cpu), ledger: None }
    }

    /// Returns the processor's number within its cluster.
    pub fn processor(&self) -> ProcessorId {
        self.processor
    }

    /// Returns the caches of the machine.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the CPU that the processor runs on at this moment. To be called on the processor's own
    /// kernel thread. It asks the kernel, for threads move from CPU to CPU.
    pub fn cpu(&self) -> usize {
        self.simulated_cpu.unwrap_or_else(crate::base::kernel::current_cpu)
    }

    /// Returns the last-level cache that the processor runs under at this moment. As [`cpu`](Placement::cpu),
    /// but it asks the kernel only if there are several caches.
    pub fn cache(&self) -> CacheId {
        self.topology.cache_of(if self.topology.is_flat() { 0 } else { self.cpu() })
    }

    /// Counts strands that the processor has taken from others because it has none, or fewer, for the
    /// [metrics](crate::metrics) of its runtime. To be called on the processor's own kernel thread.
    pub fn count_stolen(&self, strands: usize) {
        self.ledger.iter().for_each(|ledger| ledger.stole(strands));
    }

    /// As [`count_stolen`](Placement::count_stolen), for strands from the queue of a processor that did not
    /// get to them.
    pub fn count_rescued(&self, strands: usize) {
        self.ledger.iter().for_each(|ledger| ledger.rescued(strands));
    }

    fn count(&self, cause: meter::Cause, strands: usize) {
        match cause {
            meter::Cause::Steal => self.count_stolen(strands),
            meter::Cause::Rescue => self.count_rescued(strands),
        }
    }
}

impl fmt::Debug for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Placement").field("processor", &self.processor).field("topology", &self.topology).finish()
    }
}

/// Counts what a processor takes from others. Implemented by the processor's post.
pub(crate) trait Ledger: Send + Sync {
    fn stole(&self, strands: usize);
    fn rescued(&self, strands: usize);
}

/// Says which sleeping processor, if any, has to be woken for a strand that a scheduler has just
/// taken. Processors that are awake look into the scheduler by themselves.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// No processor: one that is awake is certain to find the strand.
    Nobody,
    /// A processor that is awake gets to the strand soon: it is the only one in the queue of the pushing
    /// processor, or not worth moving to another. A sleeping processor is woken only if no other one keeps
    /// watch for strands that wait too long.
    Lone,
    /// The processors that are awake will not get to the strand soon: any sleeping processor.
    Backlog,
    /// This processor, to which the scheduler has given the strand.
    Processor(ProcessorId),
}

/// How much a processor without work may take from the others in [`Local::search`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// Strands that their own processor will not get to soon. A single strand that its processor
    /// is about to run stays where it is: otherwise two processors steal it from each other.
    Polite,
    /// Every strand that is ready anywhere. The processor sleeps if it finds none.
    Greedy,
}

/// A scheduling idea: decides which strand of a cluster runs next, and on which processor.
///
/// One value serves one cluster. Each processor of the cluster gets an end of its own by
/// [`attach`](Scheduler::attach), and uses nothing but that end. All other threads hand in strands
/// by [`inject`](Scheduler::inject).
///
/// An application may write a scheduler of its own: the example `earliest_deadline` is one of
/// fifty lines. To a scheduler, a fibre, a task and a colour are the same: a strand.
///
/// # What a scheduler may rely on
///
/// - Every strand that it is given is ready, belongs to the cluster, and may run on any processor
///   of the cluster. The runtime itself keeps strands that are bound to one processor, and those
///   of [`Priority::Background`].
/// - A strand keeps its priority. [`Ready::ready_at`] and [`Ready::past`] stay the same until the strand is
///   given back. [`Ready::note`] stays for longer: until the scheduler changes it, or the strand moves to another
///   cluster.
/// - [`Ready::weight`] may grow while the scheduler has the strand, if the scheduler [asked](Scheduler::weighs) for
///   weights. [`grown`](Scheduler::grown) is called each time when the weight has doubled.
/// - `now` is the present time in cycles of the CPU's counter. A processor reads it every few
///   dispatches, so it may be some microseconds old. Two processors may differ a little, so
///   differences are best taken with `saturating_sub`.
/// - No code of the program runs while a method runs. So a scheduler may take locks of its own
///   and hold them for a moment.
/// - On one kernel thread, a method ends before the next one begins.
///
/// # What a scheduler owes
///
/// - It gives back each strand exactly once, from any end.
/// - No method blocks for long, or calls a function that blocks a fibre.
/// - As soon as `push`, `push_all` or `inject` has returned, a `search` with [`Effort::Greedy`]
///   by any end finds the strand, unless another end has taken it. Processors that fall asleep
///   rely on this. The runtime supplies the memory barriers.
/// - The [`Wake`] that it returns names every processor that has to be woken.
///
/// # What happens if it does not keep to that
///
/// A strand that is never given back never runs again. No mistake harms memory. These mistakes
/// end the process with one line:
///
/// - It drops a strand.
/// - It panics, in a method or in `drop`.
/// - It gives a processor a strand of another cluster. Two clusters cannot share the state of one
///   scheduler.
/// - A method makes a strand of the same cluster ready, by `unpark` for instance.
/// - A method spawns a strand. A method runs as on a kernel thread that has no runtime, so spawning
///   panics there. A call that blocks in a method blocks the processor.
pub trait Scheduler: Send + Sync + 'static {
    /// Returns a short name, for reports.
    fn name(&self) -> &'static str;

    /// Makes the end of a processor that joins the cluster. Called once by each processor, on its
    /// kernel thread, before it runs its first strand. The end stays on that thread.
    fn attach(&self, placement: Placement) -> Box<dyn Local>;

    /// Takes a strand that becomes ready elsewhere than on a processor that serves the cluster.
    ///
    /// Called by any thread: a kernel thread without a runtime, a processor of another cluster,
    /// or a processor that leaves this one and hands over what [`Local::drain`] returned.
    fn inject(&self, strand: Ready, now: u64) -> Wake;

    /// Says whether the scheduler wants to know what strands [weigh](Ready::weight). Asked once, when a
    /// cluster is built. If it does not, nobody adds weights up, all weights are 0, and
    /// [`grown`](Scheduler::grown) is never called.
    fn weighs(&self) -> bool {
        false
    }

    /// Notes that a strand weighs at least twice what it weighed when it became ready, or at the last call.
    /// Called by any thread that adds letters to the strand, after it has added them.
    ///
    /// The strand may be in a queue of the scheduler, on its way to one, or on a processor already. Its
    /// [note](Grown::note) is a hint where to look. [`Grown::is`] says whether a strand that is found there
    /// is the one that has grown.
    fn grown(&self, _strand: &Grown<'_>, _now: u64) -> Wake {
        Wake::Nobody
    }
}

/// A processor's own end of a scheduler. Only the processor's kernel thread calls it.
///
/// A processor uses its end as follows:
///
/// | when | what it calls |
/// | --- | --- |
/// | a strand becomes ready on it | `push`, or `push_all` for a batch |
/// | a strand has yielded | `exchange`; if that returns `Err`, `push` and then `next` |
/// | a strand has parked or ended | `next` |
/// | before `next`, if strands that are bound to the processor are ready too | `claim` |
/// | every 16 µs while it runs strands | `beat` |
/// | `next` returned nothing | `next` and `search`, again and again for a while |
/// | it is about to sleep | `next` and `search`, the last time with [`Effort::Greedy`] unless another processor keeps watch |
/// | it has found work after `next` returned nothing | `retract` |
/// | it leaves the cluster | `retract`, then `drain` until nothing is left |
pub trait Local {
    /// Takes a strand that became ready on this processor: a strand that runs here has spawned
    /// or woken it, a timer or an I/O event is for it, or it has yielded.
    fn push(&self, strand: Ready, now: u64) -> Wake;

    /// Takes a batch of strands that became ready on this processor, and calls `tell` for each
    /// [`Wake`] that results. There may be no strands in it.
    ///
    /// An implementation takes all strands from the iterator, and may answer for all of them with
    /// one `tell`. It releases its locks before that: `tell` may make a system call.
    fn push_all(&self, strands: &mut dyn Iterator<Item = Ready>, now: u64, tell: &mut dyn FnMut(Wake)) {
        strands.for_each(|strand| tell(self.push(strand, now)));
    }

    /// Returns the next strand that this processor has to run, without a search at others. Called
    /// whenever the processor needs a strand, so it has to be fast.
    fn next(&self, now: u64) -> Option<Ready>;

    /// Takes a strand that is ready and returns the next one: `push` and `next` in one step. May
    /// return the same strand.
    ///
    /// Called when the strand that ran has yielded, was woken before it had parked, or has ended
    /// and `strand` waited for its end. No processor is woken for a strand that comes in this way.
    ///
    /// # Errors
    /// Returns `strand` itself if the scheduler has no quicker way than `push` and `next`. The
    /// processor calls these then.
    fn exchange(&self, strand: Ready, _now: u64) -> Result<Ready, Ready> {
        Err(strand)
    }

    /// Returns the claim of the strand that [`next`](Local::next) would return. Called only while
    /// the processor also has strands that are bound to it. The processor compares the two claims
    /// and calls `next` if the scheduler's turn has come. `next` may return another strand, or
    /// nothing if another processor was faster.
    fn claim(&self) -> Option<Claim>;

    /// Looks for a strand at the other processors. Called when [`next`](Local::next) returned
    /// nothing: several times while the processor lingers, and again after it has announced that
    /// it falls asleep. `effort` says how much it may take.
    fn search(&self, now: u64, effort: Effort) -> Option<Ready>;

    /// Notes that the processor goes on with other work although `next` returned nothing. It
    /// found that work by `search`, or elsewhere: a strand that is bound to it, or a background
    /// strand.
    ///
    /// A scheduler whose `next` announces that the processor waits takes that back here. If it
    /// has meanwhile given the processor a strand, it passes that strand on. The processor may call
    /// this also when nothing was announced.
    fn retract(&self, _now: u64) -> Wake {
        Wake::Nobody
    }

    /// Looks at the others. Called about every [`BEAT_US`] microseconds, between two strands,
    /// while the processor runs strands. A strand that does not give up its processor delays it.
    fn beat(&self, _now: u64) {}

    /// Gives up one strand that only this end would run. Called again and again until it returns
    /// nothing, when the processor leaves its cluster. The processor passes each of the strands to
    /// [`Scheduler::inject`]. No strand is pushed to this end any more, and the end is dropped
    /// some time later. It is not called when the runtime ends: no strand is left then.
    fn drain(&self) -> Option<Ready>;
}

/// The distance between two beats of a processor. At each beat a processor looks at the queue of
/// another one, a cache miss of about 100 ns on both sides: about one per cent of the time. The
/// mean of `transfer` is about four beats.
pub const BEAT_US: u64 = 16;
