//! Directories: lists of addresses that a reader of this process's memory finds without the runtime's help.
//!
//! A directory is an array that never moves, so a reader meets no link that is being changed. An entry that is not
//! in use is 0. The array is a range of addresses that is reserved once: it takes memory for the entries that were
//! used.
#![allow(unsafe_code)]

use super::describe::Entry;
use super::fork;
use std::mem::offset_of;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The largest number of entries: 32 MiB of addresses.
const MOST: usize = 1 << 22;

/// A reader relies on the layout of the first two fields.
#[repr(C)]
pub(crate) struct Directory {
    /// The number of entries that have ever been used. Written under the lock.
    used: AtomicUsize,
    /// The array; null before the first entry. Written under the lock.
    entries: AtomicPtr<AtomicUsize>,
    /// The entries below `used` that are not in use.
    free: Mutex<Vec<u32>>,
}

/// The place of an address in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number(u32);

/// Says that an address is in no directory: it was full, or there was no memory for it.
const NOWHERE: Number = Number(u32::MAX);

/// Makes a value that has its own number in a directory.
pub(crate) fn enter<T>(directory: &Directory, value: impl FnOnce(Number) -> T) -> Arc<T> {
    Arc::new_cyclic(|weak: &Weak<T>| value(directory.enter(weak.as_ptr().addr())))
}

impl Directory {
    /// The entries of the description that say how to read a directory.
    pub(crate) const ENTRIES: &[Entry] = &[
        Entry::number("directory.used", offset_of!(Directory, used)),
        Entry::number("directory.entries", offset_of!(Directory, entries)),
    ];

    pub(crate) const fn new() -> Directory {
        Directory {
            used: AtomicUsize::new(0),
            entries: AtomicPtr::new(std::ptr::null_mut()),
            free: Mutex::new(Vec::new()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u32>> {
        // The lock may be held by a thread that a forked child does not have.
        fork::check();
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters an address. If there is no space, a reader does not see it.
    pub(crate) fn enter(&self, address: usize) -> Number {
        let mut free = self.lock();
        let used = self.used.load(Relaxed);
        let number = free.pop().unwrap_or(used as u32);
        let Some(entry) = self.entry(number as usize) else { return NOWHERE };
        // Release: a reader that sees the address sees what is there.
        entry.store(address, Release);
        self.used.store(used.max(number as usize + 1), Release);
        Number(number)
    }

    /// Takes an address out.
    pub(crate) fn leave(&self, number: Number) {
        if number == NOWHERE {
            return;
        }
        let mut free = self.lock();
        if let Some(entry) = self.entry(number.0 as usize) {
            entry.store(0, Relaxed);
            free.push(number.0);
        }
    }

    /// Returns an entry. Under the lock.
    fn entry(&self, number: usize) -> Option<&AtomicUsize> {
        if number >= MOST {
            return None;
        }
        if self.entries.load(Relaxed).is_null() {
            let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let length = MOST * size_of::<AtomicUsize>();
            // SAFETY: the kernel chooses the place.
            let mapped =
                unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags | libc::MAP_NORESERVE, -1, 0) };
            if mapped == libc::MAP_FAILED {
                return None;
            }
            self.entries.store(mapped.cast(), Release);
        }
        // SAFETY: the array has `MOST` words, zero at first, and stays.
        Some(unsafe { &*self.entries.load(Relaxed).add(number) })
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn entries_are_used_again() {
        let directory = Directory::new();
        let (one, two) = (directory.enter(64), directory.enter(128));
        assert_ne!(one, two);
        directory.leave(one);
        assert_eq!(directory.enter(192), one);
        assert_eq!(directory.used.load(Relaxed), 2);
        directory.leave(NOWHERE);
    }
}
