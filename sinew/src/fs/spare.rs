//! Reads into the unused part of a vector. To fill it with zeros first made a read of 2 MiB from memory
//! take 138 µs instead of 123 µs.
#![allow(unsafe_code)]

use rustix::io::{Errno, ReadWriteFlags};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Reads from the file's position, and appends at most `most` bytes to `buffer`, for which it has room.
/// Returns their number.
pub(super) fn read(
    file: BorrowedFd<'_>,
    buffer: &mut Vec<u8>,
    most: usize,
    flags: ReadWriteFlags,
) -> Result<usize, Errno> {
    let spare = buffer.spare_capacity_mut();
    let part = libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: spare.len().min(most) };
    // In both halves of the offset, -1 is the file's position.
    let position: libc::c_long = -1;
    // SAFETY: the kernel writes to the unused part of the buffer only, before the call returns.
    let read = unsafe {
        libc::syscall(libc::SYS_preadv2, file.as_raw_fd(), &raw const part, 1_usize, position, position, flags.bits())
    };
    let Ok(read) = usize::try_from(read) else {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
    };
    // SAFETY: the kernel has written these bytes, within the capacity.
    unsafe { buffer.set_len(buffer.len() + read) };
    Ok(read)
}
