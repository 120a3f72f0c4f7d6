//! `RwLock`, with std's signatures and poisoning.
#![allow(unsafe_code)]

use super::poison::{Poison, fmt_lock, guard_if};
use super::raw_rwlock::RawRwLock;
use crate::base::Deadline;
use crate::base::atomic::const_fn;
use crate::wait::Limit;
use crate::wait::budget;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{LockResult, TryLockResult};
use std::time::{Duration, Instant};

/// A lock for many readers or one writer: `std::sync::RwLock` for fibres, and kernel
/// threads too.
///
/// First come first served: readers that come after a waiting writer wait behind it, and
/// readers that are next to each other in the queue go on together. So a fibre that reads,
/// and reads again while a writer waits, waits for itself, as with std's.
pub struct RwLock<T: ?Sized> {
    raw: RawRwLock,
    poison: Poison,
    value: UnsafeCell<T>,
}

// SAFETY: the lock lets several readers or one writer at a time reach the value.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: as above; readers share the value.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T: ?Sized> UnwindSafe for RwLock<T> {}
impl<T: ?Sized> RefUnwindSafe for RwLock<T> {}

/// The right to read the value of a [`RwLock`]. Unlocks when it is dropped.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    /// `Send` and `Sync` only as said below.
    marker: PhantomData<*const ()>,
}

/// The right to change the value of a [`RwLock`]. Unlocks when it is dropped.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    was_panicking: bool,
    /// `Send` and `Sync` only as said below.
    marker: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives shared access to the value.
unsafe impl<T: ?Sized + Sync> Sync for RwLockReadGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}
// SAFETY: a read guard is a shared reference, and may unlock on any thread. Unlike std's
// guards: a task keeps its guards when it goes on elsewhere.
unsafe impl<T: ?Sized + Sync> Send for RwLockReadGuard<'_, T> {}
// SAFETY: as above; a write guard may change the value, and may become a read guard.
unsafe impl<T: ?Sized + Send + Sync> Send for RwLockWriteGuard<'_, T> {}

impl<T> RwLock<T> {
    const_fn! {
        /// Makes a lock that is not locked.
        pub fn new(value: T) -> RwLock<T> {
            RwLock { raw: RawRwLock::new(), poison: Poison::new(), value: UnsafeCell::new(value) }
        }
    }

    /// Returns the value.
    ///
    /// # Errors
    /// If the lock is poisoned; the value is in the error.
    pub fn into_inner(self) -> LockResult<T> {
        self.poison.check(self.value.into_inner())
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until the caller may read.
    ///
    /// # Errors
    /// If a writer panicked while it had the lock; the guard is in the error.
    #[inline]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        budget::spend(budget::LOCK);
        self.raw.read(Limit::NONE);
        self.reading()
    }

    /// Waits until the caller may write.
    ///
    /// # Errors
    /// As [`read`](RwLock::read).
    #[inline]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        budget::spend(budget::LOCK);
        self.raw.write(Limit::NONE);
        self.writing()
    }

    /// As [`read`](RwLock::read), for tasks. A future that is dropped before its end has not
    /// taken the lock.
    ///
    /// # Errors
    /// As `read`.
    pub async fn read_async(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        self.raw.read_async().await;
        self.reading()
    }

    /// As [`write`](RwLock::write), for tasks. A future that is dropped before its end has not
    /// taken the lock.
    ///
    /// # Errors
    /// As `write`.
    pub async fn write_async(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        self.raw.write_async().await;
        self.writing()
    }

    /// Takes the lock to read, if no writer has it and nobody waits for it.
    ///
    /// # Errors
    /// `WouldBlock` if that needs waiting; else as [`read`](RwLock::read).
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        guard_if(self.raw.try_read(), || self.reading())
    }

    /// Takes the lock to write, if nobody has it.
    ///
    /// # Errors
    /// `WouldBlock` if that needs waiting; else as [`write`](RwLock::write).
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        guard_if(self.raw.try_write(), || self.writing())
    }

    /// As [`read`](RwLock::read), but waits for no longer than `timeout`.
    ///
    /// # Errors
    /// `WouldBlock` if the time was up; else as `read`.
    pub fn read_timeout(&self, timeout: Duration) -> TryLockResult<RwLockReadGuard<'_, T>> {
        self.read_until(Deadline::after(timeout))
    }

    /// As [`read`](RwLock::read), but waits only until `deadline`.
    ///
    /// # Errors
    /// As [`read_timeout`](RwLock::read_timeout).
    pub fn read_deadline(&self, deadline: Instant) -> TryLockResult<RwLockReadGuard<'_, T>> {
        self.read_until(Deadline::at(deadline))
    }

    /// As [`write`](RwLock::write), but waits for no longer than `timeout`.
    ///
    /// # Errors
    /// `WouldBlock` if the time was up; else as `write`.
    pub fn write_timeout(&self, timeout: Duration) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        self.write_until(Deadline::after(timeout))
    }

    /// As [`write`](RwLock::write), but waits only until `deadline`.
    ///
    /// # Errors
    /// As [`write_timeout`](RwLock::write_timeout).
    pub fn write_deadline(&self, deadline: Instant) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        self.write_until(Deadline::at(deadline))
    }

    /// As [`read`](RwLock::read), but notices [cancellation](crate::cancel).
    ///
    /// # Errors
    /// `WouldBlock` if the caller would have to wait and is cancelled, or a deadline that it
    /// carries has passed; else as `read`.
    pub fn read_cancellable(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        guard_if(self.take_to_read(Limit::CARRIED), || self.reading())
    }

    /// As [`write`](RwLock::write), but notices [cancellation](crate::cancel).
    ///
    /// # Errors
    /// As [`read_cancellable`](RwLock::read_cancellable).
    pub fn write_cancellable(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        guard_if(self.take_to_write(Limit::CARRIED), || self.writing())
    }

    fn read_until(&self, deadline: Deadline) -> TryLockResult<RwLockReadGuard<'_, T>> {
        guard_if(self.take_to_read(Limit::until(deadline)), || self.reading())
    }

    fn write_until(&self, deadline: Deadline) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        guard_if(self.take_to_write(Limit::until(deadline)), || self.writing())
    }

    /// Waits until the caller may read, within `limit`. Returns whether it may.
    pub(super) fn take_to_read(&self, limit: Limit) -> bool {
        budget::spend(budget::LOCK);
        self.raw.read(limit)
    }

    /// Waits until the caller may write, within `limit`. Returns whether it may.
    pub(super) fn take_to_write(&self, limit: Limit) -> bool {
        budget::spend(budget::LOCK);
        self.raw.write(limit)
    }

    pub(super) fn raw(&self) -> &RawRwLock {
        &self.raw
    }

    pub(super) fn poison(&self) -> &Poison {
        &self.poison
    }

    /// Returns where the value is, for an owned guard.
    pub(super) fn value(&self) -> *mut T {
        self.value.get()
    }

    /// Makes the guard. The caller has the lock to read.
    #[inline]
    fn reading(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        self.poison.check(RwLockReadGuard { lock: self, marker: PhantomData })
    }

    /// Makes the guard. The caller has the lock to write.
    #[inline]
    fn writing(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let was_panicking = std::thread::panicking();
        self.poison.check(RwLockWriteGuard { lock: self, was_panicking, marker: PhantomData })
    }

    /// Returns whether a writer panicked while it had the lock.
    pub fn is_poisoned(&self) -> bool {
        self.poison.get()
    }

    /// Declares the value to be in order again.
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    /// Returns the value without locking: there is no other reference.
    ///
    /// # Errors
    /// If the lock is poisoned; the reference is in the error.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.poison.check(self.value.get_mut())
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Makes the writer a reader. No other writer gets the lock in between.
    pub fn downgrade(guard: Self) -> RwLockReadGuard<'a, T> {
        let guard = ManuallyDrop::new(guard);
        guard.lock.poison.note(guard.was_panicking);
        guard.lock.raw.downgrade();
        RwLockReadGuard { lock: guard.lock, marker: PhantomData }
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists only while we may read.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists only while the lock is ours alone.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.unlock_read();
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.poison.note(self.was_panicking);
        self.lock.raw.unlock_write();
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        RwLock::new(value)
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        RwLock::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_lock("RwLock", self.try_read(), &self.poison, f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
