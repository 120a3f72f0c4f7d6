//! Handles to fibres: how the calling one is found, how one is joined.
#![allow(unsafe_code)]

use super::Fibre;
use super::record::{Record, ResultOf};
use crate::base::Deadline;
use crate::stack::current_stack;
use crate::strand::StrandArc;
use crate::strand::join::Wait;
use crate::wait::budget;
use crate::wait::{self, Limit, Outcome, Party};
use std::fmt;
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

/// The record of the calling fibre. Valid while the fibre runs; not to be kept
/// where another might use it.
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

/// The record that a `Fibre`'s strand is the head of.
#[inline]
pub(super) fn record_of(strand: &StrandArc) -> &Record {
    // SAFETY: handles to fibres are made from fibres' strands only.
    unsafe { Record::of(strand.strand()) }
}

/// The right to a fibre's result. Dropped, it lets the fibre go on by itself.
pub struct JoinHandle<T> {
    fibre: Fibre,
    result: ResultOf<T>,
}

// SAFETY: a handle gives `T` from the fibre's side to the holder's, once.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: through a shared handle nothing of `T` can be reached.
unsafe impl<T> Sync for JoinHandle<T> {}

/// What [`JoinHandle::join`] returns, as the payload of its error, to a fibre
/// that joins itself: waiting would never end.
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

    /// Waits until the fibre has finished and returns what its closure returned,
    /// or the payload of its panic. A fibre that joins itself gets [`SelfJoin`]
    /// as payload, and is detached.
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

    /// As [`join`](JoinHandle::join), but for no longer than `timeout`.
    ///
    /// # Errors
    /// The handle itself, if the time was up first.
    pub fn join_timeout(self, timeout: Duration) -> Result<std::thread::Result<T>, JoinHandle<T>> {
        self.join_until(Deadline::after(timeout))
    }

    /// As [`join`](JoinHandle::join), but only until `deadline`.
    ///
    /// # Errors
    /// The handle itself, if the time was up first.
    pub fn join_deadline(self, deadline: Instant) -> Result<std::thread::Result<T>, JoinHandle<T>> {
        self.join_until(Deadline::at(deadline))
    }

    fn join_until(self, deadline: Deadline) -> Result<std::thread::Result<T>, JoinHandle<T>> {
        if !self.is_finished() && !self.is_caller() && !self.wait_until(deadline) {
            return Err(self);
        }
        Ok(self.join())
    }

    /// As [`join`](JoinHandle::join), but when the caller is cancelled, so is the fibre.
    pub(super) fn join_passing_on(self) -> std::thread::Result<T> {
        if !self.is_finished() && !self.is_caller() {
            let join = self.record().join();
            let enter = |wait: &wait::Wait| join.wait(Party::timed(wait).number()) == Wait::Entered;
            let pass_on = |_: &wait::Wait| {
                self.fibre.cancel();
                false
            };
            let _ = wait::block_within(Limit::CARRIED, enter, pass_on);
        }
        self.join()
    }

    pub(super) fn is_caller(&self) -> bool {
        current_record().is_some_and(|record| std::ptr::eq(record, self.record()))
    }

    #[inline(always)]
    fn take_result(self) -> std::thread::Result<T> {
        // Not dropped: there is no result to be dropped with it any more.
        let mut taken = ManuallyDrop::new(self);
        // SAFETY: the word says DONE, and this is the handle.
        let result = unsafe { taken.result.take(taken.record()) };
        // SAFETY: the rest of the handle is not used again.
        unsafe { std::ptr::drop_in_place(&mut taken.fibre) };
        result.expect("the result of a fibre is taken once")
    }

    /// Waits until the fibre has finished.
    #[inline(always)]
    fn wait(&self) {
        let join = self.record().join();
        wait::block(|party| join.wait(party.number()) == Wait::Entered);
    }

    /// Waits until the fibre has finished, but not beyond `deadline`. Whether it
    /// has finished.
    fn wait_until(&self, deadline: Deadline) -> bool {
        let join = self.record().join();
        let outcome = wait::block_within(
            Limit::until(deadline),
            |wait| join.wait(Party::timed(wait).number()) == Wait::Entered,
            |wait| join.withdraw(Party::timed(wait).number()),
        );
        outcome == Outcome::Told
    }

    /// Whether the fibre has finished; then [`join`](JoinHandle::join) does not
    /// wait.
    pub fn is_finished(&self) -> bool {
        self.record().join().is_done()
    }

    /// The fibre itself.
    pub fn fibre(&self) -> &Fibre {
        &self.fibre
    }

    /// The fibre itself, by std's name: see [`thread`](crate::thread).
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
        f.debug_struct("JoinHandle").field("fibre", &self.fibre).finish_non_exhaustive()
    }
}
