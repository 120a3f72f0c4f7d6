//! What calls of the kernel give back, as values of Rust's, and a descriptor's own flag.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

pub(crate) fn result(code: libc::c_int) -> io::Result<()> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(crate) fn length(count: isize) -> io::Result<usize> {
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// # Safety
/// It is what the kernel gave the caller just now: an error, or a descriptor that nobody
/// else owns.
pub(crate) unsafe fn owned(descriptor: RawFd) -> io::Result<OwnedFd> {
    result(descriptor)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

pub(crate) fn set_nonblocking(descriptor: &impl AsFd, nonblocking: bool) -> io::Result<()> {
    let mut value = libc::c_int::from(nonblocking);
    // SAFETY: the value is valid for reading.
    result(unsafe { libc::ioctl(descriptor.as_fd().as_raw_fd(), libc::FIONBIO, &mut value) })
}

pub(crate) fn is_nonblocking(descriptor: &impl AsFd) -> io::Result<bool> {
    // SAFETY: no memory is involved.
    let flags = unsafe { libc::fcntl(descriptor.as_fd().as_raw_fd(), libc::F_GETFL) };
    result(flags).map(|()| flags & libc::O_NONBLOCK != 0)
}
