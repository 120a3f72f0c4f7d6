//! A shard's memory: pages that are split into blocks of one size, and whole pages.

use super::pool::{PAGE_BLOCKS, Page, Pool};
use std::sync::Arc;

/// The size of a block: a cache line.
pub const BLOCK: usize = 64;

/// Bytes in a page.
pub const PAGE: usize = 64 * 1024;

/// The number of a block. 0 is no block.
pub type Number = u32;

/// No block.
pub const NONE: Number = 0;

/// The largest number of pages of a shard: all of their blocks need numbers.
const MOST_PAGES: usize = Number::MAX as usize / PAGE_BLOCKS;

/// A slot for a page.
#[derive(Default)]
struct Slot {
    page: Option<Page>,
    /// Whether the page is one element of a chain. Otherwise it is 1024 elements.
    is_whole: bool,
}

/// The blocks of a shard. Some of them are free.
///
/// The elements of a chain are blocks and whole pages. Each element begins with the number of the
/// next one. The blocks of a whole page follow each other: only the first block begins with a
/// number, that of the element after the page. The free blocks are a list of chains without whole
/// pages: in the first block of each chain the number of the next chain follows the link.
pub struct Blocks {
    /// The slot of page 0 is not in use: the first block of that page would have number 0.
    slots: Vec<Slot>,
    /// Slots without a page.
    free_slots: Vec<u32>,
    /// The first block of the first free chain.
    free: Number,
    free_count: usize,
    /// Blocks that have never been used: from the first number up to the second, exclusive.
    new: Vec<(Number, Number)>,
    new_count: usize,
    /// The number of pages that were split into blocks.
    split_pages: usize,
    whole_pages: usize,
    pub(super) pool: Arc<Pool>,
}

impl Blocks {
    /// Returns blocks without memory. Their memory comes from `pool`.
    pub fn new(pool: Arc<Pool>) -> Blocks {
        Blocks {
            slots: vec![Slot::default()],
            free_slots: Vec::new(),
            free: NONE,
            free_count: 0,
            new: Vec::new(),
            new_count: 0,
            split_pages: 0,
            whole_pages: 0,
            pool,
        }
    }

    /// Returns the number of blocks that can be taken.
    #[inline]
    pub fn available(&self) -> usize {
        self.free_count + self.new_count
    }

    /// Splits one more page into blocks. Returns `false` if there is no page.
    #[cold]
    pub fn grow(&mut self) -> bool {
        if self.new.try_reserve(1).is_err() {
            return false;
        }
        let is_first = self.split_pages == 0;
        let Some(first) = self.take_slot(is_first) else { return false };
        self.new.push((first, first + PAGE_BLOCKS as Number));
        self.new_count += PAGE_BLOCKS;
        self.split_pages += 1;
        true
    }

    /// Takes a whole page. Returns its first block, which is a chain of its own.
    #[cold]
    pub fn take_whole(&mut self) -> Option<Number> {
        let first = self.take_slot(false)?;
        self.slots[first as usize / PAGE_BLOCKS].is_whole = true;
        self.whole_pages += 1;
        self.link(first, NONE);
        Some(first)
    }

    /// Puts a page from the pool into a slot. Returns its first block.
    fn take_slot(&mut self, is_first: bool) -> Option<Number> {
        if self.free_slots.is_empty() {
            if self.slots.len() >= MOST_PAGES || self.slots.try_reserve(1).is_err() {
                return None;
            }
            // Reserves room now, so that giving the slot back needs no memory.
            self.free_slots.try_reserve(self.slots.len() + 1).ok()?;
        }
        let page = if is_first { self.pool.take_first() } else { self.pool.take() }?;
        let slot = self.free_slots.pop().map_or(self.slots.len(), |slot| slot as usize);
        if slot == self.slots.len() {
            self.slots.push(Slot::default());
        }
        self.slots[slot].page = Some(page);
        Some((slot * PAGE_BLOCKS) as Number)
    }

    /// Gives a whole page back to the pool.
    fn free_page(&mut self, first: Number) {
        let number = first as usize / PAGE_BLOCKS;
        let slot = std::mem::take(&mut self.slots[number]);
        self.whole_pages -= 1;
        self.free_slots.push(number as u32);
        if let Some(page) = slot.page {
            self.pool.give_back(page);
        }
    }

    /// Returns whether a block is part of a whole page.
    #[inline]
    pub fn is_whole(&self, number: Number) -> bool {
        self.slots[number as usize / PAGE_BLOCKS].is_whole
    }

    /// Returns the number of bytes of this shard's pages.
    pub fn bytes(&self) -> usize {
        (self.split_pages + self.whole_pages) * PAGE
    }

    /// Returns the number of bytes that chains take.
    pub fn bytes_in_use(&self) -> usize {
        self.bytes() - self.available() * BLOCK
    }

    /// Returns the bytes of a block.
    #[inline]
    pub fn get(&self, number: Number) -> &[u8; BLOCK] {
        let page = self.slots[number as usize / PAGE_BLOCKS].page.as_ref();
        &page.expect("a block has a page")[number as usize % PAGE_BLOCKS].0
    }

    /// Returns the bytes of a block.
    #[inline]
    pub fn get_mut(&mut self, number: Number) -> &mut [u8; BLOCK] {
        let page = self.slots[number as usize / PAGE_BLOCKS].page.as_mut();
        &mut page.expect("a block has a page")[number as usize % PAGE_BLOCKS].0
    }

    /// Returns the block after another one, and where its bytes begin.
    #[inline]
    pub fn following(&self, number: Number) -> (Number, usize) {
        const LINK: usize = size_of::<Number>();
        let slot = &self.slots[number as usize / PAGE_BLOCKS];
        if slot.is_whole && number as usize % PAGE_BLOCKS != PAGE_BLOCKS - 1 {
            return (number + 1, 0);
        }
        let first = if slot.is_whole { 0 } else { number as usize % PAGE_BLOCKS };
        let block = &slot.page.as_ref().expect("a block has a page")[first].0;
        (word_of(block, 0), LINK)
    }

    /// Returns the next element of a chain.
    #[inline]
    pub fn next(&self, number: Number) -> Number {
        self.word(number, 0)
    }

    /// Links `next` after an element.
    #[inline]
    pub fn link(&mut self, number: Number, next: Number) {
        self.set_word(number, 0, next);
    }

    /// Returns four bytes of a block as a number.
    #[inline]
    pub fn word(&self, number: Number, at: usize) -> u32 {
        word_of(self.get(number), at)
    }

    /// Changes four bytes of a block.
    #[inline]
    pub fn set_word(&mut self, number: Number, at: usize, value: u32) {
        self.get_mut(number)[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// Takes a block as a chain of its own. The caller has checked that one is available.
    #[inline(always)]
    pub fn take(&mut self) -> Number {
        let number = self.free;
        if number == NONE {
            return self.take_new();
        }
        self.free_count -= 1;
        let block = self.get_mut(number);
        let (next, other) = (word_of(block, 0), word_of(block, 4));
        if next == NONE {
            self.free = other;
            return number;
        }
        block[..4].fill(0);
        self.set_word(next, 4, other);
        self.free = next;
        number
    }

    #[cold]
    fn take_new(&mut self) -> Number {
        let (number, end) = self.new.last_mut().expect("the caller has checked that a block is available");
        let taken = *number;
        *number += 1;
        if number == end {
            self.new.pop();
        }
        self.new_count -= 1;
        self.link(taken, NONE);
        taken
    }

    /// Frees a chain: its whole pages, if any, and then `count` blocks.
    #[inline]
    pub fn free(&mut self, mut first: Number, count: usize) {
        if self.is_whole(first) {
            first = self.free_pages(first);
        }
        if first != NONE {
            self.free_blocks(first, count);
        }
    }

    /// Frees a chain of `count` blocks.
    #[inline(always)]
    pub fn free_blocks(&mut self, first: Number, count: usize) {
        self.set_word(first, 4, self.free);
        self.free = first;
        self.free_count += count;
    }

    /// Frees the whole pages at the beginning of a chain. Returns the first block after them.
    #[cold]
    fn free_pages(&mut self, mut first: Number) -> Number {
        while first != NONE && self.is_whole(first) {
            let next = self.next(first);
            self.free_page(first);
            first = next;
        }
        first
    }
}

/// Returns four bytes of a block as a number.
#[inline]
pub fn word_of(block: &[u8; BLOCK], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

const _: () = assert!(NONE == 0);

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(pages: usize) -> Blocks {
        Blocks::new(Arc::new(Pool::new(pages * PAGE, 1)))
    }

    #[test]
    fn every_block_can_be_taken_once_and_again_after_it_is_freed() {
        let mut blocks = blocks(1);
        for _ in 0..3 {
            let mut seen = std::collections::HashSet::new();
            let mut chain = NONE;
            while blocks.grow() {}
            let capacity = blocks.available();
            assert_eq!(capacity, 2 * PAGE_BLOCKS);
            for _ in 0..capacity {
                let number = blocks.take();
                assert!(number != NONE && seen.insert(number));
                blocks.link(number, chain);
                chain = number;
            }
            assert_eq!((blocks.available(), blocks.bytes()), (0, 2 * PAGE));
            blocks.free(chain, capacity);
        }
    }

    #[test]
    fn all_blocks_of_freed_chains_can_be_taken_again() {
        let mut blocks = blocks(1);
        assert!(blocks.grow());
        let chains: Vec<Number> = (0..100)
            .map(|_| {
                let (first, second) = (blocks.take(), blocks.take());
                blocks.link(first, second);
                first
            })
            .collect();
        let before = blocks.available();
        chains.iter().for_each(|chain| blocks.free(*chain, 2));
        assert_eq!(blocks.available(), before + 200);
        let taken: std::collections::HashSet<Number> = (0..200).map(|_| blocks.take()).collect();
        assert_eq!(taken.len(), 200);
        assert!(taken.iter().all(|number| (1024..1224).contains(number)));
    }

    #[test]
    fn freed_whole_pages_return_to_the_pool_and_blocks_stay() {
        let mut blocks = blocks(2);
        assert!(blocks.grow());
        let (first, second) = (blocks.take_whole().expect("a page"), blocks.take_whole().expect("a page"));
        assert!(blocks.take_whole().is_none());
        let last = blocks.take();
        blocks.link(first, second);
        blocks.link(second, last);
        assert_eq!(blocks.following(first), (first + 1, 0));
        assert_eq!(blocks.following(first + 1023), (second, 4));
        assert_eq!(blocks.following(second + 1023), (last, 4));
        assert_eq!(blocks.bytes_in_use(), 2 * PAGE + BLOCK);
        blocks.free(first, 1);
        assert_eq!((blocks.bytes_in_use(), blocks.bytes(), blocks.pool.spare_pages()), (0, PAGE, 2));
    }
}
