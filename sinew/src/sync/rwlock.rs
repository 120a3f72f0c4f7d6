//! `RwLock`, with std's signatures and poisoning.
#![allow(unsafe_code)]

use super::poison::Poison;
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
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::{Duration, Instant};

/// A lock for many readers or one writer: `std::sync::RwLock` for fibres, and kernel
/// threads too.
///
/// First come first served: readers that come after a waiting writer wait behind it,
/// and those that wait side by side go on together. So a fibre that reads, and reads
/// again while a writer waits, waits for itself, as with std's.
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

/// The right to read what a [`RwLock`] guards.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    /// Neither `Send` nor `Sync` but as said below.
    marker: PhantomData<*const ()>,
}

/// The right to change what a [`RwLock`] guards.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    was_panicking: bool,
    /// Neither `Send` nor `Sync` but as said below.
    marker: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives shared access to the value.
unsafe impl<T: ?Sized + Sync> Sync for RwLockReadGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}
// SAFETY: a guard to read is a shared reference, and may be given back from anywhere. Unlike
// std's, for a task keeps its guards when it goes on elsewhere.
unsafe impl<T: ?Sized + Sync> Send for RwLockReadGuard<'_, T> {}
// SAFETY: as above; a guard to write may change the value, and may become one to read.
unsafe impl<T: ?Sized + Send + Sync> Send for RwLockWriteGuard<'_, T> {}

impl<T> RwLock<T> {
    const_fn! {
        /// A lock that nobody has.
        pub fn new(value: T) -> RwLock<T> {
            RwLock { raw: RawRwLock::new(), poison: Poison::new(), value: UnsafeCell::new(value) }
        }
    }

    /// The value, of which this was the only owner.
    ///
    /// # Errors
    /// If the lock is poisoned; the value is in the error.
    pub fn into_inner(self) -> LockResult<T> {
        let value = self.value.into_inner();
        self.poison.check(value)
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until it may read.
    ///
    /// # Errors
    /// If a writer panicked while it had the lock; the guard is in the error.
    #[inline]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        budget::spend(budget::LOCK);
        self.raw.read(Limit::NONE);
        self.reading()
    }

    /// Waits until it may write.
    ///
    /// # Errors
    /// As [`read`](RwLock::read).
    #[inline]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        budget::spend(budget::LOCK);
        self.raw.write(Limit::NONE);
        self.writing()
    }

    /// As [`read`](RwLock::read), for tasks. Dropped before its end, it has no lock.
    ///
    /// # Errors
    /// As `read`.
    pub async fn read_async(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        self.raw.read_async().await;
        self.reading()
    }

    /// As [`write`](RwLock::write), for tasks. Dropped before its end, it has no lock.
    ///
    /// # Errors
    /// As `write`.
    pub async fn write_async(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        self.raw.write_async().await;
        self.writing()
    }

    /// Reads if nobody writes or waits to.
    ///
    /// # Errors
    /// If somebody does, or the lock is poisoned.
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        self.reading_if(self.raw.try_read())
    }

    /// Writes if nobody has the lock.
    ///
    /// # Errors
    /// If somebody has it, or it is poisoned.
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        self.writing_if(self.raw.try_write())
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

    fn read_until(&self, deadline: Deadline) -> TryLockResult<RwLockReadGuard<'_, T>> {
        budget::spend(budget::LOCK);
        self.reading_if(self.raw.read(Limit::until(deadline)))
    }

    fn write_until(&self, deadline: Deadline) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        budget::spend(budget::LOCK);
        self.writing_if(self.raw.write(Limit::until(deadline)))
    }

    #[inline]
    fn reading(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        self.poison.check(RwLockReadGuard { lock: self, marker: PhantomData })
    }

    #[inline]
    fn writing(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let was_panicking = std::thread::panicking();
        self.poison.check(RwLockWriteGuard { lock: self, was_panicking, marker: PhantomData })
    }

    fn reading_if(&self, locked: bool) -> TryLockResult<RwLockReadGuard<'_, T>> {
        if locked { Ok(self.reading()?) } else { Err(TryLockError::WouldBlock) }
    }

    fn writing_if(&self, locked: bool) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        if locked { Ok(self.writing()?) } else { Err(TryLockError::WouldBlock) }
    }

    /// Whether a writer panicked while it had the lock.
    pub fn is_poisoned(&self) -> bool {
        self.poison.get()
    }

    /// Declares the value to be in order again.
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    /// The value, without locking: there is no other reference.
    ///
    /// # Errors
    /// If the lock is poisoned; the reference is in the error.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let poisoned = self.poison.get();
        let value = self.value.get_mut();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Goes on as a reader, without letting another writer in between.
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
        // SAFETY: the guard is there only while we may read.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard is there only while we alone have the lock.
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
        let mut debug = f.debug_struct("RwLock");
        match self.try_read() {
            Ok(guard) => debug.field("data", &&*guard),
            Err(TryLockError::Poisoned(error)) => debug.field("data", &&**error.get_ref()),
            Err(TryLockError::WouldBlock) => debug.field("data", &format_args!("<locked>")),
        };
        debug.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
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
