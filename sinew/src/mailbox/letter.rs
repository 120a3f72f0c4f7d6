//! The memory of letters.
//!
//! A letter is a block from the processor's own list: a head, and behind it the content, which is a closure or
//! a handler with its argument. The call is compiled for the content's type. A content of up to 32 bytes makes
//! a letter of one cache line.
#![allow(unsafe_code)]

use super::memory::Mailbox;
use super::meter::Meter;
use super::word::Address;
use crate::processor::{Processor, put_memory, with_current};
use crate::strand::blocks::{self, Blocks};
use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;

/// What a letter does when its turn comes.
pub(crate) trait Content: Sized {
    /// Does it. `mailbox` is the one that the letter was posted to, and the caller owns it.
    fn run(self, mailbox: &Mailbox);

    /// Drops the letter unread.
    #[cold]
    fn discard(self, _why: Unread) {}
}

/// Why a letter is dropped unread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// Its mailbox has ended.
    Ended,
    /// A newer letter has taken its place.
    Displaced,
}

impl<F: FnOnce()> Content for F {
    #[inline(always)]
    fn run(self, _: &Mailbox) {
        self();
    }
}

/// The head of a letter. Owner: the poster, until it is posted; then the owner of the mailbox.
#[repr(C)]
struct Head {
    /// The next older letter in the mailbox; the next newer one when the letters have been taken.
    link: Cell<Option<NonNull<Head>>>,
    /// Takes the content out of the letter. Runs it with the mailbox, or discards it.
    ///
    /// # Safety
    /// The head is that of a letter with such a content, which is still in it.
    call: unsafe fn(NonNull<Head>, Result<&Mailbox, Unread>),
    /// The meter for letters of this sort. It lives as long as the mailbox or longer.
    meter: NonNull<Meter>,
    load: Load,
}

/// What one letter adds to the weight of its mailbox.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// The time that the letter is expected to take.
    ns: u32,
    /// What that is divided by for a thief; 0 if nobody weighs the letter.
    penalty: u16,
    /// The size of the letter, in cache lines. It is here because there is room.
    lines: u16,
}

impl Load {
    pub(super) fn new(ns: u32, penalty: u32) -> Load {
        Load { ns, penalty: u16::try_from(penalty).unwrap_or(u16::MAX), lines: 0 }
    }

    /// Returns the time without the penalty, in the unit of `Mailbox::undivided`.
    pub(super) fn undivided(self) -> u32 {
        self.ns >> super::memory::UNDIVIDED_SHIFT
    }

    pub(super) fn ns(self) -> u64 {
        u64::from(self.ns / u32::from(self.penalty.max(1)))
    }
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
    const LINES: u16 = {
        assert!(align_of::<Written<F>>() == 64, "the content of a letter is aligned to more than 64 bytes");
        assert!(size_of::<Written<F>>() <= 64 * u16::MAX as usize, "the content of a letter is larger than 4 MB");
        (size_of::<Written<F>>() / 64) as u16
    };

    /// Writes a letter.
    ///
    /// # Safety
    /// `meter` lives until the letter has run. If `F` borrows, what it borrows does as well. `F` may run on
    /// another thread.
    #[inline(always)]
    pub(super) unsafe fn write(own: Option<&Blocks>, meter: &Meter, load: Load, content: F) -> Draft<F> {
        let letter = blocks::take(own, Layout::new::<Written<F>>()).cast::<Written<F>>();
        let (link, meter) = (Cell::new(None), NonNull::from(meter));
        let load = Load { lines: Self::LINES, ..load };
        // SAFETY: the memory is large enough, and ours.
        let (head, place) = unsafe { (&raw mut (*letter.as_ptr()).head, &raw mut (*letter.as_ptr()).content) };
        // SAFETY: as above.
        unsafe { head.write(Head { link, call: call::<F>, meter, load }) };
        // SAFETY: as above.
        unsafe { place.write(content) };
        letter.as_ptr().expose_provenance();
        Draft { letter }
    }

    #[inline(always)]
    pub(super) fn sealed(&self) -> Sealed {
        Sealed(self.letter.cast())
    }

    /// Takes the content back.
    #[cold]
    #[inline(never)]
    pub(super) fn discard(self) -> F {
        // SAFETY: the letter is ours, and not used again.
        let written = unsafe { self.letter.read() };
        // SAFETY: as above; the layout is the one that it was taken with.
        unsafe { put_memory(self.letter.cast(), Layout::new::<Written<F>>()) };
        written.content
    }
}

/// A letter that is being posted. From the moment at which it has been posted only its address may be used: the
/// letter may be gone. So this is not a reference.
#[derive(Clone, Copy)]
pub(super) struct Sealed(NonNull<Head>);

impl Sealed {
    #[inline(always)]
    pub(super) fn address(self) -> Address {
        Address::new(self.0.addr().get() as u64).expect("no letter is at address 0")
    }

    /// Stores the next older letter of the mailbox. Before the letter is posted.
    #[inline(always)]
    pub(super) fn link(self, older: Option<Address>) {
        // SAFETY: the letter has not been posted: it is the caller's.
        unsafe { self.0.as_ref() }.link.set(older.map(head_at));
    }

    /// Returns what the letter adds to the weight of its mailbox. Before the letter is posted.
    pub(super) fn load(self) -> Load {
        // SAFETY: as in `link`.
        unsafe { self.0.as_ref() }.load
    }
}

/// # Safety
/// As for `Head::call`.
unsafe fn call<F: Content>(head: NonNull<Head>, mailbox: Result<&Mailbox, Unread>) {
    let letter = head.cast::<Written<F>>();
    // SAFETY: by the contract.
    let content = unsafe { (&raw const (*letter.as_ptr()).content).read() };
    match mailbox {
        Ok(mailbox) => content.run(mailbox),
        Err(why) => content.discard(why),
    }
}

#[inline(always)]
fn head_at(address: Address) -> NonNull<Head> {
    // `write` exposed the provenance.
    NonNull::with_exposed_provenance(address.into())
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
    pub(super) fn load(&self) -> Load {
        // SAFETY: the letter is ours.
        unsafe { self.0.as_ref() }.load
    }

    /// Runs the content. If it panics, so does this.
    #[inline]
    pub(super) fn run(self, mailbox: &Mailbox) -> Paper {
        // Also when the content panics.
        let paper = Paper(self.0);
        // SAFETY: the letter is ours, and the content is in it.
        unsafe { (self.0.as_ref().call)(self.0, Ok(mailbox)) };
        paper
    }

    /// Discards the content. If that panics, so does this.
    pub(super) fn discard(self, why: Unread) {
        let _paper = Paper(self.0);
        // SAFETY: as in `run`.
        unsafe { (self.0.as_ref().call)(self.0, Err(why)) };
    }
}

/// A letter that is not in a mailbox: another letter runs it. It does not outlive the mailbox that it is for.
pub(crate) struct Enclosed(Option<Letter>);

// SAFETY: the content is `Send`, and the rest is the holder's.
unsafe impl Send for Enclosed {}

impl Enclosed {
    /// Runs the content.
    pub(crate) fn run(mut self, mailbox: &Mailbox) {
        self.0.take().into_iter().for_each(|letter| drop(letter.run(mailbox)));
    }

    /// Discards the content.
    pub(crate) fn discard(mut self, why: Unread) {
        self.0.take().into_iter().for_each(|letter| letter.discard(why));
    }
}

impl Drop for Enclosed {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|letter| letter.discard(Unread::Ended));
    }
}

impl Mailbox {
    /// Writes a letter that is not posted.
    pub(crate) fn enclose<F: Content + Send + 'static>(&self, content: F) -> Enclosed {
        // SAFETY: the letter does not outlive the mailbox, whose meter it is. Nothing is borrowed, and `F` is `Send`.
        let draft = with_current(|processor| unsafe {
            Draft::write(processor.map(Processor::blocks), self.meter(), Load::default(), content)
        });
        Enclosed(Some(Letter(draft.sealed().0)))
    }
}

/// The memory of a letter without content. It is freed when this is dropped.
pub(super) struct Paper(NonNull<Head>);

impl Paper {
    /// Frees the memory, on this processor.
    #[inline]
    pub(super) fn recycle(self, processor: &Processor) {
        let (memory, layout) = self.memory();
        // Most letters have one line. For these the compiler knows the size of the block.
        let layout = if layout.size() == 64 { Layout::new::<Written<()>>() } else { layout };
        // SAFETY: the memory was taken with this layout, and is ours.
        unsafe { blocks::put(Some(processor.blocks()), memory, layout) };
        std::mem::forget(self);
    }

    #[inline]
    fn memory(&self) -> (NonNull<u8>, Layout) {
        // SAFETY: the paper is ours.
        let size = 64 * usize::from(unsafe { self.0.as_ref() }.load.lines);
        // SAFETY: the size and the alignment are those of a `Written`.
        (self.0.cast(), unsafe { Layout::from_size_align_unchecked(size, 64) })
    }
}

impl Drop for Paper {
    #[cold]
    fn drop(&mut self) {
        let (memory, layout) = self.memory();
        // SAFETY: as in `recycle`.
        unsafe { put_memory(memory, layout) };
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
        let draft = unsafe { Draft::write(None, &meter, Load::default(), move || drop(text)) };
        drop(draft.discard());
    }
}
