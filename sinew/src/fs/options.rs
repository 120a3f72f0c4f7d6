//! Options for opening a file.

use super::lookup::{open_in_place, open_in_place_async};
use super::{File, owned};
use crate::io::{blocking, blocking_async};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Options for opening a file: `std::fs::OpenOptions` for fibres and tasks. Implements std's
/// [`OpenOptionsExt`].
#[derive(Clone, Debug)]
pub struct OpenOptions {
    options: std::fs::OpenOptions,
    /// The options that were asked for: std's do not tell.
    asked: u8,
}

// The bits of `OpenOptions::asked`.
const READ: u8 = 1;
const WRITE: u8 = 2;
const APPEND: u8 = 4;
const TRUNCATE: u8 = 8;
const CREATE: u8 = 16;
const CREATE_NEW: u8 = 32;
/// Flags of the caller, or options of std's: anything may have been asked for.
const OTHER: u8 = 64;

impl OpenOptions {
    /// Returns options that allow nothing.
    #[expect(clippy::new_without_default, reason = "std's has none")]
    pub fn new() -> OpenOptions {
        OpenOptions { options: std::fs::OpenOptions::new(), asked: 0 }
    }

    /// Sets whether the file can be read.
    pub fn read(&mut self, read: bool) -> &mut Self {
        self.options.read(read);
        self.ask(READ, read)
    }

    /// Sets whether the file can be written.
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.options.write(write);
        self.ask(WRITE, write)
    }

    /// Sets whether each write goes to the end that the file has at that time.
    pub fn append(&mut self, append: bool) -> &mut Self {
        self.options.append(append);
        self.ask(APPEND, append)
    }

    /// Sets whether the file is emptied first.
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.options.truncate(truncate);
        self.ask(TRUNCATE, truncate)
    }

    /// Sets whether the file is created if it does not exist.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.options.create(create);
        self.ask(CREATE, create)
    }

    /// Sets whether the file is created; it is an error if it exists.
    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.options.create_new(create_new);
        self.ask(CREATE_NEW, create_new)
    }

    fn ask(&mut self, what: u8, is_asked: bool) -> &mut Self {
        self.asked = if is_asked { self.asked | what } else { self.asked & !what };
        self
    }

    /// Returns whether a file is opened for reading and nothing else.
    fn only_reads(&self) -> bool {
        self.asked == READ
    }

    /// Opens the file.
    ///
    /// # Errors
    /// As std's.
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let path = path.as_ref();
        let opened = if self.only_reads() { open_in_place(path) } else { None };
        opened.unwrap_or_else(|| blocking(|| self.options.open(path)).map(File::from))
    }

    /// As [`open`](OpenOptions::open), for tasks.
    ///
    /// # Errors
    /// As `open`.
    pub async fn open_async(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let (options, path) = (self.options.clone(), owned(path));
        if self.only_reads()
            && let Some(file) = open_in_place_async(&path).await
        {
            return file;
        }
        // The file belongs to the event scope in which it is opened.
        blocking_async(move || options.open(path).map(File::from)).await
    }
}

impl OpenOptionsExt for OpenOptions {
    fn mode(&mut self, mode: u32) -> &mut Self {
        self.options.mode(mode);
        self
    }

    fn custom_flags(&mut self, flags: i32) -> &mut Self {
        self.options.custom_flags(flags);
        self.ask(OTHER, flags != 0)
    }
}

impl From<std::fs::OpenOptions> for OpenOptions {
    fn from(options: std::fs::OpenOptions) -> OpenOptions {
        OpenOptions { options, asked: OTHER }
    }
}
