//! What a handler can do with its own actor.

use super::address::Address;
use super::annex::{Watcher, add};
use super::cell::Cell;
use super::end::{Failure, Relation};
use super::errors::ActorId;
use super::life;
use super::spawn::Builder;
use super::timer::{self, By, Timer};
use super::traits::{Actor, Handle};
use super::untyped::Untyped;
use crate::mailbox::{Mailbox, Order};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// The actor that a handler belongs to.
pub struct Context<'a, A> {
    mailbox: &'a Mailbox,
    actor: PhantomData<fn(A)>,
}

impl<'a, A: Actor> Context<'a, A> {
    #[inline(always)]
    pub(super) fn new(mailbox: &'a Mailbox) -> Context<'a, A> {
        Context { mailbox, actor: PhantomData }
    }

    /// Returns the address of the actor.
    pub fn address(&self) -> Address<A> {
        Address::from_handle(Cell::handle_of(self.mailbox))
    }

    /// Returns which actor it is.
    pub fn id(&self) -> ActorId {
        self.untyped().id()
    }

    /// Sends a message to the actor itself. It is handled after those that wait, and ignores the bound.
    pub fn tell_self<M: Send + 'static>(&mut self, message: M)
    where
        A: Handle<M>,
    {
        // An actor that is to stop handles no more than what waits.
        drop(self.address().tell_unbounded(message));
    }

    /// Ends the actor when the messages that wait now have been handled.
    pub fn stop(&mut self) {
        self.mailbox.order(Order::Stop);
    }

    /// Notes that the actor has failed. After this handler it is restarted, or ends.
    pub fn fail(&mut self, failure: impl Into<Failure>) {
        life::note_failure::<A>(self.mailbox, failure.into());
    }

    /// Spawns a child. It ends with this actor, and with a restart of this actor: when this one has stopped, the child is stopped, and when this one was
    /// killed, the child is killed. The end of the child comes to [`down`](Actor::down).
    #[track_caller]
    pub fn spawn<C: Actor>(&mut self, child: C) -> Address<C> {
        self.adopt(Builder::new().spawn(child))
    }

    /// Makes an actor that has been spawned a child of this one.
    pub fn adopt<C: Actor>(&mut self, child: Address<C>) -> Address<C> {
        let (me, other) = (self.untyped(), child.untyped());
        add(&mut me.annex_or_new().shared().children, other.clone(), Untyped::has_ended);
        self.watch(&other, Relation::Child);
        child
    }

    /// Links this actor with another one: the end of each comes to the [`down`](Actor::down) of the other.
    pub fn link<B: Actor>(&mut self, other: &Address<B>) {
        let me = self.untyped();
        let watcher = Watcher { who: other.weak(), relation: Relation::Link, tell: Address::<B>::tell_down };
        me.enter(|shared| shared.add_watcher(watcher));
        self.watch(&other.untyped(), Relation::Link);
    }

    /// Undoes [`link`](Context::link). A notice that is on its way still comes.
    pub fn unlink<B: Actor>(&mut self, other: &Address<B>) {
        self.forget(&other.weak(), &self.untyped(), Relation::Link);
        self.forget(&self.address().weak(), &other.untyped(), Relation::Link);
    }

    /// Lets the end of another actor come to the [`down`](Actor::down) of this one.
    pub fn monitor<B: Actor>(&mut self, other: &Address<B>) {
        self.watch(&other.untyped(), Relation::Monitor);
    }

    /// Undoes [`monitor`](Context::monitor). A notice that is on its way still comes.
    pub fn unmonitor<B: Actor>(&mut self, other: &Address<B>) {
        self.forget(&self.address().weak(), &other.untyped(), Relation::Monitor);
    }

    /// Sends a message to this actor when `delay` has passed. It is not sent if the actor ends before, or is restarted. A
    /// timer does not keep a runtime.
    pub fn after<M: Send + 'static>(&mut self, delay: Duration, message: M) -> Timer
    where
        A: Handle<M>,
    {
        timer::after(&self.address(), By::ItsActor, delay, message)
    }

    /// Sends a message to this actor each time that `period` has passed. The next one is sent only when the last one
    /// has been handled: one that is late takes the place of all that were missed. It ends with the actor, and with a restart: set it in
    /// [`started`](Actor::started).
    ///
    /// # Panics
    /// If `period` is zero.
    #[track_caller]
    pub fn every<M: Clone + Send + 'static>(&mut self, period: Duration, message: M) -> Timer
    where
        A: Handle<M>,
    {
        timer::every(&self.address(), period, message)
    }

    /// Runs a future as a task, and sends what `map` makes of its result to this actor. Meanwhile the actor handles
    /// other messages. If the actor has ended by then, the message is dropped.
    ///
    /// # Panics
    /// As [`task::spawn`](crate::task::spawn).
    #[track_caller]
    pub fn pipe<F, M>(&mut self, future: F, map: impl FnOnce(F::Output) -> M + Send + 'static)
    where
        F: Future + Send + 'static,
        M: Send + 'static,
        A: Handle<M>,
    {
        let weak = self.address().downgrade();
        let send = async move {
            let message = map(future.await);
            if let Some(address) = weak.upgrade() {
                drop(address.tell_unbounded(message));
            }
        };
        drop(crate::task::spawn(send));
    }

    fn untyped(&self) -> Untyped {
        Untyped::of_owner(self.mailbox)
    }

    fn watch(&self, other: &Untyped, relation: Relation) {
        let watcher = Watcher { who: self.address().weak(), relation, tell: Address::<A>::tell_down };
        other.enter(|shared| shared.add_watcher(watcher));
    }

    fn forget(&self, watcher: &super::weak::Weak, at: &Untyped, relation: Relation) {
        let watchers = &mut at.annex_or_new().shared().watchers;
        if let Some(found) = watchers.iter().position(|entry| entry.relation == relation && entry.who.is(watcher)) {
            watchers.swap_remove(found);
        }
    }
}

impl<A> fmt::Debug for Context<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}
