//! Addresses that forget the type of their actor.

use super::address::Address;
use super::errors::{ActorId, TellError};
use super::traits::Handle;
use super::untyped::Untyped;
use crate::base::cpu::prefetch;
use std::fmt;

/// An address for messages of one type, whatever the type of the actor is.
pub struct Recipient<M: 'static> {
    actor: Untyped,
    calls: &'static Calls<M>,
}

/// What is compiled for the actor's type.
struct Calls<M: 'static> {
    tell: fn(&Untyped, M) -> Result<(), TellError<M>>,
    try_tell: fn(&Untyped, M) -> Result<(), TellError<M>>,
}

impl<M: Send + 'static> Recipient<M> {
    pub(super) fn new<A: Handle<M>>(address: &Address<A>) -> Recipient<M> {
        Recipient {
            actor: address.untyped(),
            calls: const {
                &Calls {
                    tell: |actor, message| actor.with_address(|address: &Address<A>| address.tell(message)),
                    try_tell: |actor, message| actor.with_address(|address: &Address<A>| address.try_tell(message)),
                }
            },
        }
    }

    /// Sends a message, as [`Address::tell`] does.
    ///
    /// # Errors
    /// The message was not sent, and comes back.
    pub fn tell(&self, message: M) -> Result<(), TellError<M>> {
        (self.calls.tell)(&self.actor, message)
    }

    /// Sends a message, as [`Address::try_tell`] does.
    ///
    /// # Errors
    /// The message was not sent, and comes back.
    pub fn try_tell(&self, message: M) -> Result<(), TellError<M>> {
        (self.calls.try_tell)(&self.actor, message)
    }

    /// Returns which actor it is.
    pub fn id(&self) -> ActorId {
        self.actor.id()
    }

    /// Returns whether the actor has not ended. The answer may be out of date.
    pub fn is_alive(&self) -> bool {
        !self.actor.has_ended()
    }

    /// Asks the CPU for the memory that a message needs, as [`Address::prefetch`] does.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(std::ptr::without_provenance(self.address()));
    }

    pub(super) fn address(&self) -> usize {
        self.actor.address()
    }
}

impl<M> Clone for Recipient<M> {
    fn clone(&self) -> Recipient<M> {
        Recipient { actor: self.actor.clone(), calls: self.calls }
    }
}

/// Recipients are equal if they lead to the same actor.
impl<M> PartialEq for Recipient<M> {
    fn eq(&self, other: &Recipient<M>) -> bool {
        self.actor == other.actor
    }
}

impl<M> Eq for Recipient<M> {}

impl<M> fmt::Debug for Recipient<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Recipient").field(&self.actor.id()).finish()
    }
}
