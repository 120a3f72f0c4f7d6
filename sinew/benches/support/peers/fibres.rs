//! Sinew, with fibres that migrate.

use sinew::sched::{Fair, Inverted, Shared};

use super::Stackful;
use crate::support::case::Scheduler;

pub struct Fibres(sinew::Runtime);

impl Fibres {
    #[allow(unsafe_code)]
    pub fn new(processors: usize, scheduler: Scheduler) -> Fibres {
        let builder = sinew::Runtime::builder().processors(processors);
        let builder = match scheduler {
            Scheduler::Fair => builder.scheduler(Fair::default()),
            Scheduler::Inverted => builder.scheduler(Inverted::default()),
            Scheduler::Shared => builder.scheduler(Shared::default()),
        };
        // SAFETY: no fibre of these benchmarks keeps anything that belongs to a
        // kernel thread across a suspension. The only thread-local variable,
        // that of `window::ran_last`, is read and written inside one call that
        // is never inlined and returns a plain number.
        let runtime = unsafe { builder.migrating() }.build();
        Fibres(runtime.expect("a runtime"))
    }
}

impl Stackful for Fibres {
    type Handle = sinew::JoinHandle<u64>;
    type Unparker = sinew::Fibre;

    fn run<R: Send + 'static>(self, root: impl FnOnce() -> R + Send + 'static) -> R {
        self.0.run(root)
    }

    #[inline(always)]
    fn spawn(body: impl FnOnce() -> u64 + Send + 'static) -> Self::Handle {
        sinew::spawn(body)
    }

    #[inline(always)]
    fn join(handle: Self::Handle) -> u64 {
        handle.join().expect("a fibre that does not panic")
    }

    fn unparker(handle: &Self::Handle) -> Self::Unparker {
        handle.fibre().clone()
    }

    fn current() -> Self::Unparker {
        sinew::current()
    }

    #[inline(always)]
    fn unpark(unparker: &Self::Unparker) {
        unparker.unpark();
    }

    #[inline(always)]
    fn park() {
        sinew::park();
    }

    #[inline(always)]
    fn yield_now() {
        sinew::yield_now();
    }
}
