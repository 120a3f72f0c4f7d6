//! A descriptor that fibres wait for: where a file, a socket, a pipe meets an engine.
//!
//! This is the seam between what a user touches and how the kernel is asked. With
//! epoll an operation is *attempted*; if the kernel says that it would have to wait,
//! the fibre waits until a poller says otherwise, and tries again. An engine that hands
//! operations over whole takes the place of [`Source::operate`].
//!
//! ```text
//!   1  not known to a poller: go to 3
//!   2  worth trying? If not, wait
//!   3  try
//!      done                       done; if it did less than asked: not worth trying again
//!      it would have to wait      not worth trying again, unless there was an event since 2;
//!                                 make it known, if it is not; go to 2
//! ```
//!
//! So a session that reads a request, answers it and reads again makes one call for
//! each, and none that fails: the short read has shown that there is no more. That is
//! right although events come at any time, because of the count of events: what a call
//! has shown counts only if there was none since it began. And it is right at the end of
//! a stream: the kernel reports it once, possibly before the last bytes are read, so a
//! side that has been reported closed is always worth trying.
#![allow(unsafe_code)]

use super::event_scope::do_there;
use super::in_scope::Scoped;
use super::poller::Poller;
use super::slots::{Owned, Shown, Side};
use crate::base::Deadline;
use crate::base::cpu::prefetch;
use crate::cancel::Cancelled;
use crate::processor;
use crate::stack::current_stack;
use crate::wait::budget;
use crate::wait::{self, Limit, Outcome, carried};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};

pub(crate) struct Source {
    descriptor: Scoped<OwnedFd>,
    known: OnceLock<Known>,
    /// The poller that knows it. Held by whoever changes what the poller knows.
    poller: Mutex<Option<Arc<Poller>>>,
}

/// What a poller knows a descriptor by.
struct Known {
    slot: Owned,
    /// Whether it reports on room to write. Written by who holds the lock of the poller.
    reports_room: AtomicBool,
}

impl Known {
    /// Waits until it is worth trying, on a side that the poller reports on.
    fn wait(&self, side: Side, deadline: Deadline) -> io::Result<u32> {
        self.slot.wait(side, Limit::carried_until(deadline)).map_err(|outcome| limit_error(outcome, deadline))
    }
}

/// What an attempt did.
pub(crate) struct Done<T> {
    pub(crate) value: T,
    pub(crate) shown: Shown,
}

impl<T> Done<T> {
    /// An attempt of which nothing can be concluded.
    pub(crate) fn some(value: T) -> Done<T> {
        Done { value, shown: Shown::More }
    }
}

impl Done<usize> {
    /// As many bytes of a stream as that, of so many that were asked for.
    pub(crate) fn bytes(count: usize, asked: usize) -> Done<usize> {
        Done { value: count, shown: if count < asked && count > 0 { Shown::Short } else { Shown::More } }
    }
}

impl Source {
    /// The descriptor has been made non-blocking.
    pub(crate) fn new(descriptor: OwnedFd) -> Source {
        Source { descriptor: Scoped::new(descriptor), known: OnceLock::new(), poller: Mutex::default() }
    }

    /// # Errors
    /// If it is of another event scope.
    #[inline]
    pub(crate) fn raw(&self) -> io::Result<RawFd> {
        Ok(self.descriptor.get()?.as_raw_fd())
    }

    /// The number that it has in its own event scope.
    pub(crate) fn number(&self) -> RawFd {
        self.descriptor.peek().as_raw_fd()
    }

    /// Does what `attempt` does, waiting as often as the kernel says that it has to. Not
    /// beyond `deadline`: that is `WouldBlock`, as in std.
    #[inline]
    pub(crate) fn operate<T>(
        &self,
        side: Side,
        deadline: Deadline,
        mut attempt: impl FnMut(RawFd) -> io::Result<Done<T>>,
    ) -> io::Result<T> {
        if current_stack().is_none() {
            return self.operate_on_thread(side, deadline, attempt);
        }
        budget::spend(budget::KERNEL_CALL);
        let descriptor = self.raw()?;
        let mut events = match self.known.get() {
            // A poller that knows it reports on this side: one look at the slot is enough.
            Some(known) if side == Side::Read => Some(Some(known.wait(side, deadline)?)),
            known => known.map(|known| known.slot.begin(side)),
        };
        loop {
            if let Some(None) = events {
                events = Some(Some(self.wait(side, deadline)?));
            }
            match self.attempt(descriptor, side, events.flatten(), &mut attempt) {
                Step::Done(outcome) => return outcome,
                Step::Again => {}
                Step::Wait => events = Some(None),
            }
        }
    }

    /// As [`operate`](Source::operate), for a task. If it is dropped, nothing has been done.
    pub(crate) async fn operate_async<T>(
        &self,
        side: Side,
        mut attempt: impl FnMut(RawFd) -> io::Result<Done<T>>,
    ) -> io::Result<T> {
        budget::spend_async().await;
        let mut descriptor = self.raw()?;
        let mut events = self.known.get().map(|known| known.slot.begin(side));
        loop {
            if let Some(None) = events {
                let known = self.known(side)?;
                let told = known.slot.wait_async(side).await;
                // The future may be polled in another scope by now.
                descriptor = self.raw().inspect_err(|_| known.slot.finish(side, told, Shown::More))?;
                events = Some(Some(told));
            }
            match self.attempt(descriptor, side, events.flatten(), &mut attempt) {
                Step::Done(outcome) => return outcome,
                Step::Again => {}
                Step::Wait => events = Some(None),
            }
        }
    }

    /// As [`operate_async`](Source::operate_async), for one who polls: on each side, the last
    /// who did is woken.
    pub(crate) fn poll_operate<T>(
        &self,
        side: Side,
        context: &mut Context<'_>,
        mut attempt: impl FnMut(RawFd) -> io::Result<Done<T>>,
    ) -> Poll<io::Result<T>> {
        ready!(budget::poll_spend(context));
        let descriptor = self.raw()?;
        let mut events = match self.known.get() {
            // As in `operate`.
            Some(known) if side == Side::Read => Some(Some(ready!(known.slot.poll(side, context.waker())))),
            known => known.map(|known| known.slot.begin(side)),
        };
        loop {
            if let Some(None) = events {
                events = Some(Some(ready!(self.known(side)?.slot.poll(side, context.waker()))));
            }
            match self.attempt(descriptor, side, events.flatten(), &mut attempt) {
                Step::Done(outcome) => return Poll::Ready(outcome),
                Step::Again => {}
                Step::Wait => events = Some(None),
            }
        }
    }

    /// Waits until it is worth trying, for a task, which may leave it at that.
    pub(crate) async fn ready_async(&self, side: Side) -> io::Result<()> {
        budget::spend_async().await;
        self.raw()?;
        let slot = &self.known(side)?.slot;
        let events = slot.wait_async(side).await;
        // Nothing has been taken: the next may try as well.
        slot.finish(side, events, Shown::More);
        Ok(())
    }

    /// As [`ready_async`](Source::ready_async), for one who polls: on each side, the last who
    /// did is woken.
    pub(crate) fn poll_ready(&self, side: Side, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(budget::poll_spend(context));
        self.raw()?;
        self.known(side)?.slot.poll(side, context.waker()).map(|_| Ok(()))
    }

    /// Tries once, when there were so many `events`.
    #[inline(always)]
    fn attempt<T>(
        &self,
        descriptor: RawFd,
        side: Side,
        events: Option<u32>,
        attempt: &mut impl FnMut(RawFd) -> io::Result<Done<T>>,
    ) -> Step<T> {
        // The call of the kernel takes longer than it takes to fetch this.
        prefetch((&raw const self.known).cast());
        let turn = Turn { source: self, side, events };
        let outcome = attempt(descriptor);
        let shown = match &outcome {
            Ok(done) => done.shown,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Shown::Nothing,
            Err(_) => Shown::More,
        };
        turn.end(shown);
        match outcome {
            Ok(done) => Step::Done(Ok(done.value)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Step::Again,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => match self.make_known(side) {
                Ok(()) => Step::Wait,
                Err(error) => Step::Done(Err(error)),
            },
            Err(error) => Step::Done(Err(error)),
        }
    }

    /// Waits until a poller says that it is worth trying.
    pub(crate) fn wait(&self, side: Side, deadline: Deadline) -> io::Result<u32> {
        self.known(side)?.wait(side, deadline)
    }

    /// What the poller knows of it, which reports on this side.
    fn known(&self, side: Side) -> io::Result<&Known> {
        self.make_known(side)?;
        Ok(self.known.get().expect("it was made known just now"))
    }

    /// Lets the poller of the caller's cluster report on this side, if it does not yet.
    pub(crate) fn make_known(&self, side: Side) -> io::Result<()> {
        let is_reported =
            |known: &Known| (side == Side::Read || known.reports_room.load(Relaxed)) && known.slot.is_reported();
        if self.known.get().is_some_and(is_reported) {
            return Ok(());
        }
        let mut poller = self.poller.lock().unwrap_or_else(PoisonError::into_inner);
        match self.known.get() {
            Some(known) if is_reported(known) => {}
            Some(known) if known.slot.is_reported() => {
                let poller = poller.as_ref().expect("one that reports is there");
                poller.watch(self.raw()?, known.slot.key(), side, true)?;
                known.reports_room.store(true, Relaxed);
            }
            // Its runtime has ended.
            Some(known) => {
                let room = side == Side::Write || known.reports_room.load(Relaxed);
                *poller = Some(self.enter(&known.slot, side, room)?);
                known.reports_room.store(room, Relaxed);
            }
            None => {
                let slot = Owned::new().ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
                *poller = Some(self.enter(&slot, side, side == Side::Write)?);
                let known = Known { slot, reports_room: AtomicBool::new(side == Side::Write) };
                assert!(self.known.set(known).is_ok(), "it is made known under the lock");
            }
        }
        Ok(())
    }

    /// Lets the poller of the caller's cluster report on what is to be read, and on `room`.
    fn enter(&self, slot: &Owned, side: Side, room: bool) -> io::Result<Arc<Poller>> {
        let descriptor = self.raw()?;
        let poller = processor::with_current(|processor| processor.ok_or_else(no_runtime)?.poller());
        let entered = poller.and_then(|poller| {
            let events = slot.adopt(poller.number(), side);
            poller.watch(descriptor, slot.key(), if room { Side::Write } else { Side::Read }, false)?;
            // The kernel reports at once what there is already, so the side is not worth
            // trying before there was an event.
            slot.finish(side, events, Shown::Nothing);
            Ok(poller)
        });
        entered.inspect_err(|_| slot.disown())
    }

    #[cold]
    fn operate_on_thread<T>(
        &self,
        side: Side,
        deadline: Deadline,
        mut attempt: impl FnMut(RawFd) -> io::Result<Done<T>>,
    ) -> io::Result<T> {
        let descriptor = self.raw()?;
        loop {
            match attempt(descriptor) {
                Ok(done) => return Ok(done.value),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait_on_thread(side, deadline)?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Blocks the kernel thread.
    pub(crate) fn wait_on_thread(&self, side: Side, deadline: Deadline) -> io::Result<()> {
        wait::refuse_tasks();
        let descriptor = self.raw()?;
        let until = deadline.min(carried().deadline);
        let events = if side == Side::Read { libc::POLLIN } else { libc::POLLOUT };
        loop {
            let mut entry = libc::pollfd { fd: descriptor, events, revents: 0 };
            let left = || until.remaining().as_nanos().div_ceil(1_000_000);
            let timeout = if until.is_never() { -1 } else { libc::c_int::try_from(left()).unwrap_or(libc::c_int::MAX) };
            // SAFETY: one entry is valid for reading and writing.
            match unsafe { libc::poll(&mut entry, 1, timeout) } {
                0 if until.is_past() => return Err(limit_error(Outcome::TimedOut, deadline)),
                1.. => return Ok(()),
                0 => {}
                _ => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// The descriptor, which no poller knows any more.
    ///
    /// # Panics
    /// If it is of another event scope.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        let descriptor = self.descriptor.into_inner();
        if let Some(poller) = self.poller.into_inner().unwrap_or_else(PoisonError::into_inner) {
            poller.forget(descriptor.as_raw_fd());
        }
        descriptor
    }

    /// Closes it, though a copy of the descriptor lives on, of which the kernel would go on
    /// reporting.
    pub(crate) fn close(self) {
        if self.raw().is_ok() {
            drop(self.into_descriptor());
        } else {
            do_there(self.descriptor.scope(), move || drop(self.into_descriptor()));
        }
    }
}

impl AsFd for Source {
    /// # Panics
    /// If it is of another event scope.
    #[track_caller]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.lend().as_fd()
    }
}

/// The turn of one who tries. If the attempt panics, nothing is known of what it has done,
/// and the next may try.
struct Turn<'a> {
    source: &'a Source,
    side: Side,
    /// How many events there were, if a poller knew of the descriptor.
    events: Option<u32>,
}

impl Turn<'_> {
    #[inline(always)]
    fn finish(&self, shown: Shown) {
        if let (Some(known), Some(events)) = (self.source.known.get(), self.events) {
            known.slot.finish(self.side, events, shown);
        }
    }

    #[inline(always)]
    fn end(self, shown: Shown) {
        self.finish(shown);
        std::mem::forget(self);
    }
}

impl Drop for Turn<'_> {
    #[cold]
    fn drop(&mut self) {
        self.finish(Shown::More);
    }
}

/// What came of one attempt.
enum Step<T> {
    Done(io::Result<T>),
    Again,
    /// It would have had to wait; a poller reports on it.
    Wait,
}

fn no_runtime() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "there is no runtime here to wait for a descriptor")
}

/// The error for a wait that its limit ended.
fn limit_error(outcome: Outcome, deadline: Deadline) -> io::Error {
    match outcome {
        Outcome::Cancelled => Cancelled::Requested.into(),
        _ if deadline.is_past() => io::ErrorKind::WouldBlock.into(),
        _ => Cancelled::Overdue.into(),
    }
}
