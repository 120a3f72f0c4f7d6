//! What an item is: a header, then key and value, in a chain of blocks.
//!
//! | bytes of the first block | |
//! | --- | --- |
//! | 0..4 | the next block |
//! | 4..8 | the next item at its place of the index |
//! | 8..12, 12..16 | the item that is used after it, and before it |
//! | 16..20 | its hash |
//! | 20..24 | the client's flags |
//! | 24..28 | when it expires, 0 for never |
//! | 28..32 | when it was used last |
//! | 32..40 | its unique number |
//! | 40..44 | the length of its value |
//! | 44..46 | by how many it is pinned |
//! | 46 | the length of its key |
//! | 47 | marks |
//! | 48..64 | the beginning of key and value |

use super::blocks::{BLOCK, Blocks, Number};

const CHAIN: usize = 4;
const NEWER: usize = 8;
const OLDER: usize = 12;
const HASH: usize = 16;
const FLAGS: usize = 20;
const EXPIRY: usize = 24;
const USED: usize = 28;
const UNIQUE: usize = 32;
const LENGTH: usize = 40;
const PINS: usize = 44;
const KEY_LENGTH: usize = 46;
const MARKS: usize = 47;
const FIRST: usize = 48;
const FOLLOWING: usize = 4;

/// It can be found.
pub const LINKED: u8 = 1;
/// It has been asked for since it was stored.
pub const FETCHED: u8 = 2;
/// It has been asked for since it was last looked at by who makes room.
pub const SPARED: u8 = 4;
/// Its value is outdated.
pub const STALE: u8 = 8;
/// A client has been told to renew it.
pub const WON: u8 = 16;
/// Its key is shown in base64.
pub const BASE64: u8 = 32;

macro_rules! words {
    ($($(#[$doc:meta])* $get:ident $set:ident $at:ident;)*) => {
        impl Blocks {
            $(
                $(#[$doc])*
                #[inline]
                pub fn $get(&self, item: Number) -> u32 {
                    self.word(item, $at)
                }

                #[inline]
                pub fn $set(&mut self, item: Number, value: u32) {
                    self.set_word(item, $at, value);
                }
            )*
        }
    };
}

words! {
    /// The next item at its place of the index.
    chained set_chained CHAIN;
    /// The item that was stored after it.
    newer set_newer NEWER;
    /// The item that was stored before it.
    older set_older OLDER;
    /// Its hash.
    hash set_hash HASH;
    /// The client's flags.
    flags set_flags FLAGS;
    /// When it expires.
    expiry set_expiry EXPIRY;
    /// When it was used last.
    used_at set_used_at USED;
    /// The length of its value.
    length set_length LENGTH;
}

/// As many blocks as key and value of this length take.
pub fn blocks_for(bytes: usize) -> usize {
    1 + bytes.saturating_sub(BLOCK - FIRST).div_ceil(BLOCK - FOLLOWING)
}

/// A place in the bytes of an item.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    block: Number,
    at: usize,
}

impl Cursor {
    /// Where the key begins.
    pub fn start(item: Number) -> Cursor {
        Cursor { block: item, at: FIRST }
    }
}

impl Blocks {
    /// Its unique number.
    #[inline]
    pub fn unique(&self, item: Number) -> u64 {
        u64::from(self.word(item, UNIQUE)) | u64::from(self.word(item, UNIQUE + 4)) << 32
    }

    /// Gives it another unique number.
    #[inline]
    pub fn set_unique(&mut self, item: Number, unique: u64) {
        self.get_mut(item)[UNIQUE..UNIQUE + 8].copy_from_slice(&unique.to_le_bytes());
    }

    /// Its marks.
    #[inline]
    pub fn marks(&self, item: Number) -> u8 {
        self.get(item)[MARKS]
    }

    /// Whether it has one of these marks.
    #[inline]
    pub fn is_marked(&self, item: Number, marks: u8) -> bool {
        self.marks(item) & marks != 0
    }

    /// Sets its marks.
    #[inline]
    pub fn set_marks(&mut self, item: Number, marks: u8) {
        self.get_mut(item)[MARKS] = marks;
    }

    /// The length of its key.
    #[inline]
    pub fn key_length(&self, item: Number) -> usize {
        self.get(item)[KEY_LENGTH].into()
    }

    /// Sets the length of its key.
    pub fn set_key_length(&mut self, item: Number, length: usize) {
        self.get_mut(item)[KEY_LENGTH] = length as u8;
    }

    /// By how many it is pinned.
    pub fn pins(&self, item: Number) -> u16 {
        let block = self.get(item);
        u16::from_le_bytes([block[PINS], block[PINS + 1]])
    }

    /// Sets by how many it is pinned.
    pub fn set_pins(&mut self, item: Number, pins: u16) {
        self.get_mut(item)[PINS..PINS + 2].copy_from_slice(&pins.to_le_bytes());
    }

    /// As many blocks as it has.
    pub fn item_blocks(&self, item: Number) -> usize {
        blocks_for(self.key_length(item) + self.length(item) as usize)
    }

    /// Where its value begins.
    #[inline]
    pub fn value(&self, item: Number) -> Cursor {
        self.behind_key(item, self.key_length(item))
    }

    /// Where the value of a draft begins.
    #[inline]
    pub fn behind_key(&self, item: Number, key_length: usize) -> Cursor {
        self.skip(Cursor::start(item), key_length)
    }

    /// Where one is after so many bytes more.
    #[inline]
    pub fn skip(&self, mut cursor: Cursor, mut bytes: usize) -> Cursor {
        while bytes > BLOCK - cursor.at {
            bytes -= BLOCK - cursor.at;
            cursor = Cursor { block: self.next(cursor.block), at: FOLLOWING };
        }
        Cursor { at: cursor.at + bytes, ..cursor }
    }

    /// Whether its key is this one.
    #[inline]
    pub fn has_key(&self, item: Number, key: &[u8]) -> bool {
        if self.key_length(item) != key.len() {
            return false;
        }
        let block = self.get(item);
        if key.len() <= BLOCK - FIRST {
            return block[FIRST..FIRST + key.len()] == *key;
        }
        let mut cursor = Cursor::start(item);
        let mut same = true;
        self.pieces(&mut cursor, key.len(), |piece, from| same &= *piece == key[from..from + piece.len()]);
        same
    }

    /// Calls `each` with the next `bytes` bytes, piece by piece, and with how many there
    /// were before.
    #[inline]
    pub fn pieces(&self, cursor: &mut Cursor, bytes: usize, mut each: impl FnMut(&[u8], usize)) {
        let mut done = 0;
        while done < bytes {
            if cursor.at == BLOCK {
                *cursor = Cursor { block: self.next(cursor.block), at: FOLLOWING };
            }
            let length = (BLOCK - cursor.at).min(bytes - done);
            each(&self.get(cursor.block)[cursor.at..cursor.at + length], done);
            cursor.at += length;
            done += length;
        }
    }

    /// Appends the next `bytes` bytes to `out`.
    #[inline]
    pub fn copy_out(&self, cursor: &mut Cursor, bytes: usize, out: &mut Vec<u8>) {
        out.reserve(bytes);
        self.pieces(cursor, bytes, |piece, _| out.extend_from_slice(piece));
    }

    /// Writes over the next bytes.
    pub fn overwrite(&mut self, mut cursor: Cursor, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if cursor.at == BLOCK {
                cursor = Cursor { block: self.next(cursor.block), at: FOLLOWING };
            }
            let (piece, rest) = bytes.split_at(bytes.len().min(BLOCK - cursor.at));
            self.get_mut(cursor.block)[cursor.at..cursor.at + piece.len()].copy_from_slice(piece);
            cursor.at += piece.len();
            bytes = rest;
        }
    }
}

/// A chain that grows: an item that nobody can find yet.
#[derive(Debug)]
pub struct Draft {
    /// Its first block.
    pub first: Number,
    end: Cursor,
    count: usize,
    /// Those of its blocks that count as half-sent; see [`Shard::extend`](super::Shard::extend).
    pub(super) half_sent: usize,
}

impl Draft {
    /// An empty one. The caller has seen that a block is available.
    #[inline]
    pub fn begin(blocks: &mut Blocks) -> Draft {
        let first = blocks.take();
        blocks.set_pins(first, 0);
        Draft { first, end: Cursor::start(first), count: 1, half_sent: 0 }
    }

    /// As many more blocks as `bytes` more bytes need.
    #[inline]
    pub fn needs(&self, bytes: usize) -> usize {
        bytes.saturating_sub(BLOCK - self.end.at).div_ceil(BLOCK - FOLLOWING)
    }

    /// Appends bytes. The caller has seen that as many blocks are available as they need.
    #[inline]
    pub fn push(&mut self, blocks: &mut Blocks, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.end.at == BLOCK {
                let next = blocks.take();
                blocks.link(self.end.block, next);
                self.end = Cursor { block: next, at: FOLLOWING };
                self.count += 1;
            }
            let (piece, rest) = bytes.split_at(bytes.len().min(BLOCK - self.end.at));
            blocks.get_mut(self.end.block)[self.end.at..self.end.at + piece.len()].copy_from_slice(piece);
            self.end.at += piece.len();
            bytes = rest;
        }
    }

    /// Appends `bytes` bytes of an item. The caller has seen to the blocks.
    pub fn push_from(&mut self, blocks: &mut Blocks, mut from: Cursor, mut bytes: usize) {
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
        blocks.give_back(self.first, self.count);
    }
}
