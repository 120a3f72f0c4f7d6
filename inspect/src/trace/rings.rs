//! Reads the rings of the flight recorders, again and again, while their processors write.

use crate::error::Error;
use crate::layout::Layout;
use crate::memory::{Memory, u64_at};

/// A ring of more slots is a mistake.
const MOST_SLOTS: u64 = 1 << 28;

/// The number of the oldest slots that are not trusted after a reading: the processor may have begun to overwrite
/// them before it said so. A CPU holds back fewer stores than that.
const DOUBTFUL: u64 = 64;

/// The same in a process that stands still: the largest number of slots of an entry.
const BEING_WRITTEN: u64 = 2;

/// An event of a processor, as its ring has it. Times are in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The number of its slot. They are counted from the first one that was ever written.
    pub(super) number: u64,
    pub(super) code: u64,
    pub(super) strand: u64,
    pub(super) at: u64,
    /// For dispatches: when the strand became ready; 0 if that is not known. Otherwise as the event says.
    pub(super) word: u64,
    pub(super) argument: u64,
}

/// A piece of a ring's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Entry(Entry),
    /// This number of slots was overwritten before it was read.
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
    slots: u64,
    bytes: u64,
    what: usize,
    word: usize,
    bits: u64,
    /// The code of a slot that has the time of those behind it.
    time: u64,
    /// The code of a slot that has the argument of the one before it.
    argument: u64,
}

impl RingLayout {
    pub(super) fn of(layout: &Layout) -> Result<RingLayout, Error> {
        Ok(RingLayout {
            magic: layout.need("ring.magic")?,
            magic_value: layout.need("ring.magic_value")?,
            capacity: layout.need("ring.capacity")?,
            written: layout.need("ring.written")?,
            recording: layout.need("ring.recording")?,
            slots: layout.need("ring.slots")?,
            bytes: layout.need("slot.bytes")?,
            what: layout.need("slot.what")? as usize,
            word: layout.need("slot.word")? as usize,
            bits: layout.need("event.bits")?,
            time: layout.need("code.time")?,
            argument: layout.need("code.argument")?,
        })
    }
}

/// The reader's end of a ring.
pub(super) struct RingReader {
    layout: RingLayout,
    address: u64,
    capacity: u64,
    /// The number of the next slot to read; `None` before the first reading.
    next: Option<u64>,
    /// The time of the next entry, if that is known.
    time: Option<u64>,
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
        (is_ring && capacity <= MOST_SLOTS).then_some(RingReader {
            layout,
            address,
            capacity,
            next: None,
            time: None,
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
        // Slots that were overwritten before the first reading are the past, and not lost.
        let from = self.next.unwrap_or(oldest).max(oldest);
        let Some(bytes) = self.slots(memory, from, written) else { return 0.0 };
        // A slot that is overwritten meanwhile is torn. In a core nothing is, but for the entry that was being
        // written, which is in the place of the oldest one.
        let doubtful = if memory.is_live() { DOUBTFUL } else { BEING_WRITTEN };
        let after = self.head(memory, self.layout.written).unwrap_or(u64::MAX);
        let first_sound = (after + doubtful).saturating_sub(self.capacity).clamp(from, written);
        let lost = self.next.map_or(0, |next| first_sound - next);
        if lost > 0 {
            self.lose(lost);
        }
        let size = self.layout.bytes as usize;
        let slots = (from..).zip(bytes.chunks_exact(size)).skip((first_sound - from) as usize);
        for (number, bytes) in slots {
            if let (Some(what), Some(word)) = (u64_at(bytes, self.layout.what), u64_at(bytes, self.layout.word)) {
                self.slot(number, what, word);
            }
        }
        self.next = Some(written);
        (written - from) as f64 / self.capacity as f64
    }

    fn lose(&mut self, slots: u64) {
        self.lost += slots;
        self.time = None;
        self.history.push(Piece::Lost(slots));
    }

    /// Takes a slot. Entries whose time is not known are left out: there are few before the first time.
    fn slot(&mut self, number: u64, what: u64, word: u64) {
        let code = what & self.layout.bits;
        if code == self.layout.time {
            self.time = Some(word);
        } else if code == self.layout.argument {
            if let Some(Piece::Entry(entry)) = self.history.last_mut()
                && entry.number + 1 == number
            {
                entry.argument = word;
            }
        } else if let Some(at) = self.time {
            let strand = what & !self.layout.bits;
            self.history.push(Piece::Entry(Entry { number, code, strand, at, word, argument: 0 }));
        }
    }

    fn head(&self, memory: &dyn Memory, offset: u64) -> Option<u64> {
        crate::memory::word(memory, self.address + offset).ok()
    }

    /// Returns the bytes of slots, from one number up to another.
    fn slots(&self, memory: &dyn Memory, from: u64, to: u64) -> Option<Vec<u8>> {
        let size = self.layout.bytes;
        let mut bytes = vec![0; ((to - from) * size) as usize];
        let place = from & (self.capacity - 1);
        let straight = (to - from).min(self.capacity - place);
        let (first, second) = bytes.split_at_mut((straight * size) as usize);
        let start = self.address + self.layout.slots;
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
            slots: 64,
            bytes: 16,
            what: 0,
            word: 8,
            bits: 63,
            time: 28,
            argument: 29,
        }
    }

    fn ring() -> Fake {
        let mut memory = Fake::default();
        memory.region(RING, 64 + 16 * CAPACITY as usize);
        memory.set_u64(RING, 77);
        memory.set_u64(RING + 8, CAPACITY);
        memory
    }

    /// Writes slots up to the number `to`, each with its own number as its word. Every tenth has the time, and the one
    /// behind it an entry with an argument.
    fn write(memory: &mut Fake, to: u64) {
        for number in crate::memory::word(memory, RING + 16).unwrap()..to {
            let slot = RING + 64 + number % CAPACITY * 16;
            let what = match number % 10 {
                0 => 28,
                2 => 29,
                _ => 0x4000 | 5,
            };
            memory.set_u64(slot, what);
            memory.set_u64(slot + 8, number);
        }
        memory.set_u64(RING + 16, to);
    }

    /// Returns the entries that are in the slots of these numbers, if all times are known.
    fn expected(slots: std::ops::Range<u64>) -> Vec<Piece> {
        let is_entry = |number: &u64| !matches!(number % 10, 0 | 2);
        let entry = |number| Entry {
            number,
            code: 5,
            strand: 0x4000,
            at: number - number % 10,
            word: number,
            argument: if number % 10 == 1 { number + 1 } else { 0 },
        };
        slots.filter(is_entry).map(|number| Piece::Entry(entry(number))).collect()
    }

    #[test]
    fn entries_are_read_once_and_in_order_around_the_end_of_the_ring() {
        let mut memory = ring();
        let mut reader = RingReader::open(&memory, layout(), RING).unwrap();
        for to in [0, 10, 103, 255, 300] {
            write(&mut memory, to);
            reader.read(&memory);
        }
        assert_eq!(reader.history, expected(0..300));
        assert_eq!(reader.lost, 0);
    }

    #[test]
    fn slots_that_were_overwritten_are_counted_as_lost() {
        let mut memory = ring();
        let mut reader = RingReader::open(&memory, layout(), RING).unwrap();
        write(&mut memory, 10);
        reader.read(&memory);
        write(&mut memory, 1000);
        reader.read(&memory);
        let lost = 1000 - CAPACITY + DOUBTFUL - 10;
        assert_eq!((reader.lost, reader.history[8]), (lost, Piece::Lost(lost)));
        // The first entry that was not lost has no time: that was lost.
        let first_time = (10 + lost).next_multiple_of(10);
        assert_eq!(reader.history[9..], expected(first_time..1000));
    }

    #[test]
    fn the_past_before_the_first_reading_is_not_lost() {
        let mut memory = ring();
        write(&mut memory, 1000);
        let mut reader = RingReader::open(&memory, layout(), RING).unwrap();
        reader.read(&memory);
        assert_eq!(reader.lost, 0);
        assert_eq!(reader.history, expected((1000 - CAPACITY + DOUBTFUL).next_multiple_of(10)..1000));
    }

    #[test]
    fn slots_that_are_overwritten_while_they_are_read_are_left_out() {
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
        let first_sound: u64 = 100 + DOUBTFUL;
        assert_eq!(reader.history[9..], expected(first_sound.next_multiple_of(10)..CAPACITY));
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
