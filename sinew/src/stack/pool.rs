//! Pools of stacks, and the promise that a spawned fibre gets one. The essay of [`stack`](super) has
//! the arithmetic of promises.
#![allow(unsafe_code)]

use super::arena::{self, CLASSES, Class, PAGE, Slot};
use super::switch::{self as stack, Stack};
use crate::base::fork;
use crate::strand::blocks;
use std::cell::{Cell, RefCell};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// The number of stacks of a class that a processor keeps for itself, and of credits that it asks
/// for at once. With this number the lock of the shared pool is taken once in 32 spawns at worst.
const HOARD: u32 = 64;

/// Of those, stacks up to this many bytes keep what they have grown by: sessions that need more than
/// a page find it there. With stacks of 256 KiB these are all of them. A server that kept only 16
/// such stacks gave back and got again 0.3 pages for each connection that came for one request.
const GROWN_KEPT: usize = 16 << 20;

/// The number of stacks in the shared pool that keep their top page: 64 MiB. Further stacks give
/// the page back to the kernel. Unmeasured.
const WARM_SHARED: usize = 16 * 1024;

/// The number of stacks that give their page back in one call of the kernel.
const TRIMMED_AT_ONCE: usize = 64;

/// The smallest number of slots that are carved at once ...
const CARVE_AT_LEAST: u32 = 64;
/// ... and the largest. In between it is an eighth of those that there are. A carved slot costs
/// about 2 µs, once.
const CARVE_AT_MOST: u32 = 4096;

struct Shared {
    promised: u32,
    carved: u32,
    /// Slots from this number up to `carved` were never used.
    fresh: u32,
    /// Free slots that still have their top page.
    warm: Vec<u32>,
    /// Free slots without any page.
    cold: Vec<u32>,
}

static SHARED: [Mutex<Shared>; CLASSES] =
    [const { Mutex::new(Shared { promised: 0, carved: 0, fresh: 0, warm: Vec::new(), cold: Vec::new() }) }; CLASSES];

#[cold]
fn shared(class: Class) -> MutexGuard<'static, Shared> {
    // A thread that a forked child does not have may hold the lock.
    fork::check();
    SHARED[class.index()].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shared {
    /// Promises `count` stacks, and carves slots for them if it has to.
    fn promise(&mut self, class: Class, count: u32) -> io::Result<()> {
        let needed = self.promised + count;
        if needed > self.carved {
            self.carve(class, needed - self.carved)?;
        }
        self.promised = needed;
        Ok(())
    }

    /// Carves at least `count` more slots.
    #[cold]
    fn carve(&mut self, class: Class, count: u32) -> io::Result<()> {
        let room = u32::try_from(arena::capacity(class)).unwrap_or(u32::MAX) - self.carved;
        if count > room {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        let ahead = (self.carved / 8).clamp(CARVE_AT_LEAST, CARVE_AT_MOST).max(count).min(room);
        let result = arena::carve(class, self.carved, ahead);
        self.carved += match &result {
            Ok(()) => ahead,
            Err((done, _)) => *done,
        };
        match result {
            Err((done, error)) if done < count => Err(error),
            _ => Ok(()),
        }
    }

    /// Takes out warm slots that are not promised, `most` at most. They count as promised until
    /// [`put_cold`](Shared::put_cold), so that no fibre relies on them.
    fn take_spare(&mut self, most: usize) -> Vec<u32> {
        let count = most.min(self.warm.len()).min((self.carved - self.promised) as usize);
        self.promised += count as u32;
        self.warm.split_off(self.warm.len() - count)
    }

    /// Puts back slots from [`take_spare`](Shared::take_spare) that have given up their pages.
    fn put_cold(&mut self, slots: &[u32]) {
        self.cold.extend_from_slice(slots);
        self.promised -= slots.len() as u32;
    }

    /// Takes a free slot, the warmest first.
    fn pop(&mut self) -> Option<u32> {
        self.warm.pop().or_else(|| self.cold.pop()).or_else(|| {
            let fresh = self.fresh < self.carved;
            self.fresh += u32::from(fresh);
            fresh.then(|| self.fresh - 1)
        })
    }
}

/// Promises a stack to a fibre that is spawned outside of any processor.
pub(crate) fn promise(class: Class) -> io::Result<()> {
    shared(class).promise(class, 1)
}

/// Takes back a promise to a fibre that was not spawned after all.
pub(crate) fn refund(class: Class) {
    shared(class).promised -= 1;
}

/// The memory that the process holds for fibres and tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// The number of stacks that fibres have or may ask for, and that processors keep for the next
    /// fibres. 0 when all runtimes have ended.
    pub promised_stacks: usize,
    /// The number of stacks that have ever been made.
    pub carved_stacks: usize,
    /// The number of bytes set aside for records of fibres and tasks, with their small closures,
    /// futures and results. Records are used again, so this grows with the number that exist at
    /// once. A strand that has finished still has its record while a handle to it is kept.
    pub record_bytes: usize,
}

/// Counts the stacks of the process, and the memory of its records.
pub(crate) fn usage() -> Memory {
    let none = Memory { record_bytes: blocks::set_aside(), ..Memory::default() };
    Class::all().map(shared).fold(none, |sum, class| Memory {
        promised_stacks: sum.promised_stacks + class.promised as usize,
        carved_stacks: sum.carved_stacks + class.carved as usize,
        ..sum
    })
}

/// The stacks of the process.
pub(crate) struct Stock {
    /// The number of stacks that fibres have.
    pub(crate) in_use: usize,
    /// The number of free stacks.
    pub(crate) pooled: usize,
    /// The addresses of all stacks that have been made, with their guards.
    pub(crate) carved_bytes: usize,
    /// The addresses that are reserved for stacks.
    pub(crate) reserved_bytes: usize,
}

/// Counts the stacks of the process. A busy processor has told of the stacks that it keeps when it was last
/// idle. So the numbers may be wrong by twice [`HOARD`] for each of these.
pub(crate) fn stock() -> Stock {
    let mut stock = Stock { in_use: 0, pooled: 0, carved_bytes: 0, reserved_bytes: arena::span() };
    let mut carved = 0;
    for class in Class::all() {
        let shared = shared(class);
        carved += shared.carved as usize;
        stock.pooled += (shared.carved - shared.fresh) as usize + shared.warm.len() + shared.cold.len();
        stock.carved_bytes += shared.carved as usize * arena::slot_size(class);
    }
    stock.pooled = (stock.pooled + KEPT.load(Relaxed)).min(carved);
    stock.in_use = carved - stock.pooled;
    stock
}

/// Gives pages of free stacks back to the kernel, and calls `give_way` between two batches. Returns
/// the number of bytes.
pub(crate) fn trim(give_way: impl Fn()) -> usize {
    Class::all().map(|class| trim_class(class, &give_way)).sum::<usize>() * PAGE
}

/// Trims the shared pool of one class. Returns the number of stacks that have given their page back.
fn trim_class(class: Class, give_way: impl Fn()) -> usize {
    // Stacks that come meanwhile stay warm, so that the loop ends.
    let (all, mut done) = (shared(class).warm.len(), 0);
    while done < all {
        match trim_some(class, (all - done).min(TRIMMED_AT_ONCE)) {
            0 => break,
            some => done += some,
        }
        give_way();
    }
    done
}

/// Trims `most` stacks at most. Returns their number.
fn trim_some(class: Class, most: usize) -> usize {
    let slots = shared(class).take_spare(most);
    // Outside of the lock, as in `give_back`.
    arena::discard(slots.iter().map(|number| stack::all_pages(Slot { class, number: *number })));
    shared(class).put_cold(&slots);
    slots.len()
}

/// The number of free stacks that processors keep, as far as they have [told](Stacks::tell_kept).
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// A processor's own pools.
pub(crate) struct Stacks {
    pools: [Pool; CLASSES],
    /// The number of kept stacks that it has told.
    told: Cell<usize>,
}

#[derive(Default)]
struct Pool {
    free: RefCell<Vec<Stack>>,
    credits: Cell<u32>,
    /// The number of stacks that may be kept. 0 until the first one is taken.
    hoard: Cell<u32>,
}

impl Stacks {
    pub(crate) fn new() -> Self {
        Stacks { pools: std::array::from_fn(|_| Pool::default()), told: Cell::new(0) }
    }

    /// Tells how many free stacks the processor keeps, for [`stock`]. It does so when it runs out of work, and
    /// not at each stack that it takes or puts.
    pub(crate) fn tell_kept(&self) {
        let kept = self.pools.iter().map(|pool| pool.free.borrow().len()).sum();
        let told = self.told.replace(kept);
        if kept != told {
            KEPT.fetch_add(kept.wrapping_sub(told), Relaxed);
        }
    }

    /// Promises a stack to a fibre that is being spawned.
    #[inline]
    pub(crate) fn promise(&self, class: Class) -> io::Result<()> {
        let credits = &self.pools[class.index()].credits;
        match credits.get() {
            0 => self.promise_slow(class),
            some => {
                credits.set(some - 1);
                Ok(())
            }
        }
    }

    #[cold]
    fn promise_slow(&self, class: Class) -> io::Result<()> {
        let mut shared = shared(class);
        if shared.promise(class, HOARD).is_ok() {
            self.pools[class.index()].credits.set(HOARD - 1);
            return Ok(());
        }
        shared.promise(class, 1)
    }

    /// Takes back the promise to a fibre whose stack has been put back.
    fn refund(&self, class: Class) {
        let credits = &self.pools[class.index()].credits;
        credits.set(credits.get() + 1);
        if credits.get() > 2 * HOARD {
            credits.set(credits.get() - HOARD);
            shared(class).promised -= HOARD;
        }
    }

    /// Takes the stack that was promised to a fibre.
    #[inline]
    pub(crate) fn take(&self, class: Class) -> Stack {
        let pool = &self.pools[class.index()];
        if let Some(stack) = pool.free.borrow_mut().pop() {
            return stack;
        }
        self.take_slow(class)
    }

    #[cold]
    fn take_slow(&self, class: Class) -> Stack {
        let pool = &self.pools[class.index()];
        let mut shared = shared(class);
        if pool.hoard.get() == 0 && shared.promise(class, HOARD).is_ok() {
            pool.hoard.set(HOARD);
        }
        let wanted = (pool.hoard.get() / 2).max(1);
        let slots = std::iter::from_fn(|| shared.pop()).take(wanted as usize);
        // SAFETY: slots of the shared pool are carved and not in use.
        let stacks = slots.map(|number| unsafe { Stack::at(Slot { class, number }) });
        let mut free = pool.free.borrow_mut();
        free.extend(stacks);
        // The most recently used stack was popped first, and is to be used first.
        free.reverse();
        free.pop().unwrap_or_else(|| crate::base::fatal("a stack was promised and is not there"))
    }

    /// Puts back the stack of a fibre that has ended, and its promise.
    #[inline]
    pub(crate) fn put(&self, class: Class, stack: Stack) {
        self.refund(class);
        let pool = &self.pools[class.index()];
        let mut free = pool.free.borrow_mut();
        if free.len() * class.stack_size() >= GROWN_KEPT && stack.has_grown() {
            arena::discard([stack::grown_pages(stack.slot())].into_iter());
        }
        free.push(stack);
        if free.len() > pool.hoard.get() as usize {
            let half = free.len() - pool.hoard.get() as usize / 2;
            give_back(class, free.drain(..half));
        }
    }
}

/// Gives stacks to the shared pool.
#[cold]
fn give_back(class: Class, stacks: impl Iterator<Item = Stack>) {
    let stacks: Vec<Stack> = stacks.collect();
    let grown = stacks.iter().filter(|stack| stack.has_grown()).map(|stack| stack::grown_pages(stack.slot()));
    arena::discard(grown);
    let numbers = stacks.iter().map(|stack| stack.slot().number);
    let mut pool = shared(class);
    let spare = WARM_SHARED.saturating_sub(pool.warm.len());
    pool.warm.extend(numbers.clone().take(spare));
    if stacks.len() > spare {
        // Outside of the lock: this is the slow part, and the slots are ours.
        drop(pool);
        arena::discard(stacks[spare..].iter().map(|stack| stack::all_pages(stack.slot())));
        shared(class).cold.extend(numbers.skip(spare));
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        KEPT.fetch_sub(self.told.take(), Relaxed);
        for (class, pool) in Class::all().zip(&self.pools) {
            let (credits, hoard) = (pool.credits.get(), pool.hoard.get());
            if credits + hoard > 0 || !pool.free.borrow().is_empty() {
                give_back(class, pool.free.borrow_mut().drain(..));
                shared(class).promised -= credits + hoard;
            }
        }
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn promised_stacks_stay_while_others_are_trimmed() {
        let mut pool = Shared { promised: 7, carved: 10, fresh: 10, warm: (0..10).collect(), cold: Vec::new() };
        let trimmed = pool.take_spare(64);
        assert_eq!(trimmed.len(), 3);
        assert!(pool.take_spare(64).is_empty());
        // All live fibres get theirs, and none is left for one more.
        let lived: Vec<u32> = std::iter::from_fn(|| pool.pop()).collect();
        assert_eq!((lived.len(), pool.carved - pool.promised), (7, 0));
        pool.put_cold(&trimmed);
        assert_eq!((pool.promised, pool.pop()), (7, trimmed.last().copied()));
    }
}
