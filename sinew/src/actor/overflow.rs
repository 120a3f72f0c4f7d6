//! Mailboxes that drop their oldest message when they are full.
//!
//! The word of a mailbox is taken whole by its owner, so nobody else can take the oldest letter out of it. The messages
//! of such an actor therefore wait in a list of their own, under a lock. A sender that finds the list empty posts one
//! letter, the *pump*, before it adds its message. The pump takes the oldest message out. If there are more, it posts
//! itself again, and then it handles the one that it took. So there is a pump exactly while there are messages.

use super::address::Address;
use super::cell::Cell;
use super::errors::TellError;
use super::letters::Told;
use super::traits::{Actor, Handle};
use crate::mailbox::{Content, Enclosed, Mailbox, Refused, Unread};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The messages that wait for an actor which drops the oldest one.
pub(super) struct Overflow {
    most: usize,
    /// No code of the program runs under the lock.
    waiting: Mutex<VecDeque<Enclosed>>,
}

impl Overflow {
    pub(super) fn new(most: usize) -> Overflow {
        Overflow { most, waiting: Mutex::new(VecDeque::new()) }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Enclosed>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of messages that wait.
    pub(super) fn len(&self) -> usize {
        self.waiting().len()
    }

    /// Discards all messages: the actor has ended.
    pub(super) fn discard(&self) {
        while let Some(message) = { self.waiting().pop_front() } {
            message.discard(Unread::Ended);
        }
    }
}

/// The letter that handles the oldest message.
struct Pump<A>(PhantomData<fn(A)>);

impl<A: Actor> Content for Pump<A> {
    fn run(self, mailbox: &Mailbox) {
        let Some(overflow) = Cell::<A>::of(mailbox).annex().and_then(|annex| annex.overflow.as_ref()) else { return };
        loop {
            let mut waiting = overflow.waiting();
            let Some(oldest) = waiting.pop_front() else { return };
            let is_last = waiting.is_empty();
            let is_posted = is_last || Cell::post(&Cell::<A>::handle_of(mailbox), Pump::<A>(PhantomData)).is_ok();
            drop(waiting);
            oldest.run(mailbox);
            // An actor that is to stop takes no letters any more, but handles what waits.
            if is_posted || mailbox.word().is_killed() {
                return;
            }
        }
    }
}

impl<A: Actor> Address<A> {
    /// Sends a message. If there is no room, the oldest message is dropped.
    pub(super) fn tell_and_drop_oldest<M: Send + 'static>(&self, message: M) -> Result<(), TellError<M>>
    where
        A: Handle<M>,
    {
        let told = self.post_and_drop_oldest(Told::<A, M> { message, actor: PhantomData });
        told.map_err(|(refused, told)| TellError::new(refused.into(), told.message))
    }

    /// Posts a letter. If there is no room, the oldest one is dropped.
    pub(super) fn post_and_drop_oldest<C: Content + Send + 'static>(&self, content: C) -> Result<(), (Refused, C)> {
        let handle = self.handle();
        let Some(overflow) = handle.state().annex().and_then(|annex| annex.overflow.as_ref()) else {
            return Cell::post(handle, content);
        };
        let mut waiting = overflow.waiting();
        if waiting.is_empty()
            && let Err((refused, _)) = Cell::post(handle, Pump::<A>(PhantomData))
        {
            return Err((refused, content));
        }
        if handle.mailbox().word().is_closed() {
            return Err((Refused::Closed, content));
        }
        waiting.push_back(handle.mailbox().enclose(content));
        let dropped = if waiting.len() > overflow.most { waiting.pop_front() } else { None };
        drop(waiting);
        dropped.into_iter().for_each(|oldest| oldest.discard(Unread::Displaced));
        Ok(())
    }
}
