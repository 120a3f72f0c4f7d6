//! The runtime: how one is built, what it runs, and how it ends.

use crate::base::fallback::{Facility, denied};
use crate::base::fence;
use crate::base::fork;
use crate::fibre::{self, FibreBuilder, JoinHandle, SpawnError};
use crate::io::{EventScope, Home, Polling};
use crate::processor;
use crate::processor::cluster::{Cluster, ClusterPlan, ClusterShared};
use crate::processor::drain::{Drain, Way};
use crate::sched::{self, MAX_PROCESSORS, Scheduler, Topology};
use crate::stack::arena::{self, Class, LARGEST_STACK};
use crate::wait::{self, Lent, Party};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::{fmt, io, thread};

/// The stack that a fibre gets unless something else is asked for.
const DEFAULT_STACK: usize = 64 * 1024;

/// Builds a runtime with one processor for each CPU that the process may use,
/// runs `f` as its first fibre, and returns what `f` returns when all fibres
/// that it started have finished as well.
///
/// ```
/// let total: u32 = sinew::run(|| {
///     let parts: Vec<_> = (1..=10).map(|n| sinew::spawn(move || n * n)).collect();
///     parts.into_iter().map(|part| part.join().unwrap()).sum()
/// });
/// assert_eq!(total, 385);
/// ```
///
/// A fibre stays on the kernel thread that started it; fibres that have not begun are
/// shared out among the processors. See [`run_migrating`] for the alternative, and
/// [`soundness`](crate::soundness) for what a fibre shares with its neighbours on a kernel
/// thread.
///
/// # Forking
/// A child that is forked while there is a runtime, or after there was one, has none: of a
/// process's threads only the one that forks goes on in the child. It may exec another program
/// or exit, so `std::process::Command` works as ever. If it uses the runtime (a fibre in
/// it waits, yields or ends; a thread spawns a fibre, waits for one, or builds a runtime), it
/// prints a line that says so, and aborts. The parent does not notice. This needs the C library's
/// `fork`, which tells its children what they are.
///
/// # Panics
/// If `f` panics, with the same payload; if the runtime cannot be built; in a task, which may
/// not block its processor.
#[track_caller]
pub fn run<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    run_with(Runtime::builder(), f)
}

/// As [`run`], in a runtime whose started fibres migrate between kernel threads.
///
/// # Safety
/// The contract of [`Builder::migrating`] has to hold for everything that runs
/// in a fibre.
#[allow(unsafe_code)]
#[track_caller]
pub unsafe fn run_migrating<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    // SAFETY: the caller's promise is the same.
    run_with(unsafe { Runtime::builder().migrating() }, f)
}

#[track_caller]
fn run_with<F, T>(builder: Builder, f: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    wait::refuse_tasks();
    match builder.build() {
        Ok(runtime) => runtime.run(f),
        Err(error) => panic!("cannot build a runtime: {error}"),
    }
}

/// The stack that a thread of std's gets, and so what those who write for threads
/// count on.
const THREAD_STACK: usize = 2 * 1024 * 1024;

/// The runtime for [`thread`](crate::thread) where there is no other. Whoever comes
/// first builds it; it is never dropped. If it cannot be built, the next one tries.
pub(crate) fn process_wide() -> Result<&'static Runtime, BuildError> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    static BUILDING: Mutex<()> = Mutex::new(());
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let _turn = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let stack = std::env::var("RUST_MIN_STACK").ok().and_then(|bytes| bytes.parse().ok());
    let built = Runtime::builder().stack_size(stack.unwrap_or(THREAD_STACK)).build()?;
    Ok(RUNTIME.get_or_init(|| built))
}

/// A set of clusters on which fibres run. Dropping it waits for the fibres that
/// are left, or as [`Builder::leftovers`] says; from that moment only those fibres
/// themselves can spawn others.
///
/// A fibre of its own, and a task of any runtime, cannot wait. There the drop returns at once,
/// and the runtime ends after the last of its fibres.
pub struct Runtime {
    main: Cluster,
    shared: Arc<RuntimeShared>,
}

impl Runtime {
    /// A runtime as [`run`] makes it, to be changed.
    pub fn builder() -> Builder {
        Builder {
            processors: None,
            stack_size: DEFAULT_STACK,
            scheduler: ClusterPlan::default_scheduler(),
            name: "sinew".to_owned(),
            cpus: None,
            topology: None,
            polling: Polling::default(),
            event_scope: None,
            leftovers: Leftovers::Wait,
            migrating: false,
        }
    }

    /// Runs `f` as a fibre, waits for it, and returns what it returns. The
    /// caller may be a kernel thread or a fibre, and `f` may borrow from it.
    /// Fibres that `f` has started go on when it returns.
    ///
    /// # Panics
    /// If `f` does, with the same payload. Without running `f`: in a task, which may not block
    /// its processor, and if there is no memory for another stack.
    #[allow(unsafe_code)]
    #[track_caller]
    pub fn run<F, T>(&self, f: F) -> T
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        wait::refuse_tasks();
        // SAFETY: `join` returns only when the fibre has ended, and takes its
        // result; a fibre cannot join itself here, for it is a new one. Nothing unwinds before
        // that.
        let root = SpawnError::expect_none(unsafe { FibreBuilder::new().cluster(&self.main).spawn_borrowing(f, None) });
        let lent = Lent::begin();
        let result = root.join();
        lent.returned();
        result.unwrap_or_else(|payload| resume_unwind(payload))
    }

    /// Starts a fibre, from anywhere.
    ///
    /// # Panics
    /// If there is no memory for another stack.
    #[track_caller]
    pub fn spawn<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.main.spawn(f)
    }

    /// The cluster that fibres of this runtime begin on.
    pub fn main_cluster(&self) -> &Cluster {
        &self.main
    }

    /// Adds a cluster. Of `builder`, what concerns a cluster counts: processors,
    /// stack size, scheduler, name, CPUs, topology, polling and
    /// event scope.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn cluster(&self, builder: Builder) -> Result<Cluster, BuildError> {
        Cluster::start(builder.plan()?, Arc::clone(&self.shared))
    }

    /// How many fibres, and tasks, have been spawned and not yet finished.
    pub fn live_fibres(&self) -> u64 {
        self.shared.live()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        // A fibre cannot wait for its own end, and only fibres may block a processor.
        let may_wait = processor::with_current(|processor| {
            processor
                .is_none_or(|processor| fibre::is_running() && !std::ptr::eq(processor.cluster().runtime(), &*shared))
        });
        if !may_wait || shared.leftovers == Leftovers::LetRun {
            let reaper = thread::Builder::new().name("sinew-reaper".to_owned()).spawn(move || shared.end());
            if let Err(error) = reaper {
                crate::base::fatal(&format!("no thread to end a runtime with: {error}"));
            }
        } else {
            shared.end();
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("main_cluster", &self.main).field("live_fibres", &self.live_fibres()).finish()
    }
}

/// What dropping a [`Runtime`] does about fibres that have not finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leftovers {
    /// It waits for them.
    #[default]
    Wait,
    /// It returns at once; the runtime ends by itself after the last of them.
    LetRun,
}

/// Says what a [`Runtime`], or a further [`Cluster`] of one, is to be like.
#[must_use]
pub struct Builder {
    processors: Option<usize>,
    stack_size: usize,
    scheduler: Box<dyn Scheduler>,
    name: String,
    cpus: Option<Vec<usize>>,
    topology: Option<Topology>,
    polling: Polling,
    event_scope: Option<EventScope>,
    leftovers: Leftovers,
    migrating: bool,
}

impl Builder {
    /// How many processors there are. Without this, as many as there are CPUs
    /// that the process may use: its affinity and the quota of its container
    /// count.
    pub fn processors(mut self, processors: usize) -> Self {
        self.processors = Some(processors);
        self
    }

    /// How large stacks are, at least, unless a fibre asks for another size.
    /// Without this, 64 KiB; see [`FibreBuilder::stack_size`].
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// Which scheduler decides. Without this, [`Fair`](crate::sched::Fair).
    pub fn scheduler(mut self, scheduler: impl Scheduler) -> Self {
        self.scheduler = sched::admit(scheduler);
        self
    }

    /// What kernel threads are called, a number behind it. Without this, "sinew".
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Pins each processor to one of these CPUs, in turn.
    pub fn pin_cpus(mut self, cpus: impl Into<Vec<usize>>) -> Self {
        self.cpus = Some(cpus.into());
        self
    }

    /// Which caches CPUs share. Without this, what the kernel tells.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// Which kernel threads ask the kernel what has become ready. Without this, the
    /// processors do, together.
    pub fn polling(mut self, polling: Polling) -> Self {
        self.polling = polling;
        self
    }

    /// The event scope that the processors are in. Without this, that of the caller.
    pub fn event_scope(mut self, scope: &EventScope) -> Self {
        self.event_scope = Some(scope.clone());
        self
    }

    /// What dropping the runtime does about fibres that have not finished.
    pub fn leftovers(mut self, leftovers: Leftovers) -> Self {
        self.leftovers = leftovers;
        self
    }

    /// Lets fibres that have begun go on on other kernel threads of their
    /// cluster, so that all of them, and not only new ones, are shared out
    /// fairly.
    ///
    /// # Safety
    ///
    /// Whenever a fibre can be suspended (it calls a function of this crate that
    /// may block or yield, directly or through others), it must not hold
    /// anything that is bound to a kernel thread and is used after that point:
    ///
    /// - no value that is not [`Send`] and was obtained from, or is shared with,
    ///   something outside of the fibre: an `Rc` cloned out of a `thread_local!`,
    ///   a guard of a lock that has to be released by the thread that took it
    ///   (`std::sync::MutexGuard`);
    /// - no reference into, or address of, a `thread_local!` variable; in
    ///   particular no suspension inside of `LocalKey::with`;
    /// - no function that uses a `thread_local!` variable both before and after a
    ///   suspension within one function body, including what is inlined into it:
    ///   the compiler may compute the variable's address once. A function that is
    ///   not inlined and returns the *value* is the way around this;
    /// - no identity of the kernel thread (`thread::current().id()`, `errno`, a C
    ///   library's per-thread handle) that is relied on to stay the same.
    ///
    /// Values that are created, used and dropped within one fibre may be of any
    /// type. [`pinned`](crate::pinned) keeps a fibre in place for as long as this
    /// cannot be upheld.
    #[allow(unsafe_code)]
    pub unsafe fn migrating(mut self) -> Self {
        self.migrating = true;
        self
    }

    /// Builds the runtime and starts its processors.
    ///
    /// # Errors
    /// [`BuildError`] says what to change; nothing is left running.
    pub fn build(self) -> Result<Runtime, BuildError> {
        fork::check();
        arena::reserve().map_err(BuildError::NoAddressSpace)?;
        fork::watch();
        fence::register();
        fibre::install_overflow_handler();
        let shared = Arc::new(RuntimeShared {
            migrating: self.migrating,
            leftovers: self.leftovers,
            clusters: Mutex::default(),
            drain: Drain::new(),
        });
        let main = Cluster::start(self.plan()?, Arc::clone(&shared))?;
        Ok(Runtime { main, shared })
    }

    fn plan(self) -> Result<ClusterPlan, BuildError> {
        let processors = match self.processors {
            Some(0) => return Err(BuildError::NoProcessors),
            Some(processors) if processors > MAX_PROCESSORS => return Err(BuildError::TooManyProcessors),
            Some(processors) => processors,
            None => thread::available_parallelism().map_or(1, |cpus| cpus.get().min(MAX_PROCESSORS)),
        };
        let class = Class::of_size(self.stack_size).ok_or(BuildError::StackTooLarge { bytes: self.stack_size })?;
        if self.name.contains('\0') {
            return Err(BuildError::NameContainsNul);
        }
        if self.cpus.as_ref().is_some_and(Vec::is_empty) {
            return Err(BuildError::EmptyCpuSet);
        }
        let topology = self.topology.unwrap_or_else(|| match denied(Facility::Topology) {
            true => Topology::flat(processors),
            false => Topology::detect(),
        });
        Ok(ClusterPlan {
            name: self.name,
            processors,
            scheduler: self.scheduler,
            class,
            cpus: self.cpus.unwrap_or_default(),
            topology: Arc::new(topology),
            polling: self.polling,
            home: Home::new(self.event_scope),
        })
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Builder");
        debug.field("name", &self.name).field("processors", &self.processors);
        debug.field("scheduler", &self.scheduler.name()).field("stack_size", &self.stack_size);
        debug
            .field("cpus", &self.cpus)
            .field("polling", &self.polling)
            .field("migrating", &self.migrating)
            .finish_non_exhaustive()
    }
}

/// Why a runtime or a cluster could not be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// Zero processors were asked for.
    NoProcessors,
    /// More than [`MAX_PROCESSORS`] were.
    TooManyProcessors,
    /// The stack asked for is larger than the largest that there is.
    StackTooLarge {
        /// What was asked for.
        bytes: usize,
    },
    /// The name contains a NUL byte.
    NameContainsNul,
    /// An empty list of CPUs to pin processors to.
    EmptyCpuSet,
    /// The kernel refused to start a thread, or to pin it to its CPU.
    Kernel(io::Error),
    /// The kernel has no room for the stacks' addresses.
    NoAddressSpace(io::Error),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::NoProcessors => {
                f.write_str("a runtime needs at least one processor: give `processors` 1 or more")
            }
            BuildError::TooManyProcessors => write!(f, "a cluster has at most {MAX_PROCESSORS} processors"),
            BuildError::StackTooLarge { bytes } => {
                write!(f, "a stack of {bytes} bytes is too large: give `stack_size` at most {LARGEST_STACK}")
            }
            BuildError::NameContainsNul => f.write_str("the name of a runtime may not contain a NUL byte"),
            BuildError::EmptyCpuSet => f.write_str("`pin_cpus` was given no CPU"),
            BuildError::Kernel(error) => write!(f, "the kernel refused a processor: {error}"),
            BuildError::NoAddressSpace(error) => {
                write!(f, "no address space for stacks: {error}; the limit on it (ulimit -v) is too low")
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
            _ => io::ErrorKind::InvalidInput,
        }
    }
}

impl From<BuildError> for io::Error {
    fn from(error: BuildError) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}

/// What the clusters of a runtime share.
pub(crate) struct RuntimeShared {
    migrating: bool,
    leftovers: Leftovers,
    clusters: Mutex<Vec<Arc<ClusterShared>>>,
    drain: Drain,
}

impl RuntimeShared {
    pub(crate) fn is_migrating(&self) -> bool {
        self.migrating
    }

    fn clusters(&self) -> MutexGuard<'_, Vec<Arc<ClusterShared>>> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(&self, cluster: &ClusterShared) {
        self.clusters().push(cluster.to_arc());
    }

    /// Counts a strand that somebody who is no strand of the runtime is about to spawn.
    /// Returns `false` if the runtime ends: then it must not be spawned.
    pub(crate) fn count_spawned_outside(&self) -> bool {
        match self.drain.let_in() {
            Way::Open => true,
            Way::Closed(drainer) => {
                signal(drainer);
                false
            }
        }
    }

    /// Returns the number of strands that have been spawned and have not finished.
    fn live(&self) -> u64 {
        let clusters = self.clusters();
        self.drain.live(clusters.iter().flat_map(|cluster| cluster.tallies()))
    }

    /// By a processor, when a strand has finished and has been counted.
    #[inline]
    pub(crate) fn one_finished(&self) {
        signal(self.drain.one_finished());
    }

    /// Waits for the last fibre, then stops all processors.
    fn end(&self) {
        fork::check();
        self.drain.close();
        self.drain.wait(|| self.live() == 0);
        let clusters = std::mem::take(&mut *self.clusters());
        for cluster in clusters {
            cluster.stop();
        }
    }
}

#[allow(unsafe_code)]
fn signal(drainer: Option<Party>) {
    if let Some(drainer) = drainer {
        // SAFETY: it entered itself, and the drain gave it to us alone.
        unsafe { drainer.signal() };
    }
}
