//! What strands with stacks share and wait for, as every such contender has it.

mod coroutines;
mod fibres;
mod kernel;

use std::time::Duration;

use crate::support::case::{Case, Contender};
use crate::support::child::Reading;
use crate::support::peers::Stackful;
use crate::support::peers::coroutines::Coroutines;
use crate::support::peers::fibres::Fibres;
use crate::support::peers::kernel::KernelThreads;

/// A runtime whose strands block in locks, semaphores, channels and time.
pub trait Blocking: Stackful {
    type Lock: Send + Sync + 'static;
    type Semaphore: Send + Sync + 'static;
    /// Of an unbounded channel.
    type Sender: Send + 'static;
    type Receiver: Send + 'static;

    /// A lock of that policy, where the contender has several.
    fn lock(policy: &str) -> Self::Lock;

    /// Calls `f` while the lock is the caller's.
    fn locked(lock: &Self::Lock, f: impl FnOnce());

    fn semaphore() -> Self::Semaphore;

    /// V, that many times.
    fn post(semaphore: &Self::Semaphore, permits: usize);

    /// P.
    fn wait(semaphore: &Self::Semaphore);

    /// P, if that does not block.
    fn try_wait(semaphore: &Self::Semaphore) -> bool;

    fn channel() -> (Self::Sender, Self::Receiver);

    /// The receiver is there.
    fn send(sender: &Self::Sender, message: u64);

    /// `None` when the sender is gone.
    fn receive(receiver: &Self::Receiver) -> Option<u64>;

    /// `None` when there is no message.
    fn try_receive(receiver: &Self::Receiver) -> Option<u64>;

    fn sleep(duration: Duration);
}

/// What a child does.
pub trait Experiment {
    fn blocking<P: Blocking>(runtime: P, case: &Case) -> Reading;

    fn tokio(case: &Case) -> Reading;
}

pub fn measure<E: Experiment>(case: &Case) -> Reading {
    match case.contender {
        Contender::Sinew(scheduler) => E::blocking(Fibres::new(case.processors, scheduler), case),
        Contender::May => E::blocking(Coroutines::new(case.processors), case),
        Contender::Threads => E::blocking(KernelThreads, case),
        Contender::Tokio => E::tokio(case),
        Contender::Epoll => unreachable!("it has no strands"),
    }
}
