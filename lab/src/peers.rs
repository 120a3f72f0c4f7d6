//! The peers, behind one shape.
//!
//! The bodies of the experiments are written once, as `async` code over
//! [`Peer`]. A runtime of tasks runs them as they are. A runtime whose threads
//! have stacks blocks inside of each operation and returns what is ready at
//! once: [`blocking`] polls such a body exactly once, and the compiler makes a
//! plain loop of it.
//!
//! A new peer is a file here that implements [`Peer`], and its lines in
//! [`ALL`] and [`measure`]. A peer that is a program of its own, written in
//! another language, is a file that says how to build and start it, and a line
//! in [`ALL`] and in [`language::ALL`]: its results are the same line of JSON.

pub mod actors;
pub mod caf;
pub mod cancelling;
pub mod coroutines;
pub mod erlang;
pub mod events;
pub mod fibres;
pub mod files;
pub mod go;
pub mod kernel;
pub mod language;
pub mod sinew_tasks;
pub mod tokio_tasks;

use std::future::Future;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::case::{Case, Outcome, Reading};

use coroutines::Coroutines;
use fibres::Fibres;
use kernel::KernelThreads;
use sinew_tasks::SinewTasks;
use tokio_tasks::TokioTasks;

/// The operations of a peer's strands. Every strand returns a number, so that a join has
/// something to deliver.
///
/// The caller of an operation that returns a future awaits it at once.
pub trait Peer: Sized + 'static {
    /// Joins one strand.
    type Handle: Send + 'static;
    /// One strand parks with it, and others unpark the strand by it.
    type Parker: Clone + Send + Sync + 'static;
    type Mutex: Send + Sync + 'static;
    type Semaphore: Send + Sync + 'static;
    /// The sending end of an unbounded channel with many senders.
    type Sender: Clone + Send + 'static;
    type Receiver: Send + 'static;
    type Listener: Send + 'static;
    type Stream: Send + 'static;
    /// A place that strands can migrate to.
    type Cluster: Clone + Send + Sync + 'static;

    /// Runs `root` as a strand; the calling kernel thread blocks meanwhile.
    fn run<R: Send + 'static>(self, root: impl Future<Output = R> + Send + 'static) -> R;

    /// Called from a strand, as everything below.
    fn spawn(body: impl Future<Output = u64> + Send + 'static) -> Self::Handle;

    fn join(handle: Self::Handle) -> impl Future<Output = u64> + Send;

    fn yield_now() -> impl Future<Output = ()> + Send;

    /// Returns the calling strand's own. Each strand that needs it calls this once.
    fn parker() -> Self::Parker;

    fn unpark(parker: &Self::Parker);

    /// Waits for an unpark; an earlier unpark is remembered. Called with the strand's own
    /// parker. May return for no reason.
    fn park(own: &Self::Parker) -> impl Future<Output = ()> + Send;

    fn park_timeout(own: &Self::Parker, limit: Duration) -> impl Future<Output = ()> + Send;

    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send;

    /// Returns a lock with one of the policies of [`Contender::policies`].
    fn mutex(policy: &str) -> Self::Mutex;

    /// Calls `f` while the caller has the lock.
    fn locked(mutex: &Self::Mutex, f: impl FnOnce() + Send) -> impl Future<Output = ()> + Send;

    /// Returns a semaphore without permits.
    fn semaphore() -> Self::Semaphore;

    /// V, `permits` times.
    fn post(semaphore: &Self::Semaphore, permits: usize);

    /// P.
    fn wait(semaphore: &Self::Semaphore) -> impl Future<Output = ()> + Send;

    /// P, if that does not block.
    fn try_wait(semaphore: &Self::Semaphore) -> bool;

    fn channel() -> (Self::Sender, Self::Receiver);

    /// Called while the receiver exists.
    fn send(sender: &Self::Sender, message: u64);

    /// Returns `None` when all senders are dropped.
    fn receive(receiver: &mut Self::Receiver) -> impl Future<Output = Option<u64>> + Send;

    /// Returns `None` if there is no message.
    fn try_receive(receiver: &mut Self::Receiver) -> Option<u64>;

    fn listener(std: TcpListener) -> io::Result<Self::Listener>;

    fn accept(listener: &mut Self::Listener) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    fn stream(std: TcpStream) -> io::Result<Self::Stream>;

    fn read(stream: &mut Self::Stream, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> + Send;

    fn write_all(stream: &mut Self::Stream, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Returns two clusters, each with the runtime's number of processors, if the peer has
    /// clusters.
    fn clusters(&self) -> Option<[Self::Cluster; 2]> {
        None
    }

    /// Moves the calling strand.
    fn migrate(_: &Self::Cluster) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Returns how often the calling strand has given up its CPU, if the kernel counts
    /// that for each strand.
    fn kernel_switches() -> Option<u64> {
        None
    }
}

/// The body of an experiment: a child process runs it.
pub trait Body {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading;
}

/// A peer that can be measured.
pub struct Contender {
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    pub kind: Kind,
    /// Strands that can exist at once.
    pub most_strands: usize,
    /// Why there are no more. The words follow a comma.
    pub most_why: &'static str,
    /// The policies of its locks; the first is the default.
    pub policies: &'static [&'static str],
    /// Whether its strands can move from one cluster to another.
    pub has_clusters: bool,
    pub in_tour: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Compiled into the lab.
    Inside,
    /// A program in another language that is built if its tools are on the machine: see
    /// [`language`].
    Language,
    /// Compiled in, for the experiments that name it: mostly servers and actor systems.
    Server,
    /// A server that is measured if it is installed, for the experiments that name it.
    Program(&'static str),
    /// A part of the `sinew` command that is measured if that is built, for the experiments
    /// that name it.
    Command(&'static str),
}

/// The peer that a user gets by default: the runtime of `sinew::run`.
pub const DEFAULT: &str = "sinew/default";

/// The peer whose fibres have thread-local variables of their own.
pub const THREADS: &str = "sinew/threads";

/// The end of the name of a peer that is Sinew without io_uring.
pub const BY_EPOLL: &str = "/epoll";

const ONE_POLICY: &[&str] = &["default"];
const MILLIONS: usize = 2_000_000;

const PLAIN: Contender = Contender {
    name: "",
    about: "",
    kind: Kind::Inside,
    most_strands: MILLIONS,
    most_why: "which is what the lab ever needs",
    policies: ONE_POLICY,
    has_clusters: false,
    in_tour: true,
};

const SINEW: Contender = Contender { policies: fibres::POLICIES, has_clusters: true, ..PLAIN };

/// All peers, in the order of tables and colours.
pub static ALL: &[Contender] = &[
    Contender {
        name: DEFAULT,
        about: "what you get: Sinew's fibres as sinew::run runs them; a fibre stays where it began",
        has_clusters: false,
        ..SINEW
    },
    Contender { name: "sinew/fair", about: "the same scheduler, but fibres migrate: one unsafe line", ..SINEW },
    Contender {
        name: THREADS,
        about: "the same scheduler; fibres have thread-local variables of their own and migrate, without unsafe",
        in_tour: false,
        ..SINEW
    },
    Contender {
        name: "sinew/inverted",
        about: "Sinew's migrating fibres, the inverted ready stack",
        in_tour: false,
        ..SINEW
    },
    Contender {
        name: "sinew/shared",
        about: "Sinew's migrating fibres, one queue: the baseline",
        in_tour: false,
        ..SINEW
    },
    Contender { name: "sinew/tasks", about: "Sinew's tasks, without stacks, on the default runtime", ..PLAIN },
    Contender {
        name: "sinew/tasks/inverted",
        about: "Sinew's tasks on the inverted ready stack",
        in_tour: false,
        ..PLAIN
    },
    Contender { name: "sinew/tasks/shared", about: "Sinew's tasks on one queue", in_tour: false, ..PLAIN },
    Contender {
        name: "sinew/default/epoll",
        about: "servers and files: sinew/default without io_uring",
        kind: Kind::Server,
        in_tour: false,
        ..SINEW
    },
    Contender {
        name: "sinew/fair/epoll",
        about: "servers: sinew/fair without io_uring",
        kind: Kind::Server,
        in_tour: false,
        ..SINEW
    },
    Contender {
        name: events::COLOURED,
        about: "events: Sinew's coloured scheduler, with all heuristics",
        kind: Kind::Server,
        ..PLAIN
    },
    Contender {
        name: events::OFF,
        about: "events: the coloured scheduler, but nothing is stolen",
        kind: Kind::Server,
        ..PLAIN
    },
    Contender {
        name: events::BASE,
        about: "events: the coloured scheduler, but it steals as Libasync-smp does",
        kind: Kind::Server,
        ..PLAIN
    },
    Contender {
        name: events::TIME,
        about: "events: the coloured scheduler with the time-left heuristic alone",
        kind: Kind::Server,
        in_tour: false,
        ..PLAIN
    },
    Contender {
        name: actors::RANDOM,
        about: "actors: Sinew with random work stealing, the thesis' RWS",
        kind: Kind::Server,
        ..PLAIN
    },
    Contender {
        name: actors::LOCAL,
        about: "actors: Sinew with locality-aware stealing, the thesis' LAS/L",
        kind: Kind::Server,
        ..PLAIN
    },
    Contender {
        name: actors::AFFINE,
        about: "actors: the same, but woken actors return to where they ran, the thesis' LAS/A",
        kind: Kind::Server,
        ..PLAIN
    },
    Contender { name: "tokio", about: "Tokio's tasks on its multi-thread runtime", ..PLAIN },
    Contender {
        name: actors::CHANNELS,
        about: "actors: a Tokio task with an unbounded channel for each",
        kind: Kind::Server,
        ..PLAIN
    },
    Contender { name: actors::RACTOR, about: "actors: ractor, on Tokio", kind: Kind::Server, ..PLAIN },
    Contender { name: actors::KAMEO, about: "actors: kameo, on Tokio", kind: Kind::Server, ..PLAIN },
    Contender {
        name: actors::ACTIX,
        about: "actors: actix, with an arbiter for each processor and actors on them in turn",
        kind: Kind::Server,
        ..PLAIN
    },
    Contender {
        name: "may",
        about: "may's stackful coroutines",
        most_strands: 20_000,
        most_why: "because each stack has a guard of its own and the process runs out of mappings near 32,000",
        ..PLAIN
    },
    Contender {
        name: "threads",
        about: "kernel threads with stacks of 64 KiB, std's locks and channels",
        most_strands: 12_000,
        most_why: "because each thread has four mappings and the process runs out of them near 16,000",
        ..PLAIN
    },
    Contender {
        name: "tokio/current",
        about: "servers: Tokio's tasks on the one thread that runs everything",
        kind: Kind::Server,
        ..PLAIN
    },
    Contender {
        name: "tokio-uring",
        about: "servers: tokio-uring's tasks on one thread",
        kind: Kind::Server,
        in_tour: false,
        ..PLAIN
    },
    Contender {
        name: "monoio",
        about: "servers: monoio's tasks on one thread, by io_uring",
        kind: Kind::Server,
        in_tour: false,
        ..PLAIN
    },
    Contender {
        name: "bare/epoll",
        about: "servers: a bare epoll loop on one thread, the event-driven floor",
        kind: Kind::Server,
        ..PLAIN
    },
    Contender {
        name: "bare/ring",
        about: "servers: the same loop, but io_uring sends all replies of a turn as one batch",
        kind: Kind::Server,
        ..PLAIN
    },
    Contender {
        name: "bare/ring/both",
        about: "servers: the same loop, receives as a batch too",
        kind: Kind::Server,
        in_tour: false,
        ..PLAIN
    },
    Contender {
        name: "sinew/web",
        about: "servers: the real one, sinew web, if it is built",
        kind: Kind::Command("web"),
        ..PLAIN
    },
    Contender {
        name: "sinew/web/epoll",
        about: "servers: sinew web without io_uring",
        kind: Kind::Command("web"),
        in_tour: false,
        ..PLAIN
    },
    Contender { name: "nginx", about: "servers: nginx, if installed", kind: Kind::Program("nginx"), ..PLAIN },
    Contender {
        name: "memcached",
        about: "servers: the real memcached, if installed",
        kind: Kind::Program("memcached"),
        ..PLAIN
    },
    Contender { name: go::NAME, about: "goroutines, if a Go toolchain is installed", kind: Kind::Language, ..PLAIN },
    Contender {
        name: erlang::NAME,
        about: "actors: Erlang's processes, if Erlang is installed",
        kind: Kind::Language,
        in_tour: false,
        ..PLAIN
    },
    Contender {
        name: caf::NAME,
        about: "actors: the C++ Actor Framework's, if g++ and CAF 0.17 are installed",
        kind: Kind::Language,
        in_tour: false,
        ..PLAIN
    },
];

pub fn find(name: &str) -> Option<&'static Contender> {
    ALL.iter().find(|contender| contender.name == name)
}

impl Contender {
    /// Returns the first part of the name: `sinew` of `sinew/fair`.
    pub fn family(&self) -> &'static str {
        family(self.name)
    }

    /// Returns whether strands of any experiment run on it.
    pub fn is_runtime(&self) -> bool {
        self.kind == Kind::Inside || self.name == go::NAME
    }

    /// Returns whether it is Sinew's fibres.
    pub fn is_fibres(&self) -> bool {
        self.kind == Kind::Inside && self.family() == "sinew" && !self.name.starts_with("sinew/tasks")
    }

    /// Returns whether it cannot do without io_uring.
    pub fn needs_ring(&self) -> bool {
        ["bare/ring", "bare/ring/both", "tokio-uring", "monoio"].contains(&self.name)
    }

    pub fn is_installed(&self) -> bool {
        match self.kind {
            Kind::Program(program) => crate::load::server::path_of(program).is_some(),
            _ => true,
        }
    }
}

pub fn family(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

/// Measures inside of this process.
pub fn measure<B: Body>(case: &Case) -> Outcome {
    if let Some(language) = language::find(&case.peer) {
        return language.replace_process(case);
    }
    let reading = match case.peer.as_str() {
        "tokio" => B::measure(TokioTasks::new(case.processors), case),
        "tokio/current" => B::measure(TokioTasks::on_one_thread(), case),
        "may" => B::measure(Coroutines::new(case.processors), case),
        "threads" => B::measure(KernelThreads, case),
        tasks if tasks.starts_with("sinew/tasks") => B::measure(SinewTasks::of(case), case),
        sinew => B::measure(Fibres::new(case.processors, sinew), case),
    };
    Outcome::Measured(reading)
}

/// Runs a body whose every operation blocks: the first poll finds it ready.
#[inline(always)]
pub fn blocking<T>(body: impl Future<Output = T>) -> T {
    match pin!(body).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("an operation of a blocking peer did not block"),
    }
}
