//! Kernel threads. How many run at once is what the child is pinned to.

use std::thread::{self, Builder, JoinHandle, Thread};

use super::Stackful;

const STACK_BYTES: usize = 64 * 1024;

pub struct KernelThreads;

fn spawn<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
    Builder::new().stack_size(STACK_BYTES).spawn(body).expect("a kernel thread")
}

impl Stackful for KernelThreads {
    type Handle = JoinHandle<u64>;
    type Unparker = Thread;

    fn run<R: Send + 'static>(self, root: impl FnOnce() -> R + Send + 'static) -> R {
        spawn(root).join().expect("a root that does not panic")
    }

    fn spawn(body: impl FnOnce() -> u64 + Send + 'static) -> Self::Handle {
        spawn(body)
    }

    fn join(handle: Self::Handle) -> u64 {
        handle.join().expect("a thread that does not panic")
    }

    fn unparker(handle: &Self::Handle) -> Self::Unparker {
        handle.thread().clone()
    }

    fn current() -> Self::Unparker {
        thread::current()
    }

    fn unpark(unparker: &Self::Unparker) {
        unparker.unpark();
    }

    fn park() {
        thread::park();
    }

    fn yield_now() {
        thread::yield_now();
    }

    const MULTIPLEXED: bool = false;
}
