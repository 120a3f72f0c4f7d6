#![doc = include_str!("README.md")]

mod cold;
mod dir;
mod facts;
mod file;
mod lookup;
mod mount;
mod options;
mod reading;
mod spare;
mod whole;

pub use dir::{DirBuilder, DirEntry, ReadDir, read_dir, read_dir_async};
pub use file::File;
pub use lookup::{
    exists, exists_async, metadata, metadata_async, read, read_async, read_to_string, read_to_string_async,
    symlink_metadata, symlink_metadata_async,
};
pub use options::OpenOptions;
pub use std::fs::{FileTimes, FileType, Metadata, Permissions, TryLockError};

use crate::io::{blocking, blocking_async};
use std::io;
use std::path::{Path, PathBuf};

/// Takes a path for a call that outlives its caller.
fn owned(path: impl AsRef<Path>) -> PathBuf {
    path.as_ref().to_owned()
}

/// Functions of std's that take paths and nothing else, in both forms.
macro_rules! functions_of_paths {
    ($($(#[$attribute:meta])* $name:ident, $name_async:ident ($($path:ident),+) -> $Value:ty = $std:path;)+) => {$(
        $(#[$attribute])*
        pub fn $name($($path: impl AsRef<Path>),+) -> io::Result<$Value> {
            $(let $path = $path.as_ref();)+
            blocking(|| $std($($path),+))
        }

        #[doc = concat!("As [`", stringify!($name), "`], for tasks.")]
        #[doc = ""]
        #[doc = "# Errors"]
        #[doc = concat!("As `", stringify!($name), "`.")]
        pub async fn $name_async($($path: impl AsRef<Path>),+) -> io::Result<$Value> {
            $(let $path = owned($path);)+
            blocking_async(move || $std($(&$path),+)).await
        }
    )+};
}

functions_of_paths! {
    /// Copies a file and its permissions. Returns the number of bytes.
    ///
    /// # Errors
    /// As `std::fs::copy`.
    copy, copy_async(from, to) -> u64 = std::fs::copy;

    /// Renames a file or a directory, and replaces the one that has the new name.
    ///
    /// # Errors
    /// As `std::fs::rename`.
    rename, rename_async(from, to) -> () = std::fs::rename;

    /// Makes another name for a file.
    ///
    /// # Errors
    /// As `std::fs::hard_link`.
    hard_link, hard_link_async(original, link) -> () = std::fs::hard_link;

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// As `std::os::unix::fs::symlink`.
    symlink, symlink_async(original, link) -> () = std::os::unix::fs::symlink;

    /// Returns the path that a symbolic link leads to.
    ///
    /// # Errors
    /// As `std::fs::read_link`.
    read_link, read_link_async(path) -> PathBuf = std::fs::read_link;

    /// Returns the absolute path without symbolic links.
    ///
    /// # Errors
    /// As `std::fs::canonicalize`.
    canonicalize, canonicalize_async(path) -> PathBuf = std::fs::canonicalize;

    /// Removes a file.
    ///
    /// # Errors
    /// As `std::fs::remove_file`.
    remove_file, remove_file_async(path) -> () = std::fs::remove_file;

    /// Creates a directory.
    ///
    /// # Errors
    /// As `std::fs::create_dir`.
    create_dir, create_dir_async(path) -> () = std::fs::create_dir;

    /// Creates a directory and its parents.
    ///
    /// # Errors
    /// As `std::fs::create_dir_all`.
    create_dir_all, create_dir_all_async(path) -> () = std::fs::create_dir_all;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As `std::fs::remove_dir`.
    remove_dir, remove_dir_async(path) -> () = std::fs::remove_dir;

    /// Removes a directory with everything in it.
    ///
    /// # Errors
    /// As `std::fs::remove_dir_all`.
    remove_dir_all, remove_dir_all_async(path) -> () = std::fs::remove_dir_all;
}

/// Makes these the contents of a file, which is created if it does not exist.
///
/// # Errors
/// As `std::fs::write`.
pub fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let (path, contents) = (path.as_ref(), contents.as_ref());
    blocking(|| std::fs::write(path, contents))
}

/// As [`write`](write()), for tasks.
///
/// # Errors
/// As `write`.
pub async fn write_async(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let (path, contents) = (owned(path), owned_bytes(contents));
    blocking_async(move || std::fs::write(path, contents)).await
}

fn owned_bytes(contents: impl AsRef<[u8]>) -> Vec<u8> {
    contents.as_ref().to_owned()
}

/// Changes the permissions of a file.
///
/// # Errors
/// As `std::fs::set_permissions`.
pub fn set_permissions(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    let path = path.as_ref();
    blocking(|| std::fs::set_permissions(path, permissions))
}

/// As [`set_permissions`], for tasks.
///
/// # Errors
/// As `set_permissions`.
pub async fn set_permissions_async(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    let path = owned(path);
    blocking_async(move || std::fs::set_permissions(path, permissions)).await
}
