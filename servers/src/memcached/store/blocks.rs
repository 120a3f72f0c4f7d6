//! Memory in blocks of one size, with a limit.

use crate::memory;

/// The size of a block: a cache line.
pub const BLOCK: usize = 64;

/// Blocks in a page.
const PAGE_BLOCKS: usize = 1024;

/// Bytes in a page.
pub const PAGE: usize = BLOCK * PAGE_BLOCKS;

/// The number of a block. 0 is none.
pub type Number = u32;

/// No block.
pub const NONE: Number = 0;

/// What is stored does not take the memory that it takes to talk about it: buffers for a few
/// hundred sessions. Unmeasured.
const LEFT_TO_SESSIONS: usize = 16 << 20;

#[derive(Clone)]
#[repr(align(64))]
struct Line([u8; BLOCK]);

/// Blocks, of which some are free.
///
/// Each block begins with the number of the next in its chain. The free ones are a list of
/// chains: the first block of each has the number of the next chain behind that.
pub struct Blocks {
    pages: Vec<Box<[Line; PAGE_BLOCKS]>>,
    /// The first block of the first free chain.
    free: Number,
    free_count: usize,
    /// Blocks that have been used, counted from the first page on; those behind them are new.
    used: usize,
    most_pages: usize,
}

impl Blocks {
    /// At most so many bytes.
    pub fn new(bytes: usize) -> Blocks {
        let most_pages = (bytes / PAGE).clamp(1, Number::MAX as usize / PAGE_BLOCKS);
        // Block 0 is nobody's.
        Blocks { pages: Vec::new(), free: NONE, free_count: 0, used: 1, most_pages }
    }

    /// As many blocks as can be taken.
    #[inline]
    pub fn available(&self) -> usize {
        self.free_count + (self.pages.len() * PAGE_BLOCKS).saturating_sub(self.used)
    }

    /// Makes more of them available. `false` if the limit has been reached, or the system has no
    /// memory.
    #[cold]
    pub fn grow(&mut self) -> bool {
        if self.pages.len() == self.most_pages || self.pages.try_reserve(1).is_err() {
            return false;
        }
        let page = new_page();
        let is_there = page.is_some();
        self.pages.extend(page);
        is_there
    }

    /// As many blocks as there can be.
    pub fn capacity(&self) -> usize {
        self.most_pages * PAGE_BLOCKS - 1
    }

    /// What has been taken from the system.
    pub fn bytes(&self) -> usize {
        self.pages.len() * PAGE
    }

    /// What chains take.
    pub fn bytes_in_use(&self) -> usize {
        (self.used - 1 - self.free_count) * BLOCK
    }

    /// A block.
    #[inline]
    pub fn get(&self, number: Number) -> &[u8; BLOCK] {
        &self.pages[number as usize / PAGE_BLOCKS][number as usize % PAGE_BLOCKS].0
    }

    /// A block.
    #[inline]
    pub fn get_mut(&mut self, number: Number) -> &mut [u8; BLOCK] {
        &mut self.pages[number as usize / PAGE_BLOCKS][number as usize % PAGE_BLOCKS].0
    }

    /// The next block of a chain.
    #[inline]
    pub fn next(&self, number: Number) -> Number {
        self.word(number, 0)
    }

    /// Puts `next` behind a block.
    #[inline]
    pub fn link(&mut self, number: Number, next: Number) {
        self.set_word(number, 0, next);
    }

    /// Four bytes of a block.
    #[inline]
    pub fn word(&self, number: Number, at: usize) -> u32 {
        let block = self.get(number);
        u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
    }

    /// Changes four bytes of a block.
    #[inline]
    pub fn set_word(&mut self, number: Number, at: usize, value: u32) {
        self.get_mut(number)[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// A block that is a chain of its own. The caller has seen that one is available.
    #[inline]
    pub fn take(&mut self) -> Number {
        let number = self.free;
        if number == NONE {
            return self.take_new();
        }
        let (next, other) = (self.next(number), self.word(number, 4));
        if next == NONE {
            self.free = other;
        } else {
            self.set_word(next, 4, other);
            self.free = next;
        }
        self.free_count -= 1;
        self.link(number, NONE);
        number
    }

    #[cold]
    fn take_new(&mut self) -> Number {
        assert!(self.used < self.pages.len() * PAGE_BLOCKS, "a block was taken that is not available");
        let number = self.used as Number;
        self.used += 1;
        number
    }

    /// Gives a chain of `count` blocks back.
    #[inline]
    pub fn give_back(&mut self, first: Number, count: usize) {
        self.set_word(first, 4, self.free);
        self.free = first;
        self.free_count += count;
    }
}

fn new_page() -> Option<Box<[Line; PAGE_BLOCKS]>> {
    let mut page = Vec::new();
    memory::is_left(PAGE + LEFT_TO_SESSIONS).then(|| page.try_reserve_exact(PAGE_BLOCKS).ok())??;
    page.resize(PAGE_BLOCKS, Line([0; BLOCK]));
    page.into_boxed_slice().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_can_be_taken_once_and_again_after_it_was_given_back() {
        let mut blocks = Blocks::new(2 * PAGE);
        for _ in 0..3 {
            let mut seen = std::collections::HashSet::new();
            let mut chain = NONE;
            while blocks.grow() {}
            let capacity = blocks.available();
            assert_eq!(capacity, blocks.capacity());
            for _ in 0..capacity {
                let number = blocks.take();
                assert!(number != NONE && seen.insert(number));
                blocks.link(number, chain);
                chain = number;
            }
            assert_eq!((blocks.available(), blocks.bytes()), (0, 2 * PAGE));
            blocks.give_back(chain, capacity);
        }
    }

    #[test]
    fn chains_that_are_given_back_are_all_found_again() {
        let mut blocks = Blocks::new(PAGE);
        assert!(blocks.grow() && !blocks.grow());
        let chains: Vec<Number> = (0..100)
            .map(|_| {
                let (first, second) = (blocks.take(), blocks.take());
                blocks.link(first, second);
                first
            })
            .collect();
        let before = blocks.available();
        chains.iter().for_each(|chain| blocks.give_back(*chain, 2));
        assert_eq!(blocks.available(), before + 200);
        let taken: std::collections::HashSet<Number> = (0..200).map(|_| blocks.take()).collect();
        assert_eq!(taken.len(), 200);
        assert!(taken.iter().all(|number| *number <= 200));
    }
}
