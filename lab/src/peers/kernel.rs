//! Kernel threads. The CPUs that the child is pinned to bound how many run at once.

use std::future::{Future, ready};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex};
use std::thread::{self, Builder, JoinHandle, Thread};
use std::time::Duration;

use super::{Peer, blocking};

const STACK_BYTES: usize = 64 * 1024;

pub struct KernelThreads;

fn spawn<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
    Builder::new().stack_size(STACK_BYTES).spawn(body).expect("a kernel thread")
}

/// std has no semaphore: a number, its lock and a condition variable.
#[derive(Default)]
pub struct Semaphore {
    permits: Mutex<usize>,
    posted: Condvar,
}

impl Peer for KernelThreads {
    type Handle = JoinHandle<u64>;
    type Parker = Thread;
    type Mutex = Mutex<()>;
    type Semaphore = Semaphore;
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
        ready(handle.join().expect("a thread that does not panic"))
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        thread::yield_now();
        ready(())
    }

    fn parker() -> Thread {
        thread::current()
    }

    fn unpark(parker: &Thread) {
        parker.unpark();
    }

    fn park(_: &Thread) -> impl Future<Output = ()> + Send {
        thread::park();
        ready(())
    }

    fn park_timeout(_: &Thread, limit: Duration) -> impl Future<Output = ()> + Send {
        thread::park_timeout(limit);
        ready(())
    }

    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send {
        thread::sleep(duration);
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

    fn semaphore() -> Semaphore {
        Semaphore::default()
    }

    fn post(semaphore: &Semaphore, permits: usize) {
        *semaphore.permits.lock().expect("no poison") += permits;
        match permits {
            1 => semaphore.posted.notify_one(),
            _ => semaphore.posted.notify_all(),
        }
    }

    fn wait(semaphore: &Semaphore) -> impl Future<Output = ()> + Send {
        let permits = semaphore.permits.lock().expect("no poison");
        let mut permits = semaphore.posted.wait_while(permits, |permits| *permits == 0).expect("no poison");
        *permits -= 1;
        ready(())
    }

    fn try_wait(semaphore: &Semaphore) -> bool {
        let mut permits = semaphore.permits.lock().expect("no poison");
        let any = *permits > 0;
        *permits -= usize::from(any);
        any
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

    fn listener(std: TcpListener) -> io::Result<TcpListener> {
        Ok(std)
    }

    fn accept(listener: &mut TcpListener) -> impl Future<Output = io::Result<TcpStream>> + Send {
        ready(listener.accept().map(|(stream, _)| stream))
    }

    fn stream(std: TcpStream) -> io::Result<TcpStream> {
        Ok(std)
    }

    fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> + Send {
        ready(stream.read(buffer))
    }

    fn write_all(stream: &mut TcpStream, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send {
        ready(stream.write_all(bytes))
    }

    fn kernel_switches() -> Option<u64> {
        Some(crate::kernel::thread_switches())
    }
}
