//! A hash for short keys. It starts with a random number, so that clients cannot predict it.

use std::hash::{BuildHasher, RandomState};

/// An odd number with as many ones as zeros, otherwise arbitrary.
const FACTORS: [u64; 2] = [0x9e6c_63d0_876a_9a4b, 0xd1b5_4a32_d192_ed03];

/// Hashes keys.
pub struct Hasher {
    seed: u64,
}

/// Combines both halves of a product of 128 bits.
#[inline]
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

impl Hasher {
    /// Returns a hasher with a random start, which differs in each process.
    pub fn random() -> Hasher {
        Hasher { seed: RandomState::new().hash_one(0) }
    }

    /// Returns the hash of a key.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        let mut hash = self.seed ^ key.len() as u64;
        let (words, rest) = key.as_chunks::<8>();
        for word in words {
            hash = fold(hash ^ u64::from_le_bytes(*word), FACTORS[0]);
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        fold(fold(hash ^ u64::from_le_bytes(last), FACTORS[0]), FACTORS[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_keys_are_spread_evenly() {
        let hasher = Hasher::random();
        let (mut low, mut high) = ([0u32; 64], [0u32; 64]);
        for number in 0..64_000 {
            let hash = hasher.hash(format!("key_{number:08}").as_bytes());
            low[hash as usize & 63] += 1;
            high[(hash >> 40) as usize & 63] += 1;
        }
        // The average is 1000; the bounds are six standard deviations of a random spread.
        for count in low.iter().chain(&high) {
            assert!((810..1190).contains(count), "{low:?} {high:?}");
        }
    }

    #[test]
    fn keys_of_different_lengths_have_different_hashes() {
        let hasher = Hasher::random();
        assert_ne!(hasher.hash(b"a"), hasher.hash(b"a\0"));
        assert_ne!(hasher.hash(b""), hasher.hash(b"\0"));
    }
}
