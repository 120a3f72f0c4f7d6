//! A lock for a few instructions: for queues that one processor uses all the time and others seldom.
//!
//! Uncontended, it costs one exchange (2.5 ns, measured on a Zen 3 EPYC), against two for a `std` mutex.
//! A processor that finds it taken can go elsewhere. A holder never runs code of the program. So the lock
//! is held long only if the kernel takes the CPU away from its holder. A waiter then gives its own CPU to
//! the kernel, after a bounded spin.
#![allow(unsafe_code)]

use super::atomic::{Acquire, Flag as AtomicBool, Relaxed, Release, spin_loop};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
#[cfg(not(sinew_loom))]
use std::time::Duration;

/// The number of looks after which a waiter lets the kernel run another thread. They take several times
/// as long as the longest hold, which walks 64 strands.
const SPINS_BEFORE_YIELD: u32 = 2_000;

/// The length of a [`nap`]. The kernel adds 50 µs by default. A thread that has lost its CPU has lost it for
/// milliseconds. With 50 µs, the turns of yielding fibres on a busy machine differ as much as with 100 µs.
#[cfg(not(sinew_loom))]
const NAP: Duration = Duration::from_micros(100);

/// Laid out in this order, so that the first field of the value is on the cache line of the lock.
#[repr(C)]
pub(crate) struct SpinLock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `held` lets one thread at a time reach `value`. So sharing the lock passes the value from
// thread to thread, which `T: Send` permits.
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

    /// Locks the value, unless another thread holds it. For callers that leave that case to a function
    /// of its own: a call in the midst of a short function makes it save registers all the time.
    #[inline(always)]
    pub(crate) fn lock_at_once(&self) -> Option<SpinGuard<'_, T>> {
        // Acquire as in `lock`.
        if self.held.swap(true, Acquire) { None } else { Some(SpinGuard { lock: self }) }
    }

    /// Locks the value, unless another thread holds it. For callers that can go elsewhere.
    pub(crate) fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
        // Acquire as in `lock`. The load before it keeps a crowd of processors from taking the cache
        // line away from the owner.
        let taken = self.held.load(Relaxed) || self.held.swap(true, Acquire);
        if taken { None } else { Some(SpinGuard { lock: self }) }
    }

    /// Says whether a thread holds the lock at this moment.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Relaxed)
    }
}

/// Leaves this thread's CPU to others for a moment, among them perhaps the holder of a lock that has lost its
/// own CPU. A yield would not do: the kernel may let this thread go on at once, and does not move the holder
/// to this CPU.
#[cfg(not(sinew_loom))]
pub(crate) fn nap() {
    std::thread::sleep(NAP);
}

#[cfg(sinew_loom)]
pub(crate) fn nap() {
    spin_loop();
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
