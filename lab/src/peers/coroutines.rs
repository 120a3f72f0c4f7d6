//! `may`: stackful coroutines. Its workers are one set for the whole process.

use std::future::{Future, ready};
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, IntoRawFd};
use std::time::Duration;

use may::coroutine::{self, Coroutine, JoinHandle};
use may::net::{TcpListener, TcpStream};
use may::sync::mpsc::{Receiver, Sender, channel};
use may::sync::{Mutex, Semphore};

use super::{Peer, blocking};

/// The frames of a build without optimisation do not fit into may's default stack,
/// which has a quarter of this.
const DEBUG_STACK_WORDS: usize = 0x4000;

pub struct Coroutines(());

impl Coroutines {
    pub fn new(processors: usize) -> Coroutines {
        may::config().set_workers(processors);
        if cfg!(debug_assertions) {
            may::config().set_stack_size(DEBUG_STACK_WORDS);
        }
        Coroutines(())
    }
}

#[allow(unsafe_code)]
fn spawn<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
    // SAFETY: may asks that a coroutine keep no thread-local variable across a
    // suspension and not outgrow its stack. The bodies here are a few frames
    // deep, and touch none.
    unsafe { coroutine::spawn(body) }
}

impl Peer for Coroutines {
    type Handle = JoinHandle<u64>;
    type Parker = Coroutine;
    type Mutex = Mutex<()>;
    type Semaphore = Semphore;
    type Sender = Sender<u64>;
    type Receiver = Receiver<u64>;
    type Listener = TcpListener;
    type Stream = TcpStream;
    type Cluster = ();

    fn run<R: Send + 'static>(self, root: impl Future<Output = R> + Send + 'static) -> R {
        spawn(move || blocking(root)).join().expect("a root that does not panic")
    }

    fn spawn(body: impl Future<Output = u64> + Send + 'static) -> Self::Handle {
        spawn(move || blocking(body))
    }

    fn join(handle: Self::Handle) -> impl Future<Output = u64> + Send {
        ready(handle.join().expect("a coroutine that does not panic"))
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        coroutine::yield_now();
        ready(())
    }

    fn parker() -> Coroutine {
        coroutine::current()
    }

    fn unpark(parker: &Coroutine) {
        parker.unpark();
    }

    fn park(_: &Coroutine) -> impl Future<Output = ()> + Send {
        coroutine::park();
        ready(())
    }

    fn park_timeout(_: &Coroutine, limit: Duration) -> impl Future<Output = ()> + Send {
        coroutine::park_timeout(limit);
        ready(())
    }

    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send {
        coroutine::sleep(duration);
        ready(())
    }

    fn mutex(_: &str) -> Mutex<()> {
        Mutex::new(())
    }

    fn locked(mutex: &Mutex<()>, f: impl FnOnce() + Send) -> impl Future<Output = ()> + Send {
        let guard = mutex.lock().expect("no poison");
        f();
        drop(guard);
        ready(())
    }

    fn semaphore() -> Semphore {
        Semphore::new(0)
    }

    fn post(semaphore: &Semphore, permits: usize) {
        for _ in 0..permits {
            semaphore.post();
        }
    }

    fn wait(semaphore: &Semphore) -> impl Future<Output = ()> + Send {
        semaphore.wait();
        ready(())
    }

    fn try_wait(semaphore: &Semphore) -> bool {
        semaphore.try_wait()
    }

    fn channel() -> (Sender<u64>, Receiver<u64>) {
        channel()
    }

    fn send(sender: &Sender<u64>, message: u64) {
        sender.send(message).expect("a receiver");
    }

    fn receive(receiver: &mut Receiver<u64>) -> impl Future<Output = Option<u64>> + Send {
        ready(receiver.recv().ok())
    }

    fn try_receive(receiver: &mut Receiver<u64>) -> Option<u64> {
        receiver.try_recv().ok()
    }

    #[allow(unsafe_code)]
    fn listener(std: std::net::TcpListener) -> io::Result<TcpListener> {
        // SAFETY: the descriptor was owned by `std`, which has given it up.
        Ok(unsafe { TcpListener::from_raw_fd(std.into_raw_fd()) })
    }

    fn accept(listener: &mut TcpListener) -> impl Future<Output = io::Result<TcpStream>> + Send {
        ready(listener.accept().map(|(stream, _)| stream))
    }

    #[allow(unsafe_code)]
    fn stream(std: std::net::TcpStream) -> io::Result<TcpStream> {
        // SAFETY: the descriptor was owned by `std`, which has given it up.
        Ok(unsafe { TcpStream::from_raw_fd(std.into_raw_fd()) })
    }

    fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> + Send {
        ready(stream.read(buffer))
    }

    fn write_all(stream: &mut TcpStream, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send {
        ready(stream.write_all(bytes))
    }
}
