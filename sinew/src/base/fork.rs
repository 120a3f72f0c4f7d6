//! Keeps a forked child from using the runtime of its parent.
//!
//! A child has one kernel thread, the one that forked, and copies of all memory. No other processor
//! runs there, so a wait would never end. The copies lead to kernel objects that the child shares with
//! its parent: an epoll instance reports each event once, and an event that a child takes is lost to
//! the parent. So a child may exec or exit. If it asks for more, it prints a line and aborts, before it
//! touches anything that its parent would notice.
//!
//! A child finds out as follows, without a check on any path that is taken often:
//!
//! 1. The C library calls [`in_child`] in every child. That sets a flag.
//! 2. If the thread that forked is a processor, `in_child` makes a beat due there. That beat comes first
//!    when the strand that forked gives up the processor. It [checks](check) the flag, so no other
//!    strand runs in the child.
//! 3. Functions that reach kernel objects, take locks that other threads may have held at the fork, or
//!    make a thread wait check the flag as well. All of these call the kernel or are about as slow.
//!
//! A child that shares its parent's memory until it execs (`vfork`, `posix_spawn`) is not concerned.

use super::kernel;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process was forked from one that had a runtime. Written once, by the only thread of the
/// child.
static FORKED: AtomicBool = AtomicBool::new(false);

/// What a forked child calls as well. It may only store.
static IN_CHILD: OnceLock<fn()> = OnceLock::new();

/// Makes forked children set the flag, from the first call on. A child calls `then` as well, which must
/// only store.
pub(crate) fn watch(then: fn()) {
    IN_CHILD.get_or_init(|| {
        kernel::call_in_forked_children(in_child);
        then
    });
}

/// Only loads and stores.
extern "C" fn in_child() {
    FORKED.store(true, Ordering::Relaxed);
    if let Some(then) = IN_CHILD.get() {
        then();
    }
}

/// Ends the process if it is a forked child, which may not do what the caller is about to do.
#[inline]
pub(crate) fn check() {
    if FORKED.load(Ordering::Relaxed) {
        refuse();
    }
}

/// Ends a forked child. Does not use std's stderr, whose lock another thread may have held.
#[cold]
fn refuse() -> ! {
    kernel::say(&["sinew: fatal: a forked child cannot use the runtime of its parent: it may exec or exit\n"]);
    std::process::abort()
}
