//! The stream between a session and its client: ChaCha20 that goes on from message to message.

use std::cell::RefCell;

use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};

use super::LONGEST;

/// A block of the cipher.
const BLOCK: usize = 64;
/// The blocks that the cipher makes at once. One block takes the same time.
const STEP: usize = 4 * BLOCK;
/// The bytes before a message that its reader may fill.
pub const HEAD: usize = BLOCK;
/// A message begins anywhere in its first block, and the last step is a whole one.
const ROOM: usize = (HEAD + BLOCK + LONGEST).next_multiple_of(STEP) + STEP;

thread_local! {
    static SCRATCH: RefCell<[u8; ROOM]> = const { RefCell::new([0; ROOM]) };
}

#[derive(Clone, Copy)]
pub enum Direction {
    Inward,
    Outward,
}

/// The key of a session, which both of its streams have.
#[derive(Clone, Copy)]
pub struct Key([u8; 32]);

impl Key {
    pub fn of(session: usize) -> Key {
        let mut key = [0; 32];
        key.chunks_mut(8).for_each(|part| part.copy_from_slice(&(session as u64).to_le_bytes()));
        Key(key)
    }

    /// Encrypts or decrypts the next bytes of a stream. `position` is the stream's, and moves on. `read` gets the result,
    /// with room of [`HEAD`] bytes before it.
    ///
    /// Never inlined: a caller may be on another kernel thread at its next call.
    #[inline(never)]
    pub fn apply<R>(
        &self,
        direction: Direction,
        position: &mut u64,
        bytes: &[u8],
        read: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
        let mut nonce = [0; 12];
        nonce[0] = direction as u8;
        let offset = *position as usize % BLOCK;
        let mut cipher = ChaCha20::new(&self.0.into(), &nonce.into());
        cipher.seek(*position - offset as u64);
        *position += bytes.len() as u64;
        SCRATCH.with_borrow_mut(|scratch| {
            let (begin, end) = (HEAD + offset, HEAD + offset + bytes.len());
            scratch[begin..end].copy_from_slice(bytes);
            // Whole steps only: what stands around the message is overwritten with anything.
            let steps = (end - HEAD).next_multiple_of(STEP);
            cipher.apply_keystream(&mut scratch[HEAD..HEAD + steps]);
            read(&mut scratch[offset..end])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key stream of RFC 8439, section 2.3.2.
    #[test]
    fn the_cipher_is_that_of_the_rfc() {
        let key: [u8; 32] = std::array::from_fn(|at| at as u8);
        let nonce = [0, 0, 0, 9, 0, 0, 0, 0x4A, 0, 0, 0, 0];
        let mut cipher = ChaCha20::new(&key.into(), &nonce.into());
        cipher.seek(64_u32);
        let mut stream = [0; 8];
        cipher.apply_keystream(&mut stream);
        assert_eq!(stream, [0x10, 0xF1, 0xE7, 0xE4, 0xD1, 0x3B, 0x59, 0x15]);
    }

    #[test]
    fn messages_of_any_length_are_pieces_of_one_stream() {
        let key = Key::of(7);
        let mut whole = vec![0; 40_000];
        let mut nonce = [0; 12];
        nonce[0] = 1;
        ChaCha20::new(&key.0.into(), &nonce.into()).apply_keystream(&mut whole);
        let (mut position, mut pieces) = (0, Vec::new());
        for length in [1, 63, 64, 65, 1024, 1, 1000, 1024, 511, 256].into_iter().cycle().take(80) {
            let piece = key.apply(Direction::Outward, &mut position, &vec![0; length], |bytes| bytes[HEAD..].to_vec());
            assert_eq!(piece.len(), length);
            pieces.extend(piece);
        }
        assert_eq!(position as usize, pieces.len());
        assert_eq!(pieces[..], whole[..pieces.len()]);
    }
}
