//! A descriptor that fibres wait for: the seam between the types that a user touches and the way
//! the kernel is asked.
//!
//! With epoll an operation is *attempted*. If the kernel says that it would have to wait, the fibre
//! waits until a poller says otherwise, and tries again. An engine that takes whole operations
//! takes the place of [`Source::operate`].
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
//! So a session that reads a request, answers it and reads again makes one call for each, and none
//! that fails: the short read has shown that there is no more. Events may come at any time, so they
//! are counted: the result of a call counts only if there was no event since the call began. The
//! kernel reports the end of a stream once, possibly before the last bytes are read: so a side that
//! has been reported closed is worth trying also after a short read.

use super::event_scope::do_there;
use super::event_scoped::EventScoped;
use super::poller::Poller;
use super::slots::{Owned, Shown, Side};
use crate::base::Deadline;
use crate::base::cpu::prefetch;
use crate::cancel::Cancelled;
use crate::processor;
use crate::stack::current_stack;
use crate::wait::budget;
use crate::wait::{self, Limit, Outcome, carried};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker, ready};

pub(crate) struct Source {
    descriptor: EventScoped<OwnedFd>,
    known: OnceLock<Known>,
    /// The poller that knows the descriptor. Locked while the registration changes.
    poller: Mutex<Option<Arc<Poller>>>,
}

/// The registration of a descriptor with a poller.
struct Known {
    slot: Owned,
    /// Whether the poller reports on room to write. Written under the lock of `Source::poller`.
    reports_room: AtomicBool,
}

impl Known {
    /// Waits until it is worth trying, on a side that the poller reports on. Returns the number of
    /// events.
    fn wait(&self, side: Side, deadline: Deadline) -> io::Result<u32> {
        self.slot.wait(side, Limit::carried_until(deadline)).map_err(|outcome| limit_error(outcome, deadline))
    }
}

/// The result of an attempt.
pub(crate) struct Done<T> {
    pub(crate) value: T,
    pub(crate) shown: Shown,
}

impl<T> Done<T> {
    /// The result of an attempt that shows nothing of its side.
    pub(crate) fn some(value: T) -> Done<T> {
        Done { value, shown: Shown::More }
    }
}

impl Done<usize> {
    /// The result of an attempt that moved `count` bytes of a stream, of `asked` bytes.
    pub(crate) fn bytes(count: usize, asked: usize) -> Done<usize> {
        Done { value: count, shown: if count < asked && count > 0 { Shown::Short } else { Shown::More } }
    }
}

impl Source {
    /// Takes a descriptor that has been made non-blocking.
    pub(crate) fn new(descriptor: OwnedFd) -> Source {
        Source { descriptor: EventScoped::new(descriptor), known: OnceLock::new(), poller: Mutex::default() }
    }

    /// Returns the descriptor.
    ///
    /// # Errors
    /// If it is of another event scope.
    #[inline]
    pub(crate) fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        Ok(self.descriptor.get()?.as_fd())
    }

    /// Returns the number that the descriptor has in its own event scope.
    pub(crate) fn number(&self) -> RawFd {
        self.descriptor.peek().as_raw_fd()
    }

    /// Attempts until it succeeds or fails, and waits each time the kernel says that it has to. Not
    /// beyond `deadline`: that is `WouldBlock`, as in std.
    #[inline]
    pub(crate) fn operate<T>(
        &self,
        side: Side,
        deadline: Deadline,
        mut attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<Done<T>>,
    ) -> io::Result<T> {
        if current_stack().is_none() {
            return self.operate_on_thread(side, deadline, attempt);
        }
        budget::spend(budget::KERNEL_CALL);
        let descriptor = self.fd()?;
        let mut state = match self.known.get() {
            // A poller that knows it reports on this side: one look at the slot is enough.
            Some(known) if side == Side::Read => State::Ready { events: known.wait(side, deadline)? },
            known => State::of(known, side),
        };
        loop {
            if let State::NotReady = state {
                state = State::Ready { events: self.wait(side, deadline)? };
            }
            match self.attempt(descriptor, side, state, &mut attempt) {
                Step::Done(outcome) => return outcome,
                Step::Again => {}
                Step::Wait => state = State::NotReady,
            }
        }
    }

    /// As [`operate`](Source::operate), for a task. If it is dropped, nothing has been done.
    pub(crate) async fn operate_async<T>(
        &self,
        side: Side,
        mut attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<Done<T>>,
    ) -> io::Result<T> {
        budget::spend_async().await;
        let mut descriptor = self.fd()?;
        let mut state = State::of(self.known.get(), side);
        loop {
            if let State::NotReady = state {
                let known = self.known(side)?;
                let events = known.slot.wait_async(side).await;
                // The future may be polled in another event scope by now.
                descriptor = self.fd().inspect_err(|_| known.slot.finish(side, events, Shown::More))?;
                state = State::Ready { events };
            }
            match self.attempt(descriptor, side, state, &mut attempt) {
                Step::Done(outcome) => return outcome,
                Step::Again => {}
                Step::Wait => state = State::NotReady,
            }
        }
    }

    /// As [`operate_async`](Source::operate_async), for a caller that polls. On each side the last
    /// caller is woken.
    pub(crate) fn poll_operate<T>(
        &self,
        side: Side,
        context: &mut Context<'_>,
        mut attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<Done<T>>,
    ) -> Poll<io::Result<T>> {
        ready!(budget::poll_spend(context));
        let descriptor = self.fd()?;
        let mut state = match self.known.get() {
            // As in `operate`.
            Some(known) if side == Side::Read => {
                State::Ready { events: ready!(known.slot.poll(side, context.waker())) }
            }
            known => State::of(known, side),
        };
        loop {
            if let State::NotReady = state {
                state = State::Ready { events: ready!(self.known(side)?.slot.poll(side, context.waker())) };
            }
            match self.attempt(descriptor, side, state, &mut attempt) {
                Step::Done(outcome) => return Poll::Ready(outcome),
                Step::Again => {}
                Step::Wait => state = State::NotReady,
            }
        }
    }

    /// Attempts until it succeeds or fails, but does not wait: that is `WouldBlock`. Then a poller
    /// reports on this side. Makes no system call if it is not worth trying.
    pub(crate) fn operate_at_once<T>(
        &self,
        side: Side,
        mut attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<Done<T>>,
    ) -> io::Result<T> {
        let descriptor = self.fd()?;
        let state = State::of(self.known.get(), side);
        if let State::NotReady = state {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        loop {
            match self.attempt(descriptor, side, state, &mut attempt) {
                Step::Done(outcome) => return outcome,
                Step::Again => {}
                Step::Wait => return Err(io::ErrorKind::WouldBlock.into()),
            }
        }
    }

    /// Returns whether it is worth trying. If not, this waker is called when it is, unless
    /// another caller polls the side meanwhile.
    pub(crate) fn is_ready_or_wakes(&self, side: Side, waker: &Waker) -> io::Result<bool> {
        Ok(self.known(side)?.slot.poll(side, waker).is_ready())
    }

    /// Waits until it is worth trying, for a task, which need not try.
    pub(crate) async fn ready_async(&self, side: Side) -> io::Result<()> {
        budget::spend_async().await;
        self.fd()?;
        let slot = &self.known(side)?.slot;
        let events = slot.wait_async(side).await;
        // Nothing has been read or written: the next may try as well.
        slot.finish(side, events, Shown::More);
        Ok(())
    }

    /// As [`ready_async`](Source::ready_async), for a caller that polls. On each side the last
    /// caller is woken.
    pub(crate) fn poll_ready(&self, side: Side, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(budget::poll_spend(context));
        self.fd()?;
        self.known(side)?.slot.poll(side, context.waker()).map(|_| Ok(()))
    }

    /// Tries once, with what is known of the side.
    #[inline(always)]
    fn attempt<T>(
        &self,
        descriptor: BorrowedFd<'_>,
        side: Side,
        state: State,
        attempt: &mut impl FnMut(BorrowedFd<'_>) -> io::Result<Done<T>>,
    ) -> Step<T> {
        // The system call takes longer than it takes to fetch this.
        prefetch((&raw const self.known).cast());
        let turn = Turn { source: self, side, state };
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

    /// Waits until a poller says that it is worth trying. Returns the number of events.
    pub(crate) fn wait(&self, side: Side, deadline: Deadline) -> io::Result<u32> {
        self.known(side)?.wait(side, deadline)
    }

    /// Returns the registration, with which the poller reports on this side.
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
                poller.watch(self.fd()?, known.slot.key(), side, true)?;
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
                slot.serve(self.number());
                *poller = Some(self.enter(&slot, side, side == Side::Write)?);
                let known = Known { slot, reports_room: AtomicBool::new(side == Side::Write) };
                assert!(self.known.set(known).is_ok(), "it is made known under the lock");
            }
        }
        Ok(())
    }

    /// Lets the poller of the caller's cluster report on bytes to read, and on room to write if
    /// `room` says so.
    fn enter(&self, slot: &Owned, side: Side, room: bool) -> io::Result<Arc<Poller>> {
        let descriptor = self.fd()?;
        let poller = processor::with_current(|processor| processor.ok_or_else(no_runtime)?.poller());
        let entered = poller.and_then(|poller| {
            let events = slot.adopt(poller.number(), side);
            poller.watch(descriptor.as_fd(), slot.key(), if room { Side::Write } else { Side::Read }, false)?;
            // The kernel reports at once what is there already, so the side is not worth trying
            // before there was an event.
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
        mut attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<Done<T>>,
    ) -> io::Result<T> {
        let descriptor = self.fd()?;
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
        let descriptor = self.fd()?;
        let until = deadline.min(carried().deadline);
        let events = if side == Side::Read { PollFlags::IN } else { PollFlags::OUT };
        loop {
            let left = (!until.is_never()).then(|| Timespec::try_from(until.remaining()).ok()).flatten();
            match rustix::event::poll(&mut [PollFd::from_borrowed_fd(descriptor, events)], left.as_ref()) {
                Ok(0) if until.is_past() => return Err(limit_error(Outcome::TimedOut, deadline)),
                Ok(1..) => return Ok(()),
                Ok(0) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the descriptor, which no poller knows any more.
    ///
    /// # Panics
    /// If it is of another event scope.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        let descriptor = self.descriptor.into_inner();
        if let Some(poller) = self.poller.into_inner().unwrap_or_else(PoisonError::into_inner) {
            poller.forget(descriptor.as_fd());
        }
        descriptor
    }

    /// Closes the descriptor and ends the reports on it: a copy of it lives on, so the kernel would
    /// go on reporting.
    pub(crate) fn close(self) {
        if self.fd().is_ok() {
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

/// The turn of an operation that tries. If the attempt panics, nothing is known of what it has
/// done, and the next may try.
struct Turn<'a> {
    source: &'a Source,
    side: Side,
    state: State,
}

impl Turn<'_> {
    #[inline(always)]
    fn finish(&self, shown: Shown) {
        if let (Some(known), State::Ready { events }) = (self.source.known.get(), self.state) {
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

/// The state of a side of the descriptor, as an operation sees it before it tries.
#[derive(Clone, Copy)]
enum State {
    /// No poller knows the descriptor: only an attempt tells.
    Unknown,
    /// A poller knows it, and it is not worth trying before there was an event.
    NotReady,
    /// It is worth trying: the poller has counted this many events.
    Ready { events: u32 },
}

impl State {
    #[inline]
    fn of(known: Option<&Known>, side: Side) -> State {
        match known.map(|known| known.slot.begin(side)) {
            None => State::Unknown,
            Some(None) => State::NotReady,
            Some(Some(events)) => State::Ready { events },
        }
    }
}

/// The next step after an attempt.
enum Step<T> {
    Done(io::Result<T>),
    Again,
    /// It would have had to wait; a poller reports on it.
    Wait,
}

fn no_runtime() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "there is no runtime here to wait for a descriptor")
}

/// Returns the error for a wait that its limit ended.
pub(crate) fn limit_error(outcome: Outcome, deadline: Deadline) -> io::Error {
    match outcome {
        Outcome::Cancelled => Cancelled::Requested.into(),
        _ if deadline.is_past() => io::ErrorKind::WouldBlock.into(),
        _ => Cancelled::Overdue.into(),
    }
}
