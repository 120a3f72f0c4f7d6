//! A lock for a few instructions: queues that one processor uses all the time
//! and others seldom.
//!
//! Uncontended it costs one exchange (2.5 ns measured on an EPYC of the Zen 3
//! kind) against two for a `std` mutex, and a helper that finds it taken can
//! go elsewhere. A holder never runs code of a user's, so it is held long only
//! when the kernel takes the CPU away from the holder; a waiter then gives its
//! own CPU to the kernel after a bounded spin.
#![allow(unsafe_code)]

use super::atomic::{Acquire, Flag as AtomicBool, Relaxed, Release, spin_loop};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

/// How often a waiter looks before it lets the kernel run somebody else:
/// several times as long as the longest hold, which walks 64 strands.
const SPINS_BEFORE_YIELD: u32 = 2_000;

/// Laid out in this order: what its users put first is on the lock's line.
#[repr(C)]
pub(crate) struct SpinLock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `held` lets one thread at a time reach `value`, so sharing the lock
// hands the value from thread to thread, which `T: Send` permits.
unsafe impl<T: Send> Sync for SpinLock<T> {}
// SAFETY: moving the lock moves the value.
unsafe impl<T: Send> Send for SpinLock<T> {}

/// The right to use the value. Released on drop.
pub(crate) struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
}

impl<T> SpinLock<T> {
    super::atomic::const_fn! {
        pub(crate) fn new(value: T) -> Self {
            SpinLock { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> SpinGuard<'_, T> {
        // Acquire pairs with the Release in `SpinGuard::drop`.
        if self.held.swap(true, Acquire) {
            self.lock_slow();
        }
        SpinGuard { lock: self }
    }

    #[cold]
    fn lock_slow(&self) {
        let mut spins = 0;
        loop {
            while self.held.load(Relaxed) {
                spins += 1;
                if spins % SPINS_BEFORE_YIELD == 0 {
                    std::thread::yield_now();
                }
                spin_loop();
            }
            // Acquire as in `lock`.
            if !self.held.swap(true, Acquire) {
                return;
            }
        }
    }

    /// The value, unless somebody else holds it. For callers that leave that case
    /// to a function of its own: a call in the midst of a short one makes it save
    /// registers all the time.
    #[inline(always)]
    pub(crate) fn lock_at_once(&self) -> Option<SpinGuard<'_, T>> {
        // Acquire as in `lock`.
        if self.held.swap(true, Acquire) { None } else { Some(SpinGuard { lock: self }) }
    }

    /// The value if nobody holds it at this moment, for those who are in no hurry.
    pub(crate) fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
        // Acquire as in `lock`. The look beforehand keeps a crowd of helpers
        // from taking the line away from its owner.
        let taken = self.held.load(Relaxed) || self.held.swap(true, Acquire);
        if taken { None } else { Some(SpinGuard { lock: self }) }
    }
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard exists only while `held` is ours.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard exists only while `held` is ours, and is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Pairs with the Acquire in `lock`.
        self.lock.held.store(false, Release);
    }
}
