//! Whether a holder of a lock panicked, and what [`Mutex`](super::Mutex) and
//! [`RwLock`](super::RwLock) say about it.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

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

    /// Poisons the lock if its holder has panicked: it panics now and did not when it took the
    /// lock. By a guard that is dropped.
    #[inline]
    pub(super) fn note(&self, was_panicking: bool) {
        if !was_panicking && std::thread::panicking() {
            self.0.store(true, Relaxed);
        }
    }

    /// Returns `guard`, in an error if the lock is poisoned.
    #[inline]
    pub(super) fn check<G>(&self, guard: G) -> LockResult<G> {
        if self.get() { Err(PoisonError::new(guard)) } else { Ok(guard) }
    }
}

/// Returns the guard if the lock was taken.
#[inline]
pub(super) fn guard_if<G>(is_taken: bool, guard: impl FnOnce() -> LockResult<G>) -> TryLockResult<G> {
    if is_taken { Ok(guard()?) } else { Err(TryLockError::WouldBlock) }
}

/// Prints a lock as std does: its value, or that it is locked.
pub(super) fn fmt_lock<T: ?Sized + fmt::Debug>(
    name: &str,
    tried: TryLockResult<impl Deref<Target = T>>,
    poison: &Poison,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let mut debug = f.debug_struct(name);
    match tried {
        Ok(guard) => debug.field("data", &&*guard),
        Err(TryLockError::Poisoned(error)) => debug.field("data", &&**error.get_ref()),
        Err(TryLockError::WouldBlock) => debug.field("data", &format_args!("<locked>")),
    };
    debug.field("poisoned", &poison.get()).finish_non_exhaustive()
}
