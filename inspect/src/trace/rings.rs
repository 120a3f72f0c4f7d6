//! Reads the rings of the flight recorders, again and again, while their processors write.

use crate::error::Error;
use crate::layout::Layout;
use crate::memory::{Memory, u64_at};

/// A ring of more entries is a mistake.
const MOST_ENTRIES: u64 = 1 << 28;

/// The number of the oldest entries that are not trusted after a reading: the processor may have begun to overwrite
/// them before it said so. A CPU holds back fewer stores than that.
const DOUBTFUL: u64 = 64;

/// What a processor did, as its ring has it. Times are in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Entries are counted from the first one that was ever written.
    pub(super) number: u64,
    pub(super) code: u64,
    pub(super) strand: u64,
    pub(super) at: u64,
    pub(super) ready: u64,
    pub(super) argument: u64,
}

/// A piece of a ring's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Entry(Entry),
    /// This number of entries was overwritten before it was read.
    Lost(u64),
}

/// Where things are in a ring.
#[derive(Clone, Copy)]
pub(super) struct RingLayout {
    magic: u64,
    magic_value: u64,
    capacity: u64,
    written: u64,
    recording: u64,
    entries: u64,
    bytes: u64,
    what: usize,
    at: usize,
    ready: usize,
    argument: usize,
    bits: u64,
}

impl RingLayout {
    pub(super) fn of(layout: &Layout) -> Result<RingLayout, Error> {
        Ok(RingLayout {
            magic: layout.need("ring.magic")?,
            magic_value: layout.need("ring.magic_value")?,
            capacity: layout.need("ring.capacity")?,
            written: layout.need("ring.written")?,
            recording: layout.need("ring.recording")?,
            entries: layout.need("ring.entries")?,
            bytes: layout.need("event.bytes")?,
            what: layout.need("event.what")? as usize,
            at: layout.need("event.at")? as usize,
            ready: layout.need("event.ready")? as usize,
            argument: layout.need("event.argument")? as usize,
            bits: layout.need("event.bits")?,
        })
    }
}

/// The reader's end of a ring.
pub(super) struct RingReader {
    layout: RingLayout,
    address: u64,
    capacity: u64,
    /// The number of the next entry to read; `None` before the first reading.
    next: Option<u64>,
    /// Whether the processor recorded at the last reading.
    pub(super) is_recording: bool,
    pub(super) history: Vec<Piece>,
    pub(super) lost: u64,
}

impl RingReader {
    /// Opens the ring at an address; `None` if there is none.
    pub(super) fn open(memory: &dyn Memory, layout: RingLayout, address: u64) -> Option<RingReader> {
        let head = |offset| crate::memory::word(memory, address.wrapping_add(offset)).ok();
        let capacity = head(layout.capacity)?;
        let is_ring = head(layout.magic)? == layout.magic_value && capacity.is_power_of_two();
        (is_ring && capacity <= MOST_ENTRIES).then_some(RingReader {
            layout,
            address,
            capacity,
            next: None,
            is_recording: false,
            history: Vec::new(),
            lost: 0,
        })
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// Reads what is new. Returns the part of the ring that was, from 0 to 1.
    pub(super) fn read(&mut self, memory: &dyn Memory) -> f64 {
        let Some(written) = self.head(memory, self.layout.written) else { return 0.0 };
        self.is_recording = self.head(memory, self.layout.recording) == Some(1);
        let oldest = written.saturating_sub(self.capacity);
        // Entries that were overwritten before the first reading are the past, and not lost.
        let from = self.next.unwrap_or(oldest).max(oldest);
        let Some(bytes) = self.entries(memory, from, written) else { return 0.0 };
        // An entry that is overwritten meanwhile is torn. In a core nothing is, but for the entry that was being
        // written, which is in the place of the oldest one.
        let doubtful = if memory.is_live() { DOUBTFUL } else { 1 };
        let after = self.head(memory, self.layout.written).unwrap_or(u64::MAX);
        let first_sound = (after + doubtful).saturating_sub(self.capacity).clamp(from, written);
        let lost = self.next.map_or(0, |next| first_sound - next);
        if lost > 0 {
            self.lost += lost;
            self.history.push(Piece::Lost(lost));
        }
        let layout = self.layout;
        let entries = (from..).zip(bytes.chunks_exact(layout.bytes as usize));
        self.history.extend(entries.skip((first_sound - from) as usize).filter_map(|(number, bytes)| {
            let what = u64_at(bytes, layout.what)?;
            Some(Piece::Entry(Entry {
                number,
                code: what & layout.bits,
                strand: what & !layout.bits,
                at: u64_at(bytes, layout.at)?,
                ready: u64_at(bytes, layout.ready)?,
                argument: u64_at(bytes, layout.argument)?,
            }))
        }));
        self.next = Some(written);
        (written - from) as f64 / self.capacity as f64
    }

    fn head(&self, memory: &dyn Memory, offset: u64) -> Option<u64> {
        crate::memory::word(memory, self.address + offset).ok()
    }

    /// Returns the bytes of entries, from one number up to another.
    fn entries(&self, memory: &dyn Memory, from: u64, to: u64) -> Option<Vec<u8>> {
        let size = self.layout.bytes;
        let mut bytes = vec![0; ((to - from) * size) as usize];
        let place = from & (self.capacity - 1);
        let straight = (to - from).min(self.capacity - place);
        let (first, second) = bytes.split_at_mut((straight * size) as usize);
        let start = self.address + self.layout.entries;
        memory.read(start + place * size, first).ok()?;
        memory.read(start, second).ok()?;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::fake::Fake;

    const RING: u64 = 0x1000;
    const CAPACITY: u64 = 256;

    fn layout() -> RingLayout {
        RingLayout {
            magic: 0,
            magic_value: 77,
            capacity: 8,
            written: 16,
            recording: 24,
            entries: 64,
            bytes: 32,
            what: 0,
            at: 8,
            ready: 16,
            argument: 24,
            bits: 63,
        }
    }

    fn ring() -> Fake {
        let mut memory = Fake::default();
        memory.region(RING, 64 + 32 * CAPACITY as usize);
        memory.set_u64(RING, 77);
        memory.set_u64(RING + 8, CAPACITY);
        memory
    }

    /// Writes entries up to the number `to`, each with its own number as its time.
    fn write(memory: &mut Fake, to: u64) {
        for number in crate::memory::word(memory, RING + 16).unwrap()..to {
            let entry = RING + 64 + number % CAPACITY * 32;
            memory.set_u64(entry, 0x4000 | 5);
            memory.set_u64(entry + 8, number);
        }
        memory.set_u64(RING + 16, to);
    }

    fn times(pieces: &[Piece]) -> Vec<u64> {
        let time = |piece: &Piece| match piece {
            Piece::Entry(entry) => Some(entry.at),
            Piece::Lost(_) => None,
        };
        pieces.iter().filter_map(time).collect()
    }

    #[test]
    fn entries_are_read_once_and_in_order_around_the_end_of_the_ring() {
        let mut memory = ring();
        let mut reader = RingReader::open(&memory, layout(), RING).unwrap();
        for to in [0, 10, 100, 250, 300] {
            write(&mut memory, to);
            reader.read(&memory);
        }
        assert_eq!(times(&reader.history), (0..300).collect::<Vec<_>>());
        assert_eq!(reader.lost, 0);
        let Piece::Entry(first) = reader.history[0] else { panic!() };
        assert_eq!((first.strand, first.code), (0x4000, 5));
    }

    #[test]
    fn entries_that_were_overwritten_are_counted_as_lost() {
        let mut memory = ring();
        let mut reader = RingReader::open(&memory, layout(), RING).unwrap();
        write(&mut memory, 10);
        reader.read(&memory);
        write(&mut memory, 1000);
        reader.read(&memory);
        let lost = 1000 - CAPACITY + DOUBTFUL - 10;
        assert_eq!((reader.lost, reader.history[10]), (lost, Piece::Lost(lost)));
        assert_eq!(times(&reader.history[11..]), (10 + lost..1000).collect::<Vec<_>>());
    }

    #[test]
    fn the_past_before_the_first_reading_is_not_lost() {
        let mut memory = ring();
        write(&mut memory, 1000);
        let mut reader = RingReader::open(&memory, layout(), RING).unwrap();
        reader.read(&memory);
        assert_eq!(reader.lost, 0);
        assert_eq!(times(&reader.history), (1000 - CAPACITY + DOUBTFUL..1000).collect::<Vec<_>>());
    }

    #[test]
    fn entries_that_are_overwritten_while_they_are_read_are_left_out() {
        /// Writes on while it is read.
        struct Busy(std::cell::RefCell<Fake>);
        impl Memory for Busy {
            fn read(&self, address: u64, into: &mut [u8]) -> Result<(), crate::memory::Unreadable> {
                let mut memory = self.0.borrow_mut();
                let done = memory.read(address, into);
                if into.len() > 8 {
                    let written = crate::memory::word(&*memory, RING + 16).unwrap();
                    write(&mut memory, written + 100);
                }
                done
            }

            fn is_live(&self) -> bool {
                true
            }
        }
        let mut memory = ring();
        write(&mut memory, 10);
        let mut reader = RingReader::open(&memory, layout(), RING).unwrap();
        reader.read(&memory);
        write(&mut memory, CAPACITY);
        let memory = Busy(memory.into());
        reader.read(&memory);
        let first_sound = 100 + DOUBTFUL;
        assert_eq!(times(&reader.history[10..]), (first_sound..CAPACITY).collect::<Vec<_>>());
        assert_eq!(reader.lost, first_sound - 10);
    }

    #[test]
    fn what_is_no_ring_is_not_opened() {
        let mut memory = ring();
        assert!(RingReader::open(&memory, layout(), 8).is_none());
        memory.set_u64(RING, 78);
        assert!(RingReader::open(&memory, layout(), RING).is_none());
    }
}
