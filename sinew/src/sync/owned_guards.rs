//! Guards that hold their lock: they may go to another fibre, and into a struct.
#![allow(unsafe_code)]

use super::mutex::Mutex;
use super::poison::guard_if;
use super::rwlock::RwLock;
use crate::base::Deadline;
use crate::wait::Limit;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LockResult, TryLockResult};
use std::time::{Duration, Instant};

/// The right to use the value of a [`Mutex`] in an [`Arc`]. Unlocks when it is dropped.
///
/// ```
/// use sinew::sync::Mutex;
/// use std::sync::Arc;
/// sinew::run(|| {
///     let total = Arc::new(Mutex::new(1));
///     let mut locked = Arc::clone(&total).lock_owned().unwrap();
///     // Another fibre changes the value, and unlocks.
///     let changing = sinew::spawn(move || *locked += 1);
///     assert_eq!(*total.lock().unwrap(), 2);
///     changing.join().unwrap();
/// });
/// ```
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct OwnedMutexGuard<T: ?Sized> {
    lock: Arc<Mutex<T>>,
    was_panicking: bool,
    /// `Send` and `Sync` only as said below.
    marker: PhantomData<*const ()>,
}

/// The right to read the value of a [`RwLock`] in an [`Arc`]. Unlocks when it is dropped.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct OwnedRwLockReadGuard<T: ?Sized> {
    lock: Arc<RwLock<T>>,
    /// `Send` and `Sync` only as said below.
    marker: PhantomData<*const ()>,
}

/// The right to change the value of a [`RwLock`] in an [`Arc`]. Unlocks when it is dropped.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct OwnedRwLockWriteGuard<T: ?Sized> {
    /// `None` only while this is being dropped or downgraded.
    lock: Option<Arc<RwLock<T>>>,
    was_panicking: bool,
    /// `Send` and `Sync` only as said below.
    marker: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives shared access to the value, and to an `Arc` of the lock, which the
// bounds let go to any thread.
unsafe impl<T: ?Sized + Send + Sync> Sync for OwnedMutexGuard<T> {}
// SAFETY: the holder of the guard may change the value, may unlock on any thread, and may drop the
// value there with the last `Arc`.
unsafe impl<T: ?Sized + Send> Send for OwnedMutexGuard<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for OwnedRwLockReadGuard<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for OwnedRwLockWriteGuard<T> {}
// SAFETY: a read guard is a shared reference, may unlock on any thread, and may drop the value there
// with the last `Arc`.
unsafe impl<T: ?Sized + Send + Sync> Send for OwnedRwLockReadGuard<T> {}
// SAFETY: as above; a write guard may change the value, and may become a read guard.
unsafe impl<T: ?Sized + Send + Sync> Send for OwnedRwLockWriteGuard<T> {}

impl<T: ?Sized> Mutex<T> {
    /// As [`lock`](Mutex::lock). The guard holds the mutex.
    ///
    /// # Errors
    /// As `lock`.
    pub fn lock_owned(self: Arc<Self>) -> LockResult<OwnedMutexGuard<T>> {
        let is_taken = self.take(Limit::NONE);
        debug_assert!(is_taken);
        OwnedMutexGuard::new(self)
    }

    /// As [`lock_async`](Mutex::lock_async). The guard holds the mutex.
    ///
    /// # Errors
    /// As `lock`.
    pub async fn lock_owned_async(self: Arc<Self>) -> LockResult<OwnedMutexGuard<T>> {
        self.raw().lock_async().await;
        OwnedMutexGuard::new(self)
    }

    /// As [`try_lock`](Mutex::try_lock). The guard holds the mutex.
    ///
    /// # Errors
    /// As `try_lock`.
    pub fn try_lock_owned(self: Arc<Self>) -> TryLockResult<OwnedMutexGuard<T>> {
        guard_if(self.raw().try_lock(), || OwnedMutexGuard::new(self))
    }

    /// As [`lock_timeout`](Mutex::lock_timeout). The guard holds the mutex.
    ///
    /// # Errors
    /// As `lock_timeout`.
    pub fn lock_owned_timeout(self: Arc<Self>, timeout: Duration) -> TryLockResult<OwnedMutexGuard<T>> {
        self.lock_owned_within(Limit::until(Deadline::after(timeout)))
    }

    /// As [`lock_deadline`](Mutex::lock_deadline). The guard holds the mutex.
    ///
    /// # Errors
    /// As `lock_deadline`.
    pub fn lock_owned_deadline(self: Arc<Self>, deadline: Instant) -> TryLockResult<OwnedMutexGuard<T>> {
        self.lock_owned_within(Limit::until(Deadline::at(deadline)))
    }

    /// As [`lock_cancellable`](Mutex::lock_cancellable). The guard holds the mutex.
    ///
    /// # Errors
    /// As `lock_cancellable`.
    pub fn lock_owned_cancellable(self: Arc<Self>) -> TryLockResult<OwnedMutexGuard<T>> {
        self.lock_owned_within(Limit::CARRIED)
    }

    fn lock_owned_within(self: Arc<Self>, limit: Limit) -> TryLockResult<OwnedMutexGuard<T>> {
        guard_if(self.take(limit), || OwnedMutexGuard::new(self))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// As [`read`](RwLock::read). The guard holds the lock.
    ///
    /// # Errors
    /// As `read`.
    pub fn read_owned(self: Arc<Self>) -> LockResult<OwnedRwLockReadGuard<T>> {
        let is_taken = self.take_to_read(Limit::NONE);
        debug_assert!(is_taken);
        OwnedRwLockReadGuard::new(self)
    }

    /// As [`write`](RwLock::write). The guard holds the lock.
    ///
    /// # Errors
    /// As `write`.
    pub fn write_owned(self: Arc<Self>) -> LockResult<OwnedRwLockWriteGuard<T>> {
        let is_taken = self.take_to_write(Limit::NONE);
        debug_assert!(is_taken);
        OwnedRwLockWriteGuard::new(self)
    }

    /// As [`read_async`](RwLock::read_async). The guard holds the lock.
    ///
    /// # Errors
    /// As `read`.
    pub async fn read_owned_async(self: Arc<Self>) -> LockResult<OwnedRwLockReadGuard<T>> {
        self.raw().read_async().await;
        OwnedRwLockReadGuard::new(self)
    }

    /// As [`write_async`](RwLock::write_async). The guard holds the lock.
    ///
    /// # Errors
    /// As `write`.
    pub async fn write_owned_async(self: Arc<Self>) -> LockResult<OwnedRwLockWriteGuard<T>> {
        self.raw().write_async().await;
        OwnedRwLockWriteGuard::new(self)
    }

    /// As [`try_read`](RwLock::try_read). The guard holds the lock.
    ///
    /// # Errors
    /// As `try_read`.
    pub fn try_read_owned(self: Arc<Self>) -> TryLockResult<OwnedRwLockReadGuard<T>> {
        guard_if(self.raw().try_read(), || OwnedRwLockReadGuard::new(self))
    }

    /// As [`try_write`](RwLock::try_write). The guard holds the lock.
    ///
    /// # Errors
    /// As `try_write`.
    pub fn try_write_owned(self: Arc<Self>) -> TryLockResult<OwnedRwLockWriteGuard<T>> {
        guard_if(self.raw().try_write(), || OwnedRwLockWriteGuard::new(self))
    }

    /// As [`read_timeout`](RwLock::read_timeout). The guard holds the lock.
    ///
    /// # Errors
    /// As `read_timeout`.
    pub fn read_owned_timeout(self: Arc<Self>, timeout: Duration) -> TryLockResult<OwnedRwLockReadGuard<T>> {
        self.read_owned_within(Limit::until(Deadline::after(timeout)))
    }

    /// As [`read_deadline`](RwLock::read_deadline). The guard holds the lock.
    ///
    /// # Errors
    /// As `read_deadline`.
    pub fn read_owned_deadline(self: Arc<Self>, deadline: Instant) -> TryLockResult<OwnedRwLockReadGuard<T>> {
        self.read_owned_within(Limit::until(Deadline::at(deadline)))
    }

    /// As [`write_timeout`](RwLock::write_timeout). The guard holds the lock.
    ///
    /// # Errors
    /// As `write_timeout`.
    pub fn write_owned_timeout(self: Arc<Self>, timeout: Duration) -> TryLockResult<OwnedRwLockWriteGuard<T>> {
        self.write_owned_within(Limit::until(Deadline::after(timeout)))
    }

    /// As [`write_deadline`](RwLock::write_deadline). The guard holds the lock.
    ///
    /// # Errors
    /// As `write_deadline`.
    pub fn write_owned_deadline(self: Arc<Self>, deadline: Instant) -> TryLockResult<OwnedRwLockWriteGuard<T>> {
        self.write_owned_within(Limit::until(Deadline::at(deadline)))
    }

    /// As [`read_cancellable`](RwLock::read_cancellable). The guard holds the lock.
    ///
    /// # Errors
    /// As `read_cancellable`.
    pub fn read_owned_cancellable(self: Arc<Self>) -> TryLockResult<OwnedRwLockReadGuard<T>> {
        self.read_owned_within(Limit::CARRIED)
    }

    /// As [`write_cancellable`](RwLock::write_cancellable). The guard holds the lock.
    ///
    /// # Errors
    /// As `write_cancellable`.
    pub fn write_owned_cancellable(self: Arc<Self>) -> TryLockResult<OwnedRwLockWriteGuard<T>> {
        self.write_owned_within(Limit::CARRIED)
    }

    fn read_owned_within(self: Arc<Self>, limit: Limit) -> TryLockResult<OwnedRwLockReadGuard<T>> {
        guard_if(self.take_to_read(limit), || OwnedRwLockReadGuard::new(self))
    }

    fn write_owned_within(self: Arc<Self>, limit: Limit) -> TryLockResult<OwnedRwLockWriteGuard<T>> {
        guard_if(self.take_to_write(limit), || OwnedRwLockWriteGuard::new(self))
    }
}

impl<T: ?Sized> OwnedMutexGuard<T> {
    /// Makes the guard. The caller has the lock.
    fn new(lock: Arc<Mutex<T>>) -> LockResult<Self> {
        let is_poisoned = lock.is_poisoned();
        let guard = OwnedMutexGuard { lock, was_panicking: std::thread::panicking(), marker: PhantomData };
        check(is_poisoned, guard)
    }

    /// Returns the mutex.
    pub fn mutex(guard: &Self) -> &Arc<Mutex<T>> {
        &guard.lock
    }
}

impl<T: ?Sized> OwnedRwLockReadGuard<T> {
    /// Makes the guard. The caller has the lock to read.
    fn new(lock: Arc<RwLock<T>>) -> LockResult<Self> {
        let is_poisoned = lock.is_poisoned();
        check(is_poisoned, OwnedRwLockReadGuard { lock, marker: PhantomData })
    }

    /// Returns the lock.
    pub fn rwlock(guard: &Self) -> &Arc<RwLock<T>> {
        &guard.lock
    }
}

impl<T: ?Sized> OwnedRwLockWriteGuard<T> {
    /// Makes the guard. The caller has the lock to write.
    fn new(lock: Arc<RwLock<T>>) -> LockResult<Self> {
        let (is_poisoned, was_panicking) = (lock.is_poisoned(), std::thread::panicking());
        check(is_poisoned, OwnedRwLockWriteGuard { lock: Some(lock), was_panicking, marker: PhantomData })
    }

    /// Makes the writer a reader. No other writer gets the lock in between.
    pub fn downgrade(mut guard: Self) -> OwnedRwLockReadGuard<T> {
        let lock = guard.lock.take().expect("a guard has its lock");
        lock.poison().note(guard.was_panicking);
        lock.raw().downgrade();
        OwnedRwLockReadGuard { lock, marker: PhantomData }
    }

    /// Returns the lock.
    pub fn rwlock(guard: &Self) -> &Arc<RwLock<T>> {
        guard.lock.as_ref().expect("a guard has its lock")
    }
}

/// Returns `guard`, in an error if its lock is poisoned.
fn check<G>(is_poisoned: bool, guard: G) -> LockResult<G> {
    if is_poisoned { Err(std::sync::PoisonError::new(guard)) } else { Ok(guard) }
}

impl<T: ?Sized> Deref for OwnedMutexGuard<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists only while the lock is ours.
        unsafe { &*self.lock.value() }
    }
}

impl<T: ?Sized> DerefMut for OwnedMutexGuard<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed mutably.
        unsafe { &mut *self.lock.value() }
    }
}

impl<T: ?Sized> Deref for OwnedRwLockReadGuard<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists only while we may read.
        unsafe { &*self.lock.value() }
    }
}

impl<T: ?Sized> Deref for OwnedRwLockWriteGuard<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists only while the lock is ours alone.
        unsafe { &*Self::rwlock(self).value() }
    }
}

impl<T: ?Sized> DerefMut for OwnedRwLockWriteGuard<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed mutably.
        unsafe { &mut *Self::rwlock(self).value() }
    }
}

impl<T: ?Sized> Drop for OwnedMutexGuard<T> {
    fn drop(&mut self) {
        self.lock.poison().note(self.was_panicking);
        self.lock.raw().unlock();
    }
}

impl<T: ?Sized> Drop for OwnedRwLockReadGuard<T> {
    fn drop(&mut self) {
        self.lock.raw().unlock_read();
    }
}

impl<T: ?Sized> Drop for OwnedRwLockWriteGuard<T> {
    fn drop(&mut self) {
        if let Some(lock) = self.lock.take() {
            lock.poison().note(self.was_panicking);
            lock.raw().unlock_write();
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for OwnedMutexGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for OwnedRwLockReadGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for OwnedRwLockWriteGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for OwnedMutexGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for OwnedRwLockReadGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for OwnedRwLockWriteGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
