//! A chain that grows: an item that nobody can find yet.

use super::blocks::{BLOCK, Blocks, Number, PAGE};
use super::item::{Cursor, FIRST, FOLLOWING};
use super::pool::PAGE_BLOCKS;

/// Key and value of this length and above take whole pages: in blocks they would take as much.
const PAGED: usize = PAGE / BLOCK * (BLOCK - FOLLOWING);

/// A draft moves from blocks to a page when it has this length: a client that announces much and
/// sends little does not get a page for it. Unmeasured.
const BEGUN: usize = 16 * 1024;

/// An item in the making.
#[derive(Debug)]
pub struct Draft {
    /// Its first block.
    pub first: Number,
    /// The first block of its last element.
    last: Number,
    end: Cursor,
    /// Blocks that are not in whole pages.
    blocks: usize,
    /// Whole pages.
    pages: usize,
    layout: Layout,
    /// The bytes that it has, and that it will have.
    bytes: usize,
    expected: usize,
    /// As many blocks count as half-sent; see [`Shard::receive`](super::Shard::receive).
    pub(super) half_sent: usize,
}

/// What a draft's next element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// A block; when there is more of it, all of it moves to pages.
    Begun,
    /// A page.
    Pages,
    /// A block, whatever comes.
    Blocks,
}

impl Draft {
    /// An empty draft, for `expected` bytes of key and value. The caller has seen that a block is
    /// available.
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

    /// The blocks that it has, those of whole pages included.
    pub fn size(&self) -> usize {
        self.blocks + self.pages * PAGE_BLOCKS
    }

    /// Returns the number of further blocks that `bytes` more bytes need, if no page is taken.
    #[inline]
    pub fn needs(&self, bytes: usize) -> usize {
        bytes.saturating_sub(self.room()).div_ceil(BLOCK - FOLLOWING)
    }

    /// The bytes that fit into its last element.
    #[inline]
    fn room(&self) -> usize {
        let here = BLOCK - self.end.at;
        match self.layout {
            Layout::Pages => here + (PAGE_BLOCKS - 1 - self.end.block as usize % PAGE_BLOCKS) * BLOCK,
            Layout::Begun | Layout::Blocks => here,
        }
    }

    /// Appends bytes up to where a page is wanted. Returns the rest, and whether a page is wanted.
    /// If none is, the caller makes sure that there are blocks and calls [`push`](Draft::push).
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

    /// Goes on in a page, if there is one.
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

    /// Appends bytes. The caller has seen that there are as many blocks as they need.
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

    /// Appends `bytes` bytes of a chain. The caller has seen to the blocks.
    fn push_from(&mut self, blocks: &mut Blocks, mut from: Cursor, mut bytes: usize) {
        let mut piece = [0; BLOCK];
        while bytes > 0 {
            let length = bytes.min(BLOCK);
            blocks.pieces(&mut from, length, |part, at| piece[at..at + part.len()].copy_from_slice(part));
            self.push(blocks, &piece[..length]);
            bytes -= length;
        }
    }

    /// Gives it up.
    pub fn discard(self, blocks: &mut Blocks) {
        blocks.give_back(self.first, self.blocks);
    }
}

const _: () = assert!(BEGUN < PAGED && BEGUN < PAGE - FIRST);
