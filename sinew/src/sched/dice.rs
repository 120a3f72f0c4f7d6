//! A small generator of random numbers (xorshift), for choices that only have to differ from processor to
//! processor.

use std::cell::Cell;

pub(super) struct Dice(Cell<u32>);

impl Dice {
    /// Makes the generator of the processor that has this station.
    pub(super) fn of(station: usize) -> Dice {
        Dice(Cell::new(0x9e37_79b9 ^ (station as u32 + 1).wrapping_mul(0x85eb_ca6b)))
    }

    /// Returns a number less than `limit`, which is not 0.
    pub(super) fn below(&self, limit: usize) -> usize {
        let mut x = self.0.get();
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        self.0.set(x);
        (x >> 8) as usize % limit
    }

    /// Returns one of the `used` stations that is not `station`.
    pub(super) fn other(&self, station: usize, used: usize) -> Option<usize> {
        if used < 2 {
            return None;
        }
        let other = self.below(used - 1);
        Some(other + usize::from(other >= station))
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_other_station_comes_up_and_never_the_own_one() {
        let dice = Dice::of(2);
        let mut times = [0; 5];
        (0..1_000).filter_map(|_| dice.other(2, 5)).for_each(|station| times[station] += 1);
        assert!(times[2] == 0 && [0, 1, 3, 4].iter().all(|&station| times[station] > 150), "{times:?}");
        assert_eq!(dice.other(0, 1), None);
    }
}
