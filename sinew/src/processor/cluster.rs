//! Clusters: scheduling domains, and their processors that come and go.

use crate::base::Deadline;
use crate::base::kernel;
use crate::base::spin::SpinLock;
use crate::fibre::{FibreBuilder, JoinHandle, SpawnError};
use crate::io::{Home, Pollers, Polling};
use crate::processor::drain::Tally;
use crate::processor::idle::Idle;
use crate::processor::{Order, Post, Processor};
use crate::runtime::{BuildError, RuntimeShared};
use crate::sched::{Fair, MAX_PROCESSORS, ProcessorId, Scheduler, Topology};
use crate::stack::arena::Class;
use crate::strand::{After, Fifo, Ready, bound};
use crate::wait::{Timers, Wait};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak, mpsc};
use std::{fmt, io, thread};

/// What the processors of a cluster share.
pub(crate) struct ClusterShared {
    name: String,
    scheduler: Box<dyn Scheduler>,
    idle: Idle,
    timers: Timers,
    pollers: Pollers,
    /// Background strands, in the order in which they became ready.
    deferred: SpinLock<Fifo>,
    /// How many there are. Written under the lock.
    deferred_len: AtomicUsize,
    /// By number; an entry stays when its processor has ended.
    posts: Box<[OnceLock<Arc<Post>>]>,
    /// How many processors run any strand of the cluster.
    serving: AtomicU32,
    crew: Mutex<Crew>,
    class: Class,
    topology: Arc<Topology>,
    home: Home,
    runtime: Arc<RuntimeShared>,
    itself: Weak<ClusterShared>,
}

/// The kernel threads of a cluster.
#[derive(Default)]
struct Crew {
    members: Vec<Member>,
    /// The CPUs that processors are pinned to, in turn; none if empty.
    cpus: Vec<usize>,
    /// Whether the runtime has ended.
    stopped: bool,
}

struct Member {
    post: Arc<Post>,
    thread: thread::JoinHandle<()>,
    retiring: bool,
}

impl ClusterShared {
    fn new(plan: ClusterPlan, runtime: Arc<RuntimeShared>) -> Arc<ClusterShared> {
        Arc::new_cyclic(|itself| ClusterShared {
            name: plan.name,
            scheduler: plan.scheduler,
            idle: Idle::new(MAX_PROCESSORS),
            timers: Timers::new(),
            pollers: Pollers::new(plan.polling),
            deferred: SpinLock::new(Fifo::new()),
            deferred_len: AtomicUsize::new(0),
            posts: std::iter::repeat_with(OnceLock::new).take(MAX_PROCESSORS).collect(),
            serving: AtomicU32::new(0),
            crew: Mutex::new(Crew { cpus: plan.cpus, ..Crew::default() }),
            class: plan.class,
            topology: plan.topology,
            home: plan.home,
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

    #[inline]
    pub(crate) fn idle(&self) -> &Idle {
        &self.idle
    }

    #[inline]
    pub(crate) fn timers(&self) -> &Timers {
        &self.timers
    }

    /// The event scope that its threads are in.
    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    #[inline]
    pub(crate) fn pollers(&self) -> &Pollers {
        &self.pollers
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

    /// How many processors run any strand of the cluster.
    pub(crate) fn serving(&self) -> u32 {
        self.serving.load(Ordering::Relaxed)
    }

    /// The size of stacks unless a fibre asks for another.
    #[inline]
    pub(crate) fn default_class(&self) -> Class {
        self.class
    }

    /// Calls `stop`, in which the caller waits; `deadline` ends that.
    pub(crate) fn with_alarm(&self, wait: &Wait, deadline: Deadline, stop: impl FnOnce()) {
        self.timers.with_alarm(&self.idle, wait, deadline, stop);
    }

    /// Puts a background strand where processors look that find nothing else.
    pub(crate) fn defer(&self, ready: Ready) {
        let mut deferred = self.deferred.lock();
        deferred.push(ready);
        self.deferred_len.fetch_add(1, Ordering::Relaxed);
        drop(deferred);
        self.idle.notify(crate::sched::Wake::Backlog);
    }

    /// The first background strand, if it was ready at `ready_at` already.
    pub(crate) fn take_deferred(&self, ready_at: u64) -> Option<Ready> {
        if self.deferred_len.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut deferred = self.deferred.lock();
        let strand = if deferred.ready_at()? <= ready_at { deferred.pop() } else { None };
        self.deferred_len.fetch_sub(strand.is_some().into(), Ordering::Relaxed);
        strand
    }

    /// What its processors, those that have ended as well, have counted.
    pub(crate) fn tallies(&self) -> impl Iterator<Item = &Tally> + Clone {
        self.posts.iter().filter_map(OnceLock::get).map(|post| post.tally())
    }

    fn crew(&self) -> MutexGuard<'_, Crew> {
        self.crew.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Does `f` on a thread of the cluster's event scope.
    fn at_home(&self, f: impl FnOnce(&ClusterShared) -> io::Result<()> + Send + 'static) -> io::Result<()> {
        let cluster = self.to_arc();
        self.home.call(move || f(&cluster))
    }

    /// Starts one more processor.
    fn hire(&self) -> Result<ProcessorId, ResizeError> {
        let mut crew = self.crew();
        if crew.stopped {
            return Err(ResizeError::Stopped);
        }
        crew.dismiss_ended();
        let free = |id: &usize| crew.members.iter().all(|member| member.post.id().index() != *id);
        let index = (0..MAX_PROCESSORS).find(free).ok_or(ResizeError::TooMany)?;
        let id = ProcessorId(index as u16);
        let post = Arc::clone(self.posts[index].get_or_init(|| Arc::new(Post::new(id))));
        post.give_order(Order::Serve);
        let reclaim = move |cluster: &ClusterShared| {
            cluster.pollers.reclaim(id);
            Ok(())
        };
        self.at_home(reclaim).map_err(ResizeError::Kernel)?;
        let cpu = (!crew.cpus.is_empty()).then(|| crew.cpus[crew.members.len() % crew.cpus.len()]);
        let (cluster, its_post) = (self.to_arc(), Arc::clone(&post));
        let (report, reported) = mpsc::channel();
        let thread = self.home.spawn(format!("{}-{index}", self.name), move || {
            let pinned = cpu.map_or(Ok(()), |cpu| kernel::pin_thread(&[cpu]));
            let failed = pinned.is_err();
            let _ = report.send(pinned);
            if !failed {
                Processor::serve(cluster, its_post);
            }
        });
        let thread = thread.map_err(ResizeError::Kernel)?;
        reported.recv().expect("the thread reports before it serves").map_err(ResizeError::Kernel)?;
        self.serving.fetch_add(1, Ordering::Relaxed);
        crew.members.push(Member { post, thread, retiring: false });
        Ok(id)
    }

    /// Lets one processor go: the last that came of those that may.
    fn dismiss(&self, which: Option<ProcessorId>) -> Result<ProcessorId, ResizeError> {
        let mut crew = self.crew();
        if crew.members.iter().filter(|member| !member.retiring).count() < 2 {
            return Err(ResizeError::LastProcessor);
        }
        let fits = |member: &Member| !member.retiring && which.is_none_or(|id| id == member.post.id());
        let place = crew.members.iter().rposition(fits).ok_or(ResizeError::NoSuchProcessor)?;
        let mut others = crew.members.iter().enumerate().filter(|(other, member)| *other != place && !member.retiring);
        let heir = others.next().expect("there are two at least").1.post.id();
        let retiring = crew.members[place].post.id();
        let bequeath = move |cluster: &ClusterShared| cluster.pollers.bequeath(retiring, heir, &cluster.idle);
        self.at_home(bequeath).map_err(ResizeError::Kernel)?;
        let member = &mut crew.members[place];
        member.retiring = true;
        member.post.give_order(Order::Retire);
        let id = member.post.id();
        drop(crew);
        self.serving.fetch_sub(1, Ordering::Relaxed);
        self.idle.wake_processor(id);
        Ok(id)
    }

    /// Ends all processors. Every strand of the runtime has finished.
    pub(crate) fn stop(&self) {
        let mut crew = self.crew();
        crew.stopped = true;
        for member in &crew.members {
            member.post.give_order(Order::Stop);
            self.idle.wake_processor(member.post.id());
        }
        let members = std::mem::take(&mut crew.members);
        drop(crew);
        for member in members {
            if member.thread.join().is_err() {
                crate::base::fatal("a processor panicked");
            }
        }
        self.pollers.stop();
    }
}

impl Crew {
    /// Joins the threads of processors that have retired.
    fn dismiss_ended(&mut self) {
        for member in self.members.extract_if(.., |member| member.thread.is_finished()) {
            let _ = member.thread.join();
        }
    }
}

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

/// Why the processors of a cluster could not be changed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ResizeError {
    /// A cluster keeps at least one processor.
    LastProcessor,
    /// There is none with that number, or it has been removed already.
    NoSuchProcessor,
    /// The cluster has [`MAX_PROCESSORS`] already.
    TooMany,
    /// The runtime has ended.
    Stopped,
    /// The kernel refused to start the thread, or to pin it to its CPU; or to let another
    /// processor have what one that leaves has to poll.
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

/// Why a fibre could not move to another cluster.
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
            MigrateError::NotAFibre => "only a fibre can migrate",
            MigrateError::NotMigrating => "started fibres of this runtime do not migrate: see `Builder::migrating`",
            MigrateError::Bound => "a fibre that is pinned or unwinding does not migrate",
            MigrateError::OtherRuntime => "the cluster belongs to another runtime",
        })
    }
}

impl std::error::Error for MigrateError {}

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
        cluster.shared.runtime.enter(&cluster.shared);
        Ok(cluster)
    }

    pub(crate) fn shared(&self) -> &ClusterShared {
        &self.shared
    }

    /// The cluster that the calling fibre belongs to.
    pub fn current() -> Option<Cluster> {
        crate::processor::with_current(|processor| Some(Cluster { shared: processor?.cluster().to_arc() }))
    }

    /// Its name, which its kernel threads bear too.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The name of its scheduler.
    pub fn scheduler(&self) -> &'static str {
        self.shared.scheduler.name()
    }

    /// Who asks the kernel which descriptors have become ready.
    pub fn polling(&self) -> Polling {
        self.shared.pollers.polling()
    }

    /// Starts a fibre on this cluster, from anywhere.
    ///
    /// # Panics
    /// If there is no memory for another stack.
    #[track_caller]
    pub fn spawn<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        SpawnError::expect_none(FibreBuilder::new().cluster(self).spawn(f))
    }

    /// How many processors serve the cluster; those that retire do not count.
    pub fn processors(&self) -> usize {
        self.shared.serving() as usize
    }

    /// How many removed processors still run fibres that are bound to them.
    pub fn retiring(&self) -> usize {
        let mut crew = self.shared.crew();
        crew.dismiss_ended();
        crew.members.iter().filter(|member| member.retiring).count()
    }

    /// Adds a processor.
    ///
    /// # Errors
    /// If there are too many, or the kernel refuses; nothing has changed then.
    pub fn add_processor(&self) -> Result<ProcessorId, ResizeError> {
        self.shared.hire()
    }

    /// Removes the processor that came last. Returns at once; see [`Cluster`]
    /// for what becomes of fibres that are bound to it.
    ///
    /// # Errors
    /// If it is the only one.
    pub fn remove_processor(&self) -> Result<ProcessorId, ResizeError> {
        self.shared.dismiss(None)
    }

    /// Removes this processor.
    ///
    /// # Errors
    /// If it is the only one, or not one of the cluster's.
    pub fn remove(&self, processor: ProcessorId) -> Result<(), ResizeError> {
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
        let mut debug = f.debug_struct("Cluster");
        debug.field("name", &self.name()).field("scheduler", &self.scheduler()).field("polling", &self.polling());
        debug.field("processors", &self.processors()).finish_non_exhaustive()
    }
}

/// Moves the calling fibre to `cluster`, where it goes on.
///
/// # Errors
/// [`MigrateError`] says why it may not; it goes on where it is then.
pub fn migrate_to(cluster: &Cluster) -> Result<(), MigrateError> {
    let check = crate::fibre::with_record(|record| {
        let record = record.ok_or(MigrateError::NotAFibre)?;
        let strand = record.strand();
        if !strand.cluster().is_of_same_runtime(&cluster.shared) {
            return Err(MigrateError::OtherRuntime);
        }
        if strand.is_bound(bound::STARTED) {
            return Err(MigrateError::NotMigrating);
        }
        if strand.is_bound(u8::MAX) || thread::panicking() {
            return Err(MigrateError::Bound);
        }
        let elsewhere = !std::ptr::eq(strand.cluster(), &*cluster.shared);
        if elsewhere {
            strand.set_cluster(&cluster.shared);
        }
        Ok(elsewhere)
    });
    if check? {
        crate::fibre::suspend(After::Moving);
    }
    Ok(())
}

/// What a cluster is made with.
pub(crate) struct ClusterPlan {
    pub(crate) name: String,
    pub(crate) processors: usize,
    pub(crate) scheduler: Box<dyn Scheduler>,
    pub(crate) class: Class,
    pub(crate) cpus: Vec<usize>,
    pub(crate) topology: Arc<Topology>,
    pub(crate) polling: Polling,
    pub(crate) home: Home,
}

impl ClusterPlan {
    pub(crate) fn default_scheduler() -> Box<dyn Scheduler> {
        Box::new(Fair::default())
    }
}
