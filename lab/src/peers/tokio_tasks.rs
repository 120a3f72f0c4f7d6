//! Tokio's multi-thread runtime.

use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, Notify, Semaphore};
use tokio::task::JoinHandle;
use tokio::time;

use super::Peer;

pub struct TokioTasks(Runtime);

impl TokioTasks {
    pub fn new(processors: usize) -> TokioTasks {
        let runtime = Builder::new_multi_thread().worker_threads(processors).enable_all().build();
        TokioTasks(runtime.expect("a Tokio runtime"))
    }

    /// Returns a runtime of one kernel thread. It is faster than a multi-thread runtime with one
    /// worker, which has to share its tasks.
    pub fn on_one_thread() -> TokioTasks {
        TokioTasks(Builder::new_current_thread().enable_all().build().expect("a Tokio runtime"))
    }
}

impl Peer for TokioTasks {
    type Handle = JoinHandle<u64>;
    /// `Notify` is faster than `Semaphore` throughout. Million hops/s in `cycle`, medians of
    /// three, of one and of the other: 14.9 and 11.3 (many, 1 worker), 16.0 and 12.3 (few, 1
    /// worker), 19.6 and 14.3 (many, 2 workers), 32.2 and 26.0 (few, 2 workers).
    type Parker = Arc<Notify>;
    type Mutex = Mutex<()>;
    type Semaphore = Semaphore;
    type Sender = UnboundedSender<u64>;
    type Receiver = UnboundedReceiver<u64>;
    type Listener = TcpListener;
    type Stream = TcpStream;
    type Cluster = ();

    /// The root is a task on a worker. The thread of `block_on` is no worker: it has neither a
    /// local queue nor a slot for the next task.
    fn run<R: Send + 'static>(self, root: impl Future<Output = R> + Send + 'static) -> R {
        let root = self.0.spawn(root);
        self.0.block_on(root).expect("a root that does not panic")
    }

    fn spawn(body: impl Future<Output = u64> + Send + 'static) -> Self::Handle {
        tokio::spawn(body)
    }

    async fn join(handle: Self::Handle) -> u64 {
        handle.await.expect("a task that does not panic")
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        tokio::task::yield_now()
    }

    fn parker() -> Arc<Notify> {
        Arc::new(Notify::new())
    }

    fn unpark(parker: &Arc<Notify>) {
        parker.notify_one();
    }

    fn park(own: &Arc<Notify>) -> impl Future<Output = ()> + Send {
        own.notified()
    }

    async fn park_timeout(own: &Arc<Notify>, limit: Duration) {
        let _ = time::timeout(limit, own.notified()).await;
    }

    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send {
        time::sleep(duration)
    }

    fn mutex(_: &str) -> Mutex<()> {
        Mutex::new(())
    }

    async fn locked(mutex: &Mutex<()>, f: impl FnOnce() + Send) {
        let guard = mutex.lock().await;
        f();
        drop(guard);
    }

    fn semaphore() -> Semaphore {
        Semaphore::new(0)
    }

    fn post(semaphore: &Semaphore, permits: usize) {
        semaphore.add_permits(permits);
    }

    async fn wait(semaphore: &Semaphore) {
        semaphore.acquire().await.expect("never closed").forget();
    }

    fn try_wait(semaphore: &Semaphore) -> bool {
        semaphore.try_acquire().map(|permit| permit.forget()).is_ok()
    }

    fn channel() -> (UnboundedSender<u64>, UnboundedReceiver<u64>) {
        unbounded_channel()
    }

    fn send(sender: &UnboundedSender<u64>, message: u64) {
        sender.send(message).expect("a receiver");
    }

    fn receive(receiver: &mut UnboundedReceiver<u64>) -> impl Future<Output = Option<u64>> + Send {
        poll_fn(|context| receiver.poll_recv(context))
    }

    fn try_receive(receiver: &mut UnboundedReceiver<u64>) -> Option<u64> {
        receiver.try_recv().ok()
    }

    fn listener(std: std::net::TcpListener) -> io::Result<TcpListener> {
        std.set_nonblocking(true)?;
        TcpListener::from_std(std)
    }

    async fn accept(listener: &mut TcpListener) -> io::Result<TcpStream> {
        listener.accept().await.map(|(stream, _)| stream)
    }

    fn stream(std: std::net::TcpStream) -> io::Result<TcpStream> {
        std.set_nonblocking(true)?;
        TcpStream::from_std(std)
    }

    async fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        stream.read(buffer).await
    }

    async fn write_all(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
        stream.write_all(bytes).await
    }
}
