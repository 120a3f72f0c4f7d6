//! Event scopes: kernel threads that share a descriptor table of their own.
//!
//! In the kernel, the table belongs to threads: a new thread shares the table of the thread that
//! started it, until it asks for another. So each event scope has a *keeper*: a thread that has asked
//! for a new table. The keeper starts the other threads of the event scope. It also does jobs there
//! for threads of other event scopes: it closes a descriptor, or rings a bell. The descriptor table
//! that the process began with is an event scope, too: the main one. Its keeper is started together
//! with the first other event scope.
//!
//! The number of a descriptor means something else, or nothing, in another event scope. So everything
//! that owns a descriptor knows its event scope (`event_scoped.rs`), and every kernel thread knows the
//! event scope that it is in. As long as there is only the main one, asking costs a load.

use super::blocking::Workers;
use crate::base::kernel;
use crate::identity::as_kernel_thread;
use crate::processor::cluster::ClusterShared;
use crate::processor::driver::Threads;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak, mpsc};
use std::{fmt, io, thread};

/// An I/O domain with its own table of descriptors in the kernel.
///
/// Every `accept`, `open` and `close` takes the table's lock and looks for the lowest free number.
/// Where many processors do that many times a second, they wait for each other. Clusters in event
/// scopes of their own do not. Event scopes share memory, locks and channels, but not descriptors.
/// Each event scope listens for itself, and a socket or file is used where it was opened.
/// [`reuse_port`](crate::net::ListenerBuilder::reuse_port) lets several event scopes listen at the
/// same port.
///
/// A new event scope has the three standard descriptors and no others. It lasts as long as its
/// handles and its clusters do. Then the kernel closes what is still open there. A kernel thread that
/// a fibre starts belongs to the fibre's event scope.
///
/// The types of [`net`](crate::net) and [`fs`](crate::fs), and the children and pipes of
/// [`process`](crate::process), know their event scope, and may be moved anywhere. In another event
/// scope they behave as follows:
///
/// | call | effect |
/// | --- | --- |
/// | operations | fail with [`OtherScope`] |
/// | `drop` | closes the descriptor in its own event scope |
/// | `as_fd` | panics: there is nothing to borrow |
/// | into std's type, an `OwnedFd` or a `RawFd` | panics, and closes the descriptor in its own event scope |
/// | `as_raw_fd` | returns the number that the descriptor has in its own event scope |
///
/// Other types that hold a descriptor do not know its event scope, so [`EventScope::new`] is
/// `unsafe`.
///
/// ```
/// use sinew::io::EventScope;
/// use sinew::net::TcpListener;
/// use sinew::{Cluster, Runtime};
///
/// // SAFETY: nothing but sockets of `sinew::net` is moved between the event scopes.
/// let scope = unsafe { EventScope::new() }.unwrap();
/// let runtime = Runtime::builder().processors(1).build().unwrap();
/// let cluster = runtime.cluster(Cluster::builder().processors(1).event_scope(&scope)).unwrap();
/// let listener = cluster.spawn(|| TcpListener::bind("127.0.0.1:0").unwrap()).join().unwrap();
/// // In this event scope the listener is only a number.
/// assert!(listener.accept().unwrap_err().get_ref().unwrap().is::<sinew::io::OtherScope>());
/// ```
#[derive(Clone)]
pub struct EventScope {
    keeper: Arc<Keeper>,
}

/// The descriptor belongs to another [`EventScope`]. This is the source of an [`io::Error`] of the kind
/// `InvalidInput`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherScope;

impl fmt::Display for OtherScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the descriptor belongs to another event scope")
    }
}

impl std::error::Error for OtherScope {}

impl From<OtherScope> for io::Error {
    fn from(error: OtherScope) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidInput, error)
    }
}

/// The number of an event scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScopeId(u32);

impl ScopeId {
    pub(crate) const MAIN: ScopeId = ScopeId(0);

    /// Returns a number that was never used.
    fn fresh() -> ScopeId {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        // A process does not live long enough for the counter to wrap around.
        ScopeId(NEXT.fetch_add(1, Relaxed))
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// The handle of a keeper's thread. The thread ends when this is dropped.
struct Keeper {
    id: ScopeId,
    /// The kernel's number of the thread.
    thread: i32,
    jobs: mpsc::Sender<Job>,
    /// The threads for blocking calls. The main event scope uses [`MAIN_WORKERS`] instead, which exist
    /// before any keeper.
    workers: Workers,
}

/// Whether there is, or was, an event scope besides the main one.
static EXIST: AtomicBool = AtomicBool::new(false);
static MAIN: OnceLock<Arc<Keeper>> = OnceLock::new();
static MAIN_WORKERS: OnceLock<Workers> = OnceLock::new();
static SCOPES: Mutex<Vec<Weak<Keeper>>> = Mutex::new(Vec::new());

thread_local! {
    /// The event scope that this thread is in, once it is known.
    static SCOPE: Cell<Option<ScopeId>> = const { Cell::new(None) };
}

fn scopes() -> MutexGuard<'static, Vec<Weak<Keeper>>> {
    SCOPES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Keeper {
    /// Starts the thread, which calls `begin` first.
    ///
    /// # Errors
    /// The kernel's, and that of `begin`.
    fn start(id: ScopeId, begin: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<Arc<Keeper>> {
        let (jobs, received) = mpsc::channel::<Job>();
        let (report, reported) = mpsc::channel();
        thread::Builder::new().name("sinew-keeper".to_owned()).spawn(move || {
            SCOPE.set(Some(id));
            if report.send(begin().map(|()| kernel::thread_id())).is_ok() {
                received.iter().for_each(|job| job());
            }
        })?;
        let thread = reported.recv().expect("the keeper reports how it began")?;
        Ok(Arc::new(Keeper { id, thread, jobs, workers: Workers::new() }))
    }
}

impl EventScope {
    /// Makes an event scope that no cluster is in yet.
    ///
    /// # Safety
    /// From now on the number of a descriptor means one thing in one event scope and another thing,
    /// or nothing, in another. Safe code relies on two rules: a descriptor stays open while it is owned
    /// or borrowed, and only its owner closes it. So the caller promises this: a value that owns,
    /// borrows or uses a descriptor is used and dropped only by kernel threads of the event scope in
    /// which the descriptor was opened, or lent. The promise covers
    ///
    /// - the types of std (`OwnedFd`, `BorrowedFd`, files, sockets, pipes, directories, processes),
    ///   those of other crates, and C libraries;
    /// - the value in a [`Pollable`](super::Pollable), unless its type is one of Sinew's;
    /// - what fibres, tasks, messages and statics hold: a log file that several event scopes write to
    ///   is used in several event scopes.
    ///
    /// The promise does not cover the types of [`net`](crate::net) and [`fs`](crate::fs), nor the
    /// children and pipes of [`process`](crate::process), nor the standard streams as long as no code
    /// replaces or closes them. It does cover the streams that a `Command` was given. The caller also
    /// promises that no thread leaves its event scope by itself, by `unshare` or `close_range`.
    ///
    /// # Errors
    /// The kernel's. Event scopes need Linux 5.9, and a kernel that can compare descriptor tables
    /// (`kcmp`).
    #[allow(unsafe_code)]
    pub unsafe fn new() -> io::Result<EventScope> {
        if !kernel::share_descriptors(kernel::thread_id()) {
            let what = "the kernel does not compare descriptor tables (kcmp), which event scopes need";
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
        let mut scopes = scopes();
        if MAIN.get().is_none() {
            let main = Keeper::start(ScopeId::MAIN, || Ok(()))?;
            MAIN.get_or_init(|| main);
        }
        let keeper = Keeper::start(ScopeId::fresh(), kernel::renew_descriptor_table)?;
        scopes.retain(|scope| scope.strong_count() > 0);
        scopes.push(Arc::downgrade(&keeper));
        EXIST.store(true, Relaxed);
        Ok(EventScope { keeper })
    }

    /// Returns the event scope that the caller is in; `None` for the main one.
    pub fn current() -> Option<EventScope> {
        find(here()).filter(|keeper| keeper.id != ScopeId::MAIN).map(|keeper| EventScope { keeper })
    }
}

impl PartialEq for EventScope {
    fn eq(&self, other: &EventScope) -> bool {
        self.keeper.id == other.keeper.id
    }
}

impl Eq for EventScope {}

impl fmt::Debug for EventScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EventScope").field(&self.keeper.id.0).finish()
    }
}

fn find(id: ScopeId) -> Option<Arc<Keeper>> {
    if id == ScopeId::MAIN {
        return MAIN.get().cloned();
    }
    scopes().iter().find_map(|scope| scope.upgrade().filter(|keeper| keeper.id == id))
}

/// Returns the event scope that the calling kernel thread is in.
#[inline]
pub(crate) fn here() -> ScopeId {
    if EXIST.load(Relaxed) { here_slow() } else { ScopeId::MAIN }
}

/// Returns a value, and is not inlined: the caller may be a fibre that goes on on another kernel
/// thread.
#[cold]
#[inline(never)]
fn here_slow() -> ScopeId {
    as_kernel_thread(of_thread)
}

/// Returns the event scope that the calling kernel thread is in.
fn of_thread() -> ScopeId {
    SCOPE.get().unwrap_or_else(|| {
        // A thread that Sinew did not start.
        let is_its = |keeper: &Arc<Keeper>| kernel::share_descriptors(keeper.thread);
        let found = MAIN.get().cloned().into_iter().chain(scopes().iter().filter_map(Weak::upgrade)).find(is_its);
        // A thread may outlive its event scope. A fresh number fits no descriptor: none can be used
        // or closed there.
        let scope = found.map_or_else(ScopeId::fresh, |keeper| keeper.id);
        SCOPE.set(Some(scope));
        scope
    })
}

/// Calls `f` with the home of each event scope, for its threads for blocking calls.
pub(crate) fn for_all_workers(mut f: impl FnMut(&Home)) {
    f(&Home::main());
    let keepers: Vec<_> = scopes().iter().filter_map(Weak::upgrade).collect();
    keepers.into_iter().for_each(|keeper| f(&Home { scope: Some(EventScope { keeper }) }));
}

/// Lets the keeper of another event scope do `job` soon. Does nothing if that event scope has ended.
#[cold]
pub(crate) fn do_there(id: ScopeId, job: impl FnOnce() + Send + 'static) {
    if let Some(keeper) = find(id) {
        // The keeper receives as long as there is a sender, and `keeper` has one.
        let _ = keeper.jobs.send(Box::new(job));
    }
}

/// The event scope that a cluster's threads are in.
#[derive(Clone)]
pub(crate) struct Home {
    /// `None` for the main one.
    scope: Option<EventScope>,
}

impl Home {
    /// Makes the home of a new cluster: the given event scope, or else the caller's.
    pub(crate) fn new(scope: Option<EventScope>) -> Home {
        Home { scope: scope.or_else(EventScope::current) }
    }

    /// Returns the main event scope.
    pub(crate) fn main() -> Home {
        Home { scope: None }
    }

    pub(crate) fn id(&self) -> ScopeId {
        self.scope.as_ref().map_or(ScopeId::MAIN, |scope| scope.keeper.id)
    }

    /// Returns the threads for blocking calls.
    pub(crate) fn workers(&self) -> &Workers {
        self.scope.as_ref().map_or_else(|| MAIN_WORKERS.get_or_init(Workers::new), |scope| &scope.keeper.workers)
    }

    /// Calls `f` in this event scope, from anywhere, and waits until it returns. Returns its result.
    ///
    /// # Errors
    /// Those of `f`; or the event scope has ended.
    fn call_there<T: Send + 'static>(&self, f: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
        if here() == self.id() {
            return f();
        }
        let (report, reported) = mpsc::channel();
        do_there(self.id(), move || drop(report.send(f())));
        reported.recv().unwrap_or_else(|_| Err(io::Error::other("the event scope has ended")))
    }

    /// Starts a kernel thread in this event scope, from anywhere.
    ///
    /// # Errors
    /// The kernel's; or the event scope has ended.
    pub(crate) fn spawn(&self, name: String, f: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
        let id = self.id();
        self.call_there(move || {
            thread::Builder::new().name(name).spawn(move || {
                SCOPE.set(Some(id));
                f()
            })
        })
    }
}

impl Threads for Home {
    fn spawn(&self, name: String, f: Box<dyn FnOnce() + Send>) -> io::Result<thread::JoinHandle<()>> {
        Home::spawn(self, name, f)
    }

    fn call(&self, f: Box<dyn FnOnce() -> io::Result<()> + Send>) -> io::Result<()> {
        self.call_there(f)
    }
}

impl ClusterShared {
    /// Returns the event scope that the cluster's threads are in.
    pub(crate) fn home(&self) -> &Home {
        self.threads()
    }
}
