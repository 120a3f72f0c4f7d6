//! Peers that can have a hundred thousand strands wait, notify them all at once, and
//! cancel them: Sinew's fibres and tasks, and Tokio's tasks. `may` cannot map the stacks,
//! and the kernel cannot have the threads.

use std::future::{Future, poll_fn, ready};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use sinew::sync::{Condvar, Mutex};
use sinew::{FibreBuilder, Priority, cancel, task, time};
use tokio::sync::Notify;

use super::fibres::Fibres;
use super::sinew_tasks::SinewTasks;
use super::tokio_tasks::TokioTasks;
use super::{Contender, Kind, Peer, blocking, go};
use crate::case::{Case, Outcome, Reading};

/// No wait lasts longer than this, and none is meant to.
const HOUR: Duration = Duration::from_secs(3600);

pub trait Cancelling: Peer {
    /// A door that many strands wait for. It is opened once.
    type Door: Send + Sync + 'static;

    fn door() -> Self::Door;

    /// Calls `arrive`, then waits until the door is open, with a timeout of an hour. A
    /// door that opens after the call of `arrive` lets this strand go.
    fn pass(door: &Self::Door, arrive: impl FnOnce() + Send) -> impl Future<Output = ()> + Send;

    fn open(door: &Self::Door);

    /// Spawns a strand that runs before others, if the peer has priorities.
    fn spawn_urgent(body: impl Future<Output = u64> + Send + 'static) -> Self::Handle;

    /// Receives with a timeout of an hour. A fibre that is cancelled gets `None`; a task
    /// that is cancelled is dropped.
    fn receive_within_hour(receiver: &mut Self::Receiver) -> impl Future<Output = Option<u64>> + Send;

    fn cancel(handle: &Self::Handle);

    /// The least that a strand can be: calls `arrive` once and waits until it is dismissed.
    fn bare(arrive: impl Fn() + Send + 'static) -> impl Future<Output = u64> + Send + 'static;

    /// Cancels a strand that runs nothing but [`bare`](Cancelling::bare).
    fn dismiss(handle: &Self::Handle) {
        Self::cancel(handle);
    }

    /// Joins a strand that has been cancelled or dismissed.
    fn join_cancelled(handle: Self::Handle) -> impl Future<Output = ()> + Send;
}

/// The body of an experiment with such peers.
pub trait CancellingBody {
    fn measure<P: Cancelling>(peer: P, case: &Case) -> Reading;
}

/// Returns whether this peer is one of them.
pub fn can(peer: &Contender) -> bool {
    peer.kind == Kind::Inside && ["sinew", "tokio"].contains(&peer.family())
}

/// Returns why this peer cannot do it, if it cannot. Go could, but has no program for it.
pub fn cannot(peer: &Contender) -> Option<&'static str> {
    (!can(peer) && peer.name != go::NAME).then_some("neither that many strands nor cancellation")
}

/// Measures inside of this process.
pub fn measure<B: CancellingBody>(case: &Case) -> Outcome {
    Outcome::Measured(match case.peer.as_str() {
        "tokio" => B::measure(TokioTasks::new(case.processors), case),
        tasks if tasks.starts_with("sinew/tasks") => B::measure(SinewTasks::of(case), case),
        fibres => B::measure(Fibres::new(case.processors, fibres), case),
    })
}

/// A future that keeps nothing but `arrive`. It is polled once, for nothing wakes it.
fn never(arrive: impl Fn() + Send + 'static) -> impl Future<Output = u64> + Send + 'static {
    poll_fn(move |_| {
        arrive();
        Poll::Pending
    })
}

type SinewDoor = (Mutex<bool>, Condvar);

fn open(door: &SinewDoor) {
    *door.0.lock().expect("no poison") = true;
    door.1.notify_all();
}

impl Cancelling for Fibres {
    type Door = SinewDoor;

    fn door() -> SinewDoor {
        SinewDoor::default()
    }

    fn pass(door: &SinewDoor, arrive: impl FnOnce() + Send) -> impl Future<Output = ()> + Send {
        let mut is_open = door.0.lock().expect("no poison");
        arrive();
        while !*is_open {
            is_open = door.1.wait_timeout(is_open, HOUR).expect("no poison").0;
        }
        drop(is_open);
        ready(())
    }

    fn open(door: &SinewDoor) {
        open(door);
    }

    fn spawn_urgent(body: impl Future<Output = u64> + Send + 'static) -> Self::Handle {
        FibreBuilder::new().priority(Priority::High).spawn(move || blocking(body)).expect("a fibre")
    }

    fn receive_within_hour(receiver: &mut Self::Receiver) -> impl Future<Output = Option<u64>> + Send {
        ready(receiver.recv_timeout(HOUR).ok())
    }

    fn cancel(handle: &Self::Handle) {
        handle.fibre().cancel();
    }

    async fn bare(arrive: impl Fn() + Send + 'static) -> u64 {
        arrive();
        // `park` does not notice a cancellation.
        while cancel::check().is_ok() {
            sinew::park();
        }
        0
    }

    fn dismiss(handle: &Self::Handle) {
        handle.fibre().cancel();
        handle.fibre().unpark();
    }

    fn join_cancelled(handle: Self::Handle) -> impl Future<Output = ()> + Send {
        handle.join().expect("a fibre that does not panic");
        ready(())
    }
}

impl Cancelling for SinewTasks {
    type Door = SinewDoor;

    fn door() -> SinewDoor {
        SinewDoor::default()
    }

    async fn pass(door: &SinewDoor, arrive: impl FnOnce() + Send) {
        let wait = async {
            let is_open = door.0.lock_async().await.expect("no poison");
            arrive();
            drop(door.1.wait_while_async(is_open, |is_open| !*is_open).await.expect("no poison"));
        };
        time::timeout_async(HOUR, wait).await.expect("not after an hour");
    }

    fn open(door: &SinewDoor) {
        open(door);
    }

    fn spawn_urgent(body: impl Future<Output = u64> + Send + 'static) -> Self::Handle {
        task::TaskBuilder::new().priority(Priority::High).spawn(body).expect("a task")
    }

    async fn receive_within_hour(receiver: &mut Self::Receiver) -> Option<u64> {
        time::timeout_async(HOUR, receiver.recv_async()).await.ok()?.ok()
    }

    fn cancel(handle: &Self::Handle) {
        handle.abort();
    }

    fn bare(arrive: impl Fn() + Send + 'static) -> impl Future<Output = u64> + Send + 'static {
        never(arrive)
    }

    async fn join_cancelled(handle: Self::Handle) {
        assert!(handle.await.is_err_and(|error| error.is_aborted()), "aborted");
    }
}

impl Cancelling for TokioTasks {
    type Door = Arc<Notify>;

    fn door() -> Arc<Notify> {
        Arc::new(Notify::new())
    }

    async fn pass(door: &Arc<Notify>, arrive: impl FnOnce() + Send) {
        // Made first, so that `notify_waiters` reaches it in any case.
        let opened = door.notified();
        arrive();
        tokio::time::timeout(HOUR, opened).await.expect("not after an hour");
    }

    fn open(door: &Arc<Notify>) {
        door.notify_waiters();
    }

    fn spawn_urgent(body: impl Future<Output = u64> + Send + 'static) -> Self::Handle {
        tokio::spawn(body)
    }

    async fn receive_within_hour(receiver: &mut Self::Receiver) -> Option<u64> {
        tokio::time::timeout(HOUR, receiver.recv()).await.ok().flatten()
    }

    fn cancel(handle: &Self::Handle) {
        handle.abort();
    }

    fn bare(arrive: impl Fn() + Send + 'static) -> impl Future<Output = u64> + Send + 'static {
        never(arrive)
    }

    async fn join_cancelled(handle: Self::Handle) {
        assert!(handle.await.is_err_and(|error| error.is_cancelled()), "aborted");
    }
}
