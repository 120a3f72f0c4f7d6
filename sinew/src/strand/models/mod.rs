//! Models of the protocols of a strand.
//!
//! | file | what is modelled | what is abstracted |
//! | --- | --- | --- |
//! | `state` | [`State`](super::State): park, unpark, wait, signal | the ready queue is a counter; the stack is watched memory |
//! | `join` | [`Join`](super::join::Join): the hand-over of a result | the waiter is a number; the result is watched memory |
//! | `inbox` | [`Inbox`](super::Inbox) | strands are never run |
//!
//! Models of other folders take strands from here: [`ready_strand`].
#![allow(unsafe_code)]

mod inbox;
mod join;
mod state;

use super::{Class, Face, Kind, Ready, Strand, Weight};
use crate::base::describe::Symbol;
use crate::base::fatal;
use std::ptr::NonNull;

impl Kind {
    /// Makes the kind of strands that are never run. `free` is called when no reference to one is left.
    pub(crate) const fn for_model(free: unsafe fn(NonNull<Strand>)) -> Kind {
        Kind {
            face: Face::new(Class::Task, Symbol::NONE),
            run: |_| fatal("a model's strand was run"),
            free,
            weigh: Weight::unknown,
            nature: None,
        }
    }
}

/// A strand that is never run, for queues. `number` is also the time at which it became ready.
pub(crate) fn ready_strand(number: u64) -> Ready {
    static KIND: Kind = Kind::for_model(free);
    /// # Safety
    /// The strand was made below, and no reference to it is left.
    unsafe fn free(strand: NonNull<Strand>) {
        // SAFETY: by the contract.
        drop(unsafe { Box::from_raw(strand.as_ptr()) });
    }
    let strand = NonNull::from(Box::leak(Box::new(Strand::for_model(&KIND))));
    // SAFETY: the strand is new, and `KIND` frees it.
    let (ready, handle) = unsafe { Ready::of_new(strand) };
    // Not freed: where the next strand lies must not depend on when this one
    // ends, or a model would not be the same each time.
    std::mem::forget(handle);
    ready.stamp(number);
    ready
}

/// Ends a strand. Returns its number.
pub(crate) fn retire(ready: Ready) -> u64 {
    let number = ready.ready_at();
    ready.retire();
    number
}

impl Strand {
    /// Says to loom that the strand is gone. A thread that uses it later, or whose last use is not
    /// ordered before this, fails the model.
    pub(crate) fn end_for_model(&mut self) {
        self.refs.with_mut(|_| ());
        self.own.with_mut(|_| ());
        self.state.end_for_model();
    }
}
