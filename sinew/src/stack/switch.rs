//! A stack in use: the coroutine that runs on it, and the words at its top by which the code that
//! runs there finds its strand. The essay of [`stack`](super) has the steps of a switch.
#![allow(unsafe_code)]

use super::arena::{self, PAGE, Slot};
use crate::base::{describe, here, peek};
use crate::identity::{Identities, Identity};
use crate::strand::{After, Strand};
use corosensei::stack::StackPointer;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, UnsafeCell};
use std::mem::{MaybeUninit, offset_of};
use std::ptr::NonNull;

/// The words at the lower end of the top page. A stack that has grown into the next page has very
/// probably overwritten one of them.
const MARK: u64 = 0x51e3_77a1_0b5e_55ed;
const MARK_WORDS: usize = 8;

type Body = Coroutine<(), (), (), Room>;

/// The record at the top of a stack. With the two words that corosensei keeps below it, it is one
/// cache line.
#[repr(C, align(16))]
pub(crate) struct Top {
    /// The strand that the stack serves.
    strand: Cell<*const Strand>,
    /// The way back to the processor, for the code that runs on the stack.
    yielder: Cell<*const Yielder<(), ()>>,
    /// Alive from `Stack::begin` to the fibre's end.
    body: UnsafeCell<MaybeUninit<Body>>,
}

/// Returns the address of the strand that the stack with this top serves; 0 if there is none. By any thread, and by a
/// signal handler.
pub(crate) fn peek_strand(top: usize) -> usize {
    peek::word(top.wrapping_add(offset_of!(Top, strand))).unwrap_or(0)
}

/// The entries of the description. The words of a coroutine are in no certain order. Its saved stack pointer is the
/// lowest of them that lies in the stack.
pub(crate) const ENTRIES: &[describe::Entry] = &[
    describe::Entry::number("top.strand", offset_of!(Top, strand)),
    describe::Entry::number("top.body", offset_of!(Top, body)),
    describe::Entry::number("top.body_words", size_of::<Body>() / 8),
];

/// What corosensei is told of a slot: the memory that the coroutine may use.
pub(crate) struct Room {
    /// The end of that memory: the record, or the identity's word below it.
    base: StackPointer,
}

/// The bytes below the record of a stack whose strand has an identity: its address, and what keeps the stack aligned.
const IDENTITY_WORDS: usize = 16;

// SAFETY: a slot has a guard from `limit` on and at least 16 KiB above it, and one coroutine at a
// time uses it.
unsafe impl corosensei::stack::Stack for Room {
    #[inline(always)]
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        let slot = arena::slot_at(self.base.get()).expect("stacks are in the arena");
        StackPointer::new(slot.bottom()).expect("the arena is not at address 0")
    }
}

/// A kind of strand that runs on a stack.
pub(crate) trait Entry {
    /// Runs the strand from its beginning to its end.
    fn execute(strand: &Strand);
}

/// A carved slot that belongs to the holder.
#[derive(Clone, Copy)]
pub(crate) struct Stack {
    top: NonNull<Top>,
}

impl Stack {
    pub(crate) fn into_raw(self) -> *mut () {
        self.top.as_ptr().cast()
    }

    /// # Safety
    /// From `into_raw`, or null.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(top: *mut ()) -> Option<Stack> {
        NonNull::new(top.cast()).map(|top| Stack { top })
    }

    /// # Safety
    /// The slot is carved, and no other stack is made from it while this one is in use.
    pub(crate) unsafe fn at(slot: Slot) -> Stack {
        Stack { top: top_of(slot) }
    }

    pub(crate) fn slot(self) -> Slot {
        arena::slot_at(self.top.as_ptr() as usize).expect("stacks are in the arena")
    }

    #[inline(always)]
    fn top(&self) -> &Top {
        // SAFETY: the slot is carved, and only the one thread that owns the stack at a time
        // accesses the record. All-zero memory and what the fibre before has left are valid cells.
        unsafe { self.top.as_ref() }
    }

    /// Sets the stack up to execute `strand` at the first resume.
    pub(crate) fn begin<E: Entry>(self, strand: &Strand, identity: Option<Identity>) {
        self.marks().iter().for_each(|word| word.set(MARK));
        let top = self.top();
        top.strand.set(strand);
        let mut base = self.top.addr();
        if let Some(identity) = identity {
            self.identity_word().set(identity.into_raw());
            base = StackPointer::new(base.get() - IDENTITY_WORDS).expect("the arena is not at address 0");
        }
        let body = Body::with_stack(Room { base }, |yielder, ()| {
            let stack = current_stack().expect("this is the fibre's stack");
            stack.top().yielder.set(yielder);
            E::execute(stack.strand());
        });
        // SAFETY: we own the stack, and no body is alive on it.
        unsafe { (*top.body.get()).write(body) };
    }

    /// Returns the strand that the stack serves.
    #[inline(always)]
    pub(crate) fn strand<'a>(self) -> &'a Strand {
        // SAFETY: `begin` set it. The strand is freed only after it has ended and its stack has
        // been put back.
        unsafe { &*self.top().strand.get() }
    }

    /// Returns the word for the identity, of a stack whose strand has one.
    fn identity_word(&self) -> &Cell<usize> {
        // SAFETY: the slot is carved. Only the one thread that owns the stack at a time accesses the word, and the
        // coroutine has no memory there.
        unsafe { self.top.byte_sub(IDENTITY_WORDS).cast().as_ref() }
    }

    /// Returns the identity of the strand.
    ///
    /// # Safety
    /// The strand [began](Stack::begin) with one.
    #[inline(always)]
    pub(crate) unsafe fn identity(self) -> Identity {
        // SAFETY: by the contract.
        unsafe { Identity::from_raw(self.identity_word().get()) }
    }

    /// Runs the strand until it gives up the processor.
    #[inline(always)]
    pub(crate) fn resume(self, strand: &Strand) -> After {
        self.resume_by(strand, |body| body.resume(()))
    }

    /// As [`resume`](Stack::resume), of a strand that has an identity of its own.
    ///
    /// # Safety
    /// The strand [began](Stack::begin) with one.
    #[inline(always)]
    pub(crate) unsafe fn resume_with_identity(self, strand: &Strand, pool: &Identities) -> After {
        // SAFETY: by the contract.
        let identity = unsafe { self.identity() };
        self.resume_by(strand, |body| identity.lend_to(pool, self.into_raw(), || body.resume(())))
    }

    #[inline(always)]
    fn resume_by(self, strand: &Strand, resume: impl FnOnce(&mut Body) -> CoroutineResult<(), ()>) -> After {
        const { assert!(size_of::<Top>() == 48) };
        let top = self.top();
        // SAFETY: `begin` wrote the body; we own the stack.
        let body = unsafe { (*top.body.get()).assume_init_mut() };
        here::set_stack(self.into_raw());
        let result = resume(body);
        here::set_stack(std::ptr::null_mut());
        match result {
            CoroutineResult::Yield(()) => strand.after().get(),
            CoroutineResult::Return(()) => {
                // SAFETY: the body has returned: dropping it touches only itself.
                unsafe { (*top.body.get()).assume_init_drop() };
                top.strand.set(std::ptr::null());
                After::Finished
            }
        }
    }

    /// Gives all pages but the top one back to the kernel, so that [`used`](Stack::used) counts what the
    /// next strand uses. No strand has begun.
    pub(crate) fn forget_use(self) {
        arena::discard([grown_pages(self.slot())].into_iter());
    }

    /// Returns the number of bytes from the end of the slot down to the lowest page with memory.
    pub(crate) fn used(self) -> usize {
        let (lowest, length) = grown_pages(self.slot());
        let end = self.slot().end();
        arena::lowest_resident(lowest, length).map_or(PAGE, |page| end - page)
    }

    /// Says whether the strand that ended here has probably used more than a page.
    pub(crate) fn has_grown(self) -> bool {
        self.marks().iter().any(|word| word.get() != MARK)
    }

    /// Returns the words by which growth is noticed. The stack is not in use.
    fn marks(&self) -> &[Cell<u64>; MARK_WORDS] {
        let page = self.top.as_ptr().map_addr(|top| top & !(PAGE - 1));
        // SAFETY: the lowest words of the top page, which is carved and not in use. Any bytes are
        // numbers.
        unsafe { &*page.cast() }
    }
}

/// Returns the pages of a slot below the top one: their address and their length.
pub(crate) fn grown_pages(slot: Slot) -> (usize, usize) {
    let lowest = slot.lowest();
    (lowest, slot.end() - PAGE - lowest)
}

/// Returns all pages of a slot that can hold data: their address and their length.
pub(crate) fn all_pages(slot: Slot) -> (usize, usize) {
    let lowest = slot.lowest();
    (lowest, slot.end() - lowest)
}

fn top_of(slot: Slot) -> NonNull<Top> {
    let top = std::ptr::with_exposed_provenance_mut(slot.end() - slot.shift() - size_of::<Top>());
    NonNull::new(top).expect("the arena is not at address 0")
}

/// Returns the stack of the calling fibre, or `None` if no fibre calls. The stack pointer may be
/// elsewhere: a fibre may run code on a stack of its own making.
#[inline(always)]
pub(crate) fn current_stack() -> Option<Stack> {
    // `resume` set the word.
    NonNull::new(here::stack().cast()).map(|top| Stack { top })
}

impl Stack {
    /// Gives up the processor.
    ///
    /// # Safety
    /// The caller is the strand that this stack serves, and has no panic in flight: see
    /// [`unwinding`](super::unwinding).
    ///
    /// Inlined, as is all code that leads here: each call in between is a return that the CPU
    /// predicts wrongly.
    #[inline(always)]
    pub(crate) unsafe fn switch(self, after: After) {
        self.strand().after().set(after);
        // SAFETY: set when the strand began, and valid until it ends.
        unsafe { (*self.top().yielder.get()).suspend(()) };
    }
}
