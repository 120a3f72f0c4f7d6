//! Addresses: how others reach an actor.

use super::annex::add;
use super::cell::Cell;
use super::end::{Down, End};
use super::errors::{ActorId, AskError, Reason, TellError};
use super::letters::{Asked, Bounded, Look, Notice, Told};
use super::life;
use super::recipient::Recipient;
use super::reply::{self, Asking, Prepared, Replier, Unposted};
use super::timer::{self, By, Timer};
use super::traits::{Actor, Full, Handle};
use super::untyped::Untyped;
use super::waits;
use super::weak::{Anchor, Weak};
use crate::base::Deadline;
use crate::base::clock::instant_at;
use crate::base::cpu::prefetch;
use crate::mailbox::{self, Content, Order, Refused, Visit};
use crate::strand::StrandArc;
use crate::sync::oneshot;
use crate::wait::carried;
use crate::wait::{self, Why};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The address of an actor: 8 bytes, and clones lead to the same actor.
///
/// When the last address is dropped, the actor handles the messages that wait, and ends.
pub struct Address<A> {
    handle: mailbox::Handle<Cell<A>>,
}

impl<A: Actor> Address<A> {
    #[inline(always)]
    pub(super) fn from_handle(handle: mailbox::Handle<Cell<A>>) -> Address<A> {
        Address { handle }
    }

    #[inline(always)]
    pub(super) fn handle(&self) -> &mailbox::Handle<Cell<A>> {
        &self.handle
    }

    /// Sends a message, and does not wait for the reply. Messages of one sender are handled in the order in which they
    /// were sent.
    ///
    /// If the actor's mailbox is [bounded](super::Mailbox::bounded) and full, `Full` says what happens.
    ///
    /// # Errors
    /// The message was not sent, and comes back.
    #[inline]
    pub fn tell<M: Send + 'static>(&self, message: M) -> Result<(), TellError<M>>
    where
        A: Handle<M>,
    {
        let told = match A::MAILBOX.bound {
            None => self.tell_unbounded(message),
            Some((_, full)) => self.tell_bounded(message, full),
        };
        mailbox::spend();
        told
    }

    /// Sends a message as [`tell`](Address::tell) does, but never waits for room.
    ///
    /// # Errors
    /// As `tell`; and the mailbox is full.
    #[inline]
    pub fn try_tell<M: Send + 'static>(&self, message: M) -> Result<(), TellError<M>>
    where
        A: Handle<M>,
    {
        match A::MAILBOX.bound {
            None => self.tell_unbounded(message),
            Some((_, Full::Wait)) => self.tell_bounded(message, Full::Refuse),
            Some((_, full)) => self.tell_bounded(message, full),
        }
    }

    /// Sends a message as [`tell`](Address::tell) does, for tasks.
    ///
    /// # Errors
    /// As `tell`.
    pub async fn tell_async<M: Send + 'static>(&self, message: M) -> Result<(), TellError<M>>
    where
        A: Handle<M>,
    {
        if let Some((_, Full::Wait)) = A::MAILBOX.bound
            && let Some(room) = self.room()
        {
            room.wait_async().await;
            return self.tell_permitted(message);
        }
        self.try_tell(message)
    }

    /// Asks the CPU for the memory that a message to the actor needs, and does not wait for it.
    ///
    /// A sender that tells thousands of actors in turn calls this some actors ahead. Then it does not wait for the
    /// memory of each. [`Group::publish`](super::Group::publish) does so.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(std::ptr::from_ref(self.handle.mailbox()).cast());
    }

    /// Sends a message when `delay` has passed. It is dropped if the actor has ended by then. A timer does not keep a
    /// runtime.
    pub fn tell_after<M: Send + 'static>(&self, delay: Duration, message: M) -> Timer
    where
        A: Handle<M>,
    {
        timer::after(self, By::Another, delay, message)
    }

    #[inline(always)]
    pub(super) fn tell_unbounded<M: Send + 'static>(&self, message: M) -> Result<(), TellError<M>>
    where
        A: Handle<M>,
    {
        let told = Cell::post(&self.handle, Told::<A, M> { message, actor: PhantomData });
        told.map_err(|(refused, told)| TellError::new(refused.into(), told.message))
    }

    #[inline(never)]
    fn tell_bounded<M: Send + 'static>(&self, message: M, full: Full) -> Result<(), TellError<M>>
    where
        A: Handle<M>,
    {
        if self.handle.mailbox().is_carried_by_caller() {
            return self.tell_unbounded(message);
        }
        if full == Full::DropOldest {
            return self.tell_and_drop_oldest(message);
        }
        match self.enter_room(full == Full::Wait) {
            Ok(()) => self.tell_permitted(message),
            Err(reason) => Err(TellError::new(reason, message)),
        }
    }

    /// Sends a message for which there is room.
    fn tell_permitted<M: Send + 'static>(&self, message: M) -> Result<(), TellError<M>>
    where
        A: Handle<M>,
    {
        let told = self.post_bounded(Told::<A, M> { message, actor: PhantomData });
        told.map_err(|(refused, told)| TellError::new(refused.into(), told.message))
    }

    /// Posts a letter for which there is room.
    fn post_bounded<C: Content + Send + 'static>(&self, content: C) -> Result<(), (Refused, C)> {
        let posted = Cell::post(&self.handle, Bounded::<A, C> { content, actor: PhantomData });
        posted.map_err(|(refused, bounded)| {
            // The next one who waits for room gets the same answer.
            self.room().into_iter().for_each(|room| room.post(1));
            (refused, bounded.content)
        })
    }

    fn room(&self) -> Option<&crate::sync::Semaphore> {
        self.handle.state().annex().and_then(|annex| annex.room.as_ref())
    }

    /// Takes a place in a bounded mailbox.
    fn enter_room(&self, may_wait: bool) -> Result<(), Reason> {
        let Some(room) = self.room() else { return Ok(()) };
        if room.try_wait() {
            return Ok(());
        }
        if !may_wait {
            return Err(if self.is_alive() { Reason::Full } else { Reason::Stopped });
        }
        let _waiting = waits::begin(&self.handle).map_err(Reason::Cycle)?;
        room.wait_cancellable().map_err(|_| Reason::Cancelled)
    }

    /// Sends a message, and waits for the reply. The calling fibre or kernel thread blocks.
    ///
    /// A deadline that the caller carries goes with the question: the handler carries it too, and a question whose time
    /// is up is not read.
    ///
    /// # Errors
    /// There is no reply. In particular, actors that would wait for each other get an error that names them.
    ///
    /// # Panics
    /// In a task, which may not block its processor: see [`ask_async`](Address::ask_async).
    #[inline]
    pub fn ask<M: Send + 'static>(&self, message: M) -> Result<A::Reply, AskError>
    where
        A: Handle<M>,
    {
        self.ask_until(Deadline::NEVER, message)
    }

    /// Asks as [`ask`](Address::ask) does, but waits no longer than `timeout`.
    ///
    /// # Errors
    /// As `ask`.
    pub fn ask_timeout<M: Send + 'static>(&self, timeout: Duration, message: M) -> Result<A::Reply, AskError>
    where
        A: Handle<M>,
    {
        self.ask_until(Deadline::after(timeout), message)
    }

    /// Asks as [`ask`](Address::ask) does, but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// As `ask`.
    pub fn ask_deadline<M: Send + 'static>(&self, deadline: Instant, message: M) -> Result<A::Reply, AskError>
    where
        A: Handle<M>,
    {
        self.ask_until(Deadline::at(deadline), message)
    }

    #[inline]
    fn ask_until<M: Send + 'static>(&self, deadline: Deadline, message: M) -> Result<A::Reply, AskError>
    where
        A: Handle<M>,
    {
        crate::wait::refuse_tasks();
        if deadline.min(carried().deadline).is_past() {
            return Err(AskError::TimedOut);
        }
        if !A::BLOCKS
            && let Some(visit) = self.handle.mailbox().visit()
        {
            return self.ask_in_place(visit, message);
        }
        let _waiting = self.begin_to_wait()?;
        self.enter_room_to_ask(Some(deadline))?;
        reply::ask(self.why(), deadline, |replier| self.post_question(message, replier))
    }

    /// Handles a question at once, on the caller's stack. The visit ends when the handler has returned.
    #[inline]
    fn ask_in_place<M: Send + 'static>(&self, visit: Visit<'_>, message: M) -> Result<A::Reply, AskError>
    where
        A: Handle<M>,
    {
        let mailbox = self.handle.mailbox();
        let handled =
            catch_unwind(AssertUnwindSafe(|| Cell::<A>::with(mailbox, |actor, cx| actor.handle(message, cx))));
        let reply = match handled {
            Ok(reply) => reply.ok_or(AskError::Stopped),
            Err(payload) => {
                life::note_panic::<A>(mailbox, payload);
                Err(AskError::Panicked)
            }
        };
        drop(visit);
        mailbox::spend();
        reply
    }

    /// Asks as [`ask`](Address::ask) does, for tasks. The question is sent when the future is first polled. If the
    /// future is dropped, the actor does not read the question, unless it has begun. It does not wait for room in a
    /// bounded mailbox.
    ///
    /// # Errors
    /// As `ask`.
    pub fn ask_async<M: Send + 'static>(&self, message: M) -> impl Future<Output = Result<A::Reply, AskError>> + Send
    where
        A: Handle<M>,
    {
        Asking::new(move |replier| match self.enter_room_to_ask(None) {
            Ok(()) => self.post_question(message, replier),
            Err(error) => Err((error, replier)),
        })
    }

    /// Asks by a message that has the right to reply in it. The handler may keep that, and answer later.
    ///
    /// ```
    /// use sinew::actor::{self, Actor, Context, Handle, Replier};
    ///
    /// struct Fetch(u32, Replier<u32>);
    ///
    /// #[derive(Default)]
    /// struct Cache {
    ///     waiting: Vec<Fetch>,
    /// }
    ///
    /// impl Actor for Cache {}
    ///
    /// impl Handle<Fetch> for Cache {
    ///     type Reply = ();
    ///
    ///     fn handle(&mut self, fetch: Fetch, _: &mut Context<'_, Self>) {
    ///         self.waiting.push(fetch);
    ///         if self.waiting.len() == 2 {
    ///             self.waiting.drain(..).for_each(|Fetch(key, replier)| drop(replier.answer(key * 2)));
    ///         }
    ///     }
    /// }
    ///
    /// sinew::run(|| {
    ///     let cache = actor::spawn(Cache::default());
    ///     let other = cache.clone();
    ///     let first = sinew::spawn(move || other.ask_with(|replier| Fetch(1, replier)));
    ///     assert_eq!(cache.ask_with(|replier| Fetch(2, replier)), Ok(4));
    ///     assert_eq!(first.join().unwrap(), Ok(2));
    /// });
    /// ```
    ///
    /// # Errors
    /// As [`ask`](Address::ask).
    pub fn ask_with<M: Send + 'static, R: Send + 'static>(
        &self,
        message: impl FnOnce(Replier<R>) -> M,
    ) -> Result<R, AskError>
    where
        A: Handle<M>,
    {
        crate::wait::refuse_tasks();
        let (question, replier) = Prepared::new();
        let message = message(replier);
        let _waiting = self.begin_to_wait()?;
        self.enter_room_to_ask(Some(Deadline::NEVER))?;
        let told = match A::MAILBOX.bound {
            None => self.tell_unbounded(message),
            Some((_, Full::DropOldest)) => self.tell_and_drop_oldest(message),
            Some(_) => self.tell_permitted(message),
        };
        told.map_err(|error| AskError::from(error.reason().clone()))?;
        question.wait(self.why())
    }

    /// Returns what a caller waits for that has asked this actor.
    fn why(&self) -> Why {
        Why::at(wait::Reason::Ask, self.handle.strand().strand())
    }

    /// Notes that the caller waits for this actor.
    ///
    /// # Errors
    /// It would wait for ever.
    #[inline]
    fn begin_to_wait(&self) -> Result<waits::Waiting, AskError> {
        // An actor that answers in place waits on the stack of its asker, which may be no actor.
        if !A::BLOCKS && self.handle.mailbox().is_carried_by_caller() {
            return Err(AskError::Cycle(vec![self.id()]));
        }
        waits::begin(&self.handle).map_err(AskError::Cycle)
    }

    /// Takes a place in a bounded mailbox. Waits for it until the deadline, if there is one.
    fn enter_room_to_ask(&self, deadline: Option<Deadline>) -> Result<(), AskError> {
        match A::MAILBOX.bound {
            None | Some((_, Full::DropOldest)) => Ok(()),
            Some((_, full)) => {
                let Some(room) = self.room() else { return Ok(()) };
                if room.try_wait() {
                    Ok(())
                } else if full == Full::Wait
                    && let Some(deadline) = deadline
                {
                    let entered = match deadline.is_never() {
                        true => room.wait_cancellable(),
                        false => room.wait_deadline(instant_at(deadline.ns())),
                    };
                    entered.map_err(|error| match error {
                        crate::sync::AcquireError::TimedOut => AskError::TimedOut,
                        crate::sync::AcquireError::Cancelled => AskError::Cancelled,
                    })
                } else {
                    Err(if self.is_alive() { AskError::Full } else { AskError::Stopped })
                }
            }
        }
    }

    #[inline(always)]
    fn post_question<M: Send + 'static>(&self, message: M, replier: Replier<A::Reply>) -> Result<(), Unposted<A::Reply>>
    where
        A: Handle<M>,
    {
        let asked = Asked::<A, M> { message, replier };
        let posted = match A::MAILBOX.bound {
            None => Cell::post(&self.handle, asked),
            Some((_, Full::DropOldest)) => self.post_and_drop_oldest(asked),
            Some(_) => self.post_bounded(asked),
        };
        posted.map_err(|(refused, asked)| (Reason::from(refused).into(), asked.replier))
    }

    /// Calls `look` with the value of the actor, as if it were a message. Returns `None` if the actor has ended.
    pub(crate) fn look<R: Send + 'static>(&self, look: impl FnOnce(&mut A) -> R + Send + 'static) -> Option<R> {
        let (sender, seen) = oneshot::channel();
        let look = move |actor: &mut A| drop(sender.send(look(actor)));
        Cell::post(&self.handle, Look::<A, _> { look, actor: PhantomData }).ok()?;
        seen.recv().ok()
    }

    /// Ends the actor when the messages that wait have been handled. From now on messages come back to their senders.
    pub fn stop(&self) {
        self.handle.mailbox().order(Order::Stop);
    }

    /// Ends the actor before its next message. A handler that blocks is cancelled: its call returns an error. The
    /// messages that wait are dropped, and their askers get an error.
    pub fn kill(&self) {
        self.handle.mailbox().order(Order::Kill);
    }

    /// Returns whether the actor has not ended. The answer may be out of date.
    pub fn is_alive(&self) -> bool {
        !self.handle.mailbox().word().has_ended()
    }

    /// Returns whether no message waits or is being handled. The answer may be out of date.
    pub fn is_idle(&self) -> bool {
        !self.handle.mailbox().word().is_active()
    }

    /// Waits until the actor has ended, and returns why. An actor that is idle when its runtime ends never does.
    ///
    /// # Panics
    /// In a task: see [`join_async`](Address::join_async).
    pub fn join(&self) -> End {
        crate::wait::refuse_tasks();
        let ended = self.ended();
        let end = crate::cancel::shield(|| ended.recv());
        end.unwrap_or_else(|_| self.untyped().usual_end())
    }

    /// Waits as [`join`](Address::join) does, but no longer than `timeout`. Returns `None` if the time is up first.
    pub fn join_timeout(&self, timeout: Duration) -> Option<End> {
        self.ended().recv_timeout(timeout).ok()
    }

    /// Waits as [`join`](Address::join) does, for tasks.
    pub async fn join_async(&self) -> End {
        let mut ended = self.ended();
        ended.recv_async().await.unwrap_or_else(|_| self.untyped().usual_end())
    }

    fn ended(&self) -> oneshot::Receiver<End> {
        let (sender, receiver) = oneshot::channel();
        self.untyped().enter(|shared| add(&mut shared.joiners, sender, oneshot::Sender::is_closed));
        receiver
    }

    /// Returns which actor it is.
    pub fn id(&self) -> ActorId {
        self.untyped().id()
    }

    /// Returns an address for messages of type `M` that forgets the type of the actor.
    pub fn recipient<M: Send + 'static>(&self) -> Recipient<M>
    where
        A: Handle<M>,
    {
        Recipient::new(self)
    }

    /// Returns an address that does not keep the actor.
    pub fn downgrade(&self) -> WeakAddress<A> {
        WeakAddress { weak: self.weak(), actor: PhantomData }
    }

    pub(super) fn weak(&self) -> Weak {
        let annex = self.handle.state().annex_or_new();
        Weak(Arc::clone(annex.anchor.get_or_init(|| Arc::new(Anchor::new(self.handle.strand().strand())))))
    }

    pub(super) fn untyped(&self) -> Untyped {
        Untyped::new(self.handle.strand())
    }

    /// Posts a notice of the end of another actor to the actor behind `strand`, which is an `A`.
    pub(super) fn tell_down(strand: StrandArc, down: Down) {
        let handle = Cell::<A>::handle_from(strand);
        // An actor that has ended needs no notice.
        drop(Cell::post(&handle, Notice::<A> { down, actor: PhantomData }));
    }
}

impl From<Refused> for Reason {
    fn from(refused: Refused) -> Reason {
        match refused {
            Refused::Closed => Reason::Stopped,
            Refused::Ended => Reason::Ended,
        }
    }
}

impl From<Reason> for AskError {
    fn from(reason: Reason) -> AskError {
        match reason {
            Reason::Stopped => AskError::Stopped,
            Reason::Ended => AskError::Ended,
            Reason::Full => AskError::Full,
            Reason::Cancelled => AskError::Cancelled,
            Reason::Cycle(actors) => AskError::Cycle(actors),
        }
    }
}

impl<A> Clone for Address<A> {
    #[inline]
    fn clone(&self) -> Address<A> {
        Address { handle: self.handle.clone() }
    }
}

/// Addresses are equal if they lead to the same actor.
impl<A: Actor> PartialEq for Address<A> {
    fn eq(&self, other: &Address<A>) -> bool {
        std::ptr::eq(self.handle.mailbox(), other.handle.mailbox())
    }
}

impl<A: Actor> Eq for Address<A> {}

impl<A: Actor> Hash for Address<A> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.handle.mailbox()).hash(state);
    }
}

impl<A: Actor> fmt::Debug for Address<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").field("actor", &self.id()).field("is_alive", &self.is_alive()).finish()
    }
}

/// An address that does not keep its actor.
pub struct WeakAddress<A> {
    weak: Weak,
    actor: PhantomData<fn(A)>,
}

impl<A: Actor> WeakAddress<A> {
    /// Returns an address, if anybody else has one.
    pub fn upgrade(&self) -> Option<Address<A>> {
        self.weak.upgrade().map(|strand| Address { handle: Cell::<A>::handle_from(strand) })
    }
}

impl<A> Clone for WeakAddress<A> {
    fn clone(&self) -> WeakAddress<A> {
        WeakAddress { weak: self.weak.clone(), actor: PhantomData }
    }
}

impl<A> fmt::Debug for WeakAddress<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakAddress").finish_non_exhaustive()
    }
}
