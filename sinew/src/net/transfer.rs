//! Moving bytes through a socket: streams, datagrams, and descriptors beside them.
//!
//! Those of a stream are moved without the C library's `recv` and `send`: these are
//! points at which a thread may be cancelled, for which glibc makes two atomic exchanges
//! and 60 instructions at each call in a process of several threads. Processors are never
//! cancelled.
#![allow(unsafe_code)]

use super::address::Address;
use super::socket::Socket;
use crate::io::descriptor::length;
use crate::io::{Done, Side};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::null;
use std::time::Instant;

/// As many slices as the kernel takes at once.
const MOST_SLICES: usize = 1024;

/// Up to so many bytes are copied rather than sent as slices. To send a head of 75 bytes and a
/// body over loopback was measured to take 4.92 µs as slices and 4.72 as a whole with a body of
/// 13 bytes, 4.96 and 4.80 with one of 1000.
const MOST_GATHERED: usize = 1024;

/// As many descriptors as the kernel takes at once.
const MOST_DESCRIPTORS: usize = 253;

const SEND: libc::c_int = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;

impl Socket {
    /// Receives from a TCP stream.
    #[inline]
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.operate(Side::Read, |fd| receive_bytes(fd, buffer))
    }

    pub(crate) fn read_until(&self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
        self.operate_until(Side::Read, deadline, |fd| receive_bytes(fd, buffer))
    }

    /// Receives from a TCP stream, into a buffer that is made for each attempt.
    #[inline]
    pub(crate) fn read_lent<B: AsMut<[u8]>>(
        &self,
        deadline: Instant,
        mut lend: impl FnMut() -> B,
    ) -> io::Result<(B, usize)> {
        self.operate_until(Side::Read, deadline, |fd| {
            let mut buffer = lend();
            let Done { value, shown } = receive_bytes(fd, buffer.as_mut())?;
            Ok(Done { value: (buffer, value), shown })
        })
    }

    /// Receives from any stream.
    pub(crate) fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.operate(Side::Read, |fd| receive_message(fd, buffers))
    }

    /// Receives from a Unix stream: of one that carries descriptors, a call may give less
    /// than there is.
    pub(crate) fn read_unix(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.operate(Side::Read, |fd| receive_unix(fd, buffer))
    }

    pub(crate) fn read_unix_until(&self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
        self.operate_until(Side::Read, deadline, |fd| receive_unix(fd, buffer))
    }

    /// Sends to a stream.
    #[inline]
    pub(crate) fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        self.operate(Side::Write, |fd| send(fd, buffer))
    }

    pub(crate) fn write_until(&self, buffer: &[u8], deadline: Instant) -> io::Result<usize> {
        self.operate_until(Side::Write, deadline, |fd| send(fd, buffer))
    }

    pub(crate) fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.operate(Side::Write, |fd| send_slices(fd, buffers))
    }

    /// Receives a datagram; with `MSG_PEEK`, or from a stream then, without taking it.
    pub(crate) fn receive(&self, buffer: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
        self.operate(Side::Read, |fd| Ok(Done::some(receive(fd, buffer, flags)?)))
    }

    pub(crate) fn receive_until(&self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
        self.operate_until(Side::Read, deadline, |fd| Ok(Done::some(receive(fd, buffer, 0)?)))
    }

    /// Receives a datagram and the address that it came from.
    pub(crate) fn receive_from(&self, buffer: &mut [u8], flags: libc::c_int) -> io::Result<(usize, Address)> {
        self.operate(Side::Read, |fd| receive_from(fd, buffer, flags))
    }

    pub(crate) fn receive_from_until(&self, buffer: &mut [u8], deadline: Instant) -> io::Result<(usize, Address)> {
        self.operate_until(Side::Read, deadline, |fd| receive_from(fd, buffer, 0))
    }

    /// Sends a datagram to this address.
    pub(crate) fn send_to(&self, buffer: &[u8], address: &Address) -> io::Result<usize> {
        self.operate(Side::Write, |fd| Ok(Done::some(send_to(fd, buffer, address)?)))
    }

    /// The same without waiting.
    pub(crate) fn try_send_to(&self, buffer: &[u8], address: &Address) -> io::Result<usize> {
        send_to(self.raw()?, buffer, address)
    }

    /// Sends bytes, and descriptors beside them.
    pub(crate) fn send_with_fds(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        if fds.len() > MOST_DESCRIPTORS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors for one message"));
        }
        let slice = IoSlice::new(bytes);
        let mut control = Control::new();
        let mut message = empty_message();
        message.msg_iov = (&raw const slice).cast_mut().cast();
        message.msg_iovlen = 1;
        if !fds.is_empty() {
            control.put(fds);
            message.msg_control = control.as_mut_ptr();
            message.msg_controllen = Control::space(fds.len()) as _;
        }
        self.operate(Side::Write, |fd| send_message(fd, &message))
    }

    /// Receives bytes, and up to `most` descriptors that were sent beside them.
    pub(crate) fn receive_with_fds(&self, buffer: &mut [u8], most: usize) -> io::Result<(usize, Vec<OwnedFd>)> {
        let most = most.min(MOST_DESCRIPTORS);
        let mut slice = IoSliceMut::new(buffer);
        self.operate(Side::Read, |fd| {
            let mut control = Control::new();
            let mut message = empty_message();
            message.msg_iov = (&raw mut slice).cast();
            message.msg_iovlen = 1;
            if most > 0 {
                message.msg_control = control.as_mut_ptr();
                // Not the space, which may have room for one more.
                message.msg_controllen = Control::length(most) as _;
            }
            let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
            // SAFETY: the message, its slice and its control buffer are valid for writing.
            let count = length(unsafe { libc::recvmsg(fd, &mut message, flags) })?;
            Ok(Done::some((count, take_descriptors(&message))))
        })
    }
}

/// A buffer for what goes beside the bytes of a message.
struct Control([MaybeUninit<usize>; CONTROL_WORDS]);

// SAFETY: it is arithmetic.
const CONTROL_WORDS: usize =
    (unsafe { libc::CMSG_SPACE((MOST_DESCRIPTORS * size_of::<RawFd>()) as u32) }) as usize / size_of::<usize>();

impl Control {
    fn new() -> Control {
        Control([MaybeUninit::zeroed(); CONTROL_WORDS])
    }

    fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        self.0.as_mut_ptr().cast()
    }

    /// What a message of so many descriptors takes.
    fn space(count: usize) -> usize {
        // SAFETY: it is arithmetic.
        (unsafe { libc::CMSG_SPACE((count * size_of::<RawFd>()) as u32) }) as usize
    }

    /// The same without what fills it up.
    fn length(count: usize) -> usize {
        // SAFETY: it is arithmetic.
        (unsafe { libc::CMSG_LEN((count * size_of::<RawFd>()) as u32) }) as usize
    }

    /// There are no more than `MOST_DESCRIPTORS`.
    fn put(&mut self, fds: &[BorrowedFd<'_>]) {
        let header = self.as_mut_ptr().cast::<libc::cmsghdr>();
        // SAFETY: the buffer begins with a header, is aligned for it, and has room for as
        // many descriptors.
        unsafe {
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = Control::length(fds.len()) as _;
            let data = libc::CMSG_DATA(header).cast::<RawFd>();
            for (index, fd) in fds.iter().enumerate() {
                data.add(index).write_unaligned(fd.as_raw_fd());
            }
        }
    }
}

/// The descriptors that came with a message that was received.
fn take_descriptors(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut descriptors = Vec::new();
    // SAFETY: the kernel wrote the control buffer and its length.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: it is a header that the kernel wrote, with as much data as it says; the
        // descriptors in it are new, and nobody's yet.
        unsafe {
            if ((*header).cmsg_level, (*header).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let data = libc::CMSG_DATA(header).cast::<RawFd>();
                let count = ((*header).cmsg_len as usize - Control::length(0)) / size_of::<RawFd>();
                descriptors.extend((0..count).map(|index| OwnedFd::from_raw_fd(data.add(index).read_unaligned())));
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    descriptors
}

fn empty_message() -> libc::msghdr {
    // SAFETY: all-zero is a message without anything.
    unsafe { zeroed() }
}

/// What a buffer to receive into consists of: bytes, or room for them. Of room, as many
/// bytes as were received are there afterwards.
pub(super) trait Byte {}

impl Byte for u8 {}
impl Byte for MaybeUninit<u8> {}

#[inline]
pub(super) fn receive_bytes<B: Byte>(fd: RawFd, buffer: &mut [B]) -> io::Result<Done<usize>> {
    Ok(Done::bytes(receive(fd, buffer, 0)?, buffer.len()))
}

#[inline]
pub(super) fn receive<B: Byte>(fd: RawFd, buffer: &mut [B], flags: libc::c_int) -> io::Result<usize> {
    let flags = flags | libc::MSG_DONTWAIT;
    let (data, room, nowhere) = (buffer.as_mut_ptr(), buffer.len(), null::<libc::sockaddr>());
    // SAFETY: the buffer is valid for writing, and no address is asked for.
    let count = unsafe { libc::syscall(libc::SYS_recvfrom, fd, data, room, flags, nowhere, nowhere) };
    length(count as isize)
}

pub(super) fn receive_from(fd: RawFd, buffer: &mut [u8], flags: libc::c_int) -> io::Result<Done<(usize, Address)>> {
    let mut address = Address::empty();
    let flags = flags | libc::MSG_DONTWAIT;
    let (data, room) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: the buffer is valid for writing, and the address, of the length given.
    let count = unsafe { libc::recvfrom(fd, data, room, flags, address.as_mut_ptr(), &mut address.length) };
    Ok(Done::some((length(count)?, address)))
}

/// A Unix stream's bytes up to descriptors come on their own, and there may be more
/// behind them. The kernel says that it dropped the descriptors.
pub(super) fn receive_message(fd: RawFd, buffers: &mut [IoSliceMut<'_>]) -> io::Result<Done<usize>> {
    let slices = buffers.len().min(MOST_SLICES);
    let asked = buffers[..slices].iter().map(|buffer| buffer.len()).sum();
    let mut message = empty_message();
    message.msg_iov = buffers.as_mut_ptr().cast();
    message.msg_iovlen = slices as _;
    // SAFETY: `IoSliceMut` is laid out as `iovec`, and the slices are valid for writing.
    unsafe { receive_into(fd, message, asked) }
}

/// The same with one buffer.
pub(super) fn receive_unix<B: Byte>(fd: RawFd, buffer: &mut [B]) -> io::Result<Done<usize>> {
    let mut slice = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut message = empty_message();
    message.msg_iov = &mut slice;
    message.msg_iovlen = 1;
    // SAFETY: the slice is valid for writing.
    unsafe { receive_into(fd, message, buffer.len()) }
}

/// # Safety
/// The message points to what is valid for writing.
unsafe fn receive_into(fd: RawFd, mut message: libc::msghdr, asked: usize) -> io::Result<Done<usize>> {
    // SAFETY: by the contract.
    let count = length(unsafe { libc::recvmsg(fd, &mut message, libc::MSG_DONTWAIT) })?;
    let stopped = message.msg_flags & libc::MSG_CTRUNC != 0;
    Ok(if stopped { Done::some(count) } else { Done::bytes(count, asked) })
}

#[inline]
pub(super) fn send(fd: RawFd, buffer: &[u8]) -> io::Result<Done<usize>> {
    let (data, count, nowhere) = (buffer.as_ptr(), buffer.len(), null::<libc::sockaddr>());
    // SAFETY: the buffer is valid for reading, and no address is given.
    let sent = unsafe { libc::syscall(libc::SYS_sendto, fd, data, count, SEND, nowhere, 0usize) };
    Ok(Done::bytes(length(sent as isize)?, count))
}

pub(super) fn send_slices(fd: RawFd, buffers: &[IoSlice<'_>]) -> io::Result<Done<usize>> {
    let buffers = &buffers[..buffers.len().min(MOST_SLICES)];
    let mut message = empty_message();
    message.msg_iov = buffers.as_ptr().cast_mut().cast();
    message.msg_iovlen = buffers.len() as _;
    send_message(fd, &message)
}

/// As [`send_slices`], for a caller whose stack is not a fibre's: what is short is put together first.
pub(super) fn send_gathered(fd: RawFd, buffers: &[IoSlice<'_>]) -> io::Result<Done<usize>> {
    let mut whole = [MaybeUninit::<u8>::uninit(); MOST_GATHERED];
    let mut filled = 0;
    for buffer in buffers {
        let Some(room) = whole[filled..].get_mut(..buffer.len()) else { return send_slices(fd, buffers) };
        room.write_copy_of_slice(buffer);
        filled += buffer.len();
    }
    // SAFETY: as many have been written.
    send(fd, unsafe { whole[..filled].assume_init_ref() })
}

/// Nothing is concluded from a short write. The message points to what is valid for reading.
fn send_message(fd: RawFd, message: &libc::msghdr) -> io::Result<Done<usize>> {
    // SAFETY: as the caller says.
    Ok(Done::some(length(unsafe { libc::sendmsg(fd, message, SEND) })?))
}

pub(super) fn send_to(fd: RawFd, buffer: &[u8], address: &Address) -> io::Result<usize> {
    let (data, count) = (buffer.as_ptr().cast(), buffer.len());
    // SAFETY: the buffer is valid for reading, and the address, of the length given.
    length(unsafe { libc::sendto(fd, data, count, SEND, address.as_ptr(), address.length) })
}
