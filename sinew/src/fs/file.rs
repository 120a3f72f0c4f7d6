//! An open file.

use super::{FileTimes, Metadata, OpenOptions, Permissions, TryLockError};
use crate::blocking;
use crate::io::{EventScoped, OtherScope};
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::SystemTime;

/// An open file: `std::fs::File` for fibres. Has std's [`FileExt`] as well, for reading
/// and writing at an offset.
///
/// There is no buffer in it. Pipes, sockets and the like are better served by
/// [`Pollable`](crate::io::Pollable), which needs no kernel thread to wait.
#[derive(Debug)]
pub struct File {
    file: EventScoped<std::fs::File>,
}

impl File {
    /// Opens a file to be read.
    ///
    /// # Errors
    /// As std's.
    pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().read(true).open(path)
    }

    /// Opens a file to be written, creates it if it does not exist, and empties it if it
    /// does.
    ///
    /// # Errors
    /// As std's.
    pub fn create(path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    /// Creates a file that does not exist, to be read and written.
    ///
    /// # Errors
    /// As std's.
    pub fn create_new(path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    }

    /// Returns the descriptor.
    ///
    /// # Errors
    /// If it is of another event scope.
    pub(crate) fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        Ok(self.file.get()?.as_fd())
    }

    /// How a file is to be opened.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Waits until the file is on its device, with all that is known of it.
    ///
    /// # Errors
    /// As std's.
    pub fn sync_all(&self) -> io::Result<()> {
        blocking(|| self.file.get()?.sync_all())
    }

    /// Waits until the file's contents are on its device.
    ///
    /// # Errors
    /// As std's.
    pub fn sync_data(&self) -> io::Result<()> {
        blocking(|| self.file.get()?.sync_data())
    }

    /// Cuts the file off, or extends it by zeros.
    ///
    /// # Errors
    /// As std's.
    pub fn set_len(&self, length: u64) -> io::Result<()> {
        blocking(|| self.file.get()?.set_len(length))
    }

    /// What is known of the file.
    ///
    /// # Errors
    /// As std's.
    pub fn metadata(&self) -> io::Result<Metadata> {
        blocking(|| self.file.get()?.metadata())
    }

    /// Another handle to the same open file: they share its position.
    ///
    /// # Errors
    /// As std's.
    pub fn try_clone(&self) -> io::Result<File> {
        self.file.get()?.try_clone().map(File::from)
    }

    /// Changes the file's permissions.
    ///
    /// # Errors
    /// As std's.
    pub fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        blocking(|| self.file.get()?.set_permissions(permissions))
    }

    /// Changes when the file was read and written.
    ///
    /// # Errors
    /// As std's.
    pub fn set_times(&self, times: FileTimes) -> io::Result<()> {
        blocking(|| self.file.get()?.set_times(times))
    }

    /// Changes when the file was written.
    ///
    /// # Errors
    /// As std's.
    pub fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.set_times(FileTimes::new().set_modified(time))
    }

    /// Waits for the file's exclusive lock.
    ///
    /// # Errors
    /// As std's.
    pub fn lock(&self) -> io::Result<()> {
        blocking(|| self.file.get()?.lock())
    }

    /// Waits for the file's shared lock.
    ///
    /// # Errors
    /// As std's.
    pub fn lock_shared(&self) -> io::Result<()> {
        blocking(|| self.file.get()?.lock_shared())
    }

    /// Takes the file's exclusive lock, if nobody has one.
    ///
    /// # Errors
    /// As std's.
    pub fn try_lock(&self) -> Result<(), TryLockError> {
        blocking(|| self.file.get().map_err(refused)?.try_lock())
    }

    /// Takes the file's shared lock, if nobody has the exclusive one.
    ///
    /// # Errors
    /// As std's.
    pub fn try_lock_shared(&self) -> Result<(), TryLockError> {
        blocking(|| self.file.get().map_err(refused)?.try_lock_shared())
    }

    /// Gives the file's lock back.
    ///
    /// # Errors
    /// As std's.
    pub fn unlock(&self) -> io::Result<()> {
        blocking(|| self.file.get()?.unlock())
    }
}

fn refused(error: OtherScope) -> TryLockError {
    TryLockError::Error(error.into())
}

impl FileExt for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        blocking(|| self.file.get()?.read_at(buffer, offset))
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        blocking(|| self.file.get()?.write_at(buffer, offset))
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        blocking(|| self.file.get()?.read_exact_at(buffer, offset))
    }

    fn write_all_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        blocking(|| self.file.get()?.write_all_at(buffer, offset))
    }
}

/// What takes several calls of the kernel is handed over whole.
impl Read for &File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        blocking(|| self.file.get()?.read(buffer))
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        blocking(|| self.file.get()?.read_vectored(buffers))
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        blocking(|| self.file.get()?.read_exact(buffer))
    }

    fn read_to_end(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        blocking(|| self.file.get()?.read_to_end(buffer))
    }

    fn read_to_string(&mut self, buffer: &mut String) -> io::Result<usize> {
        blocking(|| self.file.get()?.read_to_string(buffer))
    }
}

impl Write for &File {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        blocking(|| self.file.get()?.write(buffer))
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        blocking(|| self.file.get()?.write_vectored(buffers))
    }

    fn write_all(&mut self, buffer: &[u8]) -> io::Result<()> {
        blocking(|| self.file.get()?.write_all(buffer))
    }

    /// Nothing is kept here.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        blocking(|| self.file.get()?.seek(position))
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(buffers)
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        (&*self).read_exact(buffer)
    }

    fn read_to_end(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        (&*self).read_to_end(buffer)
    }

    fn read_to_string(&mut self, buffer: &mut String) -> io::Result<usize> {
        (&*self).read_to_string(buffer)
    }
}

impl Write for File {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self).write(buffer)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(buffers)
    }

    fn write_all(&mut self, buffer: &[u8]) -> io::Result<()> {
        (&*self).write_all(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        (&*self).seek(position)
    }
}

impl From<std::fs::File> for File {
    fn from(file: std::fs::File) -> File {
        File { file: EventScoped::new(file) }
    }
}

/// # Panics
/// In another [`EventScope`](crate::io::EventScope).
impl From<File> for std::fs::File {
    fn from(file: File) -> std::fs::File {
        file.file.into_inner()
    }
}

impl From<OwnedFd> for File {
    fn from(descriptor: OwnedFd) -> File {
        File::from(std::fs::File::from(descriptor))
    }
}

/// # Panics
/// In another [`EventScope`](crate::io::EventScope).
impl From<File> for OwnedFd {
    fn from(file: File) -> OwnedFd {
        file.file.into_inner().into()
    }
}

/// # Panics
/// In another [`EventScope`](crate::io::EventScope).
impl AsFd for File {
    #[track_caller]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.lend().as_fd()
    }
}

/// In another [`EventScope`](crate::io::EventScope) the number means something else.
impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.file.peek().as_raw_fd()
    }
}

/// # Panics
/// In another [`EventScope`](crate::io::EventScope).
impl IntoRawFd for File {
    fn into_raw_fd(self) -> RawFd {
        self.file.into_inner().into_raw_fd()
    }
}
