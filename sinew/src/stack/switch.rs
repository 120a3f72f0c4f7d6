//! A stack in use: the coroutine that runs on it, and the record at its top by
//! which the code that runs there finds its fibre and its processor.
#![allow(unsafe_code)]

use super::arena::{self, PAGE, Slot};
use super::unwinding;
use crate::base::here;
use crate::fibre::record::Record;
use crate::processor;
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
    /// The fibre that the stack serves.
    record: Cell<*const Record>,
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

    /// Sets the stack up to run `record`'s closure at the first resume.
    pub(crate) fn begin(self, record: &Record) {
        self.mark();
        let top = self.top();
        top.record.set(record);
        let body = Body::with_stack(Room { top: self.top }, |yielder, ()| {
            let stack = current_stack().expect("this is the fibre's stack");
            stack.top().yielder.set(yielder);
            stack.record().execute();
        });
        // SAFETY: we own the stack, and no body is alive on it.
        unsafe { (*top.body.get()).write(body) };
    }

    /// The fibre that the stack serves.
    #[inline(always)]
    pub(crate) fn record<'a>(self) -> &'a Record {
        // SAFETY: set by `begin`; the record is freed only after the fibre has
        // ended and its stack has been put back.
        unsafe { &*self.top().record.get() }
    }

    /// Runs the fibre until it gives up the processor.
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
                top.record.set(std::ptr::null());
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
    /// The caller is the fibre that this stack serves.
    ///
    /// Inlined, as everything that leads here should be: the processor comes
    /// back by a jump that looks like a return, and each call that lies between
    /// is a return that the CPU predicts wrongly (7 ns each here).
    #[inline(always)]
    pub(crate) unsafe fn suspend(self, after: After) {
        if unwinding::is_in_flight() {
            // SAFETY: the caller's promise is the same.
            unsafe { self.suspend_unwinding(after) };
        } else {
            // SAFETY: as above.
            unsafe { self.switch(after) };
        }
    }

    /// # Safety
    /// As for [`suspend`](Stack::suspend).
    #[inline(always)]
    unsafe fn switch(self, after: After) {
        let top = self.top();
        self.record().strand().after().set(after);
        // SAFETY: set when the fibre began, and valid until it ends.
        unsafe { (*top.yielder.get()).suspend(()) };
    }

    /// As [`suspend`](Stack::suspend), for a fibre that is unwinding.
    ///
    /// # Safety
    /// The same.
    #[cold]
    #[inline(never)]
    unsafe fn suspend_unwinding(self, after: After) {
        let record = self.record();
        processor::with_current(|processor| record.pin(processor.expect("fibres run on processors")));
        let panics = unwinding::lay_down();
        // SAFETY: the caller's promise is the same.
        unsafe { self.switch(after) };
        panics.take_up();
        record.unpin();
    }
}
