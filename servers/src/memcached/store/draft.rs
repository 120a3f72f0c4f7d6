//! A draft: a chain that grows, and will be an item. No lookup finds it.

use super::blocks::{BLOCK, Blocks, Number, PAGE};
use super::item::{Cursor, FIRST, FOLLOWING};
use super::pool::PAGE_BLOCKS;

/// A key and value of this length or more take whole pages: in blocks they would take as much
/// memory.
const PAGED: usize = PAGE / BLOCK * (BLOCK - FOLLOWING);

/// A draft moves from blocks to a page when it has this length. A client that announces a large
/// value and sends little of it does not take a page. Unmeasured.
const BEGUN: usize = 16 * 1024;

/// An item that is being written.
#[derive(Debug)]
pub struct Draft {
    /// The first block.
    pub first: Number,
    /// The first block of the last element.
    last: Number,
    end: Cursor,
    /// The number of blocks that are not in whole pages.
    blocks: usize,
    /// The number of whole pages.
    pages: usize,
    layout: Layout,
    /// The number of bytes that it has, and that it will have.
    bytes: usize,
    expected: usize,
    /// The number of its blocks that count as half-sent; see
    /// [`Shard::receive`](super::Shard::receive).
    pub(super) half_sent: usize,
}

/// The kind of a draft's next element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// A block. When the draft gets longer, all of it moves to pages.
    Begun,
    /// A page.
    Pages,
    /// A block, at any length.
    Blocks,
}

impl Draft {
    /// Begins an empty draft for `expected` bytes of key and value. The caller has checked that a
    /// block is available.
    #[inline]
    pub fn begin(blocks: &mut Blocks, expected: usize) -> Draft {
        let first = blocks.take();
        let layout = if expected >= PAGED { Layout::Begun } else { Layout::Blocks };
        Draft::at(blocks, first, layout, expected)
    }

    fn at(blocks: &mut Blocks, first: Number, layout: Layout, expected: usize) -> Draft {
        blocks.set_pins(first, 0);
        let pages = usize::from(layout == Layout::Pages);
        Draft {
            first,
            last: first,
            end: Cursor::start(first),
            blocks: 1 - pages,
            pages,
            layout,
            bytes: 0,
            expected,
            half_sent: 0,
        }
    }

    /// Returns the number of blocks that it has, including those of whole pages.
    pub fn size(&self) -> usize {
        self.blocks + self.pages * PAGE_BLOCKS
    }

    /// Returns the number of further blocks that `bytes` more bytes need, if no page is taken.
    #[inline]
    pub fn needs(&self, bytes: usize) -> usize {
        bytes.saturating_sub(self.room()).div_ceil(BLOCK - FOLLOWING)
    }

    /// Returns the number of bytes that still fit into the last element.
    #[inline]
    fn room(&self) -> usize {
        let here = BLOCK - self.end.at;
        match self.layout {
            Layout::Pages => here + (PAGE_BLOCKS - 1 - self.end.block as usize % PAGE_BLOCKS) * BLOCK,
            Layout::Begun | Layout::Blocks => here,
        }
    }

    /// Appends bytes until a page is wanted. Returns the rest, and whether a page is wanted. If
    /// not, the caller makes sure that there are blocks and calls [`push`](Draft::push).
    #[inline]
    pub fn fill<'a>(&mut self, blocks: &mut Blocks, bytes: &'a [u8]) -> (&'a [u8], bool) {
        match self.layout {
            Layout::Blocks => (bytes, false),
            Layout::Begun => (bytes, self.bytes + bytes.len() >= BEGUN),
            Layout::Pages => {
                let (now, rest) = bytes.split_at(bytes.len().min(self.room()));
                self.push(blocks, now);
                let wants_page = !rest.is_empty() && self.expected.saturating_sub(self.bytes) >= PAGED;
                if !rest.is_empty() && !wants_page {
                    self.layout = Layout::Blocks;
                }
                (rest, wants_page)
            }
        }
    }

    /// Continues in a page, if there is one.
    #[cold]
    pub fn add_page(&mut self, blocks: &mut Blocks, page: Option<Number>) {
        let Some(page) = page else {
            self.layout = Layout::Blocks;
            return;
        };
        if self.layout == Layout::Pages {
            blocks.link(self.last, page);
            self.pages += 1;
            (self.last, self.end) = (page, Cursor { block: page, at: FOLLOWING });
            return;
        }
        let mut moved = Draft::at(blocks, page, Layout::Pages, self.expected);
        moved.half_sent = self.half_sent;
        moved.push_from(blocks, Cursor::start(self.first), self.bytes);
        std::mem::replace(self, moved).discard(blocks);
    }

    /// Appends bytes. The caller has checked that there are enough blocks.
    #[inline]
    pub fn push(&mut self, blocks: &mut Blocks, mut bytes: &[u8]) {
        self.bytes += bytes.len();
        while !bytes.is_empty() {
            if self.end.at == BLOCK {
                self.step(blocks);
            }
            let (piece, rest) = bytes.split_at(bytes.len().min(BLOCK - self.end.at));
            blocks.get_mut(self.end.block)[self.end.at..self.end.at + piece.len()].copy_from_slice(piece);
            self.end.at += piece.len();
            bytes = rest;
        }
    }

    #[inline]
    fn step(&mut self, blocks: &mut Blocks) {
        if self.layout == Layout::Pages {
            // `fill` does not go beyond the page.
            self.end = Cursor { block: self.end.block + 1, at: 0 };
            return;
        }
        let next = blocks.take();
        blocks.link(self.last, next);
        (self.last, self.end) = (next, Cursor { block: next, at: FOLLOWING });
        self.blocks += 1;
    }

    /// Appends `bytes` bytes of a chain. The caller has checked that there are enough blocks.
    fn push_from(&mut self, blocks: &mut Blocks, mut from: Cursor, mut bytes: usize) {
        let mut piece = [0; BLOCK];
        while bytes > 0 {
            let length = bytes.min(BLOCK);
            blocks.pieces(&mut from, length, |part, at| piece[at..at + part.len()].copy_from_slice(part));
            self.push(blocks, &piece[..length]);
            bytes -= length;
        }
    }

    /// Gives the memory of the draft back.
    pub fn discard(self, blocks: &mut Blocks) {
        blocks.free(self.first, self.blocks);
    }
}

const _: () = assert!(BEGUN < PAGED && BEGUN < PAGE - FIRST);
