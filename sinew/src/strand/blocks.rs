//! Memory for records: blocks of fixed sizes, cut from larger chunks and used again and again.
//!
//! A general allocator takes 60 ns to allocate and free an aligned block. Here it is a pop and a push
//! of the processor's own list. The sizes for fibres are odd multiples of a cache line: a dispatch
//! reads the head of a record, and so the heads spread over all sets of a cache. Small tasks have two
//! lines, and a dispatch reads both. Chunks are kept: the process holds the memory of all records
//! that existed at its peak, a twentieth of what their stacks took.
#![allow(unsafe_code)]

use crate::base::fork;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// The alignment of blocks: a cache line.
const LINE: usize = 64;
const SIZES: [usize; 5] = [LINE, 2 * LINE, 3 * LINE, 5 * LINE, 7 * LINE];
const CHUNK: usize = 64 * 1024;

/// The size of a chunk if there is no memory for a larger one, so that spawning does not end a
/// process that is short of memory.
const SMALLEST_CHUNK: usize = 2 * 1024;

/// The largest number of blocks of each size that a processor keeps. It exchanges half of them with
/// the shared list at once. Unmeasured.
const KEPT: usize = 256;

/// The memory of a cache line.
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u8; LINE]);

/// Memory that belongs to the holder.
struct Block(NonNull<u8>);

// SAFETY: the memory is bound to no thread.
unsafe impl Send for Block {}

static SHARED: [Mutex<Vec<Block>>; SIZES.len()] = [const { Mutex::new(Vec::new()) }; SIZES.len()];

#[cold]
fn shared(size: usize) -> MutexGuard<'static, Vec<Block>> {
    // The lock may be held by a thread that a forked child does not have.
    fork::check();
    SHARED[size].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The number of bytes of all chunks.
static CUT: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of bytes that have been set aside for records.
pub(crate) fn set_aside() -> usize {
    CUT.load(Relaxed)
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
        None => {
            let mut free = shared(size);
            if free.is_empty() {
                cut_chunk(size, &mut free);
            }
            free.pop()
        }
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
            if free.len() > KEPT {
                give_half(size, &mut free);
            }
        }
        None => shared(size).push(Block(memory)),
    }
}

#[cold]
fn refill(size: usize, free: &mut Vec<Block>) {
    let mut shared = shared(size);
    if shared.is_empty() {
        return cut_chunk(size, free);
    }
    let rest = shared.len().saturating_sub(KEPT / 2);
    free.extend(shared.drain(rest..));
}

#[cold]
fn give_half(size: usize, free: &mut Vec<Block>) {
    shared(size).extend(free.drain(..KEPT / 2));
}

/// Adds the blocks of a new chunk to `free`, in an order in which neighbours are far apart. The CPU
/// fetches what follows the lines that a processor runs through, and would take the lines of the next
/// records from the processor that runs those.
#[cold]
fn cut_chunk(size: usize, free: &mut Vec<Block>) {
    let chunk = |bytes: &usize| {
        let mut lines: Vec<MaybeUninit<Line>> = Vec::new();
        lines.try_reserve_exact(bytes / LINE).ok()?;
        lines.resize_with(bytes / LINE, MaybeUninit::uninit);
        Some(lines.leak())
    };
    let Some(lines) = [CHUNK, SMALLEST_CHUNK].iter().find_map(chunk) else {
        handle_alloc_error(Layout::new::<[Line; SMALLEST_CHUNK / LINE]>())
    };
    CUT.fetch_add(size_of_val(lines), Relaxed);
    let blocks = lines.chunks_exact_mut(SIZES[size] / LINE);
    let mut blocks: Vec<_> = blocks.map(|block| Some(Block(NonNull::from(block).cast()))).collect();
    let (count, stride) = (blocks.len(), stride(blocks.len()));
    free.extend((0..count).filter_map(|number| blocks[number * stride % count].take()));
}

/// Returns a step that leads to each of `count` blocks once, and some pages further each time.
fn stride(count: usize) -> usize {
    fn common_divisor(a: usize, b: usize) -> usize {
        if b == 0 { a } else { common_divisor(b, a % b) }
    }
    (count / 5 + 1..count).find(|step| common_divisor(*step, count) == 1).unwrap_or(1)
}

impl Drop for Blocks {
    fn drop(&mut self) {
        for (size, free) in self.free.iter_mut().enumerate() {
            shared(size).append(free.get_mut());
        }
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_stride_leads_to_each_block_once() {
        for count in SIZES.map(|size| CHUNK / size).into_iter().chain(1..100) {
            let mut numbers: Vec<_> = (0..count).map(|number| number * stride(count) % count).collect();
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..count), "{count} blocks");
        }
    }
}
