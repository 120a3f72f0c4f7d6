//! A stack in use: the coroutine that runs on it, and the words at its top by which the code
//! that runs there finds its strand.
#![allow(unsafe_code)]

use super::arena::{self, PAGE, Slot};
use crate::base::here;
use crate::strand::{After, Strand};
use corosensei::stack::StackPointer;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// A word at the lowest end of the top page. A stack that grows into the next
/// page has in all likelihood overwritten it.
const MARK: u64 = 0x51e3_77a1_0b5e_55ed;
const MARK_WORDS: usize = 8;

type Body = Coroutine<(), (), (), Room>;

/// The record at the top of a stack. With the two words that corosensei keeps
/// below it, it is one cache line.
#[repr(C, align(16))]
pub(crate) struct Top {
    /// The strand that the stack serves.
    strand: Cell<*const Strand>,
    /// How its code gets back to the processor.
    yielder: Cell<*const Yielder<(), ()>>,
    /// Alive from `Stack::begin` to the fibre's end.
    body: UnsafeCell<MaybeUninit<Body>>,
}

/// The memory that the coroutine may use: what corosensei is told of a slot.
pub(crate) struct Room {
    top: NonNull<Top>,
}

// SAFETY: slots have a guard from `limit` on, at least 16 KiB above it, and are
// used by one coroutine at a time.
unsafe impl corosensei::stack::Stack for Room {
    #[inline(always)]
    fn base(&self) -> StackPointer {
        self.top.addr()
    }

    fn limit(&self) -> StackPointer {
        StackPointer::new(Stack { top: self.top }.slot().bottom()).expect("the arena is not at address 0")
    }
}

/// What runs on a stack.
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
    /// The slot is carved and nobody else uses it.
    pub(crate) unsafe fn at(slot: Slot) -> Stack {
        Stack { top: top_of(slot) }
    }

    pub(crate) fn slot(self) -> Slot {
        arena::slot_at(self.top.as_ptr() as usize).expect("stacks are in the arena")
    }

    #[inline(always)]
    fn top(&self) -> &Top {
        // SAFETY: the slot is carved, and the record is only ever accessed by
        // the one thread that owns the stack at a time. All-zero memory and
        // leftovers of the fibre before are valid cells.
        unsafe { self.top.as_ref() }
    }

    /// Sets the stack up to execute `strand` at the first resume.
    pub(crate) fn begin<E: Entry>(self, strand: &Strand) {
        self.mark();
        let top = self.top();
        top.strand.set(strand);
        let body = Body::with_stack(Room { top: self.top }, |yielder, ()| {
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

    /// Runs the strand until it gives up the processor.
    #[inline(always)]
    pub(crate) fn resume(self, strand: &Strand) -> After {
        const { assert!(size_of::<Top>() == 48) };
        let top = self.top();
        // SAFETY: `begin` wrote the body; we own the stack.
        let body = unsafe { (*top.body.get()).assume_init_mut() };
        here::set_stack(self.into_raw());
        let result = body.resume(());
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

    /// Writes the words by which growth is noticed.
    fn mark(self) {
        let page = self.top.as_ptr() as usize & !(PAGE - 1);
        for word in 0..MARK_WORDS {
            // SAFETY: the lowest words of the top page, on a stack not in use.
            unsafe { (page as *mut u64).add(word).write(MARK) };
        }
    }

    /// Whether the fibre that ended here has probably used more than a page.
    pub(crate) fn has_grown(self) -> bool {
        let page = self.top.as_ptr() as usize & !(PAGE - 1);
        // SAFETY: as in `mark`; whatever was written there is a number.
        (0..MARK_WORDS).any(|word| unsafe { (page as *const u64).add(word).read() } != MARK)
    }
}

/// The pages of a slot below the top one.
pub(crate) fn grown_pages(slot: Slot) -> (usize, usize) {
    let lowest = slot.lowest();
    (lowest, slot.end() - PAGE - lowest)
}

/// All pages of a slot that can hold data.
pub(crate) fn all_pages(slot: Slot) -> (usize, usize) {
    let lowest = slot.lowest();
    (lowest, slot.end() - lowest)
}

fn top_of(slot: Slot) -> NonNull<Top> {
    let top = std::ptr::with_exposed_provenance_mut(slot.end() - slot.shift() - size_of::<Top>());
    NonNull::new(top).expect("the arena is not at address 0")
}

/// The stack of the fibre that calls, if a fibre calls; wherever its stack
/// pointer is at the moment.
#[inline(always)]
pub(crate) fn current_stack() -> Option<Stack> {
    // SAFETY: `resume` set the word.
    unsafe { Stack::from_raw(here::stack()) }
}

impl Stack {
    /// Gives up the processor.
    ///
    /// # Safety
    /// The caller is the strand that this stack serves, and has no panic in flight: see
    /// [`unwinding`](super::unwinding).
    ///
    /// Inlined, and so is everything that leads here: the processor comes back by a jump that
    /// looks like a return. Each call that lies between is a return that the CPU predicts
    /// wrongly (7 ns each here).
    #[inline(always)]
    pub(crate) unsafe fn switch(self, after: After) {
        self.strand().after().set(after);
        // SAFETY: set when the strand began, and valid until it ends.
        unsafe { (*self.top().yielder.get()).suspend(()) };
    }
}
