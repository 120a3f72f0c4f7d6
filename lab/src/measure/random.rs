//! Xorshift: the same numbers in every run.

pub struct Random(u64);

impl Random {
    /// Returns the generator of a strand. Each strand has another sequence.
    pub fn of(strand: usize) -> Random {
        Random((strand as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// Returns a number below `bound`, which is small.
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * bound as u64) >> 32) as usize
    }

    /// Returns a number from 0 to 1, 1 excluded.
    pub fn fraction(&mut self) -> f64 {
        self.below(1 << 30) as f64 / f64::from(1 << 30)
    }
}
