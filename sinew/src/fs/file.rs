//! An open file.

use super::cold;
use super::facts::{Facts, Known};
use super::reading::is_fibre;
use super::whole::{append_text, text_of};
use super::{FileTimes, Metadata, OpenOptions, Permissions, TryLockError};
use crate::io::{EventScoped, blocking, blocking_async};
use crate::sync::Mutex;
use crate::wait::budget;
use std::io::{IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use std::{fmt, io};

/// The largest number of bytes that one call moves for a task, because they are copied.
/// Unmeasured.
pub(super) const MOST_COPIED: usize = 1 << 20;

/// An open file: `std::fs::File` for fibres and tasks. Implements std's [`FileExt`], for reading
/// and writing at an offset.
///
/// There is no buffer in it. Pipes, sockets and the like are better served by
/// [`Pollable`](crate::io::Pollable), which needs no kernel thread to wait.
///
/// See [`fs`](super#tasks) for what holds for tasks.
pub struct File {
    /// Shared with the calls of tasks, which may outlive the handle.
    file: Arc<EventScoped<std::fs::File>>,
    known: Known,
    /// Locked by calls that use the file's position: *the turn*. Shared by the handles of one open file.
    position: Arc<Mutex<()>>,
}

impl File {
    /// Wraps a file of which the facts are known.
    pub(super) fn with_facts(file: std::fs::File, facts: Facts) -> File {
        File { known: Known::new(Some(facts)), ..File::from(file) }
    }

    pub(super) fn shared(&self) -> &Arc<EventScoped<std::fs::File>> {
        &self.file
    }

    pub(super) fn known(&self) -> &Known {
        &self.known
    }

    pub(super) fn position(&self) -> &Arc<Mutex<()>> {
        &self.position
    }

    /// Makes a call that does not wait if the attributes of the file are in memory: then in place, else
    /// in the pool.
    fn ask_attributes<T: Send>(&self, call: impl FnOnce(&std::fs::File) -> io::Result<T> + Send) -> io::Result<T> {
        if is_fibre() && self.facts()?.is_local() {
            budget::spend(budget::KERNEL_CALL);
            call(self.file.get()?)
        } else {
            blocking(|| call(self.file.get()?))
        }
    }

    /// As [`ask_attributes`](File::ask_attributes), for tasks.
    async fn ask_attributes_async<T: Send + 'static>(
        &self,
        call: impl FnOnce(&std::fs::File) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        budget::spend_async().await;
        if self.facts_async().await?.is_local() { call(self.file.get()?) } else { self.call(call).await }
    }

    /// Tries to take the file's lock, which does not wait: as [`ask_attributes`](File::ask_attributes).
    fn try_to_lock(
        &self,
        call: impl FnOnce(&std::fs::File) -> Result<(), TryLockError> + Send,
    ) -> Result<(), TryLockError> {
        self.ask_attributes(|file| Ok(call(file))).unwrap_or_else(|error| Err(TryLockError::Error(error)))
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// As std's.
    pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().read(true).open(path)
    }

    /// Opens a file for writing. Creates it if it does not exist, and empties it if it does.
    ///
    /// # Errors
    /// As std's.
    pub fn create(path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    /// Creates a file that does not exist, for reading and writing.
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

    /// Returns options that allow nothing.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Waits until the file's contents and metadata are on its device.
    ///
    /// # Errors
    /// As std's.
    pub fn sync_all(&self) -> io::Result<()> {
        self.sync(false)
    }

    /// Waits until the file's contents are on its device.
    ///
    /// # Errors
    /// As std's.
    pub fn sync_data(&self) -> io::Result<()> {
        self.sync(true)
    }

    fn sync(&self, data_only: bool) -> io::Result<()> {
        let file = self.file.get()?;
        let by_ring = if is_fibre() { cold::sync(file.as_fd(), data_only) } else { None };
        by_ring.unwrap_or_else(|| blocking(|| if data_only { file.sync_data() } else { file.sync_all() }))
    }

    async fn sync_async(&self, data_only: bool) -> io::Result<()> {
        self.file.get()?;
        match cold::sync_async(&self.file, data_only).await {
            Some(done) => done,
            None => self.call(move |file| if data_only { file.sync_data() } else { file.sync_all() }).await,
        }
    }

    /// Cuts the file off, or extends it with zeros.
    ///
    /// # Errors
    /// As std's.
    pub fn set_len(&self, length: u64) -> io::Result<()> {
        blocking(|| self.file.get()?.set_len(length))
    }

    /// Returns the file's metadata.
    ///
    /// # Errors
    /// As std's.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.ask_attributes(std::fs::File::metadata)
    }

    /// Returns another handle to the same open file: they share its position.
    ///
    /// # Errors
    /// As std's.
    pub fn try_clone(&self) -> io::Result<File> {
        let file = File::from(self.file.get()?.try_clone()?);
        Ok(File { known: Known::new(self.known.get()), position: Arc::clone(&self.position), ..file })
    }

    /// Changes the file's permissions.
    ///
    /// # Errors
    /// As std's.
    pub fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        blocking(|| self.file.get()?.set_permissions(permissions))
    }

    /// Changes the times at which the file was read and written.
    ///
    /// # Errors
    /// As std's.
    pub fn set_times(&self, times: FileTimes) -> io::Result<()> {
        blocking(|| self.file.get()?.set_times(times))
    }

    /// Changes the time at which the file was written.
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

    /// Takes the file's exclusive lock, if there is no lock on it.
    ///
    /// # Errors
    /// As std's.
    pub fn try_lock(&self) -> Result<(), TryLockError> {
        self.try_to_lock(std::fs::File::try_lock)
    }

    /// Takes the file's shared lock, if there is no exclusive one.
    ///
    /// # Errors
    /// As std's.
    pub fn try_lock_shared(&self) -> Result<(), TryLockError> {
        self.try_to_lock(std::fs::File::try_lock_shared)
    }

    /// Releases the file's lock.
    ///
    /// # Errors
    /// As std's.
    pub fn unlock(&self) -> io::Result<()> {
        self.ask_attributes(std::fs::File::unlock)
    }
}

/// For tasks.
impl File {
    /// Makes a call of std's, which may outlive the caller.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&std::fs::File) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let file = Arc::clone(&self.file);
        blocking_async(move || call(file.get()?)).await
    }

    /// As [`call`](File::call), for a call that uses the file's position.
    async fn call_in_turn<T: Send + 'static>(
        &self,
        call: impl FnOnce(&std::fs::File) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let turn = self.turn_async().await?;
        let call = move |file: &std::fs::File| {
            let _turn = turn;
            call(file)
        };
        self.call(call).await
    }

    /// As [`try_to_lock`](File::try_to_lock), for tasks.
    async fn try_to_lock_async(
        &self,
        call: impl FnOnce(&std::fs::File) -> Result<(), TryLockError> + Send + 'static,
    ) -> Result<(), TryLockError> {
        let tried = self.ask_attributes_async(|file| Ok(call(file))).await;
        tried.unwrap_or_else(|error| Err(TryLockError::Error(error)))
    }

    /// As [`open`](File::open), for tasks.
    ///
    /// # Errors
    /// As `open`.
    pub async fn open_async(path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().read(true).open_async(path).await
    }

    /// As [`create`](File::create), for tasks.
    ///
    /// # Errors
    /// As `create`.
    pub async fn create_async(path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).open_async(path).await
    }

    /// As [`create_new`](File::create_new), for tasks.
    ///
    /// # Errors
    /// As `create_new`.
    pub async fn create_new_async(path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open_async(path).await
    }

    /// As [`read`](Read::read), for tasks. Reads at most a mebibyte.
    ///
    /// # Errors
    /// As `read`.
    pub async fn read_async(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_from_async(buffer, None).await
    }

    /// As [`read_at`](FileExt::read_at), for tasks. Reads at most a mebibyte.
    ///
    /// # Errors
    /// As `read_at`.
    pub async fn read_at_async(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_from_async(buffer, Some(offset)).await
    }

    /// As [`read_to_end`](Read::read_to_end), for tasks. Nothing is appended to `buffer` before
    /// everything has been read.
    ///
    /// # Errors
    /// As `read_to_end`.
    pub async fn read_to_end_async(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let mut bytes = self.read_rest_async().await?;
        let count = bytes.len();
        buffer.append(&mut bytes);
        Ok(count)
    }

    /// As [`read_to_string`](Read::read_to_string), for tasks. Nothing is appended to `buffer`
    /// before everything has been read.
    ///
    /// # Errors
    /// As `read_to_string`.
    pub async fn read_to_string_async(&self, buffer: &mut String) -> io::Result<usize> {
        let text = text_of(self.read_rest_async().await?)?;
        buffer.push_str(&text);
        Ok(text.len())
    }

    /// As [`write`](Write::write), for tasks. Writes at most a mebibyte.
    ///
    /// # Errors
    /// As `write`.
    pub async fn write_async(&self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = bytes[..bytes.len().min(MOST_COPIED)].to_owned();
        self.call_in_turn(move |mut file| file.write(&bytes)).await
    }

    /// As [`write_at`](FileExt::write_at), for tasks. Writes at most a mebibyte.
    ///
    /// # Errors
    /// As `write_at`.
    pub async fn write_at_async(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let bytes = bytes[..bytes.len().min(MOST_COPIED)].to_owned();
        self.call(move |file| file.write_at(&bytes, offset)).await
    }

    /// As [`write_all`](Write::write_all), for tasks. Dropped before its end, it may have written
    /// a part.
    ///
    /// # Errors
    /// As `write_all`.
    pub async fn write_all_async(&self, bytes: &[u8]) -> io::Result<()> {
        for bytes in bytes.chunks(MOST_COPIED) {
            let bytes = bytes.to_owned();
            self.call_in_turn(move |mut file| file.write_all(&bytes)).await?;
        }
        Ok(())
    }

    /// As [`seek`](Seek::seek), for tasks.
    ///
    /// # Errors
    /// As `seek`.
    pub async fn seek_async(&self, position: SeekFrom) -> io::Result<u64> {
        let turn = self.turn_async().await?;
        let seek = move |mut file: &std::fs::File| {
            let _turn = turn;
            file.seek(position)
        };
        self.ask_attributes_async(seek).await
    }

    /// As [`sync_all`](File::sync_all), for tasks.
    ///
    /// # Errors
    /// As `sync_all`.
    pub async fn sync_all_async(&self) -> io::Result<()> {
        self.sync_async(false).await
    }

    /// As [`sync_data`](File::sync_data), for tasks.
    ///
    /// # Errors
    /// As `sync_data`.
    pub async fn sync_data_async(&self) -> io::Result<()> {
        self.sync_async(true).await
    }

    /// As [`set_len`](File::set_len), for tasks.
    ///
    /// # Errors
    /// As `set_len`.
    pub async fn set_len_async(&self, length: u64) -> io::Result<()> {
        self.call(move |file| file.set_len(length)).await
    }

    /// As [`metadata`](File::metadata), for tasks.
    ///
    /// # Errors
    /// As `metadata`.
    pub async fn metadata_async(&self) -> io::Result<Metadata> {
        self.ask_attributes_async(std::fs::File::metadata).await
    }

    /// As [`set_permissions`](File::set_permissions), for tasks.
    ///
    /// # Errors
    /// As `set_permissions`.
    pub async fn set_permissions_async(&self, permissions: Permissions) -> io::Result<()> {
        self.call(move |file| file.set_permissions(permissions)).await
    }

    /// As [`set_times`](File::set_times), for tasks.
    ///
    /// # Errors
    /// As `set_times`.
    pub async fn set_times_async(&self, times: FileTimes) -> io::Result<()> {
        self.call(move |file| file.set_times(times)).await
    }

    /// As [`lock`](File::lock), for tasks. Dropped before its end, it takes the lock later: the
    /// lock is given back by [`unlock`](File::unlock), or when the file is closed.
    ///
    /// # Errors
    /// As `lock`.
    pub async fn lock_async(&self) -> io::Result<()> {
        self.call(std::fs::File::lock).await
    }

    /// As [`lock_shared`](File::lock_shared), for tasks; else as
    /// [`lock_async`](File::lock_async).
    ///
    /// # Errors
    /// As `lock_shared`.
    pub async fn lock_shared_async(&self) -> io::Result<()> {
        self.call(std::fs::File::lock_shared).await
    }

    /// As [`try_lock`](File::try_lock), for tasks. Dropped before its end, it may take the lock
    /// later, as [`lock_async`](File::lock_async) does.
    ///
    /// # Errors
    /// As `try_lock`.
    pub async fn try_lock_async(&self) -> Result<(), TryLockError> {
        self.try_to_lock_async(std::fs::File::try_lock).await
    }

    /// As [`try_lock_shared`](File::try_lock_shared), for tasks; else as
    /// [`try_lock_async`](File::try_lock_async).
    ///
    /// # Errors
    /// As `try_lock_shared`.
    pub async fn try_lock_shared_async(&self) -> Result<(), TryLockError> {
        self.try_to_lock_async(std::fs::File::try_lock_shared).await
    }

    /// As [`unlock`](File::unlock), for tasks.
    ///
    /// # Errors
    /// As `unlock`.
    pub async fn unlock_async(&self) -> io::Result<()> {
        self.ask_attributes_async(std::fs::File::unlock).await
    }
}

impl FileExt for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_from(buffer, Some(offset))
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exactly(buffer, Some(offset))
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        blocking(|| self.file.get()?.write_at(buffer, offset))
    }

    fn write_all_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        blocking(|| self.file.get()?.write_all_at(buffer, offset))
    }
}

impl Read for &File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_from(buffer, None)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.read_into(buffers)
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.read_exactly(buffer, None)
    }

    fn read_to_end(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        self.read_rest(buffer)
    }

    fn read_to_string(&mut self, buffer: &mut String) -> io::Result<usize> {
        append_text(buffer, |bytes| self.read_rest(bytes))
    }
}

impl Write for &File {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let _turn = self.turn()?;
        blocking(|| self.file.get()?.write(buffer))
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let _turn = self.turn()?;
        blocking(|| self.file.get()?.write_vectored(buffers))
    }

    fn write_all(&mut self, buffer: &[u8]) -> io::Result<()> {
        let _turn = self.turn()?;
        blocking(|| self.file.get()?.write_all(buffer))
    }

    /// Does nothing: there is no buffer.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        let _turn = self.turn()?;
        self.ask_attributes(|mut file| file.seek(position))
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

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("file", &self.file).finish()
    }
}

impl From<std::fs::File> for File {
    fn from(file: std::fs::File) -> File {
        let position = Arc::new(Mutex::new(()));
        File { file: Arc::new(EventScoped::new(file)), known: Known::new(None), position }
    }
}

/// A copy if the call of a task that was dropped still uses the file.
///
/// # Panics
/// In another [`EventScope`](crate::io::EventScope), and if no descriptor is left for a copy.
impl From<File> for std::fs::File {
    fn from(file: File) -> std::fs::File {
        match Arc::try_unwrap(file.file) {
            Ok(file) => file.into_inner(),
            Err(file) => file.lend().try_clone().expect("no descriptor is left for a copy"),
        }
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
        std::fs::File::from(file).into()
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
        std::fs::File::from(self).into_raw_fd()
    }
}
