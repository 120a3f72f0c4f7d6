//! `Mutex`, with std's signatures and poisoning.
#![allow(unsafe_code)]

use super::poison::{Poison, fmt_lock, guard_if};
use super::raw_mutex::RawMutex;
use crate::base::Deadline;
use crate::base::atomic::const_fn;
use crate::wait::Limit;
use crate::wait::budget;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{LockResult, TryLockResult};
use std::time::{Duration, Instant};

/// What becomes of a lock that is released while somebody waits for it: the *barging
/// spectrum*, from locks that let newcomers cut in line to locks that never do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// The waiter that has waited longest is woken and tries again. A newcomer may be
    /// faster meanwhile. Throughput is best this way: the lock is not idle until the
    /// woken waiter runs. Nobody starves: a waiter that has waited for more than 1 ms
    /// gets the lock handed over.
    #[default]
    Barge,
    /// As `Barge`, but a caller that finds the lock taken looks again for about 2 µs
    /// before it blocks. For critical sections that are shorter than a switch, used by
    /// several processors at once.
    Spin,
    /// The lock goes to the waiters, in the order in which they came. Fair, and slow:
    /// each use of a contended lock costs a switch, in which the lock is idle.
    HandOver,
}

/// A mutual exclusion lock: `std::sync::Mutex` for fibres, and kernel threads too.
///
/// A caller that waits blocks its fibre, not the processor. Everything else is as in std:
/// poisoning, and guards that unlock when they are dropped, in any order. A fibre that
/// locks a mutex which it has already waits for itself, for ever.
///
/// ```
/// use sinew::sync::Mutex;
/// let total = Mutex::new(0);
/// sinew::run(|| {
///     sinew::scope(|scope| {
///         for n in 1..=100 {
///             let total = &total;
///             scope.spawn(move || *total.lock().unwrap() += n);
///         }
///     });
///     assert_eq!(*total.lock().unwrap(), 5050);
/// });
/// ```
pub struct Mutex<T: ?Sized> {
    raw: RawMutex,
    poison: Poison,
    value: UnsafeCell<T>,
}

// SAFETY: the lock lets one holder at a time reach the value.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T: ?Sized> UnwindSafe for Mutex<T> {}
impl<T: ?Sized> RefUnwindSafe for Mutex<T> {}

/// The right to use the value of a [`Mutex`]. Unlocks when it is dropped.
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct MutexGuard<'a, T: ?Sized> {
    lock: &'a Mutex<T>,
    was_panicking: bool,
    /// `Send` and `Sync` only as said below.
    marker: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives shared access to the value.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}
// SAFETY: the holder of the guard may change the value, and may unlock on any thread. Unlike
// std's guards: a task keeps its guards when it goes on elsewhere.
unsafe impl<T: ?Sized + Send> Send for MutexGuard<'_, T> {}

impl<T> Mutex<T> {
    const_fn! {
        /// Makes a mutex that is not locked.
        pub fn new(value: T) -> Mutex<T> {
            Mutex::with_policy(value, Policy::Barge)
        }
    }

    const_fn! {
        /// Makes a mutex with another policy than [`Policy::Barge`].
        pub fn with_policy(value: T, policy: Policy) -> Mutex<T> {
            Mutex { raw: RawMutex::new(policy), poison: Poison::new(), value: UnsafeCell::new(value) }
        }
    }

    /// Returns the value.
    ///
    /// # Errors
    /// If the mutex is poisoned; the value is in the error.
    pub fn into_inner(self) -> LockResult<T> {
        self.poison.check(self.value.into_inner())
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock and takes it.
    ///
    /// # Errors
    /// If a holder of the lock panicked; the guard is in the error.
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        budget::spend(budget::LOCK);
        self.raw.lock();
        self.guard()
    }

    /// As [`lock`](Mutex::lock), for tasks. A future that is dropped before its end has not
    /// taken the lock.
    ///
    /// ```
    /// use sinew::{sync::Mutex, task};
    /// use std::sync::Arc;
    /// sinew::run(|| {
    ///     let total = Arc::new(Mutex::new(0));
    ///     let its_total = Arc::clone(&total);
    ///     let task = task::spawn(async move {
    ///         let mut total = its_total.lock_async().await.unwrap();
    ///         // The lock is kept while others run.
    ///         task::yield_now_async().await;
    ///         *total += 1;
    ///     });
    ///     task.join().unwrap();
    ///     assert_eq!(*total.lock().unwrap(), 1);
    /// });
    /// ```
    ///
    /// # Errors
    /// As `lock`.
    pub async fn lock_async(&self) -> LockResult<MutexGuard<'_, T>> {
        self.raw.lock_async().await;
        self.guard()
    }

    /// Takes the lock if nobody has it.
    ///
    /// # Errors
    /// `WouldBlock` if somebody has it; else as [`lock`](Mutex::lock).
    #[inline]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        guard_if(self.raw.try_lock(), || self.guard())
    }

    /// As [`lock`](Mutex::lock), but waits for no longer than `timeout`.
    ///
    /// # Errors
    /// `WouldBlock` if the time was up; else as `lock`.
    pub fn lock_timeout(&self, timeout: Duration) -> TryLockResult<MutexGuard<'_, T>> {
        self.lock_until(Deadline::after(timeout))
    }

    /// As [`lock`](Mutex::lock), but waits only until `deadline`.
    ///
    /// # Errors
    /// As [`lock_timeout`](Mutex::lock_timeout).
    pub fn lock_deadline(&self, deadline: Instant) -> TryLockResult<MutexGuard<'_, T>> {
        self.lock_until(Deadline::at(deadline))
    }

    /// As [`lock`](Mutex::lock), but notices [cancellation](crate::cancel).
    ///
    /// # Errors
    /// `WouldBlock` if the caller would have to wait and is cancelled, or a deadline that it
    /// carries has passed; else as `lock`.
    pub fn lock_cancellable(&self) -> TryLockResult<MutexGuard<'_, T>> {
        guard_if(self.take(Limit::CARRIED), || self.guard())
    }

    fn lock_until(&self, deadline: Deadline) -> TryLockResult<MutexGuard<'_, T>> {
        guard_if(self.take(Limit::until(deadline)), || self.guard())
    }

    /// Waits for the lock within `limit`. Returns whether the caller has it.
    pub(super) fn take(&self, limit: Limit) -> bool {
        budget::spend(budget::LOCK);
        self.raw.lock_within(limit)
    }

    /// Makes the guard. The caller has the lock.
    #[inline]
    fn guard(&self) -> LockResult<MutexGuard<'_, T>> {
        let was_panicking = std::thread::panicking();
        self.poison.check(MutexGuard { lock: self, was_panicking, marker: PhantomData })
    }

    /// Returns whether a holder of the lock panicked.
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
    /// If the mutex is poisoned; the reference is in the error.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.poison.check(self.value.get_mut())
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Returns the mutex, for a condition variable that unlocks it and locks it again.
    pub(super) fn mutex(&self) -> &'a Mutex<T> {
        self.lock
    }

    /// Returns the mutex, which stays locked.
    pub(super) fn into_mutex(self) -> &'a Mutex<T> {
        std::mem::ManuallyDrop::new(self).lock
    }
}

impl<T: ?Sized> Mutex<T> {
    pub(super) fn raw(&self) -> &RawMutex {
        &self.raw
    }

    pub(super) fn poison(&self) -> &Poison {
        &self.poison
    }

    /// Returns where the value is, for an owned guard.
    pub(super) fn value(&self) -> *mut T {
        self.value.get()
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists only while the lock is ours.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.poison.note(self.was_panicking);
        self.lock.raw.unlock();
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Mutex::new(value)
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_lock("Mutex", self.try_lock(), &self.poison, f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
