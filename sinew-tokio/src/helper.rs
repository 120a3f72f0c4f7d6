//! The helper: a Tokio runtime whose one thread waits for the kernel.

use std::sync::LazyLock;
use tokio::runtime::{Builder, Handle, Runtime};

/// The helper. Its threads end with the process.
///
/// The multi-thread flavour, because `block_in_place` panics in the other one, and because it needs
/// no thread of ours to drive it. One thread, because the wrapped futures run on Sinew.
static HELPER: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("sinew-tokio")
        .enable_all()
        .build()
        .expect("the helper runtime cannot be started")
});

/// Returns a handle to the helper runtime. Starts the helper at the first call.
///
/// ```
/// sinew::run(|| {
///     // Runs on the helper's own thread.
///     let answer = sinew_tokio::handle().spawn(async { 42 });
///     assert_eq!(sinew::block_on(answer).unwrap(), 42);
/// });
/// ```
///
/// # Panics
/// If the kernel has no thread or no descriptors for the helper.
#[must_use]
pub fn handle() -> &'static Handle {
    HELPER.handle()
}

/// Calls `f` in the context of the helper runtime: for constructors that look for a runtime.
///
/// `f` may not make its fibre wait.
///
/// ```
/// sinew::run(|| {
///     let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
///     socket.set_nonblocking(true).unwrap();
///     let socket = sinew_tokio::enter(|| tokio::net::UdpSocket::from_std(socket)).unwrap();
///     assert!(socket.local_addr().unwrap().port() > 0);
/// });
/// ```
///
/// # Panics
/// If `f` does, and as [`handle`] does.
pub fn enter<T>(f: impl FnOnce() -> T) -> T {
    enter_on(handle(), f)
}

/// Calls `f` in the context of this runtime.
///
/// Never inlined: the context is thread-local, and the compiler may keep the address of a
/// thread-local while a caller such as `block_on` waits and wakes up on another kernel thread.
#[inline(never)]
pub(crate) fn enter_on<T>(handle: &Handle, f: impl FnOnce() -> T) -> T {
    let _context = handle.enter();
    f()
}
