//! `Condvar`, with std's signatures.

use super::mutex::MutexGuard;
use crate::base::Deadline;
use crate::base::atomic::const_fn;
use crate::base::spin::{SpinGuard, SpinLock};
use crate::wait::{End, Limit, Outcome, Queue, wait_in, wait_in_async};
use crate::wait::{Reason, Why};
use std::fmt;
use std::sync::{LockResult, PoisonError};
use std::time::{Duration, Instant};

/// A condition variable: `std::sync::Condvar` for fibres, and kernel threads too.
///
/// Waiters are notified in the order in which they came. A wait ends only when it was
/// notified or its time is up. Write the loop around it all the same: between the
/// notification and the lock another fibre may have changed the value.
pub struct Condvar {
    state: SpinLock<State>,
}

struct State {
    /// A waiter's note is its number, which is larger than those of all earlier waiters.
    queue: Queue<u64>,
    /// The number of the next waiter.
    next_number: u64,
}

/// Whether a wait with a limit ended because of the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Returns whether the time was up, or the caller was cancelled.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    const_fn! {
        /// Makes a condition variable.
        pub fn new() -> Condvar {
            Condvar { state: SpinLock::new(State { queue: Queue::new(), next_number: 0 }) }
        }
    }

    /// Releases the lock, waits to be notified, and locks again.
    ///
    /// # Errors
    /// If the mutex is poisoned when it is locked again; the guard is in the error.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let _ = self.wait_within(&guard, Limit::NONE);
        guard.mutex().poison().check(guard)
    }

    /// As [`wait`](Condvar::wait), for tasks. A future that is dropped before its end has not
    /// taken the lock, and passes a notification that it was given to the next waiter.
    ///
    /// # Errors
    /// As `wait`.
    pub async fn wait_async<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        struct PassOn<'a>(&'a Condvar);
        impl Drop for PassOn<'_> {
            fn drop(&mut self) {
                self.0.notify_one();
            }
        }
        let mutex = guard.into_mutex();
        let (state, number) = self.number();
        let unlock = || mutex.raw().unlock();
        let abandoned = |is_told: bool, _| {
            if is_told {
                self.notify_one();
            }
        };
        wait_in_async(
            &self.state,
            state,
            |state| &mut state.queue,
            End::Back.of(Why::at(Reason::Condvar, self)),
            number,
            unlock,
            abandoned,
        )
        .await;
        let pass_on = PassOn(self);
        let locked = mutex.lock_async().await;
        std::mem::forget(pass_on);
        locked
    }

    /// As [`wait_while`](Condvar::wait_while), for tasks; else as
    /// [`wait_async`](Condvar::wait_async).
    ///
    /// # Errors
    /// As `wait`.
    pub async fn wait_while_async<'a, T, F>(
        &self,
        guard: MutexGuard<'a, T>,
        mut condition: F,
    ) -> LockResult<MutexGuard<'a, T>>
    where
        F: FnMut(&mut T) -> bool,
    {
        let mut guard = guard;
        while condition(&mut *guard) {
            guard = self.wait_async(guard).await?;
        }
        Ok(guard)
    }

    /// Waits until `condition` is false.
    ///
    /// # Errors
    /// As [`wait`](Condvar::wait).
    pub fn wait_while<'a, T, F>(&self, guard: MutexGuard<'a, T>, mut condition: F) -> LockResult<MutexGuard<'a, T>>
    where
        F: FnMut(&mut T) -> bool,
    {
        let mut guard = guard;
        while condition(&mut *guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// As [`wait`](Condvar::wait), but for no longer than `timeout`.
    ///
    /// # Errors
    /// As `wait`.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        self.wait_until(guard, Deadline::after(timeout))
    }

    /// As [`wait`](Condvar::wait), but only until `deadline`.
    ///
    /// # Errors
    /// As `wait`.
    pub fn wait_deadline<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        self.wait_until(guard, Deadline::at(deadline))
    }

    /// As [`wait`](Condvar::wait), but notices [cancellation](crate::cancel). The result says
    /// `timed_out` if the caller was cancelled, or if a deadline that it carries has passed. The
    /// mutex is locked again in every case.
    ///
    /// # Errors
    /// As `wait`.
    pub fn wait_cancellable<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        self.wait_limited(guard, Limit::CARRIED)
    }

    /// Waits until `condition` is false, but notices [cancellation](crate::cancel). The result
    /// says `timed_out` only if the condition is still true.
    ///
    /// # Errors
    /// As [`wait`](Condvar::wait).
    pub fn wait_cancellable_while<'a, T, F>(
        &self,
        guard: MutexGuard<'a, T>,
        mut condition: F,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>
    where
        F: FnMut(&mut T) -> bool,
    {
        let (mut guard, mut result) = (guard, WaitTimeoutResult(false));
        loop {
            if !condition(&mut *guard) {
                return Ok((guard, WaitTimeoutResult(false)));
            }
            if result.timed_out() {
                return Ok((guard, result));
            }
            (guard, result) = self.wait_cancellable(guard)?;
        }
    }

    /// Waits until `condition` is false, but for no longer than `timeout`. The result says that
    /// the time was up only if the condition is still true.
    ///
    /// # Errors
    /// As [`wait`](Condvar::wait).
    pub fn wait_timeout_while<'a, T, F>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
        condition: F,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>
    where
        F: FnMut(&mut T) -> bool,
    {
        self.wait_until_while(guard, Deadline::after(timeout), condition)
    }

    /// Waits until `condition` is false, but only until `deadline`; else as
    /// [`wait_timeout_while`](Condvar::wait_timeout_while).
    ///
    /// # Errors
    /// As [`wait`](Condvar::wait).
    pub fn wait_deadline_while<'a, T, F>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
        condition: F,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>
    where
        F: FnMut(&mut T) -> bool,
    {
        self.wait_until_while(guard, Deadline::at(deadline), condition)
    }

    fn wait_until_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Deadline,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let mut guard = guard;
        loop {
            if !condition(&mut *guard) {
                return Ok((guard, WaitTimeoutResult(false)));
            }
            if deadline.is_past() {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            guard = self.wait_until(guard, deadline)?.0;
        }
    }

    fn wait_until<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Deadline,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        self.wait_limited(guard, Limit::until(deadline))
    }

    fn wait_limited<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Limit,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let result = WaitTimeoutResult(self.wait_within(&guard, limit) != Outcome::Told);
        match guard.mutex().poison().check(guard) {
            Ok(guard) => Ok((guard, result)),
            Err(poisoned) => Err(PoisonError::new((poisoned.into_inner(), result))),
        }
    }

    /// Unlocks the mutex, waits, and locks it again.
    fn wait_within<T>(&self, guard: &MutexGuard<'_, T>, limit: Limit) -> Outcome {
        let mutex = guard.mutex().raw();
        // Unlocked after the caller has entered the queue: a fibre that locks the mutex then,
        // and notifies, finds the caller.
        let unlock = || mutex.unlock();
        let (state, number) = self.number();
        let (outcome, _) = wait_in(
            &self.state,
            state,
            |state| &mut state.queue,
            End::Back.of(Why::at(Reason::Condvar, self)),
            number,
            limit,
            unlock,
        );
        mutex.lock();
        outcome
    }

    /// Returns the lock, under which the caller enters the queue, and its number.
    fn number(&self) -> (SpinGuard<'_, State>, u64) {
        let mut state = self.state.lock();
        let number = state.next_number;
        state.next_number += 1;
        (state, number)
    }

    /// Lets the waiter go on that has waited longest.
    pub fn notify_one(&self) {
        let told = self.state.lock().queue.pop();
        drop(told);
    }

    /// Lets all waiters go on.
    pub fn notify_all(&self) {
        let end = self.state.lock().next_number;
        // One batch at a time: waiters whose time is up meanwhile need the lock.
        loop {
            let some = self.state.lock().queue.pop_some(|number| *number < end);
            if some.is_empty() {
                return;
            }
        }
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Condvar::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiters = self.state.lock().queue.len();
        f.debug_struct("Condvar").field("waiters", &waiters).finish()
    }
}
