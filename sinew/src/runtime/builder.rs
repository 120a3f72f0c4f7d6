//! Builders for runtimes, and for further clusters.

use super::plug;
use super::quit::DumpsOnQuit;
use super::stalls::{self, Stalls};
use super::{Leftovers, Runtime};
use crate::base::fallback::{Facility, denied};
use crate::base::{describe, fence, fork};
use crate::fibre;
use crate::identity;
use crate::io::{Batches, Engine, EventScope, Home, Pollers, Polling};
use crate::processor::cluster::{BuildError, Cluster, ClusterPlan};
use crate::processor::driver::{Driver, Drivers};
use crate::processor::stall::{self, Stall};
use crate::processor::{self, RuntimeShared};
use crate::sched::{self, Fair, MAX_PROCESSORS, Scheduler, Topology};
use crate::signal::Signal;
use crate::stack::arena::{self, Class};
use crate::wait::{self, Party, TestClock, Timers};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{fmt, thread};

/// The size of a fibre's stack, unless another is asked for. With rustc 1.95 in a
/// debug build, a regular expression of 100 characters takes 120 KiB to compile, and JSON that is nested
/// as deeply as serde_json allows takes 244 KiB to read.
const DEFAULT_STACK: usize = 256 * 1024;

/// Builds a [`Cluster`]: see [`Runtime::cluster`].
#[must_use]
pub struct ClusterBuilder {
    processors: Option<usize>,
    stack_size: usize,
    scheduler: Box<dyn Scheduler>,
    name: String,
    cpus: Option<Vec<usize>>,
    topology: Option<Topology>,
    polling: Polling,
    engine: Engine,
    event_scope: Option<EventScope>,
    spares: Option<usize>,
    clock: Option<TestClock>,
}

impl Cluster {
    /// Returns a builder for a cluster like the first one of [`run`](crate::run).
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder {
            processors: None,
            stack_size: DEFAULT_STACK,
            scheduler: Box::new(Fair::default()),
            name: "sinew".to_owned(),
            cpus: None,
            topology: None,
            polling: Polling::default(),
            engine: Engine::default(),
            event_scope: None,
            spares: None,
            clock: None,
        }
    }
}

impl ClusterBuilder {
    /// Sets the number of processors. Without this, there is one for each CPU that the process may use,
    /// by its affinity and the quota of its container.
    pub fn processors(mut self, processors: usize) -> Self {
        self.processors = Some(processors);
        self
    }

    /// Sets the least size of stacks, unless a fibre asks for another size. Without this, 256 KiB;
    /// see [`FibreBuilder::stack_size`](crate::FibreBuilder::stack_size).
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// Sets the scheduler. Without this, [`Fair`].
    pub fn scheduler(mut self, scheduler: impl Scheduler) -> Self {
        self.scheduler = sched::admit(scheduler);
        self
    }

    /// Names the kernel threads; a number is added. Without this, "sinew".
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Pins each processor to one of these CPUs, in turn.
    pub fn pin_cpus(mut self, cpus: impl Into<Vec<usize>>) -> Self {
        self.cpus = Some(cpus.into());
        self
    }

    /// Sets which CPUs share caches. Without this, the kernel is asked.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// Sets which kernel threads poll. Without this, the processors share one poller.
    pub fn polling(mut self, polling: Polling) -> Self {
        self.polling = polling;
        self
    }

    /// Sets whether the cluster uses io_uring. Without this, it does where that is faster and the kernel
    /// permits it. [`Cluster::io`] says what the cluster uses.
    pub fn io(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// Sets the event scope that the processors are in. Without this, it is the caller's.
    pub fn event_scope(mut self, scope: &EventScope) -> Self {
        self.event_scope = Some(scope.clone());
        self
    }

    /// Sets the largest number of spare processors. Without this, it is the number of processors.
    ///
    /// A strand that waits in the kernel, in a call that does not know of fibres, keeps its processor. A
    /// spare processor then takes its place, so that the same number of processors serve: it runs new
    /// fibres, tasks, and in a [migrating](crate::Builder::migrating) runtime all others. It retires
    /// when it has not been needed for a second. Fibres that live on the processor that is held up wait
    /// until it goes on: see [`Cluster::held_up`].
    pub fn spares(mut self, most: usize) -> Self {
        self.spares = Some(most);
        self
    }

    /// Plans a further cluster of a runtime that goes by `clock`, if that is one.
    pub(super) fn plan(mut self, clock: Option<&TestClock>) -> Result<ClusterPlan, BuildError> {
        self.clock = clock.cloned();
        self.plan_with([])
    }

    /// As [`plan`](ClusterBuilder::plan), with drivers besides the usual ones. A processor prefers
    /// their beds.
    fn plan_with<const N: usize>(self, others: [Box<dyn Driver>; N]) -> Result<ClusterPlan, BuildError> {
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
        // Timers first: they are asked for most often.
        let mut drivers: Vec<Box<dyn Driver>> = vec![Box::new(Timers::going_by(self.clock))];
        drivers.extend(others);
        let means = self.engine.means();
        drivers.push(Box::new(Pollers::new(self.polling, means)));
        drivers.push(Box::new(Batches::new(means)));
        Ok(ClusterPlan {
            name: self.name,
            processors,
            spares: self.spares.unwrap_or(processors).min(MAX_PROCESSORS - processors),
            scheduler: self.scheduler,
            class,
            cpus: self.cpus.unwrap_or_default(),
            topology: Arc::new(topology),
            drivers: Drivers::new(drivers),
            threads: Box::new(Home::new(self.event_scope)),
            serve: plug::serve,
            new_carrier: plug::new_carrier,
        })
    }
}

impl fmt::Debug for ClusterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterBuilder")
            .field("name", &self.name)
            .field("processors", &self.processors)
            .field("scheduler", &self.scheduler.name())
            .field("stack_size", &self.stack_size)
            .field("cpus", &self.cpus)
            .field("topology", &self.topology)
            .field("polling", &self.polling)
            .field("io", &self.engine)
            .field("event_scope", &self.event_scope)
            .field("spares", &self.spares)
            .finish()
    }
}

/// Builds a [`Runtime`]: its main cluster, and how it ends.
#[derive(Debug)]
#[must_use]
pub struct Builder {
    cluster: ClusterBuilder,
    leftovers: Leftovers,
    migrating: bool,
    own_thread_locals: bool,
    stalls: Stalls,
    dumps_on_quit: bool,
    recorded: Option<usize>,
}

/// Returns a builder for a runtime with this main cluster.
impl From<ClusterBuilder> for Builder {
    fn from(cluster: ClusterBuilder) -> Builder {
        Builder {
            cluster,
            leftovers: Leftovers::default(),
            migrating: false,
            own_thread_locals: false,
            stalls: Stalls::default(),
            dumps_on_quit: false,
            recorded: None,
        }
    }
}

impl Builder {
    pub(super) fn new() -> Builder {
        Builder::from(Cluster::builder())
    }

    fn with(mut self, set: impl FnOnce(ClusterBuilder) -> ClusterBuilder) -> Self {
        self.cluster = set(self.cluster);
        self
    }

    /// See [`ClusterBuilder::processors`].
    pub fn processors(self, processors: usize) -> Self {
        self.with(|cluster| cluster.processors(processors))
    }

    /// See [`ClusterBuilder::stack_size`].
    pub fn stack_size(self, bytes: usize) -> Self {
        self.with(|cluster| cluster.stack_size(bytes))
    }

    /// See [`ClusterBuilder::scheduler`].
    pub fn scheduler(self, scheduler: impl Scheduler) -> Self {
        self.with(|cluster| cluster.scheduler(scheduler))
    }

    /// See [`ClusterBuilder::spares`].
    pub fn spares(self, most: usize) -> Self {
        self.with(|cluster| cluster.spares(most))
    }

    /// See [`ClusterBuilder::name`].
    pub fn name(self, name: impl Into<String>) -> Self {
        self.with(|cluster| cluster.name(name))
    }

    /// See [`ClusterBuilder::pin_cpus`].
    pub fn pin_cpus(self, cpus: impl Into<Vec<usize>>) -> Self {
        self.with(|cluster| cluster.pin_cpus(cpus))
    }

    /// See [`ClusterBuilder::topology`].
    pub fn topology(self, topology: Topology) -> Self {
        self.with(|cluster| cluster.topology(topology))
    }

    /// See [`ClusterBuilder::polling`].
    pub fn polling(self, polling: Polling) -> Self {
        self.with(|cluster| cluster.polling(polling))
    }

    /// See [`ClusterBuilder::io`].
    pub fn io(self, engine: Engine) -> Self {
        self.with(|cluster| cluster.io(engine))
    }

    /// See [`ClusterBuilder::event_scope`].
    pub fn event_scope(self, scope: &EventScope) -> Self {
        self.with(|cluster| cluster.event_scope(scope))
    }

    /// Lets the whole runtime go by a clock for tests: see [`TestClock`](crate::time::TestClock).
    pub fn test_clock(mut self, clock: &TestClock) -> Self {
        self.cluster.clock = Some(clock.clone());
        self
    }

    /// Sets what the drop of the runtime does about fibres and tasks that have not finished.
    pub fn leftovers(mut self, leftovers: Leftovers) -> Self {
        self.leftovers = leftovers;
        self
    }

    /// Sets for how long a strand may keep its processor before that is reported as a *stall*. Without this, 10 ms.
    /// `None` turns the reports off.
    ///
    /// A strand that computes without giving way, or that waits in the kernel in a call that does not know of fibres,
    /// keeps all strands waiting that may not leave its processor. The report names the strand, the place where it was
    /// spawned and the functions that it is in. It is made once for each stall, 10 to 20 ms after the beginning of one
    /// with the usual limit. A stall like one that was reported in the last ten seconds is only counted. Time in
    /// which the kernel does not give the processor a CPU does not count, nor does a loop that spawns other strands.
    ///
    /// The report goes to standard error, or to [`on_stall`](Builder::on_stall). The environment variable `SINEW_STALLS`
    /// overrules the program: a number of milliseconds, or `off`.
    ///
    /// ```
    /// use std::time::Duration;
    /// let builder = sinew::Runtime::builder().processors(1).stall_limit(Duration::from_millis(50));
    /// assert_eq!(builder.run(|| 1 + 1), 2);
    /// assert_eq!(sinew::Runtime::builder().processors(1).stall_limit(None).run(|| 1 + 1), 2);
    /// ```
    pub fn stall_limit(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.stalls.limit = limit.into();
        self
    }

    /// Gives reports of [stalls](Builder::stall_limit) to `hook` instead of standard error. It is called on a kernel
    /// thread that makes the reports, one after the other. The drop of the runtime waits for the last of them.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let (reports, some_reports) = mpsc::channel();
    /// let builder = sinew::Runtime::builder().processors(1).on_stall(move |stall| {
    ///     reports.send((stall.name.clone(), stall.is_blocked)).unwrap();
    /// });
    /// builder.run(|| {
    ///     // Not `sinew::sleep`: this keeps the kernel thread.
    ///     let rude = || std::thread::sleep(Duration::from_millis(300));
    ///     sinew::FibreBuilder::new().name("rude").spawn(rude).unwrap().join().unwrap();
    /// });
    /// assert_eq!(some_reports.recv().unwrap(), (Some("rude".to_owned()), true));
    /// ```
    pub fn on_stall(mut self, hook: impl Fn(&Stall) + Send + Sync + 'static) -> Self {
        self.stalls.hook = Some(Arc::new(hook));
        self
    }

    /// Sets the signal that interrupts a strand which computes, so that a report of its [stall](Builder::stall_limit)
    /// says which functions it is in. Without this, SIGURG: few programs use it, and where there is no handler it does
    /// nothing. If the program has a handler for the signal, the runtime does not use it, and such reports are without
    /// functions. All runtimes of a process may use the same one.
    pub fn stall_signal(mut self, signal: Signal) -> Self {
        self.stalls.signal = signal;
        self
    }

    /// Makes SIGQUIT (Ctrl-\\ in a terminal) print all fibres, tasks and actors of the process to standard error, with
    /// what they wait for and the functions that they are in. Then the process goes on. This works while every
    /// processor is stuck. Without this, SIGQUIT ends the process.
    ///
    /// The signal is caught as long as the runtime exists; see [`Signals`](crate::signal::Signals) for what that means
    /// to others that wait for it. The crate's feature `inspect`, a default one, is needed.
    ///
    /// ```no_run
    /// sinew::Runtime::builder().dump_on_quit(true).run(|| println!("press Ctrl-\\"));
    /// ```
    pub fn dump_on_quit(mut self, dumps: bool) -> Self {
        self.dumps_on_quit = dumps;
        self
    }

    /// Lets each processor of the runtime record what it does, in a ring of this number of slots of 16 bytes, rounded
    /// up to a power of two; 0 to record nothing. Without this, the variable `SINEW_RECORD` of the environment says
    /// it; see [`inspect::record`](crate::inspect::record).
    pub fn record(mut self, slots: usize) -> Self {
        self.recorded = Some(slots);
        self
    }

    /// Lets started fibres migrate to other kernel threads of their cluster. So all fibres are shared
    /// out fairly, not only new ones.
    ///
    /// # Safety
    ///
    /// A fibre can be suspended when it calls a function of this crate that may block or yield, directly
    /// or through others. At such a call it must not hold anything that is bound to a kernel thread and
    /// is used after the call:
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
    /// type. [`pinned`](crate::pinned) keeps a fibre in place where this cannot be upheld.
    #[allow(unsafe_code)]
    pub unsafe fn migrating(mut self) -> Self {
        self.migrating = true;
        self
    }

    /// Gives each fibre thread-local variables of its own, and lets fibres migrate to other kernel threads of their
    /// cluster at any time. Experimental, and off by default.
    ///
    /// A fibre is a thread for all code that runs in it then: `thread_local!` with destructors, `std::thread::current`,
    /// panics and poisoning, `errno`, locks that know their owner, and what C libraries keep for a thread. So it may hold
    /// anything across a call that blocks, and the contract of [`migrating`](Builder::migrating) is not needed. The kernel
    /// thread below it is to a fibre what a CPU is to a thread.
    ///
    /// ```
    /// use std::cell::RefCell;
    ///
    /// thread_local!(static VISITED: RefCell<Vec<u32>> = RefCell::default());
    ///
    /// # if sinew::Runtime::builder().own_thread_locals().build().is_err() { return }
    /// sinew::Runtime::builder().own_thread_locals().run(|| {
    ///     let fibres = (0..100).map(|own| {
    ///         sinew::spawn(move || {
    ///             // Borrowed while others run, here or on another kernel thread.
    ///             VISITED.with_borrow_mut(|visited| {
    ///                 visited.push(own);
    ///                 sinew::yield_now();
    ///                 assert_eq!(*visited, [own]);
    ///             });
    ///         })
    ///     });
    ///     fibres.collect::<Vec<_>>().into_iter().for_each(|fibre| fibre.join().unwrap());
    /// });
    /// ```
    ///
    /// It costs about 30 ns at each switch, 170 ns at each spawn and 4.7 KiB for each fibre; more if the program has many
    /// thread-local variables, and much more with an allocator other than that of the C library.
    /// [`soundness`](crate::soundness) has what remains different from a thread: `gettid`, and what else the kernel keeps
    /// for a thread.
    ///
    /// # Errors of `build`
    /// [`BuildError::NoThreadLocals`] where it is not possible: this needs x86-64, a version of the GNU C library with which
    /// it was tested, and a kernel that lets programs change the thread's base. Nothing has run then.
    pub fn own_thread_locals(mut self) -> Self {
        self.own_thread_locals = true;
        self
    }

    /// Builds the runtime and runs `f` as its first fibre, as [`run`](crate::run) does. Returns what
    /// `f` returns, when all fibres and tasks of the runtime have finished.
    ///
    /// ```
    /// let runtime = sinew::Runtime::builder().processors(1).stack_size(1024 * 1024);
    /// assert_eq!(runtime.run(|| 6 * 7), 42);
    /// ```
    ///
    /// # Panics
    /// As [`run`](crate::run).
    #[track_caller]
    pub fn run<F, T>(self, f: F) -> T
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        wait::refuse_tasks();
        match self.build() {
            Ok(runtime) => runtime.run(f),
            Err(error) => panic!("cannot build a runtime: {error}"),
        }
    }

    /// Builds the runtime and starts its processors.
    ///
    /// # Errors
    /// [`BuildError`] says what to change. Nothing is left running.
    pub fn build(self) -> Result<Runtime, BuildError> {
        self.build_with([])
    }

    /// As [`build`](Builder::build), with drivers besides the usual ones.
    pub(super) fn build_with<const N: usize>(self, others: [Box<dyn Driver>; N]) -> Result<Runtime, BuildError> {
        fork::check();
        arena::reserve().map_err(BuildError::NoAddressSpace)?;
        fork::watch(processor::beat_next);
        fence::register();
        describe::find_parts_of_location();
        fibre::install_overflow_handler();
        fibre::install_panic_hook();
        let stalls = self.stalls.plan();
        if let Some(plan) = &stalls {
            stall::install(plan.signal);
        }
        let libc = match self.own_thread_locals || (self.migrating && is_made_safe()) {
            true => Some(identity::learn().map_err(BuildError::NoThreadLocals)?),
            false => None,
        };
        let is_migrating = self.migrating || libc.is_some();
        let shared = Arc::new(RuntimeShared::new(is_migrating, libc, stalls::portray, stalls, Party::signal_owed));
        if let Some(slots) = self.recorded {
            shared.record(slots);
        }
        if matches!(self.leftovers, Leftovers::Cancel(_)) {
            shared.keep_roll();
        }
        let dumps = if self.dumps_on_quit { Some(DumpsOnQuit::begin().map_err(BuildError::Kernel)?) } else { None };
        let main = Cluster::start(self.cluster.plan_with(others)?, Arc::clone(&shared))?;
        Ok(Runtime { main, shared, leftovers: self.leftovers, _dumps: dumps })
    }
}

/// Says whether the variable `SINEW_OWN_THREAD_LOCALS` of the environment is 1: fibres that migrate by the contract of
/// [`Builder::migrating`] have thread-local variables of their own as well. So a test-suite can be run both ways.
fn is_made_safe() -> bool {
    static ASKED: OnceLock<bool> = OnceLock::new();
    *ASKED.get_or_init(|| std::env::var_os("SINEW_OWN_THREAD_LOCALS").is_some_and(|value| value == "1"))
}
