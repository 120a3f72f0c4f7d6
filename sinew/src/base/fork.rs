//! What becomes of the runtime in a forked child: nothing.
//!
//! A child has one kernel thread, the one that forked, and copies of all memory. No
//! processor runs there, so nothing that is waited for ever comes; and the copies lead to
//! kernel objects that it shares with its parent: an epoll instance gives each event
//! once, and one that a child takes is lost to the parent. So a child may exec or exit. If
//! it asks for more it is told so and aborts, before it touches anything that its parent
//! would notice.
//!
//! How a child finds out, without a look on any path that is taken often:
//!
//! 1. The C library calls [`in_child`] in every child. It sets a flag.
//! 2. If the thread that forked is a processor, `in_child` makes a beat due there. That beat is
//!    the first thing that happens when the strand that forked gives up the processor. It
//!    [checks](check) the flag, so no other strand runs in the child.
//! 3. What reaches kernel objects or locks that others may have held at the fork, or makes a
//!    thread wait, checks as well. All of these are calls of the kernel or about as slow.
//!
//! A child that shares its parent's memory until it execs (`vfork`, `posix_spawn`) is not
//! concerned.
#![allow(unsafe_code)]

use super::kernel;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process was forked from one that had a runtime. Written once, by the only
/// thread that there is then.
static FORKED: AtomicBool = AtomicBool::new(false);

/// What a forked child calls besides: it may only store.
static IN_CHILD: OnceLock<fn()> = OnceLock::new();

/// Lets forked children know that they are children, from the first call on. A child calls
/// `then` as well, which must do nothing but store.
pub(crate) fn watch(then: fn()) {
    IN_CHILD.get_or_init(|| {
        // SAFETY: the function does what one may do in a forked child: it loads and stores. It
        // fails only without memory; then children do not know.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        then
    });
}

unsafe extern "C" fn in_child() {
    FORKED.store(true, Ordering::Relaxed);
    if let Some(then) = IN_CHILD.get() {
        then();
    }
}

/// Ends a forked child, for what the caller is about to do is not for one.
#[inline]
pub(crate) fn check() {
    if FORKED.load(Ordering::Relaxed) {
        refuse();
    }
}

/// Without std's stderr, whose lock another thread may have held.
#[cold]
fn refuse() -> ! {
    kernel::say(&["sinew: fatal: a forked child cannot use the runtime of its parent: it may exec or exit\n"]);
    std::process::abort()
}
