//! Files and directories: `std::fs` for fibres.
//!
//! The kernel has no way to say that a file is not ready, so each of these calls runs on
//! a thread of the pool of [`blocking`] while the fibre waits. That
//! costs some microseconds: read and write in large pieces, or through
//! `std::io::BufReader` and `BufWriter`. A kernel thread that runs no fibre calls std's
//! functions directly.
//!
//! What only closes a descriptor, such as the drop of a [`File`], is done in place.
//!
//! No call here is ended by [cancellation](crate::cancel).

mod dir;
mod file;
mod options;

pub use dir::{DirBuilder, DirEntry, ReadDir, read_dir};
pub use file::File;
pub use options::OpenOptions;
pub use std::fs::{FileTimes, FileType, Metadata, Permissions, TryLockError};

use crate::blocking;
use std::io;
use std::path::{Path, PathBuf};

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
    blocking(|| std::fs::read(path))
}

/// Reads a whole file of text.
///
/// # Errors
/// As `std::fs::read_to_string`.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let path = path.as_ref();
    blocking(|| std::fs::read_to_string(path))
}

/// Makes these the contents of a file, which is created if it does not exist.
///
/// # Errors
/// As `std::fs::write`.
pub fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let (path, contents) = (path.as_ref(), contents.as_ref());
    blocking(|| std::fs::write(path, contents))
}

/// Copies a file and its permissions. Gives the number of bytes.
///
/// # Errors
/// As `std::fs::copy`.
pub fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    let (from, to) = (from.as_ref(), to.as_ref());
    blocking(|| std::fs::copy(from, to))
}

/// Renames a file or a directory, and replaces what is there.
///
/// # Errors
/// As `std::fs::rename`.
pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    blocking(|| std::fs::rename(from, to))
}

/// Makes another name for a file.
///
/// # Errors
/// As `std::fs::hard_link`.
pub fn hard_link(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let (original, link) = (original.as_ref(), link.as_ref());
    blocking(|| std::fs::hard_link(original, link))
}

/// Makes a symbolic link.
///
/// # Errors
/// As `std::os::unix::fs::symlink`.
pub fn symlink(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let (original, link) = (original.as_ref(), link.as_ref());
    blocking(|| std::os::unix::fs::symlink(original, link))
}

/// Where a symbolic link leads.
///
/// # Errors
/// As `std::fs::read_link`.
pub fn read_link(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref();
    blocking(|| std::fs::read_link(path))
}

/// The absolute path without symbolic links.
///
/// # Errors
/// As `std::fs::canonicalize`.
pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref();
    blocking(|| std::fs::canonicalize(path))
}

/// Removes a file.
///
/// # Errors
/// As `std::fs::remove_file`.
pub fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    blocking(|| std::fs::remove_file(path))
}

/// Creates a directory.
///
/// # Errors
/// As `std::fs::create_dir`.
pub fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    blocking(|| std::fs::create_dir(path))
}

/// Creates a directory and those that it lies in.
///
/// # Errors
/// As `std::fs::create_dir_all`.
pub fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    blocking(|| std::fs::create_dir_all(path))
}

/// Removes an empty directory.
///
/// # Errors
/// As `std::fs::remove_dir`.
pub fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    blocking(|| std::fs::remove_dir(path))
}

/// Removes a directory with everything in it.
///
/// # Errors
/// As `std::fs::remove_dir_all`.
pub fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    blocking(|| std::fs::remove_dir_all(path))
}

/// What is known of a file, wherever symbolic links lead.
///
/// # Errors
/// As `std::fs::metadata`.
pub fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = path.as_ref();
    blocking(|| std::fs::metadata(path))
}

/// What is known of a file, or of the symbolic link itself.
///
/// # Errors
/// As `std::fs::symlink_metadata`.
pub fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = path.as_ref();
    blocking(|| std::fs::symlink_metadata(path))
}

/// Whether there is something at this path.
///
/// # Errors
/// As `std::fs::exists`: if that cannot be said.
pub fn exists(path: impl AsRef<Path>) -> io::Result<bool> {
    let path = path.as_ref();
    blocking(|| std::fs::exists(path))
}

/// Changes the permissions of a file.
///
/// # Errors
/// As `std::fs::set_permissions`.
pub fn set_permissions(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    let path = path.as_ref();
    blocking(|| std::fs::set_permissions(path, permissions))
}
