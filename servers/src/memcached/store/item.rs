//! The format of an item: a header, then key and value, in a chain of blocks or of whole pages.
//!
//! | bytes of the first block | |
//! | --- | --- |
//! | 0..4 | the next block |
//! | 4..8 | the next item at the same place of the index |
//! | 8..12, 12..16 | the items that were stored after it and before it |
//! | 16..20 | its hash |
//! | 20..24 | the client's flags |
//! | 24..28 | its expiry, 0 for never |
//! | 28..32 | the second of its last use |
//! | 32..40 | its unique number |
//! | 40..44 | the length of its value |
//! | 44..46 | the number of its pins |
//! | 46 | the length of its key |
//! | 47 | marks |
//! | 48..64 | the beginning of key and value |

use super::blocks::{BLOCK, Blocks, NONE, Number, PAGE, word_of};

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
pub(super) const FIRST: usize = 48;
pub(super) const FOLLOWING: usize = 4;

/// The item can be found.
pub const LINKED: u8 = 1;
/// A client has asked for it since it was stored.
pub const FETCHED: u8 = 2;
/// A client has asked for it twice, and since eviction last looked at it.
pub const SPARED: u8 = 4;
/// Its value is outdated.
pub const STALE: u8 = 8;
/// A client has been told to renew it.
pub const WON: u8 = 16;
/// Its key is shown in base64.
pub const BASE64: u8 = 32;
/// It expires so soon that it is not evicted.
pub const TEMPORARY: u8 = 64;

macro_rules! words {
    ($($(#[$doc:meta])* $get:ident $at:ident $($set:ident)?;)*) => {
        impl Blocks {
            $(
                $(#[$doc])*
                #[inline]
                pub fn $get(&self, item: Number) -> u32 {
                    self.word(item, $at)
                }

                $(
                    #[inline]
                    pub fn $set(&mut self, item: Number, value: u32) {
                        self.set_word(item, $at, value);
                    }
                )?
            )*
        }
    };
}

words! {
    /// Returns the next item at the same place of the index.
    chained CHAIN set_chained;
    /// Returns the item that was stored after it.
    newer NEWER set_newer;
    /// Returns the item that was stored before it.
    older OLDER set_older;
    /// Returns its hash.
    hash HASH;
    /// Returns the client's flags.
    flags FLAGS;
    /// Returns when it expires.
    expiry EXPIRY set_expiry;
    /// Returns the second of its last use.
    used_at USED set_used_at;
    /// Returns the length of its value.
    length LENGTH;
}

/// Returns the number of blocks that a key and value of this length take.
pub fn blocks_for(bytes: usize) -> usize {
    1 + bytes.saturating_sub(BLOCK - FIRST).div_ceil(BLOCK - FOLLOWING)
}

/// A position in the bytes of an item.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    pub(super) block: Number,
    pub(super) at: usize,
}

impl Cursor {
    /// Returns where the key begins.
    pub fn start(item: Number) -> Cursor {
        Cursor { block: item, at: FIRST }
    }

    /// Returns the beginning of the block after this one.
    #[inline]
    fn following(self, blocks: &Blocks) -> Cursor {
        let (block, at) = blocks.following(self.block);
        Cursor { block, at }
    }
}

/// The fields of a new item's header.
pub struct Header {
    /// Its hash.
    pub hash: u32,
    /// The client's flags.
    pub flags: u32,
    /// When it expires.
    pub expiry: u32,
    /// When it is stored.
    pub used_at: u32,
    /// Its unique number.
    pub unique: u64,
    /// The length of its value.
    pub length: u32,
    /// The length of its key.
    pub key_length: usize,
    /// Its marks.
    pub marks: u8,
}

/// The fields of an item that decide how it is freed and counted.
#[derive(Clone, Copy)]
pub struct Sketch {
    /// The client's flags.
    pub flags: u32,
    /// When it expires.
    pub expiry: u32,
    /// The length of its value.
    pub length: usize,
    /// The length of its key.
    pub key_length: usize,
    /// Its marks.
    pub marks: u8,
    /// Whether it is pinned.
    pub is_pinned: bool,
}

impl Blocks {
    /// Writes the header of an item that is not pinned.
    #[inline]
    pub fn set_header(&mut self, item: Number, header: &Header) {
        let block = self.get_mut(item);
        block[HASH..FLAGS].copy_from_slice(&header.hash.to_le_bytes());
        block[FLAGS..EXPIRY].copy_from_slice(&header.flags.to_le_bytes());
        block[EXPIRY..USED].copy_from_slice(&header.expiry.to_le_bytes());
        block[USED..UNIQUE].copy_from_slice(&header.used_at.to_le_bytes());
        block[UNIQUE..LENGTH].copy_from_slice(&header.unique.to_le_bytes());
        block[LENGTH..PINS].copy_from_slice(&header.length.to_le_bytes());
        block[PINS..KEY_LENGTH].fill(0);
        block[KEY_LENGTH] = header.key_length as u8;
        block[MARKS] = header.marks;
    }

    /// Returns the fields of an item that decide how it is freed and counted.
    #[inline]
    pub fn sketch(&self, item: Number) -> Sketch {
        let block = self.get(item);
        Sketch {
            flags: word_of(block, FLAGS),
            expiry: word_of(block, EXPIRY),
            length: word_of(block, LENGTH) as usize,
            key_length: block[KEY_LENGTH].into(),
            marks: block[MARKS],
            is_pinned: block[PINS] | block[PINS + 1] != 0,
        }
    }

    /// Returns its unique number.
    #[inline]
    pub fn unique(&self, item: Number) -> u64 {
        u64::from(self.word(item, UNIQUE)) | u64::from(self.word(item, UNIQUE + 4)) << 32
    }

    /// Gives it another unique number.
    #[inline]
    pub fn set_unique(&mut self, item: Number, unique: u64) {
        self.get_mut(item)[UNIQUE..UNIQUE + 8].copy_from_slice(&unique.to_le_bytes());
    }

    /// Returns its marks.
    #[inline]
    pub fn marks(&self, item: Number) -> u8 {
        self.get(item)[MARKS]
    }

    /// Returns whether it has one of these marks.
    #[inline]
    pub fn is_marked(&self, item: Number, marks: u8) -> bool {
        self.marks(item) & marks != 0
    }

    /// Sets its marks.
    #[inline]
    pub fn set_marks(&mut self, item: Number, marks: u8) {
        self.get_mut(item)[MARKS] = marks;
    }

    /// Returns the length of its key.
    #[inline]
    pub fn key_length(&self, item: Number) -> usize {
        self.get(item)[KEY_LENGTH].into()
    }

    /// Returns the number of its pins.
    pub fn pins(&self, item: Number) -> u16 {
        let block = self.get(item);
        u16::from_le_bytes([block[PINS], block[PINS + 1]])
    }

    /// Sets the number of its pins.
    pub fn set_pins(&mut self, item: Number, pins: u16) {
        self.get_mut(item)[PINS..PINS + 2].copy_from_slice(&pins.to_le_bytes());
    }

    /// Gives its memory back.
    pub fn release(&mut self, item: Number) {
        let sketch = self.sketch(item);
        let bytes = sketch.key_length + sketch.length;
        let blocks = if self.is_whole(item) { self.blocks_behind_pages(item, bytes) } else { blocks_for(bytes) };
        self.free(item, blocks);
    }

    /// Returns the number of blocks after the whole pages of an item of this number of bytes.
    #[cold]
    fn blocks_behind_pages(&self, item: Number, bytes: usize) -> usize {
        let (mut element, mut in_pages) = (item, 0);
        while element != NONE && self.is_whole(element) {
            in_pages += PAGE - if element == item { FIRST } else { FOLLOWING };
            element = self.next(element);
        }
        bytes.saturating_sub(in_pages).div_ceil(BLOCK - FOLLOWING)
    }

    /// Returns where its value begins.
    #[inline]
    pub fn value(&self, item: Number) -> Cursor {
        self.behind_key(item, self.key_length(item))
    }

    /// Returns where the value of a draft begins.
    #[inline]
    pub fn behind_key(&self, item: Number, key_length: usize) -> Cursor {
        self.skip(Cursor::start(item), key_length)
    }

    /// Returns the position that is this number of bytes further.
    #[inline]
    pub fn skip(&self, mut cursor: Cursor, mut bytes: usize) -> Cursor {
        while bytes > BLOCK - cursor.at {
            bytes -= BLOCK - cursor.at;
            cursor = cursor.following(self);
        }
        Cursor { at: cursor.at + bytes, ..cursor }
    }

    /// Returns its key.
    #[cold]
    pub fn key(&self, item: Number) -> Vec<u8> {
        let mut key = Vec::new();
        self.copy_out(&mut Cursor::start(item), self.key_length(item), &mut key);
        key
    }

    /// Returns whether it has this key.
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

    /// Calls `each` with the next `bytes` bytes, piece by piece, and with the number of bytes
    /// before each piece.
    #[inline(always)]
    pub fn pieces(&self, cursor: &mut Cursor, bytes: usize, mut each: impl FnMut(&[u8], usize)) {
        let mut done = 0;
        while done < bytes {
            if cursor.at == BLOCK {
                *cursor = cursor.following(self);
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

    /// Overwrites the next bytes.
    pub fn overwrite(&mut self, mut cursor: Cursor, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if cursor.at == BLOCK {
                cursor = cursor.following(self);
            }
            let (piece, rest) = bytes.split_at(bytes.len().min(BLOCK - cursor.at));
            self.get_mut(cursor.block)[cursor.at..cursor.at + piece.len()].copy_from_slice(piece);
            cursor.at += piece.len();
            bytes = rest;
        }
    }
}
