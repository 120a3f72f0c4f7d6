//! How a file is to be opened.

use super::File;
use crate::blocking;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// How a file is to be opened: `std::fs::OpenOptions` for fibres. Has std's
/// [`OpenOptionsExt`] as well.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    options: std::fs::OpenOptions,
}

impl OpenOptions {
    /// With nothing allowed.
    #[expect(clippy::new_without_default, reason = "std's has none")]
    pub fn new() -> OpenOptions {
        OpenOptions { options: std::fs::OpenOptions::new() }
    }

    /// To be read.
    pub fn read(&mut self, read: bool) -> &mut Self {
        self.options.read(read);
        self
    }

    /// To be written.
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.options.write(write);
        self
    }

    /// To be written at its end, wherever that is at the time.
    pub fn append(&mut self, append: bool) -> &mut Self {
        self.options.append(append);
        self
    }

    /// To be emptied first.
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.options.truncate(truncate);
        self
    }

    /// To be created if it does not exist.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.options.create(create);
        self
    }

    /// To be created; an error if it exists.
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
