//! How a kernel thread that runs no fibre waits.

use crate::base::Deadline;
use crate::base::atomic::{Acquire, AtomicU32, Release};

/// A word on the stack of a kernel thread, which the thread sleeps on. Aligned so that there is room
/// for a party's tag.
#[repr(align(8))]
pub(super) struct Parker(pub(super) AtomicU32);

pub(super) const SILENT: u32 = 0;
const RUNG: u32 = 1;

impl Parker {
    pub(super) fn new() -> Self {
        Parker(AtomicU32::new(SILENT))
    }

    /// Wakes the thread that sleeps on the word of a parker.
    pub(super) fn ring(word: &AtomicU32) {
        let key = std::ptr::from_ref(word);
        // Release pairs with the Acquire in `wait`. The word may be gone after this. The kernel uses
        // only its address, as a key: a thread that by now sleeps on another word at this address
        // looks at it again when it is woken.
        word.store(RUNG, Release);
        kernel_wake(key);
    }

    /// Sleeps until it has been rung, or until `deadline`. Returns whether it has been rung.
    pub(super) fn wait(&self, deadline: Deadline) -> bool {
        // Acquire pairs with the Release in `ring`.
        while self.0.load(Acquire) == SILENT {
            if deadline.is_past() {
                return false;
            }
            kernel_wait(&self.0, deadline);
        }
        true
    }
}

#[cfg(not(sinew_loom))]
fn kernel_wake(word: *const AtomicU32) {
    crate::base::kernel::futex_wake(word);
}

#[cfg(not(sinew_loom))]
fn kernel_wait(word: &AtomicU32, deadline: Deadline) {
    crate::base::kernel::futex_wait(word, SILENT, (!deadline.is_never()).then(|| deadline.remaining()));
}

#[cfg(sinew_loom)]
fn kernel_wake(_word: *const AtomicU32) {}

#[cfg(sinew_loom)]
fn kernel_wait(_word: &AtomicU32, _deadline: Deadline) {
    loom::thread::yield_now();
}
