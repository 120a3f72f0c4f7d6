//! An actor whose type is not known.
#![allow(unsafe_code)]

use super::address::Address;
use super::annex::{Annex, Shared};
use super::cell::Cell;
use super::end::End;
use super::errors::ActorId;
use super::life;
use super::traits::Actor;
use crate::fibre::carrier;
use crate::mailbox::{Mailbox, Nature, Order};
use crate::strand::{Strand, StrandArc};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// A counted reference to an actor whose type is not known.
#[derive(Clone)]
pub(super) struct Untyped(StrandArc);

impl PartialEq for Untyped {
    fn eq(&self, other: &Untyped) -> bool {
        std::ptr::eq(self.0.strand(), other.0.strand())
    }
}

impl Untyped {
    /// Makes one of a reference to the strand of an actor.
    pub(super) fn new(strand: &StrandArc) -> Untyped {
        Untyped(strand.clone())
    }

    /// Returns the actor whose handler the caller is.
    #[inline]
    pub(super) fn caller() -> Option<Untyped> {
        let address = carrier::carried();
        if address == 0 {
            return None;
        }
        // SAFETY: the caller runs a letter of the mailbox at this address, so it is there.
        let mailbox = unsafe { Mailbox::of(&*std::ptr::with_exposed_provenance::<Strand>(address)) };
        mailbox.nature().map(|_| Untyped(mailbox.new_reference()))
    }

    /// Makes one of the mailbox of an actor, by its owner.
    pub(super) fn of_owner(mailbox: &Mailbox) -> Untyped {
        Untyped(mailbox.new_reference())
    }

    /// Makes one of the address of a strand. `None` if nobody has a reference to it any more.
    ///
    /// The address comes from an edge that the caller holds, so that the waiting handler keeps the actor's memory.
    pub(super) fn at(address: usize) -> Option<Untyped> {
        // SAFETY: as said above: the reader of an edge is the only caller.
        StrandArc::another(unsafe { &*std::ptr::with_exposed_provenance::<Strand>(address) }).map(Untyped)
    }

    fn mailbox(&self) -> &Mailbox {
        // SAFETY: it is the strand of an actor.
        unsafe { Mailbox::of(self.0.strand()) }
    }

    fn nature(&self) -> &'static Nature {
        self.mailbox().nature().expect("actors have a nature")
    }

    /// Calls `f` with the address of the actor, which is an `A`: the caller has stored it as that of an `A`. The address
    /// is lent, and not counted.
    #[inline]
    pub(super) fn with_address<A: Actor, R>(&self, f: impl FnOnce(&Address<A>) -> R) -> R {
        // SAFETY: this reference is counted meanwhile, and what is made of it is not dropped.
        let strand = unsafe { StrandArc::from_raw(NonNull::from(self.0.strand())) };
        f(&ManuallyDrop::new(Address::from_handle(Cell::handle_from(strand))))
    }

    /// Returns the address of the actor's strand.
    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(self.0.strand()).addr()
    }

    pub(super) fn annex(&self) -> Option<&Annex> {
        annex_of(self.mailbox(), false)
    }

    pub(super) fn annex_or_new(&self) -> &Annex {
        annex_of(self.mailbox(), true).expect("it was made if there was none")
    }

    pub(super) fn id(&self) -> ActorId {
        let name = self.annex().and_then(|annex| annex.name.clone());
        ActorId { number: self.address() as u64, name, type_name: (self.nature().type_name)() }
    }

    pub(super) fn order(&self, order: Order) {
        self.mailbox().order(order);
    }

    /// Returns why the actor has ended, as far as its orders say it.
    pub(super) fn usual_end(&self) -> End {
        let word = self.mailbox().word();
        match (word.is_killed(), word.is_stopped()) {
            (true, _) => End::Killed,
            (_, true) => End::Stopped,
            _ => End::Abandoned,
        }
    }

    /// Changes what is shared of the annex. If the actor has ended, everybody in it is told at once.
    pub(super) fn enter(&self, change: impl FnOnce(&mut Shared)) {
        change(&mut self.annex_or_new().shared());
        // The owner that ends the actor sees the annex, or this sees the end.
        if self.mailbox().word().has_ended_by_now() {
            life::tell_all(self);
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.mailbox().word().has_ended()
    }
}

/// Returns the annex of an actor's mailbox. Makes it if there is none and `make` says so.
fn annex_of(mailbox: &Mailbox, make: bool) -> Option<&Annex> {
    let nature = mailbox.nature().expect("actors have a nature");
    (nature.annex)(mailbox, make).map(|annex| annex.downcast_ref().expect("the annex of an actor"))
}
