//! Sinew's fibres: the default runtime, whose fibres stay where they began, and runtimes whose
//! fibres migrate.

use std::future::{Future, ready};
use std::io::{self, Read, Write};
use std::time::Duration;

use sinew::io::{Engine, Polling};
use sinew::net::{TcpListener, TcpStream};
use sinew::sched::{Fair, Inverted, Shared};
use sinew::sync::mpsc::{Receiver, Sender, channel};
use sinew::sync::{Mutex, Policy, Semaphore};
use sinew::{Builder, Cluster, ClusterBuilder, Fibre, JoinHandle, Runtime};

use super::{BY_EPOLL, DEFAULT, Peer, THREADS, blocking};

/// The names of the locks' policies.
pub const POLICIES: &[&str] = &["default", "spin", "hand-over"];

pub struct Fibres {
    runtime: Runtime,
    processors: usize,
    scheduler: String,
}

/// Returns the name without the engine, and the engine.
fn engine_of(name: &str) -> (&str, Engine) {
    name.strip_suffix(BY_EPOLL).map_or((name, Engine::Auto), |name| (name, Engine::Epoll))
}

/// Returns a cluster with the scheduler and the engine that the peer names.
pub fn builder(processors: usize, name: &str) -> ClusterBuilder {
    let (name, engine) = engine_of(name);
    let builder = Cluster::builder().processors(processors).io(engine);
    match name {
        DEFAULT | THREADS => builder,
        "sinew/fair" => builder.scheduler(Fair::default()),
        "sinew/inverted" => builder.scheduler(Inverted::default()),
        "sinew/shared" => builder.scheduler(Shared::default()),
        _ => panic!("no scheduler for {name}"),
    }
}

/// Returns a runtime that does not report stalls: the strands of some experiments compute for long, on purpose.
pub fn quiet(cluster: ClusterBuilder) -> Builder {
    Builder::from(cluster).stall_limit(None)
}

impl Fibres {
    pub fn new(processors: usize, name: &str) -> Fibres {
        Fibres::with_polling(processors, name, Polling::default())
    }

    #[allow(unsafe_code)]
    pub fn with_polling(processors: usize, name: &str, polling: Polling) -> Fibres {
        let staying = quiet(builder(processors, name).polling(polling));
        let chosen = match engine_of(name).0 {
            DEFAULT => staying,
            THREADS => staying.own_thread_locals(),
            // SAFETY: no fibre of the lab keeps anything that belongs to a kernel
            // thread across a suspension, nor uses a thread-local variable.
            _ => unsafe { staying.migrating() },
        };
        let runtime = chosen.build().expect("a runtime");
        Fibres { runtime, processors, scheduler: name.to_owned() }
    }
}

impl Peer for Fibres {
    type Handle = JoinHandle<u64>;
    type Parker = Fibre;
    type Mutex = Mutex<()>;
    type Semaphore = Semaphore;
    type Sender = Sender<u64>;
    type Receiver = Receiver<u64>;
    type Listener = TcpListener;
    type Stream = TcpStream;
    type Cluster = Cluster;

    fn run<R: Send + 'static>(self, root: impl Future<Output = R> + Send + 'static) -> R {
        self.runtime.run(move || blocking(root))
    }

    #[inline(always)]
    fn spawn(body: impl Future<Output = u64> + Send + 'static) -> Self::Handle {
        sinew::spawn(move || blocking(body))
    }

    #[inline(always)]
    fn join(handle: Self::Handle) -> impl Future<Output = u64> + Send {
        ready(handle.join().expect("a fibre that does not panic"))
    }

    #[inline(always)]
    fn yield_now() -> impl Future<Output = ()> + Send {
        sinew::yield_now();
        ready(())
    }

    fn parker() -> Fibre {
        sinew::current()
    }

    #[inline(always)]
    fn unpark(parker: &Fibre) {
        parker.unpark();
    }

    #[inline(always)]
    fn park(_: &Fibre) -> impl Future<Output = ()> + Send {
        sinew::park();
        ready(())
    }

    #[inline(always)]
    fn park_timeout(_: &Fibre, limit: Duration) -> impl Future<Output = ()> + Send {
        sinew::park_timeout(limit);
        ready(())
    }

    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send {
        sinew::sleep(duration);
        ready(())
    }

    fn mutex(policy: &str) -> Mutex<()> {
        let policy = match policy {
            "spin" => Policy::Spin,
            "hand-over" => Policy::HandOver,
            _ => Policy::Barge,
        };
        Mutex::with_policy((), policy)
    }

    #[inline(always)]
    fn locked(mutex: &Mutex<()>, f: impl FnOnce() + Send) -> impl Future<Output = ()> + Send {
        let guard = mutex.lock().expect("no poison");
        f();
        drop(guard);
        ready(())
    }

    fn semaphore() -> Semaphore {
        Semaphore::new(0)
    }

    #[inline(always)]
    fn post(semaphore: &Semaphore, permits: usize) {
        semaphore.post(permits);
    }

    #[inline(always)]
    fn wait(semaphore: &Semaphore) -> impl Future<Output = ()> + Send {
        semaphore.wait();
        ready(())
    }

    fn try_wait(semaphore: &Semaphore) -> bool {
        semaphore.try_wait()
    }

    fn channel() -> (Sender<u64>, Receiver<u64>) {
        channel()
    }

    #[inline(always)]
    fn send(sender: &Sender<u64>, message: u64) {
        sender.send(message).expect("a receiver");
    }

    #[inline(always)]
    fn receive(receiver: &mut Receiver<u64>) -> impl Future<Output = Option<u64>> + Send {
        ready(receiver.recv().ok())
    }

    fn try_receive(receiver: &mut Receiver<u64>) -> Option<u64> {
        receiver.try_recv().ok()
    }

    fn listener(std: std::net::TcpListener) -> io::Result<TcpListener> {
        Ok(std.into())
    }

    fn accept(listener: &mut TcpListener) -> impl Future<Output = io::Result<TcpStream>> + Send {
        ready(listener.accept().map(|(stream, _)| stream))
    }

    fn stream(std: std::net::TcpStream) -> io::Result<TcpStream> {
        Ok(std.into())
    }

    #[inline(always)]
    fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> + Send {
        ready(stream.read(buffer))
    }

    #[inline(always)]
    fn write_all(stream: &mut TcpStream, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send {
        ready(stream.write_all(bytes))
    }

    fn clusters(&self) -> Option<[Cluster; 2]> {
        let other = self.runtime.cluster(builder(self.processors, &self.scheduler)).expect("a second cluster");
        Some([self.runtime.main_cluster().clone(), other])
    }

    #[inline(always)]
    fn migrate(cluster: &Cluster) -> impl Future<Output = ()> + Send {
        sinew::migrate_to(cluster).expect("a cluster of the same runtime");
        ready(())
    }
}
