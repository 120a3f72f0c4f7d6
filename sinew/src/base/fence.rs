//! A fence with a cheap side and an expensive side.
//!
//! Two threads each publish something and then look for what the other has published. Both need a full
//! fence between the two steps. If one side runs millions of times as often as the other, it can leave
//! out its fence. The rare side then asks the kernel to run a fence on every CPU of the process, by
//! `membarrier(2)`. [`light`] is then only a barrier to the compiler.
//!
//! If the kernel refuses, both sides are an ordinary full fence.

use super::atomic::{SeqCst, fence};
#[cfg(not(sinew_loom))]
use rustix::thread::{MembarrierCommand, membarrier};

/// Whether this process has registered for expedited barriers.
#[cfg(not(sinew_loom))]
static ASYMMETRIC: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Registers the process with the kernel. To be called before the first processor starts. A thread that
/// called [`light`] before has executed a full fence, which is stronger.
#[cfg(not(sinew_loom))]
pub(crate) fn register() {
    use super::fallback::{Facility, denied};
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let register = MembarrierCommand::RegisterPrivateExpedited;
        if !denied(Facility::Membarrier) && membarrier(register).is_ok() {
            ASYMMETRIC.store(true, SeqCst);
        }
    });
}

/// Is the fence of the side that runs often. Pairs with [`heavy`].
#[cfg(not(sinew_loom))]
#[inline(always)]
pub(crate) fn light() {
    if ASYMMETRIC.load(std::sync::atomic::Ordering::Relaxed) {
        std::sync::atomic::compiler_fence(SeqCst);
    } else {
        fence(SeqCst);
    }
}

/// Is the fence of the side that runs seldom. Pairs with [`light`].
#[cfg(not(sinew_loom))]
#[cold]
pub(crate) fn heavy() {
    fence(SeqCst);
    let is_asymmetric = ASYMMETRIC.load(std::sync::atomic::Ordering::Relaxed);
    if is_asymmetric && membarrier(MembarrierCommand::PrivateExpedited).is_err() {
        super::fatal("the kernel took back membarrier(2) after it had granted it");
    }
}

/// Is a full fence of the calling thread alone. Pairs with itself and with [`heavy`].
pub(crate) fn full() {
    fence(SeqCst);
}

/// Is a full fence in a model, as in the fallback.
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
