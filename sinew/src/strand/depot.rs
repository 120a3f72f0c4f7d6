//! The depot: free blocks that no processor keeps, and where they come from.
//!
//! Memory comes in *chunks* of 64 KiB, each cut into blocks of one size. Four chunks are a *slab*, whose address is a
//! multiple of its size. It begins with the [heads](Head) of its chunks: so a block leads to the head of its chunk. The
//! free blocks of a chunk are linked. A chunk with free blocks is in the list of its size.
//!
//! When all blocks of a chunk are free, and the depot has enough others of this size, the chunk becomes *spare*. A
//! spare chunk can be cut for any size. The depot keeps some of them as they are, and gives the memory of the others
//! back to the kernel: after a burst of records or letters the process has its memory back. The addresses stay
//! reserved.
//!
//! A process that is short of memory gets *shreds* instead: a few blocks at a time, which stay.
#![allow(unsafe_code)]

use super::blocks::LINE;
use crate::base::describe::Entry;
use crate::base::directory::Directory;
use crate::base::fork;
use std::alloc::{Layout, alloc, handle_alloc_error};
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

pub(super) const SIZES: [usize; 5] = [LINE, 2 * LINE, 3 * LINE, 5 * LINE, 7 * LINE];

const CHUNK: usize = 64 * 1024;

/// The number of chunks of a slab. They are allocated at once.
const SLAB_CHUNKS: usize = 4;
const SLAB: usize = SLAB_CHUNKS * CHUNK;

/// The size of shreds.
const SHRED: usize = 2 * 1024;

const PAGE: usize = 4096;

/// The number of spare chunks whose memory is kept: 4 MiB. To give back the memory of a chunk, and to get it again,
/// takes about 10 µs. Unmeasured beyond that.
const KEPT_CHUNKS: usize = 64;

/// The depot keeps this number of free blocks of each size before a chunk becomes spare: some exchanges with each of
/// several processors. Unmeasured.
const KEPT_FREE: usize = 8192;

/// Memory that belongs to the holder.
pub(super) struct Block(pub(super) NonNull<u8>);

// SAFETY: the memory is bound to no thread.
unsafe impl Send for Block {}

/// The head of a chunk. Used under the lock of the depot of its size.
#[repr(C, align(64))]
struct Head {
    next: Option<NonNull<Head>>,
    previous: Option<NonNull<Head>>,
    /// The first free block. Each has the address of the next one in it.
    free: Option<NonNull<Link>>,
    free_count: u32,
    /// The number of all blocks.
    count: u32,
    /// The number of the chunk in its slab.
    number: u32,
    /// The size of its blocks.
    block: u32,
}

/// The slabs, for readers of memory. They stay.
static SLABS: Directory = Directory::new();

/// Other blocks that may be strands, for readers of memory: records that have no size of ours, and those of shreds.
pub(super) static LARGE: Directory = Directory::new();

/// The entries of the description. A chunk that is not cut has no blocks.
pub(crate) const ENTRIES: &[Entry] = &[
    Entry::place("slabs", &SLABS),
    Entry::place("large", &LARGE),
    Entry::number("slab.bytes", SLAB),
    Entry::number("slab.chunks", SLAB_CHUNKS),
    Entry::number("chunk.bytes", CHUNK),
    Entry::number("head.bytes", size_of::<Head>()),
    Entry::number("head.count", offset_of!(Head, count)),
    Entry::number("head.block", offset_of!(Head, block)),
];

impl Head {
    /// Returns the head of the chunk that a block is in, which is no shred.
    fn of(block: &Block) -> NonNull<Head> {
        let address = block.0.addr().get();
        let number = address % SLAB / CHUNK;
        let head = address - address % SLAB + number * size_of::<Head>();
        // The provenance of the slab was exposed when it was allocated.
        NonNull::with_exposed_provenance(head.try_into().expect("no slab is at address 0"))
    }

    /// Returns the address of the first block, and the bytes that there are for blocks.
    fn place(&self) -> (NonNull<u8>, usize) {
        let number = self.number as usize;
        let slab = std::ptr::from_ref(self).addr() - number * size_of::<Head>();
        // The heads take the beginning of the first chunk.
        let first = if number == 0 { SLAB_CHUNKS * size_of::<Head>() } else { 0 };
        let place = slab + number * CHUNK + first;
        (NonNull::with_exposed_provenance(place.try_into().expect("no slab is at address 0")), CHUNK - first)
    }
}

/// A free block.
struct Link(Option<NonNull<Link>>);

/// The free blocks of one size.
struct Depot {
    /// The list of chunks that have free blocks.
    first: Option<NonNull<Head>>,
    /// The number of free blocks of these chunks.
    free: usize,
    shreds: Vec<Block>,
}

// SAFETY: the memory behind the pointers is used under the lock alone.
unsafe impl Send for Depot {}

static DEPOTS: [Mutex<Depot>; SIZES.len()] =
    [const { Mutex::new(Depot { first: None, free: 0, shreds: Vec::new() }) }; SIZES.len()];

/// Chunks that are not cut.
struct Spare {
    /// Those that have memory.
    warm: Vec<NonNull<Head>>,
    /// Those that have none.
    cold: Vec<NonNull<Head>>,
}

// SAFETY: nobody else has these chunks.
unsafe impl Send for Spare {}

static SPARE: Mutex<Spare> = Mutex::new(Spare { warm: Vec::new(), cold: Vec::new() });

/// The places of all shreds, if there are any.
static SHREDS: Mutex<Vec<usize>> = Mutex::new(Vec::new());
static HAS_SHREDS: AtomicBool = AtomicBool::new(false);

/// The number of bytes of all chunks that are cut, and of all shreds.
static CUT: AtomicUsize = AtomicUsize::new(0);

pub(super) fn set_aside() -> usize {
    CUT.load(Relaxed)
}

#[cold]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The lock may be held by a thread that a forked child does not have.
    fork::check();
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Takes one block.
#[cold]
pub(super) fn take_one(size: usize) -> Block {
    lock(&DEPOTS[size]).next(size)
}

/// Adds `count` blocks to `taken`.
#[cold]
pub(super) fn take(size: usize, count: usize, taken: &mut Vec<Block>) {
    let mut depot = lock(&DEPOTS[size]);
    taken.extend((0..count).map(|_| depot.next(size)));
}

/// Takes blocks back.
#[cold]
pub(super) fn give(size: usize, blocks: impl IntoIterator<Item = Block>) {
    let mut depot = lock(&DEPOTS[size]);
    for block in blocks {
        if HAS_SHREDS.load(Relaxed) && is_shred(&block) {
            depot.shreds.push(block);
        } else if let Some(chunk) = depot.push(block) {
            // While the lock is held: nobody takes from a chunk that is in no list.
            CUT.fetch_sub(CHUNK, Relaxed);
            make_spare(chunk);
        }
    }
}

fn is_shred(block: &Block) -> bool {
    let address = block.0.addr().get();
    lock(&SHREDS).iter().any(|shred| (*shred..shred + SHRED).contains(&address))
}

impl Depot {
    /// Takes a free block. Cuts a chunk if there is none.
    fn next(&mut self, size: usize) -> Block {
        loop {
            if let Some(block) = self.shreds.pop().or_else(|| self.pop()) {
                return block;
            }
            self.cut(size);
        }
    }

    fn pop(&mut self) -> Option<Block> {
        // SAFETY: chunks in the list are ours, under the lock.
        let head = unsafe { self.first?.as_mut() };
        let link = head.free.expect("a chunk in the list has free blocks");
        // SAFETY: a free block holds a link.
        head.free = unsafe { link.read() }.0;
        head.free_count -= 1;
        self.free -= 1;
        if head.free_count == 0 {
            self.unlink(NonNull::from(head));
        }
        Some(Block(link.cast()))
    }

    /// Adds a free block. Returns its chunk if that is not needed any more.
    fn push(&mut self, block: Block) -> Option<NonNull<Head>> {
        let mut chunk = Head::of(&block);
        // SAFETY: the block is in a chunk of this size, and the lock is held.
        let head = unsafe { chunk.as_mut() };
        let link = block.0.cast::<Link>();
        // SAFETY: the block is ours.
        unsafe { link.write(Link(head.free)) };
        head.free = Some(link);
        head.free_count += 1;
        self.free += 1;
        let (free, count) = (head.free_count, head.count);
        if free == 1 {
            self.link(chunk);
        }
        if free < count || self.free < count as usize + KEPT_FREE {
            return None;
        }
        head.count = 0;
        self.free -= count as usize;
        self.unlink(chunk);
        Some(chunk)
    }

    fn link(&mut self, mut chunk: NonNull<Head>) {
        // SAFETY: the chunk is ours, and so is the one that is first.
        let head = unsafe { chunk.as_mut() };
        (head.next, head.previous) = (self.first, None);
        // SAFETY: as above.
        self.first.into_iter().for_each(|mut first| unsafe { first.as_mut() }.previous = Some(chunk));
        self.first = Some(chunk);
    }

    fn unlink(&mut self, chunk: NonNull<Head>) {
        // SAFETY: the chunk is in the list, and ours, as its neighbours are.
        let (next, previous) = unsafe { (chunk.as_ref().next, chunk.as_ref().previous) };
        match previous {
            // SAFETY: as above.
            Some(mut previous) => unsafe { previous.as_mut() }.next = next,
            None => self.first = next,
        }
        // SAFETY: as above.
        next.into_iter().for_each(|mut next| unsafe { next.as_mut() }.previous = previous);
    }

    /// Cuts a chunk, or adds shreds if there is no memory for one.
    fn cut(&mut self, size: usize) {
        let Some(mut chunk) = fresh_chunk() else { return self.shreds.extend(shreds(size)) };
        CUT.fetch_add(CHUNK, Relaxed);
        // SAFETY: the chunk is ours.
        let head = unsafe { chunk.as_mut() };
        let (place, bytes) = head.place();
        let count = bytes / SIZES[size];
        // In an order in which neighbours are far apart. The CPU fetches what follows the lines that a processor runs
        // through, and would take the lines of the next records from the processor that runs those.
        let stride = stride(count);
        head.free = None;
        for number in (0..count).rev() {
            // SAFETY: within the chunk.
            let link = unsafe { place.add(number * stride % count * SIZES[size]) }.cast::<Link>();
            // SAFETY: as above.
            unsafe { link.write(Link(head.free)) };
            head.free = Some(link);
        }
        (head.free_count, head.count, head.block) = (count as u32, count as u32, SIZES[size] as u32);
        self.free += count;
        self.link(chunk);
    }
}

/// Returns a step that leads to each of `count` blocks once, and some pages further each time.
fn stride(count: usize) -> usize {
    fn common_divisor(a: usize, b: usize) -> usize {
        if b == 0 { a } else { common_divisor(b, a % b) }
    }
    (count / 5 + 1..count).find(|step| common_divisor(*step, count) == 1).unwrap_or(1)
}

/// Returns a chunk that is not cut, unless there is no memory.
fn fresh_chunk() -> Option<NonNull<Head>> {
    let mut spare = lock(&SPARE);
    if let Some(chunk) = spare.warm.pop() {
        return Some(chunk);
    }
    if spare.cold.is_empty() {
        let heads = map_slab()?.cast::<Head>();
        heads.as_ptr().expose_provenance();
        for number in 0..SLAB_CHUNKS {
            let new = Head {
                next: None,
                previous: None,
                free: None,
                free_count: 0,
                count: 0,
                number: number as u32,
                block: 0,
            };
            // SAFETY: the slab is ours, and begins with the heads.
            let head = unsafe { heads.add(number) };
            // SAFETY: as above.
            unsafe { head.write(new) };
            spare.cold.push(head);
        }
        SLABS.enter(heads.addr().get());
    }
    spare.cold.pop()
}

/// Maps the memory of a slab. An allocator would touch a page besides each slab, for a head of its own: two bytes for each
/// idle actor.
fn map_slab() -> Option<NonNull<u8>> {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // Twice the size, so that a slab fits in at a multiple of its size. The rest is given back.
    // SAFETY: the kernel chooses the place.
    let mapped = unsafe { libc::mmap(std::ptr::null_mut(), 2 * SLAB, access, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return None;
    }
    let before = mapped.addr().next_multiple_of(SLAB) - mapped.addr();
    // SAFETY: both are within the mapping.
    let (slab, end) = unsafe { (mapped.byte_add(before), mapped.byte_add(before + SLAB)) };
    for (place, length) in [(mapped, before), (end, SLAB - before)] {
        if length > 0 {
            // SAFETY: this part of the mapping is not used.
            let _ = unsafe { libc::munmap(place, length) };
        }
    }
    NonNull::new(slab.cast())
}

/// Makes a chunk spare. Gives its memory back to the kernel if enough others have memory.
fn make_spare(chunk: NonNull<Head>) {
    let mut spare = lock(&SPARE);
    if spare.warm.len() < KEPT_CHUNKS {
        return spare.warm.push(chunk);
    }
    // SAFETY: the chunk is ours.
    let (place, bytes) = unsafe { chunk.as_ref() }.place();
    // The heads are at the beginning of a page, which stays.
    let first = place.addr().get().next_multiple_of(PAGE);
    let length = place.addr().get() + bytes - first;
    // If the kernel refuses, the memory stays.
    // SAFETY: within the chunk, in which nothing is used any more.
    let _ = unsafe { libc::madvise(std::ptr::with_exposed_provenance_mut(first), length, libc::MADV_DONTNEED) };
    spare.cold.push(chunk);
}

/// Makes shreds.
#[cold]
fn shreds(size: usize) -> impl Iterator<Item = Block> {
    let layout = Layout::from_size_align(SHRED, LINE).expect("a layout");
    // SAFETY: it is not empty.
    let Some(shred) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
    lock(&SHREDS).push(shred.addr().get());
    HAS_SHREDS.store(true, Relaxed);
    CUT.fetch_add(SHRED, Relaxed);
    // SAFETY: within the shred.
    (0..SHRED / SIZES[size]).map(move |number| unsafe { shred.add(number * SIZES[size]) }).map(|block| {
        LARGE.enter(block.addr().get());
        Block(block)
    })
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

    /// Other tests use the depot at the same time: so this uses the size that few records have.
    #[test]
    fn chunks_are_given_back_after_a_burst_and_blocks_are_used_again() {
        const SIZE: usize = 4;
        let each = CHUNK / SIZES[SIZE];
        let many = 400 * each;
        for _ in 0..2 {
            let before = set_aside();
            let mut taken = Vec::new();
            while taken.len() < many {
                take(SIZE, 128, &mut taken);
            }
            let mut places: Vec<_> = taken.iter().map(|block| block.0.addr().get()).collect();
            places.sort_unstable();
            assert!(places.windows(2).all(|two| two[0] + SIZES[SIZE] <= two[1]), "blocks overlap");
            assert!(set_aside() >= before + 300 * CHUNK);
            give(SIZE, taken);
            assert!(set_aside() <= before + 100 * CHUNK, "{} bytes are kept", set_aside() - before);
        }
    }
}
