//! The facts of an open file: which of its calls are made in place.

use super::mount::{Status, Storage};
use rustix::fs::{FileType, OFlags, fcntl_getfl};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The kernel's answers about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts(u8);

/// The kernel was asked.
const ASKED: u8 = 1;
/// It is a regular file: reads end where the file ends, and calls that move the position exclude each
/// other.
const REGULAR: u8 = 2;
/// Its attributes are in memory.
const LOCAL: u8 = 4;
/// Its contents are in memory.
const MEMORY: u8 = 8;
/// It is worth asking for bytes that are in memory.
const NOWAIT: u8 = 16;

/// How bytes are read that are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cached {
    /// By a read that fails instead of waiting.
    Nowait,
    /// By any read.
    All,
    /// Not in place.
    Never,
}

impl Facts {
    /// The facts that hold for all files.
    pub(super) const NONE: Facts = Facts(ASKED);

    /// Returns the facts of a file with this status and these flags.
    pub(super) fn new(status: Status, flags: OFlags, storage: Storage) -> Facts {
        let is_regular = status.file_type == FileType::RegularFile;
        let mut facts = ASKED;
        if storage.is_local() {
            facts |= LOCAL;
        }
        if is_regular {
            facts |= REGULAR;
        }
        if is_regular && storage == Storage::Memory {
            facts |= MEMORY;
        }
        // With `O_DIRECT` a read waits for its device, whatever it is told.
        if is_regular && !flags.contains(OFlags::DIRECT) {
            facts |= NOWAIT;
        }
        Facts(facts)
    }

    /// Asks the kernel, which does not wait.
    ///
    /// # Errors
    /// The file's status, if [`Status::learn`] has to ask for its storage first.
    pub(super) fn ask(descriptor: BorrowedFd<'_>) -> Result<Facts, Status> {
        let (Some(status), Ok(flags)) = (Status::of(descriptor), fcntl_getfl(descriptor)) else {
            return Ok(Facts::NONE);
        };
        status.storage().map(|storage| Facts::new(status, flags, storage)).ok_or(status)
    }

    pub(super) fn is_regular(self) -> bool {
        self.0 & REGULAR != 0
    }

    /// Returns whether calls for its attributes do not wait.
    pub(super) fn is_local(self) -> bool {
        self.0 & LOCAL != 0
    }

    pub(super) fn cached(self) -> Cached {
        match (self.0 & MEMORY != 0, self.0 & NOWAIT != 0) {
            (true, _) => Cached::All,
            (false, true) => Cached::Nowait,
            (false, false) => Cached::Never,
        }
    }
}

/// The facts of a file, once they are known. A word that is not known yet is 0. Threads that ask at
/// the same time find the same facts, so all accesses are `Relaxed`.
#[derive(Debug)]
pub(super) struct Known(AtomicU8);

impl Known {
    pub(super) fn new(facts: Option<Facts>) -> Known {
        Known(AtomicU8::new(facts.map_or(0, |facts| facts.0)))
    }

    #[inline]
    pub(super) fn get(&self) -> Option<Facts> {
        Some(Facts(self.0.load(Relaxed))).filter(|facts| facts.0 != 0)
    }

    pub(super) fn set(&self, facts: Facts) {
        self.0.store(facts.0, Relaxed);
    }

    /// Notes that the file system has no reads that fail instead of waiting.
    #[cold]
    pub(super) fn refuse_nowait(&self) {
        self.0.fetch_and(!NOWAIT, Relaxed);
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_read_past_the_cache_is_not_made_in_place() {
        let file = std::fs::File::open("/proc/self/status").unwrap();
        let status = Status::of(file.as_fd()).unwrap();
        let cached = |flags, storage| Facts::new(status, flags, storage).cached();
        assert_eq!(cached(OFlags::RDONLY, Storage::Device), Cached::Nowait);
        assert_eq!(cached(OFlags::RDWR | OFlags::DIRECT, Storage::Device), Cached::Never);
        assert_eq!(cached(OFlags::RDONLY, Storage::Memory), Cached::All);
    }

    #[test]
    fn what_is_no_regular_file_is_not_read_in_place() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let facts = Facts::new(Status::of(reader.as_fd()).unwrap(), OFlags::RDONLY, Storage::Memory);
        assert!(!facts.is_regular());
        assert_eq!(facts.cached(), Cached::Never);
    }

    #[test]
    fn a_refusal_is_remembered() {
        let known = Known::new(None);
        assert_eq!(known.get(), None);
        known.set(Facts(ASKED | REGULAR | LOCAL | NOWAIT));
        known.refuse_nowait();
        assert_eq!(known.get().map(Facts::cached), Some(Cached::Never));
        assert!(known.get().is_some_and(Facts::is_local));
    }
}
