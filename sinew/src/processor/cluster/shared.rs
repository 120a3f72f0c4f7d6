//! What the processors of a cluster share.

use super::crew::Crew;
use crate::base::describe::{Entry, Label};
use crate::base::directory::{Directory, Number};
use crate::base::spin::SpinLock;
use crate::processor::drain::Tally;
use crate::processor::driver::{Drivers, Threads};
use crate::processor::idle::Idle;
use crate::processor::post::Post;
use crate::processor::shared::RuntimeShared;
use crate::processor::{NewCarrier, Processor};
use crate::sched::{MAX_PROCESSORS, ProcessorId, Scheduler, Topology, Wake};
use crate::stack::arena::Class;
use crate::strand::{Fifo, Grown, Priority, Ready, Strand};
use std::any::Any;
use std::io;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// The part of a cluster that its processors share.
pub(crate) struct ClusterShared {
    /// Its number in the directory of clusters.
    number: Number,
    /// The name, for readers of memory.
    label: Label,
    pub(super) name: String,
    scheduler: Box<dyn Scheduler>,
    pub(super) idle: Idle,
    pub(super) drivers: Drivers,
    /// Starts the cluster's kernel threads.
    pub(super) threads: Box<dyn Threads>,
    /// Runs a processor on the calling kernel thread.
    pub(super) serve: fn(Arc<ClusterShared>, Arc<Post>),
    new_carrier: NewCarrier,
    /// Whether the scheduler wants to know what strands weigh.
    weighs: bool,
    /// Background strands, in the order in which they became ready.
    deferred: SpinLock<Fifo>,
    /// The number of strands in `deferred`. Written under its lock, read by any processor.
    deferred_len: AtomicUsize,
    /// By processor number. A post stays when its processor has ended.
    pub(super) posts: Box<[OnceLock<Arc<Post>>]>,
    /// Greater than the number of each post that is set.
    pub(super) posts_used: AtomicUsize,
    /// The number of processors that do not retire. Written by the thread that adds or
    /// removes a processor, read by any thread.
    pub(super) serving: AtomicU32,
    /// The number of those that stand in for processors which are held up. Written by the warden, read
    /// by any thread.
    pub(super) spares: AtomicU32,
    /// The largest number of spare processors.
    pub(super) most_spares: usize,
    /// The strands that threads other than the runtime's processors have woken.
    wakeups_from_outside: AtomicU64,
    pub(super) crew: Mutex<Crew>,
    class: Class,
    topology: Arc<Topology>,
    runtime: Arc<RuntimeShared>,
    itself: Weak<ClusterShared>,
}

/// What a cluster is made with.
pub(crate) struct ClusterPlan {
    pub(crate) name: String,
    pub(crate) processors: usize,
    pub(crate) scheduler: Box<dyn Scheduler>,
    /// The largest number of spare processors.
    pub(crate) spares: usize,
    pub(crate) class: Class,
    pub(crate) cpus: Vec<usize>,
    pub(crate) topology: Arc<Topology>,
    pub(crate) drivers: Drivers,
    pub(crate) threads: Box<dyn Threads>,
    pub(crate) serve: fn(Arc<ClusterShared>, Arc<Post>),
    pub(crate) new_carrier: NewCarrier,
}

/// The clusters, for readers of memory.
static CLUSTERS: Directory = Directory::new();

/// The entries of the description.
pub(crate) const ENTRIES: &[Entry] = &[
    Entry::place("clusters", &CLUSTERS),
    Entry::number("cluster.name", offset_of!(ClusterShared, label)),
    Entry::number("cluster.name_length", offset_of!(ClusterShared, label) + Label::LENGTH),
    Entry::number("cluster.runtime", offset_of!(ClusterShared, runtime)),
];

impl Drop for ClusterShared {
    fn drop(&mut self) {
        CLUSTERS.leave(self.number);
    }
}

impl ClusterShared {
    pub(super) fn new(plan: ClusterPlan, runtime: Arc<RuntimeShared>) -> Arc<ClusterShared> {
        Arc::new_cyclic(|itself: &Weak<ClusterShared>| ClusterShared {
            number: CLUSTERS.enter(itself.as_ptr().addr()),
            label: Label::of(&plan.name),
            name: plan.name,
            weighs: plan.scheduler.weighs(),
            scheduler: plan.scheduler,
            idle: Idle::new(MAX_PROCESSORS, plan.processors == 1),
            drivers: plan.drivers,
            threads: plan.threads,
            serve: plan.serve,
            new_carrier: plan.new_carrier,
            deferred: SpinLock::new(Fifo::new()),
            deferred_len: AtomicUsize::new(0),
            posts: std::iter::repeat_with(OnceLock::new).take(MAX_PROCESSORS).collect(),
            posts_used: AtomicUsize::new(0),
            serving: AtomicU32::new(0),
            spares: AtomicU32::new(0),
            most_spares: plan.spares,
            wakeups_from_outside: AtomicU64::new(0),
            crew: Mutex::new(Crew::new(plan.cpus)),
            class: plan.class,
            topology: plan.topology,
            runtime,
            itself: itself.clone(),
        })
    }

    pub(crate) fn to_arc(&self) -> Arc<ClusterShared> {
        self.itself.upgrade().expect("a cluster is used while it lives")
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn scheduler(&self) -> &dyn Scheduler {
        &*self.scheduler
    }

    /// Says whether the scheduler wants to know what strands weigh.
    #[inline]
    pub(crate) fn weighs(&self) -> bool {
        self.weighs
    }

    /// Tells the scheduler that the weight of a strand has grown. By any thread.
    pub(crate) fn tell_grown(&self, strand: &Strand, now: u64) {
        let wake = self.scheduler.grown(&Grown::new(strand), now);
        self.idle.notify_from_outside(wake);
    }

    /// Makes a carrier for one of the cluster's processors.
    pub(crate) fn new_carrier(&self, processor: &Processor) -> io::Result<Ready> {
        (self.new_carrier)(processor)
    }

    #[inline]
    pub(crate) fn idle(&self) -> &Idle {
        &self.idle
    }

    #[inline]
    pub(crate) fn drivers(&self) -> &Drivers {
        &self.drivers
    }

    /// Returns what starts the cluster's kernel threads.
    ///
    /// # Panics
    /// If it is not of type `T`.
    pub(crate) fn threads<T: Threads>(&self) -> &T {
        (&*self.threads as &dyn Any).downcast_ref().expect("a cluster is built with it")
    }

    pub(crate) fn topology(&self) -> Arc<Topology> {
        Arc::clone(&self.topology)
    }

    #[inline]
    pub(crate) fn runtime(&self) -> &RuntimeShared {
        &self.runtime
    }

    pub(crate) fn is_of_same_runtime(&self, other: &ClusterShared) -> bool {
        Arc::ptr_eq(&self.runtime, &other.runtime)
    }

    /// Returns the number of processors that do not retire.
    pub(crate) fn serving(&self) -> u32 {
        self.serving.load(Ordering::Relaxed)
    }

    /// Returns the stack size of fibres that ask for no other size.
    #[inline]
    pub(crate) fn default_class(&self) -> Class {
        self.class
    }

    /// Counts a strand of this cluster that a thread wakes which is no processor of the runtime.
    pub(crate) fn count_wakeup_from_outside(&self) {
        self.wakeups_from_outside.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn wakeups_from_outside(&self) -> u64 {
        self.wakeups_from_outside.load(Ordering::Relaxed)
    }

    /// Puts a ready strand of this cluster where a processor finds it: a post's inbox, the deferred
    /// strands, or the scheduler. For callers that cannot push it to their own end of the scheduler.
    pub(crate) fn accept(&self, ready: Ready) {
        if let Some(post) = self.post_of(&ready) {
            post.deliver(self, ready);
        } else if ready.priority() == Priority::Background {
            self.defer(ready);
        } else {
            let now = ready.ready_at();
            let wake = self.scheduler().inject(ready, now);
            self.idle().notify_from_outside(wake);
        }
    }

    /// Puts a background strand into the queue that processors look at when they find nothing else.
    fn defer(&self, ready: Ready) {
        let mut deferred = self.deferred.lock();
        deferred.push(ready);
        self.deferred_len.fetch_add(1, Ordering::Relaxed);
        drop(deferred);
        self.idle.notify_from_outside(Wake::Backlog);
    }

    /// Takes the first background strand, if it became ready at `ready_at` or before.
    pub(crate) fn take_deferred(&self, ready_at: u64) -> Option<Ready> {
        if self.deferred_len.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut deferred = self.deferred.lock();
        let strand = if deferred.ready_at()? <= ready_at { deferred.pop() } else { None };
        self.deferred_len.fetch_sub(strand.is_some().into(), Ordering::Relaxed);
        strand
    }

    /// Returns the posts of all processors that the cluster has or had.
    pub(crate) fn all_posts(&self) -> impl Iterator<Item = &Post> {
        let used = self.posts_used.load(Ordering::Relaxed);
        self.posts[..used].iter().filter_map(OnceLock::get).map(|post| &**post)
    }

    /// Returns the posts other than `mine`, beginning behind it.
    pub(crate) fn other_posts(&self, mine: &Post) -> impl Iterator<Item = &Post> {
        let (from, used) = (mine.id().index() + 1, self.posts_used.load(Ordering::Relaxed));
        (0..used - 1).filter_map(move |offset| self.posts[(from + offset) % used].get()).map(|post| &**post)
    }

    /// Returns the post of a processor that this cluster has or had.
    pub(crate) fn post(&self, id: ProcessorId) -> Option<&Post> {
        self.posts[id.index()].get().map(|post| &**post)
    }

    /// Returns the numbers of entries that were written to each ring, and that are left there.
    pub(crate) fn rings(&self) -> impl Iterator<Item = (u64, u64)> {
        self.all_posts().map(|post| post.ring().count())
    }

    /// Returns the tallies of all posts, including those whose processors have ended.
    pub(crate) fn tallies(&self) -> impl Iterator<Item = &Tally> + Clone {
        self.posts.iter().filter_map(OnceLock::get).map(|post| post.tally())
    }
}
