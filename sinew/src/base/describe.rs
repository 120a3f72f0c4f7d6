//! The words of the description that readers of this process's memory go by: names of places, and where they are.
//!
//! A reader may be a debugger or another process: it can call no function, and knows no type. So each module lists
//! what a reader needs of it as entries, a name and a number each. The number is the offset of a field, the address
//! of a static, or the value of a constant.

#![allow(unsafe_code)]

use super::peek;
use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The longest name, in bytes.
const LONGEST: usize = 40;

/// One word of the description. A reader relies on the layout.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Entry {
    /// Padded with zeros.
    name: [u8; LONGEST],
    /// A pointer, because a constant may hold the address of a static as a pointer only.
    value: *const (),
}

// SAFETY: the pointer is a number to everybody but a reader of memory.
unsafe impl Sync for Entry {}

impl Entry {
    /// Makes an entry for a number: an offset, or the value of a constant.
    pub(crate) const fn number(name: &str, value: usize) -> Entry {
        Entry::under("", name, value)
    }

    /// Makes an entry for a number, whose name has two parts.
    pub(crate) const fn under(first: &str, name: &str, value: usize) -> Entry {
        Entry { name: padded(first, name), value: std::ptr::without_provenance(value) }
    }

    /// Makes an entry for the address of a static.
    pub(crate) const fn place<T>(name: &str, place: &'static T) -> Entry {
        Entry { name: padded("", name), value: std::ptr::from_ref(place).cast() }
    }

    #[cfg(test)]
    pub(crate) fn name(&self) -> &str {
        let length = self.name.iter().position(|byte| *byte == 0).unwrap_or(LONGEST);
        std::str::from_utf8(&self.name[..length]).expect("names are text")
    }
}

/// An [`Entry`] whose number is known only when the program runs. It lies in memory as one.
#[repr(C)]
pub(crate) struct LateEntry {
    name: [u8; LONGEST],
    value: AtomicUsize,
}

impl LateEntry {
    pub(crate) const fn new(name: &str) -> LateEntry {
        LateEntry { name: padded("", name), value: AtomicUsize::new(0) }
    }

    pub(crate) fn set(&self, value: usize) {
        self.value.store(value, Relaxed);
    }
}

/// Where the parts of a `Location` are. std does not say; [`find_parts_of_location`] finds out.
pub(crate) static LOCATION: [LateEntry; 4] = [
    LateEntry::new("location.file"),
    LateEntry::new("location.length"),
    LateEntry::new("location.line"),
    LateEntry::new("location.column"),
];

/// Finds out where the parts of a `Location` are, from one that is known. By each runtime that is built.
#[track_caller]
pub(crate) fn find_parts_of_location() {
    const WORDS: usize = size_of::<Location<'static>>() / 8;
    const HALVES: usize = 2 * WORDS;
    const { assert!(size_of::<Location<'static>>().is_multiple_of(8), "a place, a length and two numbers") };
    let location = Location::caller();
    // SAFETY: the place has this size, and no byte of it is padding: two words and two half words.
    let words = unsafe { std::ptr::from_ref(location).cast::<[usize; WORDS]>().read() };
    // SAFETY: as above.
    let halves = unsafe { std::ptr::from_ref(location).cast::<[u32; HALVES]>().read() };
    let [file, length, line, column] = &LOCATION;
    if let Some(place) = words.iter().position(|word| *word == location.file().as_ptr().addr()) {
        file.set(8 * place);
    }
    // The length may count a zero at the end.
    if let Some(place) = words.iter().position(|word| word.wrapping_sub(location.file().len()) <= 1) {
        length.set(8 * place);
    }
    let is_column = |half: &u32| *half == location.column();
    line.set(4 * halves.iter().rposition(|half| *half == location.line()).unwrap_or(0));
    column.set(4 * halves.iter().rposition(is_column).unwrap_or(0));
}

const _: () = assert!(size_of::<Entry>() == size_of::<LateEntry>());

const fn padded(first: &str, second: &str) -> [u8; LONGEST] {
    let mut padded = [0; LONGEST];
    let (place, rest) = padded.split_at_mut(first.len());
    place.copy_from_slice(first.as_bytes());
    rest.split_at_mut(second.len()).0.copy_from_slice(second.as_bytes());
    padded
}

/// The address of a function whose symbol tells a reader the name of a type.
#[repr(transparent)]
pub(crate) struct Symbol(*const ());

// SAFETY: the pointer is a number to everybody but a reader of memory.
unsafe impl Sync for Symbol {}

impl Symbol {
    pub(crate) const NONE: Symbol = Symbol(std::ptr::null());

    /// Makes the symbol of this function.
    pub(crate) const fn of(function: *const ()) -> Symbol {
        Symbol(function)
    }
}

/// A text that a reader finds: its address and its length; zeros if there is none.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Label {
    address: usize,
    length: usize,
}

impl Label {
    /// Makes the label of a text that stays where it is as long as the label.
    pub(crate) fn of(text: &str) -> Label {
        Label { address: text.as_ptr().addr(), length: text.len() }
    }

    pub(crate) const LENGTH: usize = std::mem::offset_of!(Label, length);

    /// Returns the address and the length of the text whose label is at this address.
    pub(crate) fn peek(label: usize) -> (usize, usize) {
        let word = |offset: usize| peek::word(label.wrapping_add(offset)).unwrap_or(0);
        (word(0), word(Label::LENGTH))
    }
}
