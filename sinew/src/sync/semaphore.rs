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
/// [`acquire`](Semaphore::acquire) gives a guard that posts when it is dropped:
///
/// ```
/// use sinew::sync::Semaphore;
/// let connections = Semaphore::new(2);
/// sinew::run(|| {
///     let first = connections.acquire();
///     let second = connections.acquire();
///     assert!(connections.try_acquire().is_none());
///     drop(first);
///     assert_eq!(connections.available(), 1);
///     drop(second);
/// });
/// ```
pub struct Semaphore {
    raw: RawSemaphore,
}

/// Why permits were not had within a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireError {
    /// The time was up first: that of the call, or a deadline that the fibre carries.
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
    count: u64,
}

impl Permit<'_> {
    /// How many they are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Keeps the permits for good: the semaphore has so many fewer.
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
    pub const MAX_PERMITS: u64 = MOST;

    const_fn! {
        /// A semaphore with so many permits.
        ///
        /// # Panics
        /// If they are more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
        pub fn new(permits: u64) -> Semaphore {
            assert!(permits <= MOST, "a semaphore cannot have so many permits");
            Semaphore { raw: RawSemaphore::new(permits) }
        }
    }

    /// Waits for a permit and takes it (P).
    #[inline]
    pub fn wait(&self) {
        let _ = take(&self.raw, 1, Limit::NONE);
    }

    /// As [`wait`](Semaphore::wait), for tasks. Dropped before its end, it has taken nothing.
    pub async fn wait_async(&self) {
        self.raw.take_async(1, MOST).await;
    }

    /// Takes a permit if there is one that nobody waits for.
    #[inline]
    pub fn try_wait(&self) -> bool {
        self.raw.try_take(1)
    }

    /// As [`wait`](Semaphore::wait), but for no longer than `timeout`.
    ///
    /// # Errors
    /// If the time was up or the fibre was cancelled; no permit is taken then.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), AcquireError> {
        self.take_until(1, Deadline::after(timeout))
    }

    /// As [`wait`](Semaphore::wait), but only until `deadline`.
    ///
    /// # Errors
    /// As [`wait_timeout`](Semaphore::wait_timeout).
    pub fn wait_deadline(&self, deadline: Instant) -> Result<(), AcquireError> {
        self.take_until(1, Deadline::at(deadline))
    }

    /// Gives `permits` permits (V), first to those who have waited longest.
    ///
    /// # Panics
    /// If there would be more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS); those are
    /// there then.
    #[inline]
    pub fn post(&self, permits: u64) {
        assert!(self.raw.give(permits, MOST), "a semaphore cannot have so many permits");
    }

    /// Waits for a permit, to be held as long as the guard.
    pub fn acquire(&self) -> Permit<'_> {
        self.acquire_many(1)
    }

    /// Waits for `count` permits at once. Those who come later wait behind, even if
    /// they want fewer.
    pub fn acquire_many(&self, count: u64) -> Permit<'_> {
        let _ = take(&self.raw, count, Limit::NONE);
        Permit { semaphore: self, count }
    }

    /// As [`acquire`](Semaphore::acquire), for tasks. Dropped before its end, it has taken
    /// nothing.
    pub async fn acquire_async(&self) -> Permit<'_> {
        self.acquire_many_async(1).await
    }

    /// As [`acquire_many`](Semaphore::acquire_many), for tasks. Dropped before its end, it
    /// has taken nothing.
    pub async fn acquire_many_async(&self, count: u64) -> Permit<'_> {
        self.raw.take_async(count, MOST).await;
        Permit { semaphore: self, count }
    }

    /// A permit if there is one that nobody waits for.
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        self.try_acquire_many(1)
    }

    /// As [`try_acquire`](Semaphore::try_acquire), for several permits at once.
    pub fn try_acquire_many(&self, count: u64) -> Option<Permit<'_>> {
        // Not `then_some`: an unused guard gives back what it never had.
        self.raw.try_take(count).then(|| Permit { semaphore: self, count })
    }

    /// As [`acquire_many`](Semaphore::acquire_many), but for no longer than `timeout`.
    ///
    /// # Errors
    /// If the time was up or the fibre was cancelled; no permit is taken then.
    pub fn acquire_timeout(&self, count: u64, timeout: Duration) -> Result<Permit<'_>, AcquireError> {
        self.take_until(count, Deadline::after(timeout))?;
        Ok(Permit { semaphore: self, count })
    }

    /// As [`acquire_many`](Semaphore::acquire_many), but only until `deadline`.
    ///
    /// # Errors
    /// As [`acquire_timeout`](Semaphore::acquire_timeout).
    pub fn acquire_deadline(&self, count: u64, deadline: Instant) -> Result<Permit<'_>, AcquireError> {
        self.take_until(count, Deadline::at(deadline))?;
        Ok(Permit { semaphore: self, count })
    }

    fn take_until(&self, count: u64, deadline: Deadline) -> Result<(), AcquireError> {
        taken(take(&self.raw, count, Limit::carried_until(deadline)))
    }

    /// How many permits there are at this moment.
    pub fn available(&self) -> u64 {
        self.raw.permits()
    }
}

/// Waits for `count` permits and takes them.
#[inline]
fn take(raw: &RawSemaphore, count: u64, limit: Limit) -> Outcome {
    budget::spend(budget::LOCK);
    raw.take(count, limit)
}

fn taken(outcome: Outcome) -> Result<(), AcquireError> {
    match outcome {
        Outcome::Told => Ok(()),
        Outcome::TimedOut => Err(AcquireError::TimedOut),
        Outcome::Cancelled => Err(AcquireError::Cancelled),
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("available", &self.available()).finish_non_exhaustive()
    }
}

/// A semaphore with at most one permit: posting what has been posted already changes
/// nothing. An event that one fibre awaits and others announce.
pub struct BinarySemaphore {
    raw: RawSemaphore,
}

impl BinarySemaphore {
    const_fn! {
        /// A binary semaphore, with its permit or without.
        pub fn new(posted: bool) -> BinarySemaphore {
            BinarySemaphore { raw: RawSemaphore::new(posted as u64) }
        }
    }

    /// Waits for the permit and takes it.
    pub fn wait(&self) {
        let _ = take(&self.raw, 1, Limit::NONE);
    }

    /// As [`wait`](BinarySemaphore::wait), for tasks. Dropped before its end, it has taken
    /// nothing.
    pub async fn wait_async(&self) {
        self.raw.take_async(1, 1).await;
    }

    /// Takes the permit if it is there and nobody waits for it.
    pub fn try_wait(&self) -> bool {
        self.raw.try_take(1)
    }

    /// As [`wait`](BinarySemaphore::wait), but for no longer than `timeout`.
    ///
    /// # Errors
    /// If the time was up or the fibre was cancelled.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), AcquireError> {
        taken(take(&self.raw, 1, Limit::carried_until(Deadline::after(timeout))))
    }

    /// As [`wait`](BinarySemaphore::wait), but only until `deadline`.
    ///
    /// # Errors
    /// As [`wait_timeout`](BinarySemaphore::wait_timeout).
    pub fn wait_deadline(&self, deadline: Instant) -> Result<(), AcquireError> {
        taken(take(&self.raw, 1, Limit::carried_until(Deadline::at(deadline))))
    }

    /// Gives the permit: to the one who has waited longest, or to the next to come.
    pub fn post(&self) {
        // That it was there already is no mistake.
        let _ = self.raw.give(1, 1);
    }
}

impl fmt::Debug for BinarySemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BinarySemaphore").field("posted", &(self.raw.permits() > 0)).finish_non_exhaustive()
    }
}
