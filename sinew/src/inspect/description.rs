//! The description: where a reader of this process's memory finds everything. See the essay of [`inspect`](super).
#![allow(unsafe_code)]

use crate::base::describe::{self, Entry};
use crate::base::directory::Directory;
use crate::{base, fibre, processor, stack, strand, sync, task, wait};

/// The version of the layout. A reader refuses one that it does not know. New entries do not change it.
const VERSION: u64 = 1;

/// Entries, as a reader finds them.
#[repr(C)]
struct Part {
    entries: *const Entry,
    count: usize,
}

// SAFETY: the entries do not change.
unsafe impl Sync for Part {}

impl Part {
    const fn new(entries: &'static [Entry]) -> Part {
        Part { entries: entries.as_ptr(), count: entries.len() }
    }
}

const PARTS: usize = 22;

/// A reader relies on the layout.
#[repr(C)]
struct Description {
    magic: [u8; 16],
    version: u64,
    count: u64,
    parts: [Part; PARTS],
}

/// In a section of its own, by which a reader finds it even if the program has no symbols.
#[used]
#[unsafe(link_section = ".sinew")]
static DESCRIPTION: Description = Description {
    magic: *b"sinew inspection",
    version: VERSION,
    count: PARTS as u64,
    parts: [
        Part::new(Directory::ENTRIES),
        Part::new(base::clock::ENTRIES),
        Part { entries: (&raw const describe::LOCATION).cast(), count: describe::LOCATION.len() },
        Part::new(strand::ENTRIES[0]),
        Part::new(strand::ENTRIES[1]),
        Part::new(strand::ENTRIES[2]),
        Part::new(strand::ENTRIES[3]),
        Part::new(strand::ENTRIES[4]),
        Part::new(stack::ENTRIES[0]),
        Part::new(stack::ENTRIES[1]),
        Part::new(processor::ENTRIES[0]),
        Part::new(processor::ENTRIES[1]),
        Part::new(processor::ENTRIES[2]),
        Part::new(processor::ENTRIES[3]),
        Part::new(wait::ENTRIES[0]),
        Part::new(wait::ENTRIES[1]),
        Part::new(wait::ENTRIES[2]),
        Part::new(sync::ENTRIES[0]),
        Part::new(sync::ENTRIES[1]),
        Part::new(fibre::ENTRIES),
        Part::new(task::ENTRIES),
        Part::new(crate::mailbox::ENTRIES),
    ],
};

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_has_one_meaning() {
        let mut names = HashSet::new();
        for part in &DESCRIPTION.parts {
            assert!(part.count > 0);
            // SAFETY: parts are made of slices, or of late entries, which lie in memory as others do.
            for entry in unsafe { std::slice::from_raw_parts(part.entries, part.count) } {
                assert!(names.insert(entry.name()), "{} is there twice", entry.name());
            }
        }
        for name in ["strand.wait", "fibre.id", "reason.mutex", "location.line", "posts", "mutex.owner"] {
            assert!(names.contains(name), "{name} is missing");
        }
    }
}
