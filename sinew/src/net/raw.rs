//! The few things that rustix has no safe form for: one option, one call, and two views of memory.
#![allow(unsafe_code)]

use rustix::net::{RecvFlags, SocketAddrAny, recv};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// An element of a buffer to receive into: a byte, or room for one. The bytes that were received
/// are initialised afterwards. No other type has this trait.
pub(super) trait Byte: Sized {
    /// Receives into a buffer. Returns the number of bytes.
    fn receive(fd: BorrowedFd<'_>, buffer: &mut [Self], flags: RecvFlags) -> rustix::io::Result<usize>;
}

impl Byte for u8 {
    #[inline(always)]
    fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8], flags: RecvFlags) -> rustix::io::Result<usize> {
        recv(fd, buffer, flags).map(|(_, count)| count)
    }
}

impl Byte for MaybeUninit<u8> {
    #[inline(always)]
    fn receive(fd: BorrowedFd<'_>, buffer: &mut [MaybeUninit<u8>], flags: RecvFlags) -> rustix::io::Result<usize> {
        recv(fd, buffer, flags).map(|(_, count)| count)
    }
}

/// Sets how many seconds a connection may be silent before it is accepted.
pub(super) fn set_defer_accept(fd: BorrowedFd<'_>, seconds: libc::c_int) -> io::Result<()> {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    let (level, name, value) = (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, (&raw const seconds).cast());
    // SAFETY: the value is valid for reading, of the length given.
    match unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value, length) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Receives from a Unix stream. Returns the number of bytes, and whether descriptors came with
/// them, which the kernel has dropped.
///
/// rustix's `recvmsg` asks for the sender's address as well, and takes no buffer without bytes
/// in it.
pub(super) fn receive_message<B: Byte>(fd: BorrowedFd<'_>, buffer: &mut [B]) -> io::Result<(usize, bool)> {
    let mut slice = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all-zero is a message without anything.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut slice;
    message.msg_iovlen = 1;
    // SAFETY: the slice is valid for writing: `Byte` is a byte, or room for one.
    let count = unsafe { libc::recvmsg(fd.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    Ok((count, message.msg_flags & libc::MSG_CTRUNC != 0))
}

/// Bytes that are put together in a buffer of `N`, which is not filled first.
pub(super) struct Gathered<const N: usize> {
    bytes: [MaybeUninit<u8>; N],
    /// The bytes before this place have been written.
    filled: usize,
}

impl<const N: usize> Gathered<N> {
    pub(super) fn new() -> Self {
        Gathered { bytes: [const { MaybeUninit::uninit() }; N], filled: 0 }
    }

    /// Appends these bytes. Returns whether there was room for them.
    pub(super) fn append(&mut self, bytes: &[u8]) -> bool {
        let Some(room) = self.bytes[self.filled..].get_mut(..bytes.len()) else { return false };
        for (room, &byte) in room.iter_mut().zip(bytes) {
            room.write(byte);
        }
        self.filled += bytes.len();
        true
    }

    pub(super) fn bytes(&self) -> &[u8] {
        let filled = &self.bytes[..self.filled];
        // SAFETY: `append` has written these.
        unsafe { std::slice::from_raw_parts(filled.as_ptr().cast(), filled.len()) }
    }
}

/// The bytes that the kernel, or rustix, has written.
pub(super) fn bytes_of(address: &SocketAddrAny) -> &[u8] {
    // SAFETY: rustix keeps to it that this many bytes are initialised.
    unsafe { std::slice::from_raw_parts(address.as_ptr().cast::<u8>(), address.addr_len() as usize) }
}
