//! The memory of letters.
//!
//! A letter is a block from the processor's own list: a head, and behind it the content, which is a closure or
//! a handler with its argument. The call is compiled for the content's type. A content of up to 32 bytes makes
//! a letter of one cache line.
#![allow(unsafe_code)]

use super::meter::Meter;
use super::word::Address;
use crate::processor::put_memory;
use crate::strand::blocks::{self, Blocks};
use std::alloc::Layout;
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// What a letter does when its turn comes.
pub(crate) trait Content {
    /// Does it.
    fn run(self);
}

impl<F: FnOnce()> Content for F {
    #[inline(always)]
    fn run(self) {
        self();
    }
}

/// The head of a letter. Owner: the poster, until it is posted; then the owner of the mailbox.
#[repr(C)]
struct Head {
    /// The next older letter in the mailbox; the next newer one when the letters have been taken.
    link: Cell<Option<NonNull<Head>>>,
    /// Frees the letter and runs its content.
    ///
    /// # Safety
    /// The head is that of a letter with such a content, which belongs to the caller. It is gone then.
    call: unsafe fn(NonNull<Head>),
    /// The meter for letters of this sort. It lives as long as the mailbox or longer.
    meter: NonNull<Meter>,
    /// The part of the mailbox's weight that the letter is.
    weight_ns: u32,
}

#[repr(C, align(64))]
struct Written<F> {
    head: Head,
    content: F,
}

/// A letter that has not been posted.
pub(super) struct Draft<F> {
    letter: NonNull<Written<F>>,
}

impl<F: Content> Draft<F> {
    /// Writes a letter.
    ///
    /// # Safety
    /// `meter` lives until the letter has run. If `F` borrows, what it borrows does as well. `F` may run on
    /// another thread.
    #[inline]
    pub(super) unsafe fn write(own: Option<&Blocks>, meter: &Meter, weight_ns: u32, content: F) -> Draft<F> {
        let letter = blocks::take(own, Layout::new::<Written<F>>()).cast::<Written<F>>();
        let head = Head { link: Cell::new(None), call: call::<F>, meter: NonNull::from(meter), weight_ns };
        // SAFETY: the memory is large enough, and ours.
        unsafe { letter.write(Written { head, content }) };
        letter.as_ptr().expose_provenance();
        Draft { letter }
    }

    #[inline]
    pub(super) fn address(&self) -> Address {
        Address::new(self.letter.addr().get() as u64).expect("no letter is at address 0")
    }

    /// Stores the next older letter of the mailbox.
    #[inline]
    pub(super) fn link(&self, older: Option<Address>) {
        // SAFETY: the letter has not been posted: it is ours.
        unsafe { self.letter.as_ref() }.head.link.set(older.map(head_at));
    }

    /// Takes the content back.
    #[cold]
    pub(super) fn discard(self) -> F {
        // SAFETY: the letter is ours, and not used again.
        let written = unsafe { self.letter.read() };
        // SAFETY: as above; the layout is the one that it was taken with.
        unsafe { put_memory(self.letter.cast(), Layout::new::<Written<F>>()) };
        written.content
    }
}

/// # Safety
/// As for `Head::call`.
unsafe fn call<F: Content>(head: NonNull<Head>) {
    let letter = head.cast::<Written<F>>();
    // SAFETY: by the contract.
    let content = unsafe { (&raw const (*letter.as_ptr()).content).read() };
    // SAFETY: by the contract; nothing but the content needs to be dropped.
    unsafe { put_memory(letter.cast(), Layout::new::<Written<F>>()) };
    content.run();
}

#[inline]
fn head_at(address: Address) -> NonNull<Head> {
    // `write` exposed the provenance.
    NonNull::with_exposed_provenance(std::num::NonZeroUsize::new(address.get() as usize).expect("not 0"))
}

/// A letter that has been taken from its mailbox.
pub(super) struct Letter(NonNull<Head>);

impl Letter {
    /// Returns the meter for letters of this sort, which the mailbox that it was taken from keeps alive.
    #[inline]
    pub(super) fn meter<'a>(&self) -> &'a Meter {
        // SAFETY: the letter is ours. The poster promised that the meter lives until the letter has run, and
        // each meter lives as long as a mailbox that has an owner, or for ever.
        unsafe { self.0.as_ref().meter.as_ref() }
    }

    #[inline]
    pub(super) fn weight_ns(&self) -> u32 {
        // SAFETY: the letter is ours.
        unsafe { self.0.as_ref() }.weight_ns
    }

    /// Runs the content.
    ///
    /// # Errors
    /// The payload, if it panicked.
    #[inline]
    pub(super) fn run(self) -> Result<(), Box<dyn Any + Send>> {
        // SAFETY: the letter is ours, and is gone afterwards.
        catch_unwind(AssertUnwindSafe(|| unsafe { (self.0.as_ref().call)(self.0) }))
    }
}

/// Letters that have been taken from a mailbox, the oldest first. Owner: the owner of the mailbox.
pub(super) struct Pile(Cell<Option<NonNull<Head>>>);

impl Pile {
    pub(super) const fn new() -> Pile {
        Pile(Cell::new(None))
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.get().is_none()
    }

    /// Puts letters into the empty pile.
    ///
    /// # Safety
    /// `Word::take` returned the newest one to the caller, and all of them are letters.
    #[inline]
    pub(super) unsafe fn fill(&self, newest: Address) {
        debug_assert!(self.is_empty());
        let (mut newer, mut next) = (None, Some(head_at(newest)));
        while let Some(letter) = next {
            // SAFETY: the letters are ours by the contract.
            next = unsafe { letter.as_ref() }.link.replace(newer);
            newer = Some(letter);
        }
        self.0.set(newer);
    }

    /// Takes the oldest letter.
    #[inline]
    pub(super) fn pop(&self) -> Option<Letter> {
        let oldest = self.0.get()?;
        // SAFETY: the letters of a pile belong to it.
        self.0.set(unsafe { oldest.as_ref() }.link.get());
        Some(Letter(oldest))
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_letter_with_a_small_content_takes_one_line() {
        assert_eq!(size_of::<Written<[u64; 4]>>(), 64);
        assert_eq!(size_of::<Written<[u64; 5]>>(), 128);
    }

    #[test]
    fn a_draft_gives_its_content_back() {
        let meter = Meter::new(0);
        let text = String::from("kept");
        // SAFETY: the letter never runs.
        let draft = unsafe { Draft::write(None, &meter, 0, move || drop(text)) };
        drop(draft.discard());
    }
}
