//! The flag and the kind of a descriptor.
#![allow(unsafe_code)]

use rustix::fs::{FileType, OFlags};
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};

pub(crate) fn result(code: libc::c_int) -> io::Result<()> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// # Safety
/// The kernel has just returned the number to the caller: it is an error, or a descriptor that
/// nobody else owns.
pub(crate) unsafe fn owned(descriptor: RawFd) -> io::Result<OwnedFd> {
    result(descriptor)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

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
