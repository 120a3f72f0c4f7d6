//! Directories.

use super::{FileType, Metadata, owned};
use crate::io::EventScoped;
use crate::io::{blocking, blocking_async};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::fs::{DirBuilderExt, DirEntryExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io};

/// The number of entries that are fetched at a time. The kernel gives some hundreds to one call
/// of std's; unmeasured.
const BATCH: usize = 128;

/// Returns the entries of a directory, in no order.
///
/// # Errors
/// As `std::fs::read_dir`.
pub fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref();
    blocking(|| ReadDir::open(path))
}

/// As [`read_dir`], for tasks. They use [`ReadDir::next_async`].
///
/// # Errors
/// As `read_dir`.
pub async fn read_dir_async(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = owned(path);
    blocking_async(move || ReadDir::open(&path)).await
}

/// The entries of a directory; see [`read_dir`]. They are fetched many at a time.
pub struct ReadDir {
    /// Locked by a thread of the pool while it fetches entries: others only try.
    fetched: Arc<Mutex<Fetched>>,
}

struct Fetched {
    entries: EventScoped<std::fs::ReadDir>,
    /// The entries that have been fetched.
    batch: VecDeque<io::Result<DirEntry>>,
    /// Whether these are the last entries.
    is_over: bool,
}

/// The next entry, as far as it is known.
enum Next {
    Entry(io::Result<DirEntry>),
    Over,
    /// More have to be fetched first.
    Unknown,
}

impl ReadDir {
    /// On a kernel thread.
    fn open(path: &Path) -> io::Result<ReadDir> {
        let entries = EventScoped::new(std::fs::read_dir(path)?);
        let mut fetched = Fetched { entries, batch: VecDeque::new(), is_over: false };
        fetched.fetch();
        Ok(ReadDir { fetched: Arc::new(Mutex::new(fetched)) })
    }

    fn try_next(&mut self) -> Next {
        // The call of a future that was dropped may still be at it.
        let Ok(mut fetched) = self.fetched.try_lock() else { return Next::Unknown };
        match fetched.batch.pop_front() {
            Some(entry) => Next::Entry(entry),
            None if fetched.is_over => Next::Over,
            None => Next::Unknown,
        }
    }

    /// As [`next`](Iterator::next), for tasks. Dropped before its end, it has taken no entry.
    ///
    /// ```
    /// sinew::run(|| {
    ///     sinew::block_on(async {
    ///         let mut entries = sinew::fs::read_dir_async("/proc/self/fd").await?;
    ///         let mut count = 0;
    ///         while let Some(entry) = entries.next_async().await {
    ///             entry?;
    ///             count += 1;
    ///         }
    ///         assert!(count > 0);
    ///         std::io::Result::Ok(())
    ///     })
    /// })
    /// # .unwrap();
    /// ```
    pub async fn next_async(&mut self) -> Option<io::Result<DirEntry>> {
        loop {
            match self.try_next() {
                Next::Entry(entry) => return Some(entry),
                Next::Over => return None,
                Next::Unknown => {
                    let fetched = Arc::clone(&self.fetched);
                    blocking_async(move || fetch(&fetched)).await;
                }
            }
        }
    }
}

/// Fetches entries if there are none, on a kernel thread.
fn fetch(fetched: &Mutex<Fetched>) {
    fetched.lock().unwrap_or_else(PoisonError::into_inner).fetch();
}

impl Fetched {
    fn fetch(&mut self) {
        if !self.batch.is_empty() || self.is_over {
            return;
        }
        match self.entries.get_mut() {
            Ok(entries) => self.batch.extend(entries.take(BATCH).map(|entry| entry.map(DirEntry::new))),
            Err(error) => self.batch.push_back(Err(error.into())),
        }
        self.is_over = self.batch.len() < BATCH;
    }
}

impl Iterator for ReadDir {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<io::Result<DirEntry>> {
        loop {
            match self.try_next() {
                Next::Entry(entry) => return Some(entry),
                Next::Over => return None,
                Next::Unknown => blocking(|| fetch(&self.fetched)),
            }
        }
    }
}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fetched.try_lock() {
            Ok(fetched) => fetched.entries.peek().fmt(f),
            Err(_) => f.debug_tuple("ReadDir").finish_non_exhaustive(),
        }
    }
}

/// An entry of a directory. Implements std's [`DirEntryExt`].
pub struct DirEntry {
    /// It holds the directory's descriptor.
    entry: EventScoped<std::fs::DirEntry>,
    /// `None` if the kernel did not say when the entry was fetched.
    file_type: Option<FileType>,
}

impl DirEntry {
    fn new(entry: std::fs::DirEntry) -> DirEntry {
        DirEntry { file_type: entry.file_type().ok(), entry: EventScoped::new(entry) }
    }

    /// Returns the directory's path with the entry's name.
    pub fn path(&self) -> PathBuf {
        self.entry.peek().path()
    }

    /// Returns the entry's name in the directory.
    pub fn file_name(&self) -> OsString {
        self.entry.peek().file_name()
    }

    /// Returns whether it is a file, a directory, a symbolic link. Usually does not block: that
    /// comes with the entry. Some file systems do not say it; the call blocks there, and panics in
    /// a task.
    ///
    /// # Errors
    /// As std's.
    pub fn file_type(&self) -> io::Result<FileType> {
        self.file_type.map_or_else(|| blocking(|| self.entry.get()?.file_type()), Ok)
    }

    /// Returns the metadata of the file, or of the symbolic link itself. Tasks give the
    /// [path](DirEntry::path) to [`symlink_metadata_async`](super::symlink_metadata_async).
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

/// Creates directories: `std::fs::DirBuilder` for fibres and tasks. Implements std's
/// [`DirBuilderExt`].
#[derive(Debug)]
pub struct DirBuilder {
    recursive: bool,
    mode: Option<u32>,
}

impl DirBuilder {
    /// Returns a builder for one directory with the usual permissions.
    #[expect(clippy::new_without_default, reason = "std's has none")]
    pub fn new() -> DirBuilder {
        DirBuilder { recursive: false, mode: None }
    }

    /// Sets whether parents are created as well, and it is no error if the directory exists.
    pub fn recursive(&mut self, recursive: bool) -> &mut Self {
        self.recursive = recursive;
        self
    }

    fn builder(&self) -> std::fs::DirBuilder {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(self.recursive);
        if let Some(mode) = self.mode {
            builder.mode(mode);
        }
        builder
    }

    /// Creates the directory.
    ///
    /// # Errors
    /// As std's.
    pub fn create(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let (builder, path) = (self.builder(), path.as_ref());
        blocking(|| builder.create(path))
    }

    /// As [`create`](DirBuilder::create), for tasks.
    ///
    /// # Errors
    /// As `create`.
    pub async fn create_async(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let (builder, path) = (self.builder(), owned(path));
        blocking_async(move || builder.create(path)).await
    }
}

impl DirBuilderExt for DirBuilder {
    fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = Some(mode);
        self
    }
}
