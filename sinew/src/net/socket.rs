//! What all kinds of sockets share: the calls of the kernel, without waiting.
#![allow(unsafe_code)]

use crate::io::{Done, Shown, Side, Source};
use crate::time::Deadline;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A socket, shared by all handles to it.
#[derive(Clone)]
pub(crate) struct Socket {
    shared: Arc<Shared>,
}

struct Shared {
    source: Source,
    /// In nanoseconds, by [`Side`]; 0 is for ever.
    timeouts: [AtomicU64; 2],
}

impl Socket {
    /// A new socket of this family and type.
    pub(crate) fn new(family: libc::c_int, kind: libc::c_int) -> io::Result<Socket> {
        // SAFETY: no memory is involved.
        let descriptor = unsafe { libc::socket(family, kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) };
        Ok(Socket::of(owned(descriptor)?))
    }

    /// A socket that is non-blocking already.
    pub(crate) fn of(descriptor: OwnedFd) -> Socket {
        let timeouts = [const { AtomicU64::new(0) }; 2];
        Socket { shared: Arc::new(Shared { source: Source::new(descriptor), timeouts }) }
    }

    /// A socket from elsewhere, which is made non-blocking.
    pub(crate) fn adopt(descriptor: OwnedFd) -> io::Result<Socket> {
        set_nonblocking(&descriptor, true)?;
        Ok(Socket::of(descriptor))
    }

    /// The descriptor, blocking as std's are; a copy if others use the socket.
    pub(crate) fn into_descriptor(self) -> io::Result<OwnedFd> {
        let descriptor = match Arc::try_unwrap(self.shared) {
            Ok(shared) => shared.source.into_descriptor(),
            Err(shared) => shared.source.as_fd().try_clone_to_owned()?,
        };
        set_nonblocking(&descriptor, false)?;
        Ok(descriptor)
    }

    pub(crate) fn source(&self) -> &Source {
        &self.shared.source
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.source().raw()
    }

    pub(crate) fn timeout(&self, side: Side) -> Option<Duration> {
        match self.shared.timeouts[side as usize].load(Relaxed) {
            0 => None,
            ns => Some(Duration::from_nanos(ns)),
        }
    }

    /// # Errors
    /// For a duration of zero, as std's.
    pub(crate) fn set_timeout(&self, side: Side, timeout: Option<Duration>) -> io::Result<()> {
        if timeout == Some(Duration::ZERO) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "cannot set a 0 duration timeout"));
        }
        let ns = timeout.map_or(0, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        self.shared.timeouts[side as usize].store(ns, Relaxed);
        Ok(())
    }

    /// When an operation that begins now has to end.
    fn deadline(&self, side: Side) -> Deadline {
        self.timeout(side).map_or(Deadline::NEVER, Deadline::after)
    }

    #[inline]
    pub(crate) fn operate<T>(&self, side: Side, attempt: impl FnMut(RawFd) -> io::Result<Done<T>>) -> io::Result<T> {
        self.source().operate(side, self.deadline(side), attempt)
    }

    /// Receives from a stream.
    #[inline]
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.operate(Side::Read, |fd| Ok(Done::bytes(recv(fd, buffer, 0)?, buffer.len())))
    }

    pub(crate) fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.operate(Side::Read, |fd| Ok(Done::some(recv(fd, buffer, libc::MSG_PEEK)?)))
    }

    pub(crate) fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let asked = buffers.iter().map(|buffer| buffer.len()).sum();
        let count = buffers.len().min(MOST_SLICES) as libc::c_int;
        self.operate(Side::Read, |fd| {
            // SAFETY: `IoSliceMut` is laid out as `iovec`, and the slices are writable.
            let read = unsafe { libc::readv(fd, buffers.as_mut_ptr().cast(), count) };
            Ok(Done::bytes(length(read)?, asked))
        })
    }

    /// Sends to a stream.
    #[inline]
    pub(crate) fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        self.operate(Side::Write, |fd| Ok(Done::bytes(send(fd, buffer)?, buffer.len())))
    }

    pub(crate) fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let asked = buffers.iter().map(|buffer| buffer.len()).sum();
        // SAFETY: all-zero is a message without anything.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = buffers.as_ptr().cast_mut().cast();
        message.msg_iovlen = buffers.len().min(MOST_SLICES) as _;
        self.operate(Side::Write, |fd| {
            // SAFETY: `IoSlice` is laid out as `iovec`; the message is valid for the call.
            let written = unsafe { libc::sendmsg(fd, &message, libc::MSG_NOSIGNAL) };
            Ok(Done::bytes(length(written)?, asked))
        })
    }

    pub(crate) fn shutdown(&self, how: std::net::Shutdown) -> io::Result<()> {
        let how = match how {
            std::net::Shutdown::Read => libc::SHUT_RD,
            std::net::Shutdown::Write => libc::SHUT_WR,
            std::net::Shutdown::Both => libc::SHUT_RDWR,
        };
        // SAFETY: no memory is involved.
        result(unsafe { libc::shutdown(self.raw(), how) })
    }

    /// Waits for a connection and accepts it; with the peer's address as the kernel
    /// wrote it.
    pub(crate) fn accept(&self) -> io::Result<(Socket, Address)> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        self.operate(Side::Read, |fd| {
            let mut address = Address::empty();
            // SAFETY: the address is valid for writing, of the length given.
            let accepted = unsafe { libc::accept4(fd, address.as_mut_ptr(), &mut address.length, flags) };
            match owned(accepted) {
                Ok(descriptor) => Ok(Done::some((Socket::of(descriptor), address))),
                // The connection is gone already: the next.
                Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => {
                    Err(io::ErrorKind::Interrupted.into())
                }
                Err(error) => Err(error),
            }
        })
    }

    /// Connects, and waits until that has succeeded or failed; not beyond `deadline`.
    pub(crate) fn connect(&self, address: &Address, deadline: Deadline) -> io::Result<()> {
        // SAFETY: the address is valid for reading, of the length given.
        match result(unsafe { libc::connect(self.raw(), address.as_ptr(), address.length) }) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) => {}
            done => return done,
        }
        let mut begun = false;
        let connected = self.source().operate(Side::Write, deadline, |fd| {
            // The first look would see nothing: wait for the kernel.
            if !std::mem::replace(&mut begun, true) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            match take_error(fd)? {
                Some(error) => Err(error),
                None if is_connected(fd) => Ok(Done { value: (), shown: Shown::More }),
                None => Err(io::ErrorKind::WouldBlock.into()),
            }
        });
        match connected {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "connection timed out"))
            }
            done => done,
        }
    }

    pub(crate) fn bind(&self, address: &Address) -> io::Result<()> {
        // SAFETY: the address is valid for reading, of the length given.
        result(unsafe { libc::bind(self.raw(), address.as_ptr(), address.length) })
    }

    pub(crate) fn listen(&self, backlog: u32) -> io::Result<()> {
        // SAFETY: no memory is involved.
        result(unsafe { libc::listen(self.raw(), libc::c_int::try_from(backlog).unwrap_or(libc::c_int::MAX)) })
    }

    /// Sets an option whose value is a number.
    pub(crate) fn set_option(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        let length = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the value is valid for reading, of the length given.
        result(unsafe { libc::setsockopt(self.raw(), level, name, (&raw const value).cast(), length) })
    }

    pub(crate) fn option(&self, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
        option(self.raw(), level, name)
    }

    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        take_error(self.raw())
    }

    pub(crate) fn local_address(&self) -> io::Result<Address> {
        let mut address = Address::empty();
        // SAFETY: the address is valid for writing, of the length given.
        result(unsafe { libc::getsockname(self.raw(), address.as_mut_ptr(), &mut address.length) })?;
        Ok(address)
    }

    pub(crate) fn peer_address(&self) -> io::Result<Address> {
        peer_address(self.raw())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.source().as_fd()
    }
}

/// As many slices as the kernel takes at once.
const MOST_SLICES: usize = 1024;

/// An address as the kernel knows it.
#[derive(Clone, Copy)]
pub(crate) struct Address {
    pub(crate) storage: libc::sockaddr_storage,
    pub(crate) length: libc::socklen_t,
}

impl Address {
    pub(crate) fn empty() -> Address {
        // SAFETY: all-zero is a valid address of no family.
        let storage = unsafe { std::mem::zeroed() };
        Address { storage, length: size_of::<libc::sockaddr_storage>() as libc::socklen_t }
    }

    pub(crate) fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut libc::sockaddr {
        (&raw mut self.storage).cast()
    }

    pub(crate) fn family(&self) -> libc::c_int {
        self.storage.ss_family.into()
    }

    /// # Safety
    /// `T` is an address of the kernel's, no larger than its storage.
    unsafe fn of<T>(address: T) -> Address {
        let mut storage = Address::empty();
        // SAFETY: by the contract it fits.
        unsafe { storage.as_mut_ptr().cast::<T>().write_unaligned(address) };
        storage.length = size_of::<T>() as libc::socklen_t;
        storage
    }
}

impl From<std::net::SocketAddr> for Address {
    fn from(address: std::net::SocketAddr) -> Address {
        match address {
            std::net::SocketAddr::V4(v4) => {
                let address = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                };
                // SAFETY: it is one.
                unsafe { Address::of(address) }
            }
            std::net::SocketAddr::V6(v6) => {
                let address = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: it is one.
                unsafe { Address::of(address) }
            }
        }
    }
}

impl TryFrom<Address> for std::net::SocketAddr {
    type Error = io::Error;

    fn try_from(address: Address) -> io::Result<std::net::SocketAddr> {
        match address.family() {
            libc::AF_INET => {
                // SAFETY: the family says that it is one.
                let v4 = unsafe { &*address.as_ptr().cast::<libc::sockaddr_in>() };
                let ip = std::net::Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Ok(std::net::SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: the family says that it is one.
                let v6 = unsafe { &*address.as_ptr().cast::<libc::sockaddr_in6>() };
                let ip = std::net::Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Ok(std::net::SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "invalid argument")),
        }
    }
}

pub(crate) fn recv(fd: RawFd, buffer: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
    // SAFETY: the buffer is valid for writing.
    length(unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), flags) })
}

pub(crate) fn send(fd: RawFd, buffer: &[u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for reading.
    length(unsafe { libc::send(fd, buffer.as_ptr().cast(), buffer.len(), libc::MSG_NOSIGNAL) })
}

fn is_connected(fd: RawFd) -> bool {
    peer_address(fd).is_ok()
}

fn peer_address(fd: RawFd) -> io::Result<Address> {
    let mut address = Address::empty();
    // SAFETY: the address is valid for writing, of the length given.
    result(unsafe { libc::getpeername(fd, address.as_mut_ptr(), &mut address.length) })?;
    Ok(address)
}

fn option(fd: RawFd, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value is valid for writing, of the length given.
    result(unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &mut length) })?;
    Ok(value)
}

fn take_error(fd: RawFd) -> io::Result<Option<io::Error>> {
    let code = option(fd, libc::SOL_SOCKET, libc::SO_ERROR)?;
    Ok((code != 0).then(|| io::Error::from_raw_os_error(code)))
}

pub(crate) fn set_nonblocking(descriptor: &impl AsFd, nonblocking: bool) -> io::Result<()> {
    let mut value = libc::c_int::from(nonblocking);
    // SAFETY: the value is valid for reading.
    result(unsafe { libc::ioctl(descriptor.as_fd().as_raw_fd(), libc::FIONBIO, &mut value) })
}

pub(crate) fn result(code: libc::c_int) -> io::Result<()> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(crate) fn length(count: isize) -> io::Result<usize> {
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

fn owned(descriptor: RawFd) -> io::Result<OwnedFd> {
    result(descriptor)?;
    // SAFETY: the kernel gave it to us just now.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
