//! Semaphores: the counting one and the binary one.

use super::raw_semaphore::{MOST, RawSemaphore};
use crate::base::Deadline;
use crate::base::atomic::const_fn;
use crate::wait::budget;
use crate::wait::{Limit, Outcome};
use std::fmt;
use std::time::{Duration, Instant};

/// A counting semaphore, first come first served.
///
/// [`wait`](Semaphore::wait) and [`post`](Semaphore::post) are the bare operations;
/// [`acquire`](Semaphore::acquire) returns a guard that posts when it is dropped:
///
/// ```
/// use sinew::sync::{AcquireError, Semaphore};
/// let connections = Semaphore::new(2);
/// sinew::run(|| {
///     let first = connections.acquire()?;
///     let second = connections.acquire()?;
///     assert!(connections.try_acquire().is_none());
///     drop(first);
///     assert_eq!(connections.available(), 1);
///     drop(second);
///     Ok::<(), AcquireError>(())
/// })
/// .unwrap();
/// ```
///
/// The forms with `_owned` in their names return an [`OwnedPermit`](super::OwnedPermit). It holds
/// the semaphore by an [`Arc`](std::sync::Arc) and may go to another fibre.
pub struct Semaphore {
    raw: RawSemaphore,
}

/// Why a caller did not get permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireError {
    /// The time was up first: that of the call, or a deadline that the caller carries.
    TimedOut,
    /// The fibre was cancelled first.
    Cancelled,
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AcquireError::TimedOut => "the time was up before there were permits",
            AcquireError::Cancelled => "the fibre was cancelled before there were permits",
        })
    }
}

impl std::error::Error for AcquireError {}

/// Permits of a [`Semaphore`]; gives them back when it is dropped.
#[must_use = "if unused the permits are given back at once"]
#[derive(Debug)]
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
    count: usize,
}

impl Permit<'_> {
    /// Returns the number of permits.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Keeps the permits for good: the semaphore does not get them back.
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.semaphore.post(self.count);
    }
}

impl Semaphore {
    /// The largest number of permits that a semaphore can have.
    pub const MAX_PERMITS: usize = MOST;

    const_fn! {
        /// Makes a semaphore with `permits` permits.
        ///
        /// # Panics
        /// If `permits` is more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
        pub fn new(permits: usize) -> Semaphore {
            assert!(permits <= MOST, "a semaphore cannot have more than MAX_PERMITS permits");
            Semaphore { raw: RawSemaphore::new(permits) }
        }
    }

    /// Waits for a permit and takes it (P). Does not notice [cancellation](crate::cancel).
    #[inline]
    pub fn wait(&self) {
        let _ = take(&self.raw, 1, Limit::NONE);
    }

    /// As [`wait`](Semaphore::wait), but notices [cancellation](crate::cancel).
    ///
    /// # Errors
    /// If the caller would have to wait and is cancelled, or a deadline that it carries has
    /// passed; no permit is taken then.
    pub fn wait_cancellable(&self) -> Result<(), AcquireError> {
        take_until(&self.raw, 1, Deadline::NEVER)
    }

    /// As [`wait`](Semaphore::wait), but for no longer than `timeout`.
    ///
    /// # Errors
    /// If the time was up or the fibre was cancelled; no permit is taken then.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), AcquireError> {
        take_until(&self.raw, 1, Deadline::after(timeout))
    }

    /// As [`wait`](Semaphore::wait), but only until `deadline`.
    ///
    /// # Errors
    /// As [`wait_timeout`](Semaphore::wait_timeout).
    pub fn wait_deadline(&self, deadline: Instant) -> Result<(), AcquireError> {
        take_until(&self.raw, 1, Deadline::at(deadline))
    }

    /// As [`wait`](Semaphore::wait), for tasks. A future that is dropped before its end has
    /// taken nothing.
    pub async fn wait_async(&self) {
        self.raw.take_async(1, MOST).await;
    }

    /// Takes a permit if there is one and nobody waits for it. Returns whether it did.
    #[inline]
    pub fn try_wait(&self) -> bool {
        self.raw.try_take(1)
    }

    /// Gives `permits` permits (V), first to the waiters that have waited longest.
    ///
    /// # Panics
    /// If there would be more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS). The semaphore then
    /// has that number.
    #[inline]
    pub fn post(&self, permits: usize) {
        assert!(self.raw.give(permits, MOST), "a semaphore cannot have more than MAX_PERMITS permits");
    }

    /// Waits for a permit. The guard gives it back.
    ///
    /// # Errors
    /// If the caller would have to wait and is [cancelled](crate::cancel), or a deadline that it
    /// carries has passed; no permit is taken then.
    pub fn acquire(&self) -> Result<Permit<'_>, AcquireError> {
        self.wait_cancellable().map(|()| self.permit(1))
    }

    /// As [`acquire`](Semaphore::acquire), but for no longer than `timeout`.
    ///
    /// # Errors
    /// If the time was up or the fibre was cancelled; no permit is taken then.
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<Permit<'_>, AcquireError> {
        self.wait_timeout(timeout).map(|()| self.permit(1))
    }

    /// As [`acquire`](Semaphore::acquire), but only until `deadline`.
    ///
    /// # Errors
    /// As [`acquire_timeout`](Semaphore::acquire_timeout).
    pub fn acquire_deadline(&self, deadline: Instant) -> Result<Permit<'_>, AcquireError> {
        self.wait_deadline(deadline).map(|()| self.permit(1))
    }

    /// As [`acquire`](Semaphore::acquire), for tasks. A future that is dropped before its end
    /// has taken nothing.
    pub async fn acquire_async(&self) -> Permit<'_> {
        self.raw.take_async(1, MOST).await;
        self.permit(1)
    }

    /// Takes a permit if there is one and nobody waits for it.
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        // Not `then_some`: an unused guard gives back what it never had.
        self.raw.try_take(1).then(|| self.permit(1))
    }

    /// Waits for `count` permits at once. Callers that come later wait behind this one, even
    /// if they want fewer.
    ///
    /// # Errors
    /// As [`acquire`](Semaphore::acquire).
    ///
    /// # Panics
    /// If `count` is more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS): it would wait for ever.
    /// This holds for all forms whose names have `many` in them.
    pub fn acquire_many(&self, count: usize) -> Result<Permit<'_>, AcquireError> {
        self.acquire_many_until(count, Deadline::NEVER)
    }

    /// As [`acquire_many`](Semaphore::acquire_many), but for no longer than `timeout`.
    ///
    /// # Errors
    /// If the time was up or the fibre was cancelled; no permit is taken then.
    pub fn acquire_many_timeout(&self, count: usize, timeout: Duration) -> Result<Permit<'_>, AcquireError> {
        self.acquire_many_until(count, Deadline::after(timeout))
    }

    /// As [`acquire_many`](Semaphore::acquire_many), but only until `deadline`.
    ///
    /// # Errors
    /// As [`acquire_many_timeout`](Semaphore::acquire_many_timeout).
    pub fn acquire_many_deadline(&self, count: usize, deadline: Instant) -> Result<Permit<'_>, AcquireError> {
        self.acquire_many_until(count, Deadline::at(deadline))
    }

    /// As [`acquire_many`](Semaphore::acquire_many), for tasks. A future that is dropped before
    /// its end has taken nothing.
    pub async fn acquire_many_async(&self, count: usize) -> Permit<'_> {
        self.take_many_async(count).await;
        self.permit(count)
    }

    /// Takes `count` permits if they are there and nobody waits.
    pub fn try_acquire_many(&self, count: usize) -> Option<Permit<'_>> {
        // Not `then_some`, as above.
        self.try_take_many(count).then(|| self.permit(count))
    }

    fn acquire_many_until(&self, count: usize, deadline: Deadline) -> Result<Permit<'_>, AcquireError> {
        self.take_many_until(count, deadline).map(|()| self.permit(count))
    }

    /// Waits for `count` permits and takes them.
    pub(super) fn take_many_until(&self, count: usize, deadline: Deadline) -> Result<(), AcquireError> {
        check(count);
        take_until(&self.raw, count, deadline)
    }

    /// As [`take_many_until`](Semaphore::take_many_until), for tasks.
    pub(super) async fn take_many_async(&self, count: usize) {
        check(count);
        self.raw.take_async(count, MOST).await;
    }

    /// Takes `count` permits if they are there and nobody waits. Returns whether it did.
    pub(super) fn try_take_many(&self, count: usize) -> bool {
        check(count);
        self.raw.try_take(count)
    }

    /// Makes the guard of `count` permits that have been taken.
    fn permit(&self, count: usize) -> Permit<'_> {
        Permit { semaphore: self, count }
    }

    /// Returns the number of permits that are there at this moment.
    pub fn available(&self) -> usize {
        self.raw.permits()
    }
}

/// Refuses a number of permits that will never be there.
fn check(count: usize) {
    assert!(count <= MOST, "a semaphore never has more than MAX_PERMITS permits");
}

/// Waits for `count` permits and takes them.
#[inline]
fn take(raw: &RawSemaphore, count: usize, limit: Limit) -> Outcome {
    budget::spend(budget::LOCK);
    raw.take(count, limit)
}

fn take_until(raw: &RawSemaphore, count: usize, deadline: Deadline) -> Result<(), AcquireError> {
    match take(raw, count, Limit::carried_until(deadline)) {
        Outcome::Told => Ok(()),
        Outcome::TimedOut => Err(AcquireError::TimedOut),
        Outcome::Cancelled => Err(AcquireError::Cancelled),
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (available, waiters) = (self.raw.permits(), self.raw.waiters());
        f.debug_struct("Semaphore").field("available", &available).field("waiters", &waiters).finish()
    }
}

/// A semaphore with at most one permit: posting a permit that is there changes nothing. An
/// event that one fibre awaits and others announce.
pub struct BinarySemaphore {
    raw: RawSemaphore,
}

impl BinarySemaphore {
    const_fn! {
        /// Makes a binary semaphore, with its permit or without.
        pub fn new(posted: bool) -> BinarySemaphore {
            BinarySemaphore { raw: RawSemaphore::new(posted as usize) }
        }
    }

    /// Waits for the permit and takes it. Does not notice [cancellation](crate::cancel).
    pub fn wait(&self) {
        let _ = take(&self.raw, 1, Limit::NONE);
    }

    /// As [`wait`](BinarySemaphore::wait), but notices [cancellation](crate::cancel).
    ///
    /// # Errors
    /// If the caller would have to wait and is cancelled, or a deadline that it carries has
    /// passed; the permit is not taken then.
    pub fn wait_cancellable(&self) -> Result<(), AcquireError> {
        take_until(&self.raw, 1, Deadline::NEVER)
    }

    /// As [`wait`](BinarySemaphore::wait), but for no longer than `timeout`.
    ///
    /// # Errors
    /// If the time was up or the fibre was cancelled; the permit is not taken then.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), AcquireError> {
        take_until(&self.raw, 1, Deadline::after(timeout))
    }

    /// As [`wait`](BinarySemaphore::wait), but only until `deadline`.
    ///
    /// # Errors
    /// As [`wait_timeout`](BinarySemaphore::wait_timeout).
    pub fn wait_deadline(&self, deadline: Instant) -> Result<(), AcquireError> {
        take_until(&self.raw, 1, Deadline::at(deadline))
    }

    /// As [`wait`](BinarySemaphore::wait), for tasks. A future that is dropped before its end
    /// has taken nothing.
    pub async fn wait_async(&self) {
        self.raw.take_async(1, 1).await;
    }

    /// Takes the permit if it is there and nobody waits for it. Returns whether it did.
    pub fn try_wait(&self) -> bool {
        self.raw.try_take(1)
    }

    /// Gives the permit: to the waiter that has waited longest, or to the next caller.
    pub fn post(&self) {
        // A permit that is there already is no mistake.
        let _ = self.raw.give(1, 1);
    }
}

impl fmt::Debug for BinarySemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (posted, waiters) = (self.raw.permits() > 0, self.raw.waiters());
        f.debug_struct("BinarySemaphore").field("posted", &posted).field("waiters", &waiters).finish()
    }
}
