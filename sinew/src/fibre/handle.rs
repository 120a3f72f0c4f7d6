//! Handles to fibres: the calling fibre, and joining.
#![allow(unsafe_code)]

use super::Fibre;
use super::record::{Record, ResultOf};
use crate::base::Deadline;
use crate::stack::current_stack;
use crate::strand::StrandArc;
use crate::strand::join::Wait;
use crate::wait::budget;
use crate::wait::{self, Limit, Outcome, Party, carried};
use crate::wait::{Reason, Why};
use std::fmt;
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

/// Returns the record of the calling fibre. It is valid while the fibre runs: do not keep it where
/// another might use it.
#[inline(always)]
pub(super) fn current_record() -> Option<&'static Record> {
    // SAFETY: only fibres are begun on a stack.
    current_stack().map(|stack| unsafe { Record::of(stack.strand()) })
}

/// Calls `f` with [`current_record`].
#[inline]
pub(super) fn with_current_record<R>(f: impl FnOnce(Option<&Record>) -> R) -> R {
    f(current_record())
}

/// Returns the record that a `Fibre`'s strand is the head of.
#[inline]
pub(super) fn record_of(strand: &StrandArc) -> &Record {
    // SAFETY: handles to fibres are made from fibres' strands only.
    unsafe { Record::of(strand.strand()) }
}

/// The right to a fibre's result. When the handle is dropped, the fibre runs on and its result is
/// dropped.
pub struct JoinHandle<T> {
    fibre: Fibre,
    result: ResultOf<T>,
}

// SAFETY: a handle gives `T` from the fibre's side to the holder's, once.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: nothing of `T` can be reached through a shared handle.
unsafe impl<T> Sync for JoinHandle<T> {}

/// The payload of the error that [`JoinHandle::join`] returns to a fibre that joins itself: the
/// wait would never end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelfJoin;

impl fmt::Display for SelfJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fibre tried to join itself")
    }
}

impl std::error::Error for SelfJoin {}

impl<T> JoinHandle<T> {
    /// # Safety
    /// The fibre was created with this `T` and the `F` of `result`; there is no
    /// other handle.
    pub(super) unsafe fn new(strand: StrandArc, result: ResultOf<T>) -> Self {
        JoinHandle { fibre: Fibre::of(strand), result }
    }

    pub(super) fn record(&self) -> &Record {
        self.fibre.record().expect("join handles are for fibres")
    }

    /// Waits until the fibre has finished and returns what its closure returned.
    ///
    /// # Errors
    /// Returns the payload if the fibre panicked. A fibre that joins itself gets [`SelfJoin`] as
    /// payload, and is detached.
    #[inline(always)]
    pub fn join(self) -> std::thread::Result<T> {
        if self.is_finished() {
            budget::spend(budget::MESSAGE);
        } else if self.is_caller() {
            return Err(Box::new(SelfJoin));
        } else {
            self.wait();
        }
        self.take_result()
    }

    /// Joins as [`join`](JoinHandle::join) does, but waits no longer than `timeout`.
    ///
    /// # Errors
    /// Returns the handle if the fibre did not finish in time.
    pub fn join_timeout(self, timeout: Duration) -> Result<std::thread::Result<T>, JoinHandle<T>> {
        self.join_until(Deadline::after(timeout))
    }

    /// Joins as [`join`](JoinHandle::join) does, but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// Returns the handle if the fibre did not finish in time.
    pub fn join_deadline(self, deadline: Instant) -> Result<std::thread::Result<T>, JoinHandle<T>> {
        self.join_until(Deadline::at(deadline))
    }

    fn join_until(self, deadline: Deadline) -> Result<std::thread::Result<T>, JoinHandle<T>> {
        if !self.is_finished() && !self.is_caller() && !self.wait_until(deadline) {
            return Err(self);
        }
        Ok(self.join())
    }

    /// Joins as [`join`](JoinHandle::join) does. If the caller is cancelled, cancels the fibre and
    /// goes on waiting. The same if the caller's deadline comes, unless the fibre carries it itself, or an
    /// earlier one.
    pub(super) fn join_passing_on(self, carried_by_fibre: Deadline) -> std::thread::Result<T> {
        if !self.is_finished() && !self.is_caller() {
            let join = self.record().join();
            let enter = |wait: &wait::Wait| join.wait(Party::timed(wait).number()) == Wait::Entered;
            let pass_on = |wait: &wait::Wait| {
                if wait.outcome() == Outcome::Cancelled || carried_by_fibre > carried().deadline {
                    self.fibre.cancel();
                }
                false
            };
            let _ = wait::block_within(Limit::CARRIED, self.why(), enter, pass_on);
        }
        self.join()
    }

    pub(super) fn is_caller(&self) -> bool {
        current_record().is_some_and(|record| std::ptr::eq(record, self.record()))
    }

    #[inline(always)]
    fn take_result(self) -> std::thread::Result<T> {
        // Not dropped: there is no result left to detach.
        let mut taken = ManuallyDrop::new(self);
        // SAFETY: the join word says DONE, and this is the only handle.
        let result = unsafe { taken.result.take(taken.record()) };
        // SAFETY: the rest of the handle is not used again.
        unsafe { std::ptr::drop_in_place(&mut taken.fibre) };
        result.expect("the result of a fibre is taken once")
    }

    #[inline(always)]
    pub(super) fn why(&self) -> Why {
        Why::at(Reason::JoinFibre, self.record())
    }

    /// Waits until the fibre has finished.
    #[inline(always)]
    fn wait(&self) {
        let join = self.record().join();
        wait::block(self.why(), |party| join.wait(party.number()) == Wait::Entered);
    }

    /// Waits until the fibre has finished, but not beyond `deadline`. Returns whether it has finished.
    fn wait_until(&self, deadline: Deadline) -> bool {
        let join = self.record().join();
        let outcome = wait::block_within(
            Limit::until(deadline),
            self.why(),
            |wait| join.wait(Party::timed(wait).number()) == Wait::Entered,
            |wait| join.withdraw(Party::timed(wait).number()),
        );
        outcome == Outcome::Told
    }

    /// Returns whether the fibre has finished: then [`join`](JoinHandle::join) does not wait.
    pub fn is_finished(&self) -> bool {
        self.record().join().is_done()
    }

    /// Returns the fibre.
    pub fn fibre(&self) -> &Fibre {
        &self.fibre
    }

    /// Returns the fibre, by std's name: see [`thread`](crate::thread).
    pub fn thread(&self) -> &Fibre {
        &self.fibre
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        self.record().detach();
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("fibre", &self.fibre).finish()
    }
}
