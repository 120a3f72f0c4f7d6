//! Where bytes of a process come from: the process itself, another process, or a core file.

mod core;
mod live;

pub use self::core::CoreFile;
pub use self::live::LiveProcess;

/// The bytes at an address cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

/// A piece of memory.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The address of its first byte.
    pub address: u64,
    /// The number of bytes.
    pub length: usize,
}

/// The memory of a process. A bad address is an error, and nothing else.
pub trait Memory {
    /// Fills `into` with the bytes at `address`.
    ///
    /// # Errors
    /// Some of the bytes cannot be read. `into` has any contents then.
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Unreadable>;

    /// Reads many places, one behind the other, into `into`, whose length is the sum of theirs. Calls
    /// `failed` with the number of each place that cannot be read.
    fn read_many(&self, places: &[Place], mut into: &mut [u8], failed: &mut dyn FnMut(usize)) {
        for (number, place) in places.iter().enumerate() {
            let (piece, rest) = into.split_at_mut(place.length);
            if self.read(place.address, piece).is_err() {
                failed(number);
            }
            into = rest;
        }
    }

    /// Says whether the process may go on while it is read.
    fn is_live(&self) -> bool;
}

/// Reads the word at an address.
pub fn word(memory: &dyn Memory, address: u64) -> Result<u64, Unreadable> {
    let mut bytes = [0; 8];
    memory.read(address, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Places that are read together. One call of the kernel reads a thousand of them.
#[derive(Default)]
pub struct Batch {
    places: Vec<Place>,
    /// Where the bytes of each place begin.
    starts: Vec<usize>,
    bytes: Vec<u8>,
    failed: Vec<bool>,
    length: usize,
}

impl Batch {
    /// Makes an empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Adds a place. Returns its number.
    pub fn add(&mut self, address: u64, length: usize) -> usize {
        self.places.push(Place { address, length });
        self.starts.push(self.length);
        self.length += length;
        self.places.len() - 1
    }

    /// Reads all places.
    pub fn read(&mut self, memory: &dyn Memory) {
        self.bytes.resize(self.length, 0);
        self.failed.clear();
        self.failed.resize(self.places.len(), false);
        let failed = &mut self.failed;
        memory.read_many(&self.places, &mut self.bytes, &mut |number| failed[number] = true);
    }

    /// Returns the bytes of the place of this number, unless they could not be read.
    pub fn get(&self, number: usize) -> Option<&[u8]> {
        let failed = self.failed.get(number).copied().unwrap_or(true);
        (!failed).then(|| &self.bytes[self.starts[number]..][..self.places[number].length])
    }

    /// Returns the word that is the whole place of this number.
    pub fn word(&self, number: usize) -> Option<u64> {
        Some(u64::from_le_bytes(self.get(number)?.try_into().ok()?))
    }

    /// Forgets all places, and keeps the memory.
    pub fn clear(&mut self) {
        self.places.clear();
        self.starts.clear();
        self.failed.clear();
        self.length = 0;
    }
}

/// Returns the number at an offset of bytes that were read; `None` beyond their end.
pub fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(offset..offset.checked_add(8)?)?.try_into().ok()?))
}

/// As [`u64_at`].
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(offset..offset.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
pub(crate) mod fake {
    use super::*;
    use std::cell::Cell;
    use std::collections::BTreeMap;

    /// Memory that a test has made up.
    #[derive(Default)]
    pub(crate) struct Fake {
        pub(crate) regions: BTreeMap<u64, Vec<u8>>,
        /// Called before a read, with the number of reads before it.
        pub(crate) reads: Cell<usize>,
    }

    impl Fake {
        pub(crate) fn region(&mut self, address: u64, length: usize) -> &mut Vec<u8> {
            self.regions.entry(address).or_insert_with(|| vec![0; length])
        }

        pub(crate) fn set(&mut self, address: u64, bytes: &[u8]) {
            let (start, region) = self.regions.range_mut(..=address).next_back().expect("a region");
            let at = (address - start) as usize;
            region[at..at + bytes.len()].copy_from_slice(bytes);
        }

        pub(crate) fn set_u64(&mut self, address: u64, value: u64) {
            self.set(address, &value.to_le_bytes());
        }
    }

    impl Memory for Fake {
        fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Unreadable> {
            self.reads.set(self.reads.get() + 1);
            let (start, region) = self.regions.range(..=address).next_back().ok_or(Unreadable)?;
            let at = (address - start) as usize;
            into.copy_from_slice(region.get(at..at.wrapping_add(into.len())).ok_or(Unreadable)?);
            Ok(())
        }

        fn is_live(&self) -> bool {
            true
        }
    }
}
