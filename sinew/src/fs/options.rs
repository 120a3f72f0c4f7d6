//! Options for opening a file.

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
}

impl OpenOptions {
    /// Returns options that allow nothing.
    #[expect(clippy::new_without_default, reason = "std's has none")]
    pub fn new() -> OpenOptions {
        OpenOptions { options: std::fs::OpenOptions::new() }
    }

    /// Sets whether the file can be read.
    pub fn read(&mut self, read: bool) -> &mut Self {
        self.options.read(read);
        self
    }

    /// Sets whether the file can be written.
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.options.write(write);
        self
    }

    /// Sets whether each write goes to the end that the file has at that time.
    pub fn append(&mut self, append: bool) -> &mut Self {
        self.options.append(append);
        self
    }

    /// Sets whether the file is emptied first.
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.options.truncate(truncate);
        self
    }

    /// Sets whether the file is created if it does not exist.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.options.create(create);
        self
    }

    /// Sets whether the file is created; it is an error if it exists.
    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.options.create_new(create_new);
        self
    }

    /// Opens the file.
    ///
    /// # Errors
    /// As std's.
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let path = path.as_ref();
        blocking(|| self.options.open(path)).map(File::from)
    }

    /// As [`open`](OpenOptions::open), for tasks.
    ///
    /// # Errors
    /// As `open`.
    pub async fn open_async(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let (options, path) = (self.options.clone(), owned(path));
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
        self
    }
}

impl From<std::fs::OpenOptions> for OpenOptions {
    fn from(options: std::fs::OpenOptions) -> OpenOptions {
        OpenOptions { options }
    }
}
