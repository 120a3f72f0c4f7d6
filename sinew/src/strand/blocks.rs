//! Memory for records: blocks of fixed sizes, cut from larger chunks and used again and again.
//!
//! A general allocator takes 60 ns to allocate and free an aligned block. Here it is a pop and a push
//! of the processor's own list. The sizes for fibres are odd multiples of a cache line: a dispatch
//! reads the head of a record, and so the heads spread over all sets of a cache. Small tasks have two
//! lines, and a dispatch reads both.
//!
//! A processor exchanges blocks with the [depot](super::depot), which gives memory back to the kernel after a
//! burst.
#![allow(unsafe_code)]

use super::depot::{self, Block, LARGE, SIZES};
use super::header::Strand;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::ptr::NonNull;

/// The alignment of blocks: a cache line.
pub(super) const LINE: usize = 64;

/// The largest number of blocks of each size that a processor keeps. It exchanges half of them with
/// the depot at once. Most letters have one line, and 1000 of them at a time are common: with 256, a fifth of the time
/// to post and run such a batch was the depot's. Unmeasured beyond that.
pub(super) const KEPT: [usize; SIZES.len()] = [2048, 512, 256, 256, 256];

/// Returns the number of bytes that have been set aside for records.
pub(crate) fn set_aside() -> usize {
    depot::set_aside()
}

/// Returns the index of the smallest size that fits; `None` if the layout is larger, or aligned more
/// strictly.
#[inline]
fn size_for(layout: Layout) -> Option<usize> {
    if layout.align() > LINE {
        return None;
    }
    SIZES.iter().position(|size| layout.size() <= *size)
}

/// A processor's own lists of free blocks.
#[derive(Default)]
pub(crate) struct Blocks {
    free: [RefCell<Vec<Block>>; SIZES.len()],
}

/// Returns memory for a value of this layout, from `own` if the caller is a processor.
#[inline(always)]
pub(crate) fn take(own: Option<&Blocks>, layout: Layout) -> NonNull<u8> {
    let Some(size) = size_for(layout) else {
        // SAFETY: records are not empty.
        let memory = unsafe { alloc(layout) };
        return NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout));
    };
    let block = match own {
        Some(own) => {
            let mut free = own.free[size].borrow_mut();
            if free.is_empty() {
                refill(size, &mut free);
            }
            free.pop()
        }
        None => Some(depot::take_one(size)),
    };
    block.expect("a list was refilled just now").0
}

/// Gives memory back, to `own` if the caller is a processor.
///
/// # Safety
/// The memory came from `take` with the same layout, and is not used any more.
#[inline(always)]
pub(crate) unsafe fn put(own: Option<&Blocks>, memory: NonNull<u8>, layout: Layout) {
    let Some(size) = size_for(layout) else {
        // SAFETY: by the contract; such a layout was allocated alone.
        return unsafe { dealloc(memory.as_ptr(), layout) };
    };
    match own {
        Some(own) => {
            let mut free = own.free[size].borrow_mut();
            free.push(Block(memory));
            if free.len() > KEPT[size] {
                give_half(size, &mut free);
            }
        }
        None => depot::give(size, [Block(memory)]),
    }
}

/// Returns memory for a strand, as [`take`] does.
#[inline(always)]
pub(crate) fn take_record(own: Option<&Blocks>, layout: Layout) -> NonNull<u8> {
    if size_for(layout).is_some() { take(own, layout) } else { take_large(layout) }
}

/// Gives the memory of a strand back. To readers of memory, it is no strand from then on.
///
/// # Safety
/// The memory came from `take_record` with the same layout, and is not used any more.
#[inline(always)]
pub(crate) unsafe fn put_record(own: Option<&Blocks>, memory: NonNull<u8>, layout: Layout) {
    // SAFETY: by the contract; a strand was there.
    unsafe { Strand::erase(memory.cast()) };
    if size_for(layout).is_some() {
        // SAFETY: by the contract.
        unsafe { put(own, memory, layout) };
    } else {
        // SAFETY: by the contract.
        unsafe { put_large(memory, layout) };
    }
}

/// Returns the layout of a large record with the line before it, and the size of that line.
fn with_line(layout: Layout) -> (Layout, usize) {
    let line = layout.align().max(LINE);
    let whole = Layout::from_size_align(layout.size() + line, line).expect("a record is not that large");
    (whole, line)
}

/// Returns memory for a strand that has no size of ours. Its number in the directory lies before it.
#[cold]
fn take_large(layout: Layout) -> NonNull<u8> {
    let (whole, line) = with_line(layout);
    // SAFETY: it is not empty.
    let Some(memory) = NonNull::new(unsafe { alloc(whole) }) else { handle_alloc_error(whole) };
    // SAFETY: within the memory.
    let record = unsafe { memory.add(line) };
    // SAFETY: a strand will be there.
    unsafe { Strand::erase(record.cast()) };
    // SAFETY: the line is ours.
    unsafe { memory.cast().write(LARGE.enter(record.addr().get())) };
    record
}

/// # Safety
/// The memory came from `take_large` with the same layout, and is not used any more.
#[cold]
unsafe fn put_large(record: NonNull<u8>, layout: Layout) {
    let (whole, line) = with_line(layout);
    // SAFETY: by the contract.
    let memory = unsafe { record.sub(line) };
    // SAFETY: `take_large` wrote it.
    LARGE.leave(unsafe { memory.cast().read() });
    // SAFETY: by the contract.
    unsafe { dealloc(memory.as_ptr(), whole) };
}

#[cold]
fn refill(size: usize, free: &mut Vec<Block>) {
    depot::take(size, KEPT[size] / 2, free);
}

#[cold]
fn give_half(size: usize, free: &mut Vec<Block>) {
    depot::give(size, free.drain(..KEPT[size] / 2));
}

impl Drop for Blocks {
    fn drop(&mut self) {
        for (size, free) in self.free.iter_mut().enumerate() {
            depot::give(size, free.get_mut().drain(..));
        }
    }
}
