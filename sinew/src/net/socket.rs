//! What all kinds of sockets share: the calls of the kernel, and what a socket knows
//! of how to wait.
//!
//! Every call that moves bytes says that it is not to wait (`MSG_DONTWAIT`), so it does
//! not matter if somebody else who has the socket makes it a blocking one. Only
//! `accept` and `connect` rely on the descriptor's own flag, and `sendfile`, which looks at it.
#![allow(unsafe_code)]

use super::address::Address;
use crate::base::Deadline;
use crate::io::descriptor::{owned, result, set_nonblocking};
use crate::io::{Done, Shown, Side, Source};
use crate::stack::current_stack;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A socket, shared by all handles to it.
#[derive(Clone)]
pub(crate) struct Socket {
    shared: Arc<Shared>,
}

struct Shared {
    source: Source,
    /// In nanoseconds, by [`Side`]; 0 is for ever.
    timeouts: [AtomicU64; 2],
    /// Whether calls give `WouldBlock` where they would wait.
    nonblocking: AtomicBool,
}

impl Socket {
    /// A new socket of this family and type.
    pub(crate) fn new(family: libc::c_int, kind: libc::c_int) -> io::Result<Socket> {
        // SAFETY: no memory is involved, and the descriptor is a new one.
        let descriptor = unsafe { owned(libc::socket(family, kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0)) };
        Ok(Socket::of(descriptor?))
    }

    /// Two that are connected to each other.
    pub(crate) fn pair(family: libc::c_int, kind: libc::c_int) -> io::Result<(Socket, Socket)> {
        let mut pair = [-1; 2];
        let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: the pair is valid for writing.
        result(unsafe { libc::socketpair(family, kind, 0, pair.as_mut_ptr()) })?;
        // SAFETY: the kernel has made both just now.
        Ok(unsafe { (Socket::of(owned(pair[0])?), Socket::of(owned(pair[1])?)) })
    }

    /// A socket whose descriptor is non-blocking already.
    fn of(descriptor: OwnedFd) -> Socket {
        let (timeouts, nonblocking) = ([const { AtomicU64::new(0) }; 2], AtomicBool::new(false));
        Socket { shared: Arc::new(Shared { source: Source::new(descriptor), timeouts, nonblocking }) }
    }

    /// A socket from elsewhere. If it had timeouts, it has them here; but not that it was
    /// non-blocking, which is what every descriptor is that comes from here. What is not a
    /// socket is found out when it is used as one.
    pub(crate) fn adopt(descriptor: OwnedFd) -> Socket {
        let timeouts = [kernel_timeout(&descriptor, Side::Read), kernel_timeout(&descriptor, Side::Write)];
        // It fails for what is not open for anything: then every other call does, too.
        let _ = set_nonblocking(&descriptor, true);
        let socket = Socket::of(descriptor);
        for (stored, timeout) in socket.shared.timeouts.iter().zip(timeouts) {
            stored.store(timeout, Relaxed);
        }
        socket
    }

    /// The descriptor as std's sockets have it: blocking, unless this one was set to be
    /// otherwise, and with its timeouts. A copy if there are other handles; that of a
    /// listener is then left non-blocking, because they rely on it.
    ///
    /// # Panics
    /// If there is no descriptor left for a copy, or it is of another event scope.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        let nonblocking = self.is_nonblocking();
        for side in [Side::Read, Side::Write] {
            // What cannot be set is not a socket.
            let _ = self.set_kernel_timeout(side);
        }
        let (descriptor, others_rely) = match Arc::try_unwrap(self.shared) {
            Ok(shared) => (shared.source.into_descriptor(), false),
            Err(shared) => {
                let copy = shared.source.as_fd().try_clone_to_owned().expect("no descriptor is left for a copy");
                let listens = option(shared.source.as_fd().as_raw_fd(), libc::SOL_SOCKET, libc::SO_ACCEPTCONN);
                (copy, listens.is_ok_and(|listens| listens != 0))
            }
        };
        let _ = set_nonblocking(&descriptor, nonblocking || others_rely);
        descriptor
    }

    pub(crate) fn source(&self) -> &Source {
        &self.shared.source
    }

    /// The number that the descriptor has in its own event scope.
    pub(crate) fn number(&self) -> RawFd {
        self.source().number()
    }

    /// # Errors
    /// If it is of another event scope.
    #[inline]
    pub(crate) fn raw(&self) -> io::Result<RawFd> {
        self.source().raw()
    }

    pub(crate) fn timeout(&self, side: Side) -> Option<Duration> {
        match self.shared.timeouts[side as usize].load(Relaxed) {
            0 => None,
            ns => Some(Duration::from_nanos(ns)),
        }
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.shared.nonblocking.load(Relaxed)
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        self.shared.nonblocking.store(nonblocking, Relaxed);
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

    fn set_kernel_timeout(&self, side: Side) -> io::Result<()> {
        let timeout = self.timeout(side).unwrap_or(Duration::ZERO);
        // Zero is for ever, so what is shorter than its unit is rounded up.
        let us = timeout.subsec_nanos().div_ceil(1000);
        let (carry, us) = (u64::from(us / 1_000_000), us % 1_000_000);
        let seconds = libc::time_t::try_from(timeout.as_secs().saturating_add(carry)).unwrap_or(libc::time_t::MAX);
        let value = libc::timeval { tv_sec: seconds, tv_usec: us.into() };
        self.set_option_of(libc::SOL_SOCKET, timeout_option(side), value)
    }

    /// When an operation that begins now has to end.
    pub(crate) fn deadline(&self, side: Side) -> Deadline {
        self.timeout(side).map_or(Deadline::NEVER, Deadline::after)
    }

    /// Does what `attempt` does, waiting as the socket is set to: a timeout is
    /// `WouldBlock`, as with std's.
    #[inline]
    pub(crate) fn operate<T>(&self, side: Side, attempt: impl FnMut(RawFd) -> io::Result<Done<T>>) -> io::Result<T> {
        if self.is_nonblocking() {
            return self.try_once(attempt);
        }
        self.operate_within(side, self.deadline(side), attempt)
    }

    /// As `operate`, but with a limit of the call's own, whatever the socket is set to:
    /// beyond it is `TimedOut`.
    pub(crate) fn operate_until<T>(
        &self,
        side: Side,
        deadline: Instant,
        attempt: impl FnMut(RawFd) -> io::Result<Done<T>>,
    ) -> io::Result<T> {
        self.operate_within(side, Deadline::at(deadline), attempt).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "the time was up"),
            _ => error,
        })
    }

    #[inline]
    fn operate_within<T>(
        &self,
        side: Side,
        deadline: Deadline,
        mut attempt: impl FnMut(RawFd) -> io::Result<Done<T>>,
    ) -> io::Result<T> {
        match self.source().operate(side, deadline, &mut attempt) {
            // What came at the last moment may be there though no poller has said so.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.attempt_slow(attempt),
            done => done,
        }
    }

    #[cold]
    pub(super) fn attempt_slow<T>(&self, mut attempt: impl FnMut(RawFd) -> io::Result<Done<T>>) -> io::Result<T> {
        loop {
            match attempt(self.raw()?) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return Ok(done?.value),
            }
        }
    }

    /// A fibre that keeps trying gives way to those who make it worth it.
    #[cold]
    fn try_once<T>(&self, attempt: impl FnMut(RawFd) -> io::Result<Done<T>>) -> io::Result<T> {
        let outcome = self.attempt_slow(attempt);
        if outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) && current_stack().is_some() {
            crate::yield_now();
        }
        outcome
    }

    pub(crate) fn shutdown(&self, how: std::net::Shutdown) -> io::Result<()> {
        let how = match how {
            std::net::Shutdown::Read => libc::SHUT_RD,
            std::net::Shutdown::Write => libc::SHUT_WR,
            std::net::Shutdown::Both => libc::SHUT_RDWR,
        };
        // SAFETY: no memory is involved.
        result(unsafe { libc::shutdown(self.raw()?, how) })
    }

    /// Waits for a connection and accepts it; with the peer's address as the kernel
    /// wrote it.
    pub(crate) fn accept(&self) -> io::Result<(Socket, Address)> {
        self.operate(Side::Read, accept)
    }

    pub(crate) fn accept_until(&self, deadline: Instant) -> io::Result<(Socket, Address)> {
        self.operate_until(Side::Read, deadline, accept)
    }

    /// Connects without waiting: what cannot be done at once is an error.
    pub(crate) fn connect_at_once(&self, address: &Address) -> io::Result<()> {
        // SAFETY: the address is valid for reading, of the length given.
        result(unsafe { libc::connect(self.raw()?, address.as_ptr(), address.length) })
    }

    /// Connects, and waits until that has succeeded or failed; not beyond `deadline`.
    pub(crate) fn connect(&self, address: &Address, deadline: Deadline) -> io::Result<()> {
        match self.connect_at_once(address) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) => {}
            done => return done,
        }
        match self.source().operate(Side::Write, deadline, connected()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "connection timed out"))
            }
            done => done,
        }
    }

    pub(crate) fn bind(&self, address: &Address) -> io::Result<()> {
        // SAFETY: the address is valid for reading, of the length given.
        result(unsafe { libc::bind(self.raw()?, address.as_ptr(), address.length) })
    }

    pub(crate) fn listen(&self, backlog: u32) -> io::Result<()> {
        // SAFETY: no memory is involved.
        result(unsafe { libc::listen(self.raw()?, libc::c_int::try_from(backlog).unwrap_or(libc::c_int::MAX)) })
    }

    /// Sets an option whose value is a number.
    pub(crate) fn set_option(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        self.set_option_of(level, name, value)
    }

    /// Sets an option to what the kernel's header says that it is.
    pub(crate) fn set_option_of<T: Copy>(&self, level: libc::c_int, name: libc::c_int, value: T) -> io::Result<()> {
        let length = size_of::<T>() as libc::socklen_t;
        // SAFETY: the value is valid for reading, of the length given.
        result(unsafe { libc::setsockopt(self.raw()?, level, name, (&raw const value).cast(), length) })
    }

    pub(crate) fn option(&self, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
        option(self.raw()?, level, name)
    }

    pub(crate) fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.set_option_of(libc::IPPROTO_IP, libc::IP_TTL, ttl)
    }

    pub(crate) fn ttl(&self) -> io::Result<u32> {
        Ok(self.option(libc::IPPROTO_IP, libc::IP_TTL)? as u32)
    }

    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        take_error(self.raw()?)
    }

    pub(crate) fn local_address(&self) -> io::Result<Address> {
        let mut address = Address::empty();
        // SAFETY: the address is valid for writing, of the length given.
        result(unsafe { libc::getsockname(self.raw()?, address.as_mut_ptr(), &mut address.length) })?;
        Ok(address)
    }

    pub(crate) fn peer_address(&self) -> io::Result<Address> {
        peer_address(self.raw()?)
    }
}

impl AsFd for Socket {
    #[track_caller]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.source().as_fd()
    }
}

pub(super) fn accept(fd: RawFd) -> io::Result<Done<(Socket, Address)>> {
    let mut address = Address::empty();
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the address is valid for writing, of the length given; the descriptor is a
    // new one.
    let accepted = unsafe { owned(libc::accept4(fd, address.as_mut_ptr(), &mut address.length, flags)) };
    match accepted {
        Ok(descriptor) => Ok(Done::some((Socket::of(descriptor), address))),
        // The connection is gone already: the next.
        Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => Err(io::ErrorKind::Interrupted.into()),
        Err(error) => Err(error),
    }
}

/// Looks whether a connection that has been begun is made, or has failed.
pub(super) fn connected() -> impl FnMut(RawFd) -> io::Result<Done<()>> {
    let mut begun = false;
    move |fd| {
        // The first look would see nothing: wait for the kernel.
        if !std::mem::replace(&mut begun, true) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match take_error(fd)? {
            Some(error) => Err(error),
            None if is_connected(fd) => Ok(Done { value: (), shown: Shown::More }),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
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

fn timeout_option(side: Side) -> libc::c_int {
    match side {
        Side::Read => libc::SO_RCVTIMEO,
        Side::Write => libc::SO_SNDTIMEO,
    }
}

/// The timeout that the kernel has for a side, in nanoseconds.
fn kernel_timeout(descriptor: &OwnedFd, side: Side) -> u64 {
    let mut value = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut length = size_of::<libc::timeval>() as libc::socklen_t;
    let (fd, name) = (descriptor.as_raw_fd(), timeout_option(side));
    // SAFETY: the value is valid for writing, of the length given.
    let read = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, name, (&raw mut value).cast(), &mut length) };
    let part = |count: i64, ns: u64| u64::try_from(count).unwrap_or(0).saturating_mul(ns);
    if read < 0 { 0 } else { part(value.tv_sec, 1_000_000_000).saturating_add(part(value.tv_usec, 1000)) }
}
