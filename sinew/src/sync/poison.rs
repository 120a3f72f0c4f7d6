//! Whether somebody panicked while it had a lock.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{LockResult, PoisonError};

/// Relaxed throughout: the lock orders what its holders write.
pub(super) struct Poison(AtomicBool);

impl Poison {
    pub(super) const fn new() -> Self {
        Poison(AtomicBool::new(false))
    }

    #[inline]
    pub(super) fn get(&self) -> bool {
        self.0.load(Relaxed)
    }

    pub(super) fn clear(&self) {
        self.0.store(false, Relaxed);
    }

    /// By a guard that is dropped: its holder panicked if it panics now and did not
    /// when it took the lock.
    #[inline]
    pub(super) fn note(&self, was_panicking: bool) {
        if !was_panicking && std::thread::panicking() {
            self.0.store(true, Relaxed);
        }
    }

    #[inline]
    pub(super) fn check<G>(&self, guard: G) -> LockResult<G> {
        if self.get() { Err(PoisonError::new(guard)) } else { Ok(guard) }
    }
}
