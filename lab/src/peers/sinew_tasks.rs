//! Sinew's tasks.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use sinew::net::{TcpListener, TcpStream};
use sinew::sync::mpsc::{Receiver, Sender, channel};
use sinew::sync::{BinarySemaphore, Mutex, Semaphore};
use sinew::task::JoinHandle;
use sinew::{Runtime, task, time};

use super::fibres::{builder, quiet};
use super::{DEFAULT, Peer};
use crate::case::Case;

pub struct SinewTasks(Runtime);

impl SinewTasks {
    /// Returns a runtime with the scheduler that the case's peer names.
    pub fn of(case: &Case) -> SinewTasks {
        let fibres = match case.peer.as_str() {
            "sinew/tasks" => DEFAULT,
            "sinew/tasks/inverted" => "sinew/inverted",
            "sinew/tasks/shared" => "sinew/shared",
            other => panic!("no scheduler for {other}"),
        };
        SinewTasks(quiet(builder(case.processors, fibres)).build().expect("a runtime"))
    }
}

impl Peer for SinewTasks {
    type Handle = JoinHandle<u64>;
    type Parker = Arc<BinarySemaphore>;
    type Mutex = Mutex<()>;
    type Semaphore = Semaphore;
    type Sender = Sender<u64>;
    type Receiver = Receiver<u64>;
    type Listener = TcpListener;
    type Stream = TcpStream;
    type Cluster = ();

    /// The root is a task as well.
    fn run<R: Send + 'static>(self, root: impl Future<Output = R> + Send + 'static) -> R {
        self.0.run(move || task::spawn(root).join().expect("a root that does not panic"))
    }

    fn spawn(body: impl Future<Output = u64> + Send + 'static) -> Self::Handle {
        task::spawn(body)
    }

    async fn join(handle: Self::Handle) -> u64 {
        handle.await.expect("a task that does not panic")
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        task::yield_now_async()
    }

    fn parker() -> Arc<BinarySemaphore> {
        Arc::new(BinarySemaphore::new(false))
    }

    fn unpark(parker: &Arc<BinarySemaphore>) {
        parker.post();
    }

    fn park(own: &Arc<BinarySemaphore>) -> impl Future<Output = ()> + Send {
        own.wait_async()
    }

    async fn park_timeout(own: &Arc<BinarySemaphore>, limit: Duration) {
        let _ = time::timeout_async(limit, own.wait_async()).await;
    }

    async fn sleep(duration: Duration) {
        time::sleep_async(duration).await;
    }

    fn mutex(_: &str) -> Mutex<()> {
        Mutex::new(())
    }

    async fn locked(mutex: &Mutex<()>, f: impl FnOnce() + Send) {
        let guard = mutex.lock_async().await.expect("no poison");
        f();
        drop(guard);
    }

    fn semaphore() -> Semaphore {
        Semaphore::new(0)
    }

    fn post(semaphore: &Semaphore, permits: usize) {
        semaphore.post(permits);
    }

    fn wait(semaphore: &Semaphore) -> impl Future<Output = ()> + Send {
        semaphore.wait_async()
    }

    fn try_wait(semaphore: &Semaphore) -> bool {
        semaphore.try_wait()
    }

    fn channel() -> (Sender<u64>, Receiver<u64>) {
        channel()
    }

    fn send(sender: &Sender<u64>, message: u64) {
        sender.send(message).expect("a receiver");
    }

    async fn receive(receiver: &mut Receiver<u64>) -> Option<u64> {
        receiver.recv_async().await.ok()
    }

    fn try_receive(receiver: &mut Receiver<u64>) -> Option<u64> {
        receiver.try_recv().ok()
    }

    fn listener(std: std::net::TcpListener) -> io::Result<TcpListener> {
        Ok(std.into())
    }

    async fn accept(listener: &mut TcpListener) -> io::Result<TcpStream> {
        listener.accept_async().await.map(|(stream, _)| stream)
    }

    fn stream(std: std::net::TcpStream) -> io::Result<TcpStream> {
        Ok(std.into())
    }

    async fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        stream.read_async(buffer).await
    }

    async fn write_all(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
        stream.write_all_async(bytes).await
    }
}
