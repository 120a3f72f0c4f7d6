//! Permits that hold their semaphore: they may go to another fibre, and into a struct.

use super::semaphore::{AcquireError, Semaphore};
use crate::base::Deadline;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Permits of a [`Semaphore`] in an [`Arc`]; gives them back when it is dropped. Else it is as a
/// [`Permit`](super::Permit).
///
/// ```
/// use sinew::sync::{AcquireError, Semaphore};
/// use std::sync::Arc;
/// sinew::run(|| {
///     let room = Arc::new(Semaphore::new(2));
///     let sessions: Vec<_> = (0..5)
///         .map(|number| {
///             // At most two sessions run at a time.
///             let permit = Arc::clone(&room).acquire_owned()?;
///             Ok(sinew::spawn(move || {
///                 let _permit = permit;
///                 number
///             }))
///         })
///         .collect::<Result<_, AcquireError>>()?;
///     assert!(sessions.into_iter().map(|session| session.join().unwrap()).eq(0..5));
///     Ok::<(), AcquireError>(())
/// })
/// .unwrap();
/// ```
#[must_use = "if unused the permits are given back at once"]
#[derive(Debug)]
pub struct OwnedPermit {
    semaphore: Arc<Semaphore>,
    count: usize,
}

impl OwnedPermit {
    /// Makes the guard of `count` permits that have been taken.
    fn new(semaphore: Arc<Semaphore>, count: usize) -> OwnedPermit {
        OwnedPermit { semaphore, count }
    }

    /// Returns the number of permits.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Keeps the permits for good: the semaphore does not get them back.
    pub fn forget(mut self) {
        // The `Arc` is dropped as usual.
        self.count = 0;
    }

    /// Returns the semaphore.
    pub fn semaphore(&self) -> &Arc<Semaphore> {
        &self.semaphore
    }
}

impl Drop for OwnedPermit {
    fn drop(&mut self) {
        if self.count > 0 {
            self.semaphore.post(self.count);
        }
    }
}

impl Semaphore {
    /// As [`acquire`](Semaphore::acquire). The guard holds the semaphore.
    ///
    /// # Errors
    /// As `acquire`.
    pub fn acquire_owned(self: Arc<Self>) -> Result<OwnedPermit, AcquireError> {
        self.acquire_many_owned_until(1, Deadline::NEVER)
    }

    /// As [`acquire_timeout`](Semaphore::acquire_timeout). The guard holds the semaphore.
    ///
    /// # Errors
    /// As `acquire_timeout`.
    pub fn acquire_owned_timeout(self: Arc<Self>, timeout: Duration) -> Result<OwnedPermit, AcquireError> {
        self.acquire_many_owned_until(1, Deadline::after(timeout))
    }

    /// As [`acquire_deadline`](Semaphore::acquire_deadline). The guard holds the semaphore.
    ///
    /// # Errors
    /// As `acquire_deadline`.
    pub fn acquire_owned_deadline(self: Arc<Self>, deadline: Instant) -> Result<OwnedPermit, AcquireError> {
        self.acquire_many_owned_until(1, Deadline::at(deadline))
    }

    /// As [`acquire_async`](Semaphore::acquire_async). The guard holds the semaphore.
    pub async fn acquire_owned_async(self: Arc<Self>) -> OwnedPermit {
        self.acquire_many_owned_async(1).await
    }

    /// As [`try_acquire`](Semaphore::try_acquire). The guard holds the semaphore.
    pub fn try_acquire_owned(self: Arc<Self>) -> Option<OwnedPermit> {
        self.try_acquire_many_owned(1)
    }

    /// As [`acquire_many`](Semaphore::acquire_many). The guard holds the semaphore.
    ///
    /// # Errors
    /// As `acquire_many`.
    pub fn acquire_many_owned(self: Arc<Self>, count: usize) -> Result<OwnedPermit, AcquireError> {
        self.acquire_many_owned_until(count, Deadline::NEVER)
    }

    /// As [`acquire_many_timeout`](Semaphore::acquire_many_timeout). The guard holds the
    /// semaphore.
    ///
    /// # Errors
    /// As `acquire_many_timeout`.
    pub fn acquire_many_owned_timeout(
        self: Arc<Self>,
        count: usize,
        timeout: Duration,
    ) -> Result<OwnedPermit, AcquireError> {
        self.acquire_many_owned_until(count, Deadline::after(timeout))
    }

    /// As [`acquire_many_deadline`](Semaphore::acquire_many_deadline). The guard holds the
    /// semaphore.
    ///
    /// # Errors
    /// As `acquire_many_deadline`.
    pub fn acquire_many_owned_deadline(
        self: Arc<Self>,
        count: usize,
        deadline: Instant,
    ) -> Result<OwnedPermit, AcquireError> {
        self.acquire_many_owned_until(count, Deadline::at(deadline))
    }

    /// As [`acquire_many_async`](Semaphore::acquire_many_async). The guard holds the semaphore.
    pub async fn acquire_many_owned_async(self: Arc<Self>, count: usize) -> OwnedPermit {
        self.take_many_async(count).await;
        OwnedPermit::new(self, count)
    }

    /// As [`try_acquire_many`](Semaphore::try_acquire_many). The guard holds the semaphore.
    pub fn try_acquire_many_owned(self: Arc<Self>, count: usize) -> Option<OwnedPermit> {
        // Not `then_some`: an unused guard gives back what it never had.
        self.try_take_many(count).then(|| OwnedPermit::new(self, count))
    }

    fn acquire_many_owned_until(
        self: Arc<Self>,
        count: usize,
        deadline: Deadline,
    ) -> Result<OwnedPermit, AcquireError> {
        self.take_many_until(count, deadline)?;
        Ok(OwnedPermit::new(self, count))
    }
}
