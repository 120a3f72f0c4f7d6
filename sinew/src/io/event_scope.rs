//! Event scopes: kernel threads that share a descriptor table of their own.
//!
//! To the kernel the table belongs to threads: one that is started shares the table of the
//! one that starts it, until it asks for another. So each scope has a *keeper*, a thread
//! that has asked for a new table and does nothing but start the scope's other threads,
//! and do what those of other scopes need done there: to close a descriptor, to ring an
//! alarm. The process as it was born is a scope, too: the main one, whose keeper is started
//! together with the first other scope.
//!
//! A number of a descriptor means something else, or nothing, in another scope. So
//! everything that owns a descriptor knows its scope (`scoped.rs`), and every kernel thread
//! knows the scope that it is in. As long as there are no other scopes, asking costs a
//! load.

use super::blocking::Workers;
use crate::base::kernel;
use crate::processor::cluster::ClusterShared;
use crate::processor::driver::Threads;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak, mpsc};
use std::{fmt, io, thread};

/// An I/O domain with its own table of descriptors in the kernel.
///
/// Every `accept`, `open` and `close` takes a lock of the table and looks for the lowest
/// free number. Where many processors do that many times a second, clusters in scopes of
/// their own do not meet there. Memory, locks and channels are shared as ever; only
/// descriptors are not: each scope listens for itself
/// ([`reuse_port`](crate::net::ListenerBuilder::reuse_port) lets several listen at the
/// same port), and a socket or file is used where it was opened.
///
/// A new scope has the three standard descriptors and no others. It lasts as
/// long as this handle and its clusters do; what is open then is closed. A kernel thread
/// that is started by a fibre belongs to the fibre's scope.
///
/// The types of [`net`](crate::net) and [`fs`](crate::fs) know their scope, and may be moved
/// anywhere. In another scope
///
/// | | |
/// | --- | --- |
/// | operations | fail with [`OtherScope`] |
/// | `drop` | closes the descriptor in its own scope |
/// | `as_fd` | panics: there is nothing to borrow |
/// | into std's type, an `OwnedFd` or a `RawFd` | panics, and the descriptor is closed in its own scope |
/// | `as_raw_fd` | the number that it has in its own scope |
///
/// Everything else that holds a descriptor does not know its scope, so [`EventScope::new`] is
/// `unsafe`.
///
/// ```
/// use sinew::io::EventScope;
/// use sinew::net::TcpListener;
/// use sinew::Runtime;
///
/// // SAFETY: nothing but sockets of `sinew::net` is moved between the scopes.
/// let scope = unsafe { EventScope::new() }.unwrap();
/// let runtime = Runtime::builder().processors(1).build().unwrap();
/// let cluster = runtime.cluster(Cluster::builder().processors(1).event_scope(&scope)).unwrap();
/// let listener = cluster.spawn(|| TcpListener::bind("127.0.0.1:0").unwrap()).join().unwrap();
/// // Here it is only a number.
/// assert!(listener.accept().unwrap_err().get_ref().unwrap().is::<sinew::io::OtherScope>());
/// ```
#[derive(Clone)]
pub struct EventScope {
    keeper: Arc<Keeper>,
}

/// The descriptor belongs to another [`EventScope`]: the source of an
/// [`io::Error`] of the kind `InvalidInput`.
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

/// Which scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScopeId(u32);

impl ScopeId {
    pub(crate) const MAIN: ScopeId = ScopeId(0);

    /// One that was never used.
    fn fresh() -> ScopeId {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        // To wrap round takes longer than a process lives.
        ScopeId(NEXT.fetch_add(1, Relaxed))
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// The end of a keeper that others hold. The keeper ends when this is gone.
struct Keeper {
    id: ScopeId,
    /// The kernel's number of its thread.
    thread: i32,
    jobs: mpsc::Sender<Job>,
    /// Not those of the main scope, which are there before any keeper is.
    workers: Workers,
}

/// Whether there is, or was, a scope besides the main one.
static EXIST: AtomicBool = AtomicBool::new(false);
static MAIN: OnceLock<Arc<Keeper>> = OnceLock::new();
static MAIN_WORKERS: OnceLock<Workers> = OnceLock::new();
static SCOPES: Mutex<Vec<Weak<Keeper>>> = Mutex::new(Vec::new());

thread_local! {
    /// The scope that this thread is in, if that was ever asked or told.
    static SCOPE: Cell<Option<ScopeId>> = const { Cell::new(None) };
}

fn scopes() -> MutexGuard<'static, Vec<Weak<Keeper>>> {
    SCOPES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Keeper {
    /// Starts the thread, which calls `begin` first.
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
    /// A scope that no cluster is in yet.
    ///
    /// # Safety
    /// From now on the number of a descriptor means one thing in one scope and another thing,
    /// or nothing, in another. Safe code may rely on it that a descriptor stays open while
    /// somebody owns or borrows it, and that only its owner closes it. So the caller promises:
    /// what owns, borrows or uses a descriptor is used and dropped by kernel threads of that
    /// scope alone in which the descriptor was opened, or lent. This holds
    ///
    /// - for the types of std (`OwnedFd`, `BorrowedFd`, files, sockets, pipes, directories,
    ///   processes), for those of other crates and for C libraries;
    /// - for the value in a [`Pollable`](super::Pollable), unless its type is one of Sinew's;
    /// - for what fibres, tasks, messages and statics hold: a log file that several scopes
    ///   write to is used in several scopes.
    ///
    /// It does not hold for the types of [`net`](crate::net) and [`fs`](crate::fs), nor for
    /// the standard streams as long as nobody replaces or closes them. And no thread leaves
    /// its scope by itself, by `unshare` or `close_range`.
    ///
    /// # Errors
    /// The kernel's, which can do this since Linux 5.9, and has to be able to compare
    /// descriptor tables (`kcmp`).
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

    /// The one that the caller is in; `None` for the main one.
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

/// The scope that the calling kernel thread is in.
#[inline]
pub(crate) fn here() -> ScopeId {
    if EXIST.load(Relaxed) { here_slow() } else { ScopeId::MAIN }
}

/// Gives a value, and is not inlined: the caller may be a fibre, which goes on on another
/// kernel thread.
#[cold]
#[inline(never)]
fn here_slow() -> ScopeId {
    SCOPE.get().unwrap_or_else(|| {
        // A thread of somebody else's.
        let is_its = |keeper: &Arc<Keeper>| kernel::share_descriptors(keeper.thread);
        let found = MAIN.get().cloned().into_iter().chain(scopes().iter().filter_map(Weak::upgrade)).find(is_its);
        // A thread may outlive its scope. Nobody closes anything there any more, and nothing of
        // others' is of use there.
        let scope = found.map_or_else(ScopeId::fresh, |keeper| keeper.id);
        SCOPE.set(Some(scope));
        scope
    })
}

/// The scopes' threads for calls that block, each scope's in turn.
pub(crate) fn for_all_workers(mut f: impl FnMut(&Home)) {
    f(&Home { scope: None });
    let keepers: Vec<_> = scopes().iter().filter_map(Weak::upgrade).collect();
    keepers.into_iter().for_each(|keeper| f(&Home { scope: Some(EventScope { keeper }) }));
}

/// Does `job` in another scope, soon; not at all if there is no such scope any more.
#[cold]
pub(crate) fn do_there(id: ScopeId, job: impl FnOnce() + Send + 'static) {
    if let Some(keeper) = find(id) {
        // It receives as long as somebody has the other end.
        let _ = keeper.jobs.send(Box::new(job));
    }
}

/// The scope of a cluster.
#[derive(Clone)]
pub(crate) struct Home {
    /// `None` for the main one.
    scope: Option<EventScope>,
}

impl Home {
    /// The scope asked for, or that of the caller.
    pub(crate) fn new(scope: Option<EventScope>) -> Home {
        Home { scope: scope.or_else(EventScope::current) }
    }

    pub(crate) fn id(&self) -> ScopeId {
        self.scope.as_ref().map_or(ScopeId::MAIN, |scope| scope.keeper.id)
    }

    /// The threads for calls that block.
    pub(crate) fn workers(&self) -> &Workers {
        self.scope.as_ref().map_or_else(|| MAIN_WORKERS.get_or_init(Workers::new), |scope| &scope.keeper.workers)
    }

    /// Calls `f` in this event scope, from anywhere, and waits for it.
    fn call_there<T: Send + 'static>(&self, f: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
        if here() == self.id() {
            return f();
        }
        let (report, reported) = mpsc::channel();
        do_there(self.id(), move || drop(report.send(f())));
        reported.recv().unwrap_or_else(|_| Err(io::Error::other("the event scope has ended")))
    }

    /// Starts a kernel thread in this event scope, from anywhere.
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
    /// Returns the event scope that its threads are in.
    pub(crate) fn home(&self) -> &Home {
        self.threads()
    }
}
