//! Directories.

use super::{FileType, Metadata};
use crate::blocking;
use crate::io::EventScoped;
use std::ffi::OsString;
use std::os::unix::fs::{DirBuilderExt, DirEntryExt};
use std::path::{Path, PathBuf};
use std::{fmt, io, vec};

/// As many entries as are fetched at a time. The kernel gives some hundreds to one call
/// of std's; unmeasured.
const BATCH: usize = 128;

/// The entries of a directory, in no order.
///
/// # Errors
/// As `std::fs::read_dir`.
pub fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref();
    blocking(|| {
        let mut dir = ReadDir {
            entries: EventScoped::new(std::fs::read_dir(path)?),
            batch: Vec::new().into_iter(),
            is_over: false,
        };
        dir.fetch();
        Ok(dir)
    })
}

/// The entries of a directory; see [`read_dir`]. They are fetched many at a time.
pub struct ReadDir {
    entries: EventScoped<std::fs::ReadDir>,
    /// Those that have been fetched.
    batch: vec::IntoIter<io::Result<DirEntry>>,
    /// Whether these are the last.
    is_over: bool,
}

impl ReadDir {
    /// Fetches more, on a kernel thread.
    fn fetch(&mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        match self.entries.get_mut() {
            Ok(entries) => batch.extend(entries.take(BATCH).map(|entry| entry.map(DirEntry::new))),
            Err(error) => batch.push(Err(error.into())),
        }
        self.is_over = batch.len() < BATCH;
        self.batch = batch.into_iter();
    }
}

impl Iterator for ReadDir {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<io::Result<DirEntry>> {
        if self.batch.len() == 0 && !self.is_over {
            blocking(|| self.fetch());
        }
        self.batch.next()
    }
}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.peek().fmt(f)
    }
}

/// An entry of a directory. Has std's [`DirEntryExt`] as well.
pub struct DirEntry {
    /// It holds the directory's descriptor.
    entry: EventScoped<std::fs::DirEntry>,
    /// If it could be had when the entry was fetched.
    file_type: Option<FileType>,
}

impl DirEntry {
    fn new(entry: std::fs::DirEntry) -> DirEntry {
        DirEntry { file_type: entry.file_type().ok(), entry: EventScoped::new(entry) }
    }

    /// The directory's path with the entry's name.
    pub fn path(&self) -> PathBuf {
        self.entry.peek().path()
    }

    /// Its name in the directory.
    pub fn file_name(&self) -> OsString {
        self.entry.peek().file_name()
    }

    /// Whether it is a file, a directory, a symbolic link. Does not block: it came with
    /// the entry.
    ///
    /// # Errors
    /// As std's.
    pub fn file_type(&self) -> io::Result<FileType> {
        self.file_type.map_or_else(|| blocking(|| self.entry.get()?.file_type()), Ok)
    }

    /// What is known of the file, or of the symbolic link itself.
    ///
    /// # Errors
    /// As std's.
    pub fn metadata(&self) -> io::Result<Metadata> {
        blocking(|| self.entry.get()?.metadata())
    }
}

impl DirEntryExt for DirEntry {
    fn ino(&self) -> u64 {
        self.entry.peek().ino()
    }
}

impl fmt::Debug for DirEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entry.peek().fmt(f)
    }
}

/// Creates directories: `std::fs::DirBuilder` for fibres. Has std's [`DirBuilderExt`] as
/// well.
#[derive(Debug)]
pub struct DirBuilder {
    builder: std::fs::DirBuilder,
}

impl DirBuilder {
    /// For one directory, with the permissions that directories usually get.
    #[expect(clippy::new_without_default, reason = "std's has none")]
    pub fn new() -> DirBuilder {
        DirBuilder { builder: std::fs::DirBuilder::new() }
    }

    /// Creates those that it lies in as well, and does not mind if it exists.
    pub fn recursive(&mut self, recursive: bool) -> &mut Self {
        self.builder.recursive(recursive);
        self
    }

    /// Creates the directory.
    ///
    /// # Errors
    /// As std's.
    pub fn create(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        blocking(|| self.builder.create(path))
    }
}

impl DirBuilderExt for DirBuilder {
    fn mode(&mut self, mode: u32) -> &mut Self {
        self.builder.mode(mode);
        self
    }
}
