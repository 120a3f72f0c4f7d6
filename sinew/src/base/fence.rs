//! A fence with a cheap side and a dear side.
//!
//! Two threads that each publish something and then look for what the other
//! published both need a full fence between the two steps. Where one side runs
//! millions of times as often as the other, that side may leave its fence out
//! if the rare side asks the kernel to run one on every CPU of the process:
//! `membarrier(2)`. [`light`] is then only a barrier to the compiler.
//!
//! Where the kernel refuses, both sides are an ordinary full fence.
#![allow(unsafe_code)]

use super::atomic::{SeqCst, fence};

/// Whether this process has registered for expedited barriers.
#[cfg(not(sinew_loom))]
static ASYMMETRIC: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

#[cfg(not(sinew_loom))]
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;
#[cfg(not(sinew_loom))]
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;

/// Registers the process with the kernel. To be called before the first
/// processor starts: a thread that went through [`light`] earlier than that
/// executed a full fence, which is the stronger thing.
#[cfg(not(sinew_loom))]
pub(crate) fn register() {
    use super::fallback::{Facility, denied};
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        if !denied(Facility::Membarrier) && membarrier(REGISTER_PRIVATE_EXPEDITED) {
            ASYMMETRIC.store(true, SeqCst);
        }
    });
}

#[cfg(not(sinew_loom))]
fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: membarrier reads and writes no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// The side that runs often. Pairs with [`heavy`].
#[cfg(not(sinew_loom))]
#[inline(always)]
pub(crate) fn light() {
    if ASYMMETRIC.load(std::sync::atomic::Ordering::Relaxed) {
        std::sync::atomic::compiler_fence(SeqCst);
    } else {
        fence(SeqCst);
    }
}

/// The side that runs seldom. Pairs with [`light`].
#[cfg(not(sinew_loom))]
#[cold]
pub(crate) fn heavy() {
    fence(SeqCst);
    if ASYMMETRIC.load(std::sync::atomic::Ordering::Relaxed) && !membarrier(PRIVATE_EXPEDITED) {
        super::fatal("the kernel took back membarrier(2) after it had granted it");
    }
}

/// In a model both sides are what the fallback is: a full fence.
#[cfg(sinew_loom)]
pub(crate) fn light() {
    fence(SeqCst);
}

/// See [`light`].
#[cfg(sinew_loom)]
pub(crate) fn heavy() {
    fence(SeqCst);
}

#[cfg(sinew_loom)]
pub(crate) fn register() {}
