//! The letters of actors: messages, questions, notices.

use super::cell::Cell;
use super::end::Down;
use super::reply::{Missing, Replier};
use super::traits::{Actor, Handle};
use crate::mailbox::{Content, Mailbox, Unread};
use crate::wait::{Limits, carrying};
use std::marker::PhantomData;

/// A message that was told.
pub(super) struct Told<A, M> {
    pub(super) message: M,
    pub(super) actor: PhantomData<fn(A)>,
}

impl<A: Handle<M>, M: Send + 'static> Content for Told<A, M> {
    #[inline(always)]
    fn run(self, mailbox: &Mailbox) {
        Cell::<A>::with(mailbox, |actor, cx| drop(actor.handle(self.message, cx)));
    }
}

/// A message whose sender waits for the reply.
pub(super) struct Asked<A: Handle<M>, M: Send + 'static> {
    pub(super) message: M,
    pub(super) replier: Replier<A::Reply>,
}

impl<A: Handle<M>, M: Send + 'static> Content for Asked<A, M> {
    #[inline(always)]
    fn run(self, mailbox: &Mailbox) {
        let Asked { message, replier } = self;
        let deadline = replier.due();
        if !deadline.is_never() {
            return run_within::<A, M>(mailbox, message, replier);
        }
        if replier.is_abandoned() {
            return;
        }
        let reply = Cell::<A>::with(mailbox, |actor, cx| actor.handle(message, cx));
        reply.map(|reply| replier.answer(reply));
    }

    fn discard(self, why: Unread) {
        self.replier.miss(match why {
            Unread::Ended => Missing::Stopped,
            Unread::Displaced => Missing::Full,
        });
    }
}

/// Handles a question whose asker has a deadline. The handler carries it, and an overdue question is not read.
#[inline(never)]
fn run_within<A: Handle<M>, M: Send + 'static>(mailbox: &Mailbox, message: M, replier: Replier<A::Reply>) {
    let deadline = replier.due();
    if replier.is_abandoned() || deadline.is_past() {
        return replier.miss(Missing::Overdue);
    }
    let handle = || Cell::<A>::with(mailbox, |actor, cx| actor.handle(message, cx));
    let reply = carrying(Limits { deadline, ..Limits::NONE }, handle);
    reply.map(|reply| replier.answer(reply));
}

/// A message to an actor whose mailbox is bounded. It makes room when it begins.
pub(super) struct Bounded<A, C> {
    pub(super) content: C,
    pub(super) actor: PhantomData<fn(A)>,
}

impl<A: Actor, C: Content> Content for Bounded<A, C> {
    fn run(self, mailbox: &Mailbox) {
        let annex = Cell::<A>::of(mailbox).annex();
        annex.and_then(|annex| annex.room.as_ref()).into_iter().for_each(|room| room.post(1));
        self.content.run(mailbox);
    }

    fn discard(self, why: Unread) {
        self.content.discard(why);
    }
}

/// A notice that another actor has ended.
pub(super) struct Notice<A> {
    pub(super) down: Down,
    pub(super) actor: PhantomData<fn(A)>,
}

impl<A: Actor> Content for Notice<A> {
    fn run(self, mailbox: &Mailbox) {
        Cell::<A>::with(mailbox, |actor, cx| actor.down(self.down, cx));
    }
}

/// A look at the value of an actor.
pub(super) struct Look<A, F> {
    pub(super) look: F,
    pub(super) actor: PhantomData<fn(A)>,
}

impl<A: Actor, F: FnOnce(&mut A)> Content for Look<A, F> {
    fn run(self, mailbox: &Mailbox) {
        Cell::<A>::with(mailbox, |actor, _| (self.look)(actor));
    }
}
