//! The arena: one range of addresses, reserved once for the process and divided into slots. The
//! essay of [`stack`](super) has the picture of a slot and the steps of carving.
#![allow(unsafe_code)]

use crate::base::describe::Entry;
use crate::base::fallback::{Facility, denied};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The page size that the layout is made for. The arena refuses to start if the kernel's pages are
/// larger.
pub(crate) const PAGE: usize = 4096;

/// The smallest stack that a fibre can have.
pub(crate) const SMALLEST_STACK: usize = 16 * 1024;

/// The largest stack that a fibre can have.
pub(crate) const LARGEST_STACK: usize = SMALLEST_STACK << (CLASSES - 1);

/// The number of sizes. Each size is twice the one before.
pub(crate) const CLASSES: usize = 15;

/// The inaccessible bytes below a stack. Rust touches every page of a frame in order, so one page
/// would stop Rust. C does not: a function with an array of 128 KiB moves the stack pointer by
/// 128 KiB at once, and first writes at the far end. Such a jump hits this guard, wherever in the
/// stack it begins. A longer jump may end in the stack below.
///
/// Each page of a slot takes 8 bytes of a page table, whether it is used or not: a page table maps 2 MiB,
/// and there is a top page in each 2 MiB. Measured with a million parked
/// fibres, in bytes for each: 4,313 resident, and 779 in page tables with stacks of 256 KiB, 394 with
/// stacks of 64 KiB. The guard's share is 264 of them. Measured with stacks of 64 KiB: to carve a slot
/// takes the kernel 2.0 µs instead of 0.7 with a guard of one page, once. Yields and wake-ups among 10,
/// 1,000 and 100,000 fibres take the same time as with one page, within the noise of a busy machine.
pub(crate) const GUARD: usize = 33 * PAGE;

const _: () = assert!((SMALLEST_STACK + GUARD) / PAGE % 2 == 1, "slots are odd numbers of pages");

/// 1 TiB of addresses for each size: 2.7 million stacks of 256 KiB. Address space costs nothing
/// until it is used. Halved until the kernel agrees.
const LARGEST_PART: usize = 1 << 40;
const SMALLEST_PART: usize = 1 << 29;

/// A size of stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class(u8);

/// A slot: its class, and its number within the class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) class: Class,
    pub(crate) number: u32,
}

/// The record and the stack are shifted down from the end of their page by less than this. 32 lines
/// leave half of the page to the stack. Measured with 500 fibres that unpark each other: 45 ns a
/// switch, against 54 with 16 steps of two lines and 58 with 8 steps of four.
const SHIFT_LINES: usize = 32;
const LINE: usize = 64;

impl Class {
    /// Returns the smallest class whose stacks have at least `bytes`.
    pub(crate) fn of_size(bytes: usize) -> Option<Class> {
        let fits = |class: &Class| class.stack_size() >= bytes;
        (0..CLASSES as u8).map(Class).find(fits)
    }

    /// Returns the bytes of a stack, without its guard.
    pub(crate) const fn stack_size(self) -> usize {
        SMALLEST_STACK << self.0
    }

    pub(crate) fn index(self) -> usize {
        self.0.into()
    }

    pub(crate) fn all() -> impl Iterator<Item = Class> {
        (0..CLASSES as u8).map(Class)
    }

    /// Returns the number of pages of a slot.
    const fn pages(self) -> usize {
        (self.stack_size() + GUARD) / PAGE
    }
}

/// The reserved range. Written once, before the first fibre; 0 until then.
struct Range {
    base: AtomicUsize,
    /// The length in bytes.
    span: AtomicUsize,
    /// The binary logarithm of the length of a part.
    part_shift: AtomicUsize,
}

static RANGE: Range = Range { base: AtomicUsize::new(0), span: AtomicUsize::new(0), part_shift: AtomicUsize::new(0) };

/// The entries of the description.
pub(crate) const ENTRIES: &[Entry] = &[
    Entry::place("arena.base", &RANGE.base),
    Entry::place("arena.span", &RANGE.span),
    Entry::place("arena.part_shift", &RANGE.part_shift),
    Entry::number("arena.smallest", SMALLEST_STACK),
    Entry::number("arena.guard", GUARD),
];

/// Returns the slot that `address` lies in, guard included.
pub(crate) fn slot_at(address: usize) -> Option<Slot> {
    let offset = address.wrapping_sub(RANGE.base.load(Ordering::Relaxed));
    if offset >= RANGE.span.load(Ordering::Relaxed) {
        return None;
    }
    let part_shift = RANGE.part_shift.load(Ordering::Relaxed);
    let class = Class((offset >> part_shift) as u8);
    let page = (offset & ((1 << part_shift) - 1)) / PAGE;
    Some(Slot { class, number: (page / class.pages()) as u32 })
}

impl Slot {
    /// Returns the lowest address: that of the guard.
    pub(crate) fn bottom(self) -> usize {
        let part = self.class.index() << RANGE.part_shift.load(Ordering::Relaxed);
        RANGE.base.load(Ordering::Relaxed) + part + self.number as usize * self.class.pages() * PAGE
    }

    /// Returns the lowest address of the stack.
    pub(crate) fn lowest(self) -> usize {
        self.bottom() + GUARD
    }

    /// Returns the address past the highest one.
    pub(crate) fn end(self) -> usize {
        self.bottom() + self.class.pages() * PAGE
    }

    /// Returns the distance from the end of the slot to the beginning of its stack. Neighbours
    /// differ. So do slots at a distance of 16, whose ends would fall into the same cache sets.
    pub(crate) fn shift(self) -> usize {
        let number = self.number as usize;
        (number + number / 16) % SHIFT_LINES * LINE
    }
}

/// Returns the number of slots of `class` that the arena has addresses for.
pub(crate) fn capacity(class: Class) -> usize {
    if RANGE.span.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    (1 << RANGE.part_shift.load(Ordering::Relaxed)) / (class.pages() * PAGE)
}

/// Returns the number of bytes that a slot of `class` takes, with its guard.
pub(crate) fn slot_size(class: Class) -> usize {
    class.pages() * PAGE
}

/// Returns the size of the range.
pub(crate) fn span() -> usize {
    RANGE.span.load(Ordering::Relaxed)
}

/// Reserves the range, once for the process.
pub(crate) fn reserve() -> io::Result<()> {
    static RESERVED: OnceLock<Result<(), i32>> = OnceLock::new();
    let result = RESERVED.get_or_init(|| reserve_range().map_err(|error| error.raw_os_error().unwrap_or(libc::ENOMEM)));
    result.map_err(io::Error::from_raw_os_error)
}

fn reserve_range() -> io::Result<()> {
    if rustix::param::page_size() != PAGE {
        return Err(io::Error::from_raw_os_error(libc::ENOTSUP));
    }
    let mut part = largest_part();
    loop {
        let span = part * CLASSES;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let range = unsafe { libc::mmap(std::ptr::null_mut(), span, libc::PROT_NONE, flags, -1, 0) };
        if range != libc::MAP_FAILED {
            // A huge page below small stacks would cost 2 MiB for the first
            // byte. A kernel without huge pages refuses, which is as good.
            let whole = libc::iovec { iov_base: range, iov_len: span };
            let _ = advise_one(&whole, libc::MADV_NOHUGEPAGE);
            // The first guard makes the kernel count the range as used. It would go through all of it for a core file,
            // for many minutes. Slots that are carved are dumped.
            let _ = advise_one(&whole, libc::MADV_DONTDUMP);
            RANGE.part_shift.store(part.trailing_zeros() as usize, Ordering::Relaxed);
            RANGE.base.store(range as usize, Ordering::Relaxed);
            RANGE.span.store(span, Ordering::Relaxed);
            return Ok(());
        }
        if part == SMALLEST_PART {
            return Err(io::Error::last_os_error());
        }
        part /= 2;
    }
}

/// Returns the length of a part to try first. Under a limit on address space the arena leaves half
/// of it to the program.
fn largest_part() -> usize {
    let Some(limit) = rustix::process::getrlimit(rustix::process::Resource::As).current else {
        return LARGEST_PART;
    };
    let share = (limit as usize / 2 / CLASSES).max(1);
    (1 << share.ilog2()).clamp(SMALLEST_PART, LARGEST_PART)
}

/// Carves the slots `first..first + count`.
///
/// # Errors
/// Returns the kernel's error, and the number of slots that were carved before it.
pub(crate) fn carve(class: Class, first: u32, count: u32) -> Result<(), (u32, io::Error)> {
    match carve_with_madvise(class, first, count) {
        // An older kernel does not know the advice; locked memory forbids it.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
        done => return done.map_err(|error| (0, error)),
    }
    for done in 0..count {
        let slot = Slot { class, number: first + done };
        carve_with_mprotect(slot).map_err(|error| (done, error))?;
    }
    Ok(())
}

/// Carves these slots as one mapping with those before. After an error some of them may have their
/// guards, but none of them is accessible.
fn carve_with_madvise(class: Class, first: u32, count: u32) -> io::Result<()> {
    let slots = (first..first + count).map(|number| Slot { class, number });
    advise_all(slots.map(|slot| (slot.bottom(), GUARD)), MADV_GUARD_INSTALL)?;
    let length = count as usize * class.pages() * PAGE;
    open(Slot { class, number: first }.bottom(), length)
}

/// Carves a slot whose stack is a mapping of its own. The guard below it remains another one.
fn carve_with_mprotect(slot: Slot) -> io::Result<()> {
    static CARVED: AtomicUsize = AtomicUsize::new(0);
    if CARVED.fetch_add(1, Ordering::Relaxed) >= most_mappings() / 2 {
        CARVED.fetch_sub(1, Ordering::Relaxed);
        return Err(io::Error::from_raw_os_error(libc::ENOMEM));
    }
    open(slot.lowest(), slot.class.stack_size())
}

/// Returns the number of mappings that stacks may take. One in eight of those that a process may
/// have is left to the program, which could not start a thread otherwise.
fn most_mappings() -> usize {
    const KERNELS_DEFAULT: usize = 65_530;
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let setting = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
        let limit = setting.and_then(|text| text.trim().parse().ok()).unwrap_or(KERNELS_DEFAULT);
        limit - limit / 8
    })
}

/// Makes a range accessible, and a part of core files.
fn open(start: usize, length: usize) -> io::Result<()> {
    let range = libc::iovec { iov_base: start as *mut libc::c_void, iov_len: length };
    // SAFETY: the range lies within the arena, in slots that are not in use yet.
    if unsafe { libc::mprotect(range.iov_base, length, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // At worst, a core file lacks these stacks.
    let _ = advise_one(&range, libc::MADV_DODUMP);
    Ok(())
}

const MADV_GUARD_INSTALL: libc::c_int = 102;
/// This process, where a descriptor of one is expected.
const PIDFD_SELF: libc::c_int = -10001;
/// The number of ranges in one call. More of them save nothing.
const BATCH: usize = 64;

/// Gives the pages of these ranges, none of them in use, back to the kernel.
pub(crate) fn discard(ranges: impl Iterator<Item = (usize, usize)>) {
    // At worst, a failure keeps the memory.
    let _ = advise_all(ranges, libc::MADV_DONTNEED);
}

/// Returns the address of the lowest page in this range of a stack that has memory. A page that the
/// kernel has swapped out may count as one without memory.
pub(crate) fn lowest_resident(start: usize, length: usize) -> Option<usize> {
    let mut pages = vec![0u8; length / PAGE];
    // SAFETY: the kernel writes one byte for each page of the range.
    let done = unsafe { libc::mincore(start as *mut libc::c_void, length, pages.as_mut_ptr()) };
    let first = pages.iter().position(|page| page & 1 != 0)?;
    (done == 0).then(|| start + first * PAGE)
}

/// Gives one advice on many ranges, in batches if the kernel allows. After an error the kernel may
/// have followed it for some of them.
fn advise_all(mut ranges: impl Iterator<Item = (usize, usize)>, advice: libc::c_int) -> io::Result<()> {
    /// Whether `process_madvise` was refused once.
    static ONE_BY_ONE: AtomicBool = AtomicBool::new(false);
    let mut batch = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
    loop {
        let mut filled = 0;
        let mut bytes = 0;
        for (entry, (start, length)) in batch.iter_mut().zip(ranges.by_ref().take(BATCH)) {
            *entry = libc::iovec { iov_base: start as *mut libc::c_void, iov_len: length };
            filled += 1;
            bytes += length;
        }
        if filled == 0 {
            return Ok(());
        }
        let ranges = &batch[..filled];
        if !denied(Facility::BatchedMadvise) && !ONE_BY_ONE.load(Ordering::Relaxed) {
            let done = advise_batch(ranges, advice);
            if usize::try_from(done) == Ok(bytes) {
                continue;
            }
            if done < 0 {
                ONE_BY_ONE.store(true, Ordering::Relaxed);
            }
        }
        // From the first: to advise twice does no harm.
        ranges.iter().try_for_each(|range| advise_one(range, advice))?;
    }
}

/// Gives one advice on a batch of ranges. Returns the number of bytes for which the kernel followed
/// it; -1 after an error.
fn advise_batch(ranges: &[libc::iovec], advice: libc::c_int) -> libc::c_long {
    if is_denied(advice) {
        return -1;
    }
    // SAFETY: the ranges are unused parts of the arena.
    unsafe { libc::syscall(libc::SYS_process_madvise, PIDFD_SELF, ranges.as_ptr(), ranges.len(), advice, 0) }
}

fn advise_one(range: &libc::iovec, advice: libc::c_int) -> io::Result<()> {
    if is_denied(advice) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: the range is an unused part of the arena.
    match unsafe { libc::madvise(range.iov_base, range.iov_len, advice) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Says whether the kernel is to appear as one that does not know `advice`. Called where the kernel
/// would be, so that the same code follows.
fn is_denied(advice: libc::c_int) -> bool {
    advice == MADV_GUARD_INSTALL && denied(Facility::MadviseGuards)
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_address_of_a_slot_leads_back_to_it() {
        reserve().unwrap();
        for class in Class::all() {
            for number in [0, 1, 2, 17, capacity(class) as u32 - 1] {
                let slot = Slot { class, number };
                assert_eq!(slot.end() - slot.bottom(), GUARD + class.stack_size());
                for address in [slot.bottom(), slot.lowest() - 1, slot.lowest(), slot.end() - 1] {
                    assert_eq!(slot_at(address), Some(slot));
                }
            }
        }
        assert_eq!(slot_at(0), None);
        assert_eq!(slot_at(usize::MAX), None);
        assert_eq!(slot_at(RANGE.base.load(Ordering::Relaxed) - 1), None);
    }

    #[test]
    fn the_smallest_class_that_fits_is_taken() {
        assert_eq!(Class::of_size(0).unwrap().stack_size(), SMALLEST_STACK);
        assert_eq!(Class::of_size(SMALLEST_STACK + 1).unwrap().stack_size(), 2 * SMALLEST_STACK);
        assert_eq!(Class::of_size(LARGEST_STACK).unwrap().stack_size(), LARGEST_STACK);
        assert_eq!(Class::of_size(LARGEST_STACK + 1), None);
        assert_eq!(Class::of_size(1 << 60), None);
    }
}
