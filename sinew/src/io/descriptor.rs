//! The flag and the kind of a descriptor.

use rustix::fs::{FileType, OFlags};
use std::io;
use std::os::fd::AsFd;

pub(crate) fn set_nonblocking(descriptor: impl AsFd, nonblocking: bool) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(descriptor, nonblocking)?)
}

pub(crate) fn is_nonblocking(descriptor: impl AsFd) -> io::Result<bool> {
    Ok(rustix::fs::fcntl_getfl(descriptor)?.contains(OFlags::NONBLOCK))
}

/// Returns whether it is a file, a directory, a socket.
pub(crate) fn kind(descriptor: impl AsFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(descriptor)?.st_mode))
}
