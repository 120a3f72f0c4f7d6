//! `may`: stackful coroutines. Its workers are one set for the whole process.

use may::coroutine::{self, Coroutine, JoinHandle};

use super::Stackful;

pub struct Coroutines(());

impl Coroutines {
    pub fn new(processors: usize) -> Coroutines {
        may::config().set_workers(processors);
        Coroutines(())
    }
}

#[allow(unsafe_code)]
fn spawn<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
    // SAFETY: may asks that a coroutine keep no thread-local variable across a
    // suspension and not outgrow its stack. The bodies here are a few frames
    // deep, and `window::ran_last` is the only thread-local they touch, inside
    // one call that is never inlined.
    unsafe { coroutine::spawn(body) }
}

impl Stackful for Coroutines {
    type Handle = JoinHandle<u64>;
    type Unparker = Coroutine;

    fn run<R: Send + 'static>(self, root: impl FnOnce() -> R + Send + 'static) -> R {
        spawn(root).join().expect("a root that does not panic")
    }

    fn spawn(body: impl FnOnce() -> u64 + Send + 'static) -> Self::Handle {
        spawn(body)
    }

    fn join(handle: Self::Handle) -> u64 {
        handle.join().expect("a coroutine that does not panic")
    }

    fn unparker(handle: &Self::Handle) -> Self::Unparker {
        handle.coroutine().clone()
    }

    fn current() -> Self::Unparker {
        coroutine::current()
    }

    fn unpark(unparker: &Self::Unparker) {
        unparker.unpark();
    }

    fn park() {
        coroutine::park();
    }

    fn yield_now() {
        coroutine::yield_now();
    }
}
