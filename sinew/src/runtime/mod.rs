//! The runtime: what it runs, and how it ends.

mod builder;
pub mod metrics;
mod plug;
mod quit;
#[cfg(not(feature = "inspect"))]
#[path = "not_reading.rs"]
mod reading;
#[cfg(feature = "inspect")]
mod reading;
#[cfg(all(test, not(sinew_loom)))]
mod simulated;
mod stalls;
#[cfg(all(test, not(sinew_loom)))]
mod stuck_lookups;

pub use builder::{Builder, ClusterBuilder};

use crate::base::{fatal, fork};
use crate::cancel::shield;
use crate::fibre::{self, FibreBuilder, JoinHandle};
use crate::processor::cluster::{BuildError, Cluster};
use crate::processor::spawn::SpawnError;
use crate::processor::{RuntimeShared, with_current};
use crate::sync::oneshot;
use crate::task;
use crate::wait::{self, Lent, Limits, carried, carrying};
use crate::wait::{Reason, Why};
use quit::DumpsOnQuit;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use std::{fmt, thread};

/// Builds a runtime with one processor for each CPU that the process may use and runs `f` as its first
/// fibre. Returns what `f` returns, when all fibres and tasks of the runtime have finished.
///
/// ```
/// let total: u32 = sinew::run(|| {
///     let parts: Vec<_> = (1..=10).map(|n| sinew::spawn(move || n * n)).collect();
///     parts.into_iter().map(|part| part.join().unwrap()).sum()
/// });
/// assert_eq!(total, 385);
/// ```
///
/// Each fibre has a stack of 256 KiB. [`Builder::run`] runs `f` in a runtime with other properties, such
/// as `Runtime::builder().stack_size(1024 * 1024).run(f)`.
///
/// A fibre stays on the kernel thread that started it. Fibres that have not begun are shared out among
/// the processors. See [`run_migrating`] for the alternative, and [`soundness`](crate::soundness) for
/// what a fibre shares with the other fibres of its kernel thread.
///
/// # Messages of panics
/// A panic in a fibre is reported with the fibre's name and the place where it was spawned. For this the
/// first runtime of a process replaces std's panic hook. It leaves a hook of the program alone, whether
/// that is set before or after. Such a hook can ask [`current`](crate::current) for the name.
///
/// # Forking
/// Only the thread that forks goes on in the child. So a child that is forked while there is a runtime,
/// or after there was one, has no runtime. It may exec another program or exit:
/// `std::process::Command` works as usual. If it uses the runtime, it prints a line that says so, and
/// aborts. It uses the runtime if a fibre waits, yields or ends, and if a thread spawns a fibre, waits
/// for one or builds a runtime. The parent does not notice. This needs the C library's `fork`, which
/// tells its children what they are.
///
/// # Panics
/// If `f` panics, with the same payload. If the runtime cannot be built. In a task, which may not block
/// its processor.
#[track_caller]
pub fn run<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    Runtime::builder().run(f)
}

/// Runs `f` as [`run`] does, in a runtime whose started fibres migrate between kernel threads.
///
/// # Safety
/// The contract of [`Builder::migrating`] has to hold for all code that runs in a fibre.
#[allow(unsafe_code)]
#[track_caller]
pub unsafe fn run_migrating<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    // SAFETY: the caller's promise is the same.
    unsafe { Runtime::builder().migrating() }.run(f)
}

/// The size of the stack of a std thread. Programs of threads rely on it.
const THREAD_STACK: usize = 2 * 1024 * 1024;

/// Returns the cluster of the process's own runtime, which [`thread`](crate::thread) uses where there is
/// no other. The first caller builds that runtime. It is never dropped. If it cannot be built, the next
/// caller tries again.
pub(crate) fn process_wide() -> Result<&'static Cluster, BuildError> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    static BUILDING: Mutex<()> = Mutex::new(());
    if let Some(runtime) = RUNTIME.get() {
        return Ok(&runtime.main);
    }
    let _turn = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = RUNTIME.get() {
        return Ok(&runtime.main);
    }
    let stack = std::env::var("RUST_MIN_STACK").ok().and_then(|bytes| bytes.parse().ok());
    let built = Runtime::builder().stack_size(stack.unwrap_or(THREAD_STACK)).build()?;
    Ok(&RUNTIME.get_or_init(|| built).main)
}

/// A set of clusters on which fibres and tasks run. Its drop waits for those that are left, or does what
/// [`Builder::leftovers`] says. From that moment only those fibres and tasks can spawn others.
///
/// In a fibre of this runtime, and in a task of any runtime, the drop cannot wait. There it returns at
/// once, and the runtime ends after the last of its fibres and tasks.
pub struct Runtime {
    main: Cluster,
    shared: Arc<RuntimeShared>,
    leftovers: Leftovers,
    /// Kept while the runtime lives.
    _dumps: Option<Arc<DumpsOnQuit>>,
}

impl Runtime {
    /// Returns a builder for a runtime as [`run`] makes it.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Runs `f` as a fibre, waits for it, and returns what it returns. The caller may be a kernel thread
    /// or a fibre, and `f` may borrow from it. Fibres that `f` has started run on when it returns. A
    /// [time limit](crate::time::timeout) of the caller counts in `f`.
    ///
    /// # Panics
    /// If `f` does, with the same payload. Without calling `f`: in a task, which may not block its
    /// processor, and if there is no memory for another stack.
    #[allow(unsafe_code)]
    #[track_caller]
    pub fn run<F, T>(&self, f: F) -> T
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        wait::refuse_tasks();
        let limits = Limits { deadline: carried().deadline, ..Limits::NONE };
        let f = move || carrying(limits, f);
        // SAFETY: `join` returns only when the fibre has ended, and takes its result. The fibre is new,
        // so it does not join itself. Nothing unwinds before that.
        let root = SpawnError::expect_none("spawn a fibre", unsafe {
            FibreBuilder::new().cluster(&self.main).spawn_borrowing(f, None)
        });
        let lent = Lent::begin();
        let result = root.join();
        lent.returned();
        result.unwrap_or_else(|payload| resume_unwind(payload))
    }

    /// Starts a fibre on the main cluster. The caller may be any thread, fibre or task.
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

    /// Starts a task on the main cluster. The caller may be any thread, fibre or task.
    #[track_caller]
    pub fn spawn_task<F>(&self, future: F) -> task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.main.spawn_task(future)
    }

    /// Returns the main cluster, on which [`run`](Runtime::run) and [`spawn`](Runtime::spawn) start
    /// fibres.
    pub fn main_cluster(&self) -> &Cluster {
        &self.main
    }

    /// Adds a cluster.
    ///
    /// ```
    /// use sinew::{Cluster, Runtime, sched::Shared};
    /// let runtime = Runtime::builder().processors(1).build().unwrap();
    /// let cluster = runtime.cluster(Cluster::builder().processors(1).scheduler(Shared::default())).unwrap();
    /// assert_eq!(cluster.spawn(|| 6 * 7).join().unwrap(), 42);
    /// ```
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn cluster(&self, builder: ClusterBuilder) -> Result<Cluster, BuildError> {
        Cluster::start(builder.plan(self.main.shared().timers().clock())?, Arc::clone(&self.shared))
    }

    /// Returns the number of fibres and tasks that have been spawned and have not finished.
    pub fn live_strands(&self) -> u64 {
        self.shared.live()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        // A fibre cannot wait for its own end, and on a processor only fibres may block.
        let may_wait = with_current(|processor| {
            processor
                .is_none_or(|processor| fibre::is_running() && !std::ptr::eq(processor.cluster().runtime(), &*shared))
        });
        match self.leftovers {
            Leftovers::Wait if may_wait => end(&shared),
            Leftovers::Wait | Leftovers::LetRun => reap(move || end(&shared)),
            Leftovers::Cancel(limit) => {
                if let Some(roll) = shared.roll() {
                    roll.end();
                }
                let (ended, is_over) = oneshot::channel::<()>();
                reap(move || {
                    end(&shared);
                    drop(ended);
                });
                if may_wait {
                    // An error either way: the runtime has ended, or the time is up.
                    let _ = shield(|| is_over.recv_timeout(limit));
                }
            }
        }
    }
}

/// Runs `end`, which ends a runtime, on a kernel thread of its own.
fn reap(end: impl FnOnce() + Send + 'static) {
    if let Err(error) = thread::Builder::new().name("sinew-reaper".to_owned()).spawn(end) {
        fatal(&format!("no thread to end a runtime with: {error}"));
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("main_cluster", &self.main)
            .field("io", &format_args!("{}", self.main.io()))
            .field("leftovers", &self.leftovers)
            .field("live_strands", &self.live_strands())
            .finish()
    }
}

/// What the drop of a [`Runtime`] does about fibres and tasks that have not finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leftovers {
    /// It waits for them.
    #[default]
    Wait,
    /// It returns at once. The runtime ends by itself after the last of them.
    LetRun,
    /// It [cancels](crate::cancel) the fibres, aborts the tasks, and waits for them, but no longer than
    /// this. The same happens to those that they spawn meanwhile. If some are left then, it returns as
    /// `LetRun` does.
    ///
    /// For this a runtime keeps a list of its fibres and tasks. Each spawn enters one, under a lock.
    ///
    /// ```
    /// use sinew::{Leftovers, Runtime, time};
    /// use std::time::Duration;
    /// const LONG: Duration = Duration::from_secs(60);
    /// let runtime = Runtime::builder().processors(1).leftovers(Leftovers::Cancel(LONG)).build().unwrap();
    /// let session = runtime.spawn(|| time::try_sleep(LONG));
    /// drop(runtime);
    /// assert!(session.join().unwrap().is_err());
    /// ```
    Cancel(Duration),
}

/// Waits for the last strand, then stops all processors.
fn end(shared: &RuntimeShared) {
    fork::check();
    shared.end(|enter| wait::block(Why::at(Reason::Drain, &*shared), |party| enter(party.number())));
}
