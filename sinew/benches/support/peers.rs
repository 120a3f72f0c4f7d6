//! The contenders behind two shapes: runtimes whose strands have stacks, which
//! all run the very same code, and Tokio, whose tasks need their own.

pub mod coroutines;
pub mod fibres;
pub mod kernel;
pub mod tasks;

use super::case::{Case, Contender};
use super::child::Reading;

use coroutines::Coroutines;
use fibres::Fibres;
use kernel::KernelThreads;
pub use tasks::run_task;

/// A runtime whose strands have stacks and block by parking.
///
/// Every strand returns a number, so that a join has something to deliver.
pub trait Stackful: Sized + 'static {
    /// Joins one strand.
    type Handle: Send + 'static;
    /// Unparks one strand.
    type Unparker: Clone + Send + Sync + 'static;

    /// Runs `root` as a strand; the calling kernel thread blocks meanwhile.
    fn run<R: Send + 'static>(self, root: impl FnOnce() -> R + Send + 'static) -> R;

    /// Called from a strand.
    fn spawn(body: impl FnOnce() -> u64 + Send + 'static) -> Self::Handle;

    fn join(handle: Self::Handle) -> u64;

    fn unparker(handle: &Self::Handle) -> Self::Unparker;

    /// The calling strand's own.
    fn current() -> Self::Unparker;

    fn unpark(unparker: &Self::Unparker);

    /// Waits for an unpark; one that came first is remembered. May return for
    /// no reason.
    fn park();

    fn yield_now();

    /// Whether several strands share a kernel thread.
    const MULTIPLEXED: bool = true;
}

/// What a child does.
pub trait Experiment {
    fn stackful<P: Stackful>(runtime: P, case: &Case) -> Reading;

    fn tokio(case: &Case) -> Reading;
}

pub fn measure<E: Experiment>(case: &Case) -> Reading {
    match case.contender {
        Contender::Sinew(scheduler) => E::stackful(Fibres::new(case.processors, scheduler), case),
        Contender::May => E::stackful(Coroutines::new(case.processors), case),
        Contender::Threads => E::stackful(KernelThreads, case),
        Contender::Tokio => E::tokio(case),
        Contender::Epoll => unreachable!("it has no strands"),
    }
}
