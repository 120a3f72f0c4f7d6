//! Files by their paths: found in place, if the kernel has all names of the path in memory.
//!
//! `openat2` with `RESOLVE_CACHED` fails instead of waiting for a name. That alone is not enough:
//!
//! - The open itself may wait. A FIFO waits for its other end, and a device for its driver. So the path
//!   is first opened with `O_PATH`, which opens nothing but the name. Only regular files and directories
//!   are then opened in place, through `/proc`: that opens the very file that was looked at. To open the
//!   path a second time is 1.5 µs faster, but the path may lead to a FIFO by then. With `O_NONBLOCK` the
//!   open of a FIFO does not wait, but its writer goes on, and finds no reader.
//! - A lease makes an open wait until its holder gives it back. `O_NONBLOCK` makes that an error. The flag
//!   is taken back afterwards.
//! - Opens that create or empty a file write to the file system. They go to the pool, and so do opens
//!   for writing: on an overlay they copy the file.
//! - A file system of a server or another process may ask there.
//!
//! Whatever cannot be said in place is left to std, in the pool. Errors too, except that there is no such
//! file.

use super::facts::Facts;
use super::file::File;
use super::mount::{Status, Storage};
use super::reading::is_fibre;
use super::whole::{append_text, text_of};
use super::{Metadata, owned};
use crate::base::fallback::{Facility, denied};
use crate::io::{EventScoped, blocking, blocking_async};
use crate::wait::budget;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fcntl_setfl, open, openat2};
use rustix::io::Errno;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

/// The file that a path leads to, as far as the kernel tells without waiting.
enum Found {
    /// A file whose attributes are in memory.
    File(Name),
    /// There is no such file.
    Nothing,
    Unknown,
}

/// The name of a file, opened with `O_PATH`. It can be asked for attributes, and for nothing else.
struct Name {
    descriptor: EventScoped<OwnedFd>,
    status: Status,
    storage: Option<Storage>,
}

/// Says whether a symbolic link at the end of a path is followed.
#[derive(Clone, Copy)]
enum Links {
    Followed,
    Kept,
}

impl Found {
    fn at(path: &Path, links: Links) -> Found {
        if denied(Facility::CachedFiles) {
            return Found::Unknown;
        }
        let flags = match links {
            Links::Followed => OFlags::PATH | OFlags::CLOEXEC,
            Links::Kept => OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        };
        let name = match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED) {
            Ok(descriptor) => Name::new(descriptor),
            Err(Errno::NOENT) => return Found::Nothing,
            Err(_) => None,
        };
        name.map_or(Found::Unknown, Found::File)
    }

    /// Finds what is at a path, for a fibre.
    fn by_fibre(path: &Path, links: Links) -> Found {
        budget::spend(4 * budget::KERNEL_CALL);
        let mut found = Found::at(path, links);
        if let Found::File(name @ Name { storage: None, .. }) = &mut found {
            let (status, descriptor) = (name.status, &name.descriptor);
            name.storage = blocking(|| descriptor.get().ok().map(|descriptor| status.learn(descriptor)));
        }
        found.only_local()
    }

    /// As [`by_fibre`](Found::by_fibre), for a task.
    async fn by_task(path: &Path, links: Links) -> Found {
        budget::spend_async().await;
        let mut found = Found::at(path, links);
        if let Found::File(Name { storage: None, .. }) = &found {
            let learn = move || {
                if let Found::File(name) = &mut found {
                    name.storage = name.descriptor.get().ok().map(|descriptor| name.status.learn(descriptor));
                }
                found
            };
            return blocking_async(learn).await.only_local();
        }
        found.only_local()
    }

    fn only_local(self) -> Found {
        match self {
            Found::File(name) if !name.storage.is_some_and(Storage::is_local) => Found::Unknown,
            found => found,
        }
    }

    /// Returns the metadata, if they are known without waiting.
    fn metadata(self) -> Option<io::Result<Metadata>> {
        match self {
            Found::File(name) => {
                name.descriptor.get().ok()?;
                Some(std::fs::File::from(name.descriptor.into_inner()).metadata())
            }
            Found::Nothing => Some(Err(Errno::NOENT.into())),
            Found::Unknown => None,
        }
    }

    /// Opens the file for reading, if that does not wait.
    fn open(self) -> Option<io::Result<File>> {
        match self {
            Found::File(name) => name.open().map(Ok),
            Found::Nothing => Some(Err(Errno::NOENT.into())),
            Found::Unknown => None,
        }
    }
}

impl Name {
    fn new(descriptor: OwnedFd) -> Option<Name> {
        let status = Status::of(descriptor.as_fd())?;
        Some(Name { descriptor: EventScoped::new(descriptor), status, storage: status.storage() })
    }

    /// Opens the file that was found, if that does not wait.
    fn open(self) -> Option<File> {
        if !matches!(self.status.file_type, FileType::RegularFile | FileType::Directory) {
            return None;
        }
        // A thread may have a table of descriptors of its own: it is in an event scope.
        let path = format!("/proc/thread-self/fd/{}", self.descriptor.get().ok()?.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = open(path, flags | OFlags::NONBLOCK, Mode::empty()).ok()?;
        fcntl_setfl(&file, flags).ok()?;
        Some(File::with_facts(file.into(), Facts::new(self.status, flags, self.storage?)))
    }
}

/// Opens a file for reading in place. Returns `None` if the pool has to.
pub(super) fn open_in_place(path: &Path) -> Option<io::Result<File>> {
    if is_fibre() { Found::by_fibre(path, Links::Followed).open() } else { None }
}

/// As [`open_in_place`], for tasks.
pub(super) async fn open_in_place_async(path: &Path) -> Option<io::Result<File>> {
    Found::by_task(path, Links::Followed).await.open()
}

fn metadata_in_place(path: &Path, links: Links) -> Option<io::Result<Metadata>> {
    if is_fibre() { Found::by_fibre(path, links).metadata() } else { None }
}

/// Returns the metadata of a file. Follows symbolic links.
///
/// # Errors
/// As `std::fs::metadata`.
pub fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = path.as_ref();
    metadata_in_place(path, Links::Followed).unwrap_or_else(|| blocking(|| std::fs::metadata(path)))
}

/// As [`metadata`], for tasks.
///
/// # Errors
/// As `metadata`.
pub async fn metadata_async(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = owned(path);
    match Found::by_task(&path, Links::Followed).await.metadata() {
        Some(metadata) => metadata,
        None => blocking_async(|| std::fs::metadata(path)).await,
    }
}

/// Returns the metadata of a file, or of the symbolic link itself.
///
/// # Errors
/// As `std::fs::symlink_metadata`.
pub fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = path.as_ref();
    metadata_in_place(path, Links::Kept).unwrap_or_else(|| blocking(|| std::fs::symlink_metadata(path)))
}

/// As [`symlink_metadata`], for tasks.
///
/// # Errors
/// As `symlink_metadata`.
pub async fn symlink_metadata_async(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = owned(path);
    match Found::by_task(&path, Links::Kept).await.metadata() {
        Some(metadata) => metadata,
        None => blocking_async(|| std::fs::symlink_metadata(path)).await,
    }
}

/// Returns whether there is something at this path.
///
/// # Errors
/// As `std::fs::exists`: if that cannot be said.
pub fn exists(path: impl AsRef<Path>) -> io::Result<bool> {
    let path = path.as_ref();
    let found = if is_fibre() { Found::by_fibre(path, Links::Followed) } else { Found::Unknown };
    match found {
        Found::File(_) => Ok(true),
        Found::Nothing => Ok(false),
        Found::Unknown => blocking(|| std::fs::exists(path)),
    }
}

/// As [`exists`], for tasks.
///
/// # Errors
/// As `exists`.
pub async fn exists_async(path: impl AsRef<Path>) -> io::Result<bool> {
    let path = owned(path);
    match Found::by_task(&path, Links::Followed).await {
        Found::File(_) => Ok(true),
        Found::Nothing => Ok(false),
        Found::Unknown => blocking_async(|| std::fs::exists(path)).await,
    }
}

/// Reads a whole file.
///
/// # Errors
/// As `std::fs::read`.
///
/// ```
/// sinew::run(|| {
///     let names = sinew::fs::read("/proc/self/comm").unwrap();
///     assert!(!names.is_empty());
/// });
/// ```
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    let Some(file) = open_in_place(path) else { return blocking(|| std::fs::read(path)) };
    let mut bytes = Vec::new();
    file?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// As [`read`](read()), for tasks.
///
/// # Errors
/// As `read`.
pub async fn read_async(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let path = owned(path);
    match open_in_place_async(&path).await {
        Some(file) => file?.read_rest_async().await,
        None => blocking_async(|| std::fs::read(path)).await,
    }
}

/// Reads a whole file of text.
///
/// # Errors
/// As `std::fs::read_to_string`.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let path = path.as_ref();
    let Some(file) = open_in_place(path) else { return blocking(|| std::fs::read_to_string(path)) };
    let (file, mut text) = (file?, String::new());
    append_text(&mut text, |bytes| file.read_rest(bytes))?;
    Ok(text)
}

/// As [`read_to_string`], for tasks.
///
/// # Errors
/// As `read_to_string`.
pub async fn read_to_string_async(path: impl AsRef<Path>) -> io::Result<String> {
    let path = owned(path);
    match open_in_place_async(&path).await {
        Some(file) => text_of(file?.read_rest_async().await?),
        None => blocking_async(|| std::fs::read_to_string(path)).await,
    }
}
