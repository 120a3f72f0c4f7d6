//! Files that are read by mapping them.
//!
//! The debug information of a program has 50 to 200 MB in a debug build, and one lookup needs a few pages of
//! it. Those of a mapping belong to the file: the kernel reads the pages that are touched, and can drop them
//! at any time. A copy would be memory of the reader, which may be the process that somebody looks into.
//!
//! A mapped page that is no longer in the file is a SIGBUS. Only files are mapped that the process which is
//! looked at has mapped, too. If that process lives, nobody can shorten its program: the kernel refuses to
//! write to it (`ETXTBSY`). A library that is shortened in place ends that process as well; package managers
//! and linkers write a new file instead. The files of a core file have no such protection. So a program that
//! is overwritten in place while a dump is made of its core can end the reader.
#![allow(unsafe_code)]

use std::fs::File;
use std::ops::{Deref, Range};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

/// A file that is mapped, to be read only.
pub(crate) struct FileMap {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: nobody writes to the mapping, and it stays until the value is dropped.
unsafe impl Send for FileMap {}
// SAFETY: as above.
unsafe impl Sync for FileMap {}

impl FileMap {
    /// Maps a file. Returns `None` if it cannot be read, or is empty, as devices are.
    pub(crate) fn open(path: &Path) -> Option<FileMap> {
        let file = File::open(path).ok()?;
        let length = usize::try_from(file.metadata().ok()?.len()).ok()?;
        // SAFETY: the kernel chooses a place that is free. It refuses a length of 0.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), length, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        Some(FileMap { start: NonNull::new(start.cast())?, length })
    }
}

impl Deref for FileMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `open` has mapped `length` bytes at `start`, and `drop` unmaps them. The mapping is private,
        // and the file is not written to while it is mapped: see the head of this file.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        // SAFETY: `open` has made the mapping, and no borrow of it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// A piece of a mapped file. The file stays mapped while there are pieces of it.
#[derive(Clone)]
pub(crate) struct Piece {
    file: Arc<FileMap>,
    range: Range<usize>,
}

impl Piece {
    /// Returns a piece of a file; `None` if the file ends before it.
    pub(crate) fn of(file: &Arc<FileMap>, range: Range<usize>) -> Option<Piece> {
        file.get(range.clone())?;
        Some(Piece { file: Arc::clone(file), range })
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.file[self.range.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_mapped_file_has_the_bytes_of_the_file() {
        let path = std::env::current_exe().unwrap();
        let file = Arc::new(FileMap::open(&path).unwrap());
        assert!(file[..] == fs::read(&path).unwrap()[..]);
        let piece = Piece::of(&file, 0..4).unwrap();
        drop(file);
        assert_eq!(&piece[..], b"\x7fELF");
    }

    #[test]
    fn files_without_bytes_and_pieces_beyond_the_end_are_refused() {
        assert!(FileMap::open(Path::new("/dev/null")).is_none());
        assert!(FileMap::open(Path::new("/")).is_none());
        assert!(FileMap::open(Path::new("/no/such/file")).is_none());
        let file = Arc::new(FileMap::open(&std::env::current_exe().unwrap()).unwrap());
        assert!(Piece::of(&file, 0..file.len() + 1).is_none());
    }
}
