//! The memory of an actor: its value, and the annex that some actors have.
//!
//! One word says both where the annex is and whether there is a value. So an actor with 16 bytes of value takes
//! two cache lines, with its mailbox.
#![allow(unsafe_code)]

use super::annex::Annex;
use super::context::Context;
use super::life;
use super::traits::Actor;
use crate::base::atomic::{Acquire, AtomicUsize, Relaxed, Release};
use crate::base::peek;
use crate::mailbox::{Content, Handle, Mailbox, Nature, Refused, State, offset_of_state};
use crate::strand::StrandArc;
use std::any::Any;
use std::cell::UnsafeCell;
use std::mem::{MaybeUninit, offset_of};
use std::ptr::NonNull;

/// There is a value. The other bits of the word are the address of the annex, or 0.
const HAS_VALUE: usize = 1;

/// The state of an actor's mailbox.
pub(crate) struct Cell<A> {
    word: AtomicUsize,
    /// Owner: the owner of the mailbox.
    value: UnsafeCell<MaybeUninit<A>>,
}

// SAFETY: the value is reached by the owner of the mailbox alone, one thread at a time, and `A` may be sent. The annex
// is shared, and it is `Sync`.
unsafe impl<A: Send> Sync for Cell<A> {}
// SAFETY: as above.
unsafe impl<A: Send> Send for Cell<A> {}

impl<A: Actor> State for Cell<A> {
    const BLOCKS: bool = A::BLOCKS;
    const NATURE: Option<&'static Nature> = Some(&Nature {
        attend: life::attend::<A>,
        note_panic: life::note_panic::<A>,
        annex: |mailbox, make| {
            let cell = Cell::<A>::of(mailbox);
            let annex = if make { Some(cell.annex_or_new()) } else { cell.annex() };
            annex.map(|annex| annex as &(dyn Any + Send + Sync))
        },
        type_name: std::any::type_name::<A>,
        peek_name: |mailbox| {
            let word = mailbox.wrapping_add(offset_of_state::<Cell<A>>()).wrapping_add(offset_of!(Cell<A>, word));
            match peek::word(word).unwrap_or(0) & !HAS_VALUE {
                0 => (0, 0),
                annex => Annex::peek_name(annex),
            }
        },
    });
}

impl<A> Cell<A> {
    /// Makes the state of an actor.
    pub(super) fn new(value: A, annex: Option<Box<Annex>>) -> Cell<A> {
        let annex = annex.map_or(0, |annex| Box::into_raw(annex).expose_provenance());
        Cell { word: AtomicUsize::new(annex | HAS_VALUE), value: UnsafeCell::new(MaybeUninit::new(value)) }
    }

    fn annex_at(word: usize) -> Option<NonNull<Annex>> {
        NonNull::new(std::ptr::with_exposed_provenance_mut(word & !HAS_VALUE))
    }

    /// Returns the annex, if there is one.
    #[inline]
    pub(super) fn annex(&self) -> Option<&Annex> {
        // SAFETY: an annex stays until the cell is dropped. Acquire pairs with the Release in `annex_or_new`.
        Self::annex_at(self.word.load(Acquire)).map(|annex| unsafe { annex.as_ref() })
    }

    /// Returns the annex. Makes it if there is none.
    pub(super) fn annex_or_new(&self) -> &Annex {
        if let Some(annex) = self.annex() {
            return annex;
        }
        let new = Box::into_raw(Box::<Annex>::default());
        let mut seen = self.word.load(Acquire);
        loop {
            if let Some(annex) = Self::annex_at(seen) {
                // SAFETY: it came from the box above, and nobody else has it.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: as in `annex`.
                return unsafe { annex.as_ref() };
            }
            // Release: others see the annex as it was made; pairs with the Acquires.
            match self.word.compare_exchange_weak(seen, seen | new.expose_provenance(), Release, Acquire) {
                // SAFETY: as in `annex`.
                Ok(_) => return unsafe { &*new },
                Err(now) => seen = now,
            }
        }
    }
}

impl<A: Actor> Cell<A> {
    /// Returns the cell of a mailbox, which is that of an `A`.
    #[inline(always)]
    pub(super) fn of(mailbox: &Mailbox) -> &Cell<A> {
        // SAFETY: letters for an `A`, and the functions of its nature, come to the mailbox of an `A` alone: `post` and
        // `NATURE` see to it.
        unsafe { mailbox.state() }
    }

    /// Makes a handle to the mailbox of an `A` that the caller owns.
    pub(super) fn handle_of(mailbox: &Mailbox) -> Handle<Cell<A>> {
        // SAFETY: as in `of`.
        unsafe { Handle::of(mailbox) }
    }

    /// Makes a handle of a reference that was stored as that of an `A`: a watcher, a weak address or a recipient has it
    /// beside the functions that are compiled for `A`.
    pub(super) fn handle_from(strand: StrandArc) -> Handle<Cell<A>> {
        // SAFETY: as said above.
        unsafe { Handle::from_strand(strand) }
    }

    /// Posts a letter to an actor.
    ///
    /// # Errors
    /// It was refused, and the content comes back.
    #[inline(always)]
    pub(super) fn post<C: Content + Send + 'static>(handle: &Handle<Cell<A>>, content: C) -> Result<(), (Refused, C)> {
        let mailbox = handle.mailbox();
        // SAFETY: the meter is the mailbox's own, and nothing is borrowed.
        unsafe { mailbox.post(mailbox.meter(), 1, content) }
    }

    /// Calls `f` with the value. Does nothing if the actor has ended. By the owner of the mailbox, which is the only
    /// one to have a `Context`.
    #[inline(always)]
    pub(super) fn with<R>(mailbox: &Mailbox, f: impl FnOnce(&mut A, &mut Context<'_, A>) -> R) -> Option<R> {
        let cell = Cell::<A>::of(mailbox);
        if cell.word.load(Relaxed) & HAS_VALUE == 0 {
            return None;
        }
        // SAFETY: the caller owns the mailbox, and letters do not nest.
        let value = unsafe { (*cell.value.get()).assume_init_mut() };
        Some(f(value, &mut Context::new(mailbox)))
    }

    /// Takes the value out. By the owner of the mailbox.
    pub(super) fn take_value(&self) -> Option<A> {
        if self.word.fetch_and(!HAS_VALUE, Relaxed) & HAS_VALUE == 0 {
            return None;
        }
        // SAFETY: there was a value, and it is not used again.
        Some(unsafe { (*self.value.get()).assume_init_read() })
    }

    /// Puts a value in, where there is none. By the owner of the mailbox.
    pub(super) fn put_value(&self, value: A) {
        debug_assert_eq!(self.word.load(Relaxed) & HAS_VALUE, 0);
        // SAFETY: the caller owns the mailbox, and there is no value.
        unsafe { (*self.value.get()).write(value) };
        self.word.fetch_or(HAS_VALUE, Relaxed);
    }
}

impl<A> Drop for Cell<A> {
    fn drop(&mut self) {
        let word = self.word.load(Relaxed);
        if word & HAS_VALUE != 0 {
            // SAFETY: there is a value, and nobody else has the cell.
            unsafe { self.value.get_mut().assume_init_drop() };
        }
        if let Some(annex) = Self::annex_at(word) {
            // SAFETY: it came from a box, and nobody else has the cell.
            let annex = unsafe { Box::from_raw(annex.as_ptr()) };
            annex.retire();
        }
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_cell_takes_one_word_besides_its_value() {
        assert_eq!(size_of::<Cell<[u64; 2]>>(), 24);
    }
}
