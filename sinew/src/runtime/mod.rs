//! The runtime: what it runs, and how it ends.

mod builder;
mod plug;

pub use builder::{Builder, ClusterBuilder};

use crate::base::{fatal, fork};
use crate::fibre::{self, FibreBuilder, JoinHandle};
use crate::processor::cluster::{BuildError, Cluster};
use crate::processor::spawn::SpawnError;
use crate::processor::{RuntimeShared, with_current};
use crate::task;
use crate::wait::{self, Lent};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::{fmt, thread};

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

/// Returns the cluster for [`thread`](crate::thread) where there is no other, one of the process's
/// own runtime. The first caller builds that runtime; it is never dropped. If it cannot be built,
/// the next caller tries again.
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

/// A set of clusters on which fibres run. Dropping it waits for the fibres that
/// are left, or as [`Builder::leftovers`] says; from that moment only those fibres
/// themselves can spawn others.
///
/// A fibre of its own, and a task of any runtime, cannot wait. There the drop returns at once,
/// and the runtime ends after the last of its fibres.
pub struct Runtime {
    main: Cluster,
    shared: Arc<RuntimeShared>,
    leftovers: Leftovers,
}

impl Runtime {
    /// Returns a builder for a runtime as [`run`] makes it.
    pub fn builder() -> Builder {
        Builder::new()
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

    /// Starts a task, from anywhere.
    ///
    /// # Panics
    /// Never while the runtime is there to be called.
    #[track_caller]
    pub fn spawn_task<F>(&self, future: F) -> task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.main.spawn_task(future)
    }

    /// Returns the cluster that fibres of this runtime begin on.
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
        Cluster::start(builder.plan()?, Arc::clone(&self.shared))
    }

    /// Returns the number of fibres and tasks that have been spawned and have not finished.
    pub fn live_strands(&self) -> u64 {
        self.shared.live()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        // A fibre cannot wait for its own end, and only fibres may block a processor.
        let may_wait = with_current(|processor| {
            processor
                .is_none_or(|processor| fibre::is_running() && !std::ptr::eq(processor.cluster().runtime(), &*shared))
        });
        if !may_wait || self.leftovers == Leftovers::LetRun {
            let reaper = thread::Builder::new().name("sinew-reaper".to_owned()).spawn(move || end(&shared));
            if let Err(error) = reaper {
                fatal(&format!("no thread to end a runtime with: {error}"));
            }
        } else {
            end(&shared);
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("main_cluster", &self.main)
            .field("leftovers", &self.leftovers)
            .field("live_strands", &self.live_strands())
            .finish()
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

/// Waits for the last strand, then stops all processors.
fn end(shared: &RuntimeShared) {
    fork::check();
    shared.end(|enter| wait::block(|party| enter(party.number())));
}
