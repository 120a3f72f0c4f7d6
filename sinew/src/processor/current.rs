//! The processor that runs the caller.
#![allow(unsafe_code)]

use super::Processor;
use crate::base::here;
use crate::strand::{Strand, blocks};
use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;

/// Calls `f` with the processor that runs the caller, if there is one. `f` must not suspend the
/// calling fibre.
#[inline]
pub(crate) fn with_current<R>(f: impl FnOnce(Option<&Processor>) -> R) -> R {
    // SAFETY: `enter` set the word. A processor outlives what runs on it, and `f` does not leave
    // the processor.
    f(unsafe { here::processor().cast::<Processor>().as_ref() })
}

/// Calls `f` with `processor` as the processor of this kernel thread.
pub(super) fn enter(processor: &Processor, f: impl FnOnce()) {
    here::set_processor(std::ptr::from_ref(processor).cast());
    f();
    here::set_processor(std::ptr::null());
}

/// Says whether a task runs the caller.
pub(crate) fn runs_a_task() -> bool {
    with_current(|processor| processor.is_some_and(|processor| processor.task().is_some()))
}

/// Gives the memory of a letter or a reply back.
///
/// # Safety
/// The memory came from [`blocks::take`] with the same layout, and is not used any more.
#[inline]
pub(crate) unsafe fn put_memory(memory: NonNull<u8>, layout: Layout) {
    // SAFETY: by the contract.
    with_current(|processor| unsafe { blocks::put(processor.map(Processor::blocks), memory, layout) });
}

/// Gives the memory of a strand back.
///
/// # Safety
/// The memory came from [`blocks::take_record`] with the same layout, and is not used any more.
#[inline]
pub(crate) unsafe fn put_record(memory: NonNull<u8>, layout: Layout) {
    // SAFETY: by the contract.
    with_current(|processor| unsafe { blocks::put_record(processor.map(Processor::blocks), memory, layout) });
}

/// The task that a processor runs, if it runs one.
pub(super) struct CurrentTask(Cell<*const Strand>);

impl CurrentTask {
    pub(super) const fn none() -> CurrentTask {
        CurrentTask(Cell::new(std::ptr::null()))
    }

    /// Returns the address of the word, for readers of memory.
    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(&self.0).addr()
    }

    #[inline]
    pub(super) fn is_some(&self) -> bool {
        !self.0.get().is_null()
    }

    #[inline]
    pub(super) fn get(&self) -> Option<&Strand> {
        // SAFETY: the `RunningTask` of `begin` borrows the task, and takes it out when it is dropped.
        unsafe { self.0.get().as_ref() }
    }

    #[inline]
    pub(super) fn begin<'a>(&'a self, task: &'a Strand) -> RunningTask<'a> {
        self.0.set(task);
        RunningTask(self)
    }
}

/// Exists while a task runs.
pub(crate) struct RunningTask<'a>(&'a CurrentTask);

impl Drop for RunningTask<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.0.set(std::ptr::null());
    }
}
