//! A stack in use: the coroutine that runs on it, and the record at its top by
//! which the code that runs there finds its fibre and its processor.
#![allow(unsafe_code)]

use super::arena::{self, PAGE, Slot};
use super::record::Record;
use crate::processor::Processor;
use crate::strand::After;
use corosensei::stack::StackPointer;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// How far the record and the stack are shifted down from the top of their
/// page, by the slot's number: equal places of different stacks would share a
/// few sets of the first-level cache otherwise. 16 steps of two lines leave
/// half of the page to the stack.
const SHIFT_STEPS: usize = 16;
const SHIFT_BYTES: usize = 128;

/// A word at the lowest end of the top page. A stack that grows into the next
/// page has in all likelihood overwritten it.
const MARK: u64 = 0x51e3_77a1_0b5e_55ed;
const MARK_WORDS: usize = 8;

type Body = Coroutine<(), (), (), Room>;

/// The record at the top of a stack.
#[repr(C)]
pub(super) struct Top {
    /// The processor that runs the fibre. Written by it before each resume.
    processor: Cell<*const Processor>,
    /// The fibre that the stack serves.
    record: Cell<*const Record>,
    /// How its code gets back to the processor.
    yielder: Cell<*const Yielder<(), ()>>,
    /// Why it went back last.
    after: Cell<After>,
    /// Alive from `Stack::begin` to the fibre's end.
    body: UnsafeCell<MaybeUninit<Body>>,
}

/// The memory that the coroutine may use: what corosensei is told of a slot.
pub(super) struct Room {
    base: usize,
    limit: usize,
}

// SAFETY: slots have a guard page at `limit`, at least 16 KiB above it, and are
// used by one coroutine at a time.
unsafe impl corosensei::stack::Stack for Room {
    fn base(&self) -> StackPointer {
        StackPointer::new(self.base).expect("the arena is not at address 0")
    }

    fn limit(&self) -> StackPointer {
        StackPointer::new(self.limit).expect("the arena is not at address 0")
    }
}

/// A carved slot that belongs to the holder.
#[derive(Clone, Copy)]
pub(crate) struct Stack {
    top: NonNull<Top>,
}

impl Stack {
    /// # Safety
    /// The slot is carved and nobody else uses it.
    pub(super) unsafe fn at(slot: Slot) -> Stack {
        Stack { top: top_of(slot) }
    }

    pub(super) fn slot(self) -> Slot {
        arena::slot_at(self.top.as_ptr() as usize).expect("stacks are in the arena")
    }

    fn top(&self) -> &Top {
        // SAFETY: the slot is carved, and the record is only ever accessed by
        // the one thread that owns the stack at a time. All-zero memory and
        // leftovers of the fibre before are valid cells.
        unsafe { self.top.as_ref() }
    }

    /// Sets the stack up to run `record`'s closure at the first resume.
    pub(super) fn begin(self, record: &Record) {
        let slot = self.slot();
        let base = self.top.as_ptr() as usize & !15;
        let room = Room { base, limit: slot.bottom() };
        self.mark();
        let top = self.top();
        top.record.set(record);
        let body = Body::with_stack(room, |yielder, ()| {
            let top = current_top().expect("this is the fibre's stack");
            top.yielder.set(yielder);
            // SAFETY: the record outlives its run: it is freed only after
            // `After::Finished`.
            unsafe { (*top.record.get()).execute() };
        });
        // SAFETY: we own the stack, and no body is alive on it.
        unsafe { (*top.body.get()).write(body) };
    }

    /// Runs the fibre until it gives up the processor.
    #[inline]
    pub(super) fn resume(self, processor: &Processor) -> After {
        let top = self.top();
        top.processor.set(processor);
        // SAFETY: `begin` wrote the body; we own the stack.
        let body = unsafe { (*top.body.get()).assume_init_mut() };
        match body.resume(()) {
            CoroutineResult::Yield(()) => top.after.get(),
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
    pub(super) fn has_grown(self) -> bool {
        let page = self.top.as_ptr() as usize & !(PAGE - 1);
        // SAFETY: as in `mark`; whatever was written there is a number.
        (0..MARK_WORDS).any(|word| unsafe { (page as *const u64).add(word).read() } != MARK)
    }
}

/// The pages of a slot below the top one.
pub(super) fn grown_pages(slot: Slot) -> (usize, usize) {
    let lowest = slot.bottom() + PAGE;
    (lowest, slot.top() - PAGE - lowest)
}

/// All pages of a slot that can hold data.
pub(super) fn all_pages(slot: Slot) -> (usize, usize) {
    let lowest = slot.bottom() + PAGE;
    (lowest, slot.top() - lowest)
}

fn top_of(slot: Slot) -> NonNull<Top> {
    let shift = (slot.number as usize % SHIFT_STEPS) * SHIFT_BYTES;
    let top = (slot.top() - shift - size_of::<Top>()) & !63;
    NonNull::new(std::ptr::with_exposed_provenance_mut(top)).expect("the arena is not at address 0")
}

/// The record of the stack that the caller runs on, if that is a fibre's.
#[inline]
fn current_top() -> Option<&'static Top> {
    let here = 0u8;
    let slot = arena::slot_at(std::ptr::from_ref(&here) as usize)?;
    // SAFETY: the caller runs on this stack, so it is in use and set up.
    Some(unsafe { top_of(slot).as_ref() })
}

/// The processor and the fibre of the stack that the caller runs on, if that
/// is a fibre's.
#[inline]
pub(crate) fn current_on_stack() -> Option<(NonNull<Processor>, NonNull<Record>)> {
    let top = current_top()?;
    NonNull::new(top.processor.get().cast_mut()).zip(NonNull::new(top.record.get().cast_mut()))
}

impl Stack {
    /// Gives up the processor.
    ///
    /// # Safety
    /// The caller is the fibre that this stack serves, wherever its stack
    /// pointer is at the moment.
    #[inline]
    pub(super) unsafe fn suspend(self, after: After) {
        let top = self.top();
        top.after.set(after);
        // SAFETY: set when the fibre began, and valid until it ends.
        unsafe { (*top.yielder.get()).suspend(()) };
    }
}
