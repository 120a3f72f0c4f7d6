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
//! 2. If the thread that forked is a processor, `in_child` makes a tick due there. The next
//!    thing that the processor does when the strand that forked lets go of it, is that tick,
//!    which [checks](check) the flag: no other strand runs in the child.
//! 3. What reaches kernel objects or locks that others may have held at the fork, or makes a
//!    thread wait, checks as well. All of these are calls of the kernel or about as slow.
//!
//! A child that shares its parent's memory until it execs (`vfork`, `posix_spawn`) is not
//! concerned.
#![allow(unsafe_code)]

use super::kernel;
use crate::processor;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process was forked from one that had a runtime. Written once, by the only
/// thread that there is then.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Lets forked children know what they are, from the first call on.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function does what one may do in a forked child: it stores.
        // It fails only without memory; then children do not know.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

unsafe extern "C" fn in_child() {
    FORKED.store(true, Ordering::Relaxed);
    processor::with_current(|processor| processor.into_iter().for_each(|processor| processor.beat_next()));
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
