//! Answers: one place that a question and its asker share.
//!
//! The asker may give up at any time, because its time is up or it was cancelled. So the place does not lie in its
//! frame, but in a block of the processor's. [`Question`] decides which side frees it.
#![allow(unsafe_code)]

use super::errors::AskError;
use super::question::{ANSWERED, Question, Settled};
use crate::base::Deadline;
use crate::processor::{Processor, put_memory, with_current};
use crate::strand::blocks;
use crate::wait::{Awaiting, Limit, Outcome, Party, block_within, carried};
use crate::wait::{Reason, Why};
use std::alloc::Layout;
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};
use std::time::Instant;

/// Why there is no answer, as a number that is greater than `ANSWERED`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Missing {
    Stopped = 3,
    Panicked = 4,
    Unanswered = 5,
    Overdue = 6,
    Full = 7,
}

impl Missing {
    fn error(number: u32) -> AskError {
        match number {
            4 => AskError::Panicked,
            5 => AskError::Unanswered,
            6 => AskError::TimedOut,
            7 => AskError::Full,
            _ => AskError::Stopped,
        }
    }
}

/// The place of an answer.
struct Place<R> {
    question: Question,
    /// What is told when the question is settled. Written before the asker waits, and read after that.
    asker: Cell<Option<Party>>,
    /// When the asker gives up.
    deadline: Deadline,
    /// Owner: the replier, until it has settled the question; then the asker.
    answer: UnsafeCell<MaybeUninit<R>>,
}

impl<R> Place<R> {
    fn make(question: Question, deadline: Deadline) -> NonNull<Place<R>> {
        let layout = Layout::new::<Place<R>>();
        let memory = with_current(|processor| blocks::take(processor.map(Processor::blocks), layout)).cast();
        let new = Place { question, asker: Cell::new(None), deadline, answer: UnsafeCell::new(MaybeUninit::uninit()) };
        // SAFETY: the memory is large enough, and ours.
        unsafe { memory.write(new) };
        memory
    }

    /// # Safety
    /// Nobody else uses the place, and the answer has been taken out.
    unsafe fn free(place: NonNull<Place<R>>) {
        // SAFETY: the memory was taken with this layout, and what is in it needs no drop.
        unsafe { put_memory(place.cast(), Layout::new::<Place<R>>()) };
    }
}

/// The asker's side.
struct Asker<R>(NonNull<Place<R>>);

impl<R> Asker<R> {
    fn place(&self) -> &Place<R> {
        // SAFETY: the place stays until one side frees it, which drops or forgets the asker first.
        unsafe { self.0.as_ref() }
    }

    /// Makes a place. If the question is pending, the caller sets the party that is told, and posts the question.
    fn new(question: Question, deadline: Deadline) -> (Asker<R>, Replier<R>) {
        let place = Place::make(question, deadline);
        (Asker(place), Replier(place))
    }

    /// Returns `false` if the question has been settled: then the asker will be told, or has been. Otherwise the place
    /// must not be used any more.
    #[must_use]
    fn give_up(&self) -> bool {
        self.place().question.give_up()
    }

    /// Takes the answer, after the asker has been told, and frees the place.
    #[inline]
    fn take(self) -> Result<R, AskError> {
        let outcome = self.place().question.outcome();
        // SAFETY: the replier has written it, and it is taken once.
        let answer = (outcome == ANSWERED).then(|| unsafe { (*self.place().answer.get()).assume_init_read() });
        // SAFETY: the replier is done with the place.
        unsafe { Place::free(self.0) };
        answer.ok_or_else(|| Missing::error(outcome))
    }
}

/// The right to answer a question: the handler of a message that has one may keep it and answer later. See
/// [`Address::ask_with`](super::Address::ask_with).
///
/// To drop it without an answer is an error for the asker, [`AskError::Unanswered`].
pub struct Replier<R>(NonNull<Place<R>>);

// SAFETY: the answer goes from one thread to another, and the rest of the place is atomic or does not change.
unsafe impl<R: Send> Send for Replier<R> {}
// SAFETY: a shared reference gives access to the state and the deadline alone.
unsafe impl<R: Send> Sync for Replier<R> {}

impl<R> Replier<R> {
    fn place(&self) -> &Place<R> {
        // SAFETY: the place stays until one side frees it: the asker does not before this has settled it.
        unsafe { self.0.as_ref() }
    }

    /// Answers.
    ///
    /// # Errors
    /// The asker has given up. Then the answer comes back.
    #[inline]
    pub fn answer(self, answer: R) -> Result<(), R> {
        // SAFETY: the replier owns the answer until it settles the question.
        unsafe { (*self.place().answer.get()).write(answer) };
        if self.settle(ANSWERED) {
            std::mem::forget(self);
            return Ok(());
        }
        // SAFETY: written above; the asker is gone.
        let answer = unsafe { (*self.place().answer.get()).assume_init_read() };
        self.free();
        std::mem::forget(self);
        Err(answer)
    }

    /// Returns whether the asker has given up: its time was up, or it was cancelled.
    #[inline]
    pub fn is_abandoned(&self) -> bool {
        self.place().question.is_given_up()
    }

    /// Returns when the asker gives up, if it does.
    pub fn deadline(&self) -> Option<Instant> {
        let deadline = self.place().deadline;
        (!deadline.is_never()).then(|| crate::base::clock::instant_at(deadline.ns()))
    }

    pub(super) fn due(&self) -> Deadline {
        self.place().deadline
    }

    /// Settles the question without an answer.
    #[cold]
    pub(super) fn miss(self, why: Missing) {
        if !self.settle(why as u32) {
            self.free();
        }
        std::mem::forget(self);
    }

    /// Settles the question. Returns `false` if the asker is gone: then the caller frees the place. Otherwise the place
    /// must not be used any more.
    #[inline]
    fn settle(&self, outcome: u32) -> bool {
        let place = self.place();
        match place.question.settle(outcome, || place.asker.get()) {
            Settled::Free => false,
            Settled::Leave => true,
            Settled::Tell(asker) => {
                Party::signal_owed(asker.expect("the asker is known before it waits").owed());
                true
            }
        }
    }

    fn free(&self) {
        // SAFETY: the asker is gone, and there is no answer.
        unsafe { Place::free(self.0) };
    }

    /// Gives up the right: the question was not posted, and the asker knows it.
    fn take_back(self) {
        std::mem::forget(self);
    }
}

impl<R> Drop for Replier<R> {
    #[cold]
    fn drop(&mut self) {
        let why = if std::thread::panicking() { Missing::Panicked } else { Missing::Unanswered };
        if !self.settle(why as u32) {
            self.free();
        }
    }
}

impl<R> fmt::Debug for Replier<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replier").field("is_abandoned", &self.is_abandoned()).finish_non_exhaustive()
    }
}

/// A question that was not posted: why, and the right to answer it.
pub(super) type Unposted<R> = (AskError, Replier<R>);

/// Posts a question, and waits for its answer. The caller's limits and `deadline` end the wait.
#[inline]
pub(super) fn ask<R>(
    why: Why,
    deadline: Deadline,
    post: impl FnOnce(Replier<R>) -> Result<(), Unposted<R>>,
) -> Result<R, AskError> {
    let (asker, replier) = Asker::new(Question::pending(), deadline.min(carried().deadline));
    let mut refused = None;
    let enter = |wait: &_| {
        asker.place().asker.set(Some(Party::timed(wait)));
        match post(replier) {
            Ok(()) => true,
            Err((error, replier)) => {
                replier.take_back();
                refused = Some(error);
                false
            }
        }
    };
    match block_within(Limit::carried_until(deadline), why, enter, |_| asker.give_up()) {
        Outcome::Told => {}
        // The replier frees the place.
        Outcome::TimedOut => return Err(AskError::TimedOut),
        Outcome::Cancelled => return Err(AskError::Cancelled),
    }
    match refused {
        None => asker.take(),
        Some(error) => {
            // SAFETY: nobody else knows the place, and there is no answer.
            unsafe { Place::free(asker.0) };
            Err(error)
        }
    }
}

/// A question that the program itself puts into a message. Its code runs, and the asker may wait for room, before
/// there is a wait that could be told. If this is dropped, nobody waits for the answer.
pub(super) struct Prepared<R>(Option<Asker<R>>);

impl<R> Prepared<R> {
    /// Makes a question for the caller, who carries a deadline maybe.
    pub(super) fn new() -> (Prepared<R>, Replier<R>) {
        let (asker, replier) = Asker::new(Question::prepared(), carried().deadline);
        (Prepared(Some(asker)), replier)
    }

    /// Waits for the answer. The caller's limits end the wait.
    pub(super) fn wait(mut self, why: Why) -> Result<R, AskError> {
        let asker = self.0.take().expect("it is taken here and in `drop`");
        let enter = |wait: &_| {
            let place = asker.place();
            place.asker.set(Some(Party::timed(wait)));
            place.question.wait()
        };
        match block_within(Limit::carried_until(Deadline::NEVER), why, enter, |_| asker.give_up()) {
            Outcome::Told => asker.take(),
            // The replier frees the place.
            Outcome::TimedOut => Err(AskError::TimedOut),
            Outcome::Cancelled => Err(AskError::Cancelled),
        }
    }
}

impl<R> Drop for Prepared<R> {
    fn drop(&mut self) {
        if let Some(asker) = self.0.take()
            && !asker.place().question.withdraw()
        {
            drop(asker.take());
        }
    }
}

/// The future of an answer. The question is posted when it is first polled.
pub(super) struct Asking<R, P> {
    /// Posts the question, until it has been posted.
    post: Option<P>,
    asker: Option<Asker<R>>,
    awaiting: Awaiting,
}

// SAFETY: the place may be used from any thread, and `Awaiting` is made for it.
unsafe impl<R: Send, P: Send> Send for Asking<R, P> {}

impl<R, P: FnOnce(Replier<R>) -> Result<(), Unposted<R>>> Asking<R, P> {
    pub(super) fn new(post: P) -> Asking<R, P> {
        Asking { post: Some(post), asker: None, awaiting: Awaiting::new() }
    }
}

impl<R, P: FnOnce(Replier<R>) -> Result<(), Unposted<R>>> Future for Asking<R, P> {
    type Output = Result<R, AskError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `awaiting` is pinned with the future, and nothing moves it.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let awaiting = unsafe { Pin::new_unchecked(&mut this.awaiting) };
        if let Some(post) = this.post.take() {
            let (asker, replier) = Asker::new(Question::pending(), carried().deadline);
            asker.place().asker.set(Some(Party::timed(awaiting.begin(context.waker()))));
            if let Err((error, replier)) = post(replier) {
                replier.take_back();
                drop(this.awaiting.retract());
                // SAFETY: nobody else knows the place, and there is no answer.
                unsafe { Place::free(asker.0) };
                return Poll::Ready(Err(error));
            }
            this.asker = Some(asker);
        }
        if this.awaiting.poll(context).is_pending() {
            Why::of(Reason::Ask, 0).leave_in_task();
            return Poll::Pending;
        }
        Poll::Ready(this.asker.take().expect("a future is not polled after it was ready").take())
    }
}

impl<R, P> Drop for Asking<R, P> {
    fn drop(&mut self) {
        let Some(asker) = self.asker.take() else { return };
        if asker.give_up() {
            drop(self.awaiting.retract());
        } else {
            self.awaiting.await_signal();
            drop(asker.take());
        }
    }
}
