//! The part that all kinds of sockets share: calls of the kernel, timeouts, and how to wait.
//!
//! Every call that moves bytes says that it is not to wait (`MSG_DONTWAIT`). So it does not matter
//! if another owner of the socket makes it a blocking one. Only `accept` and `connect` rely on the
//! descriptor's own flag, and `sendfile`, which looks at it.

use super::address::Address;
use super::line::Line;
use crate::base::Deadline;
use crate::io::descriptor::set_nonblocking;
use crate::io::{Done, Shown, Side, Source};
use crate::stack::current_stack;
use crate::wait::yield_now;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The flags of every socket.
const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// A socket, shared by all handles to it.
#[derive(Clone)]
pub(crate) struct Socket {
    shared: Arc<Shared>,
}

struct Shared {
    source: Source,
    /// The timeouts in nanoseconds, by [`Side`]; 0 is for ever.
    timeouts: [AtomicU64; 2],
    /// `NONBLOCKING` and `ON_LINE`, or neither: calls wait.
    mode: AtomicU8,
    /// The state of a socket under a session object, from the first [`Duplex`](super::Duplex) on.
    line: OnceLock<Box<Line>>,
}

/// Calls give `WouldBlock` where they would wait.
const NONBLOCKING: u8 = 1;

/// As `NONBLOCKING`, and the [`Line`] takes notes.
const ON_LINE: u8 = 2;

impl Socket {
    /// Makes a socket of this family and type.
    pub(crate) fn new(family: AddressFamily, kind: SocketType) -> io::Result<Socket> {
        Ok(Socket::of(rustix::net::socket_with(family, kind, FLAGS, None)?))
    }

    /// Makes two Unix sockets that are connected to each other.
    pub(crate) fn pair(kind: SocketType) -> io::Result<(Socket, Socket)> {
        let (first, second) = rustix::net::socketpair(AddressFamily::UNIX, kind, FLAGS, None)?;
        Ok((Socket::of(first), Socket::of(second)))
    }

    /// Makes a socket of a descriptor that is non-blocking already.
    fn of(descriptor: OwnedFd) -> Socket {
        let (source, timeouts) = (Source::new(descriptor), [const { AtomicU64::new(0) }; 2]);
        Socket { shared: Arc::new(Shared { source, timeouts, mode: AtomicU8::new(0), line: OnceLock::new() }) }
    }

    /// Makes a socket of a descriptor from elsewhere. It keeps its timeouts. Calls wait also if it
    /// was non-blocking: every descriptor that comes from here is. If it is not a socket, the calls
    /// on it fail.
    pub(crate) fn adopt(descriptor: OwnedFd) -> Socket {
        let timeouts = [kernel_timeout(&descriptor, Side::Read), kernel_timeout(&descriptor, Side::Write)];
        // This fails if the descriptor is open for nothing: then every other call fails, too.
        let _ = set_nonblocking(&descriptor, true);
        let socket = Socket::of(descriptor);
        for (stored, timeout) in socket.shared.timeouts.iter().zip(timeouts) {
            stored.store(timeout, Relaxed);
        }
        socket
    }

    /// Returns the descriptor as std's sockets have it: blocking, unless this one was set to be
    /// otherwise, and with its timeouts. It is a copy if there are other handles. The copy of a
    /// listener is left non-blocking, because the other handles rely on it.
    ///
    /// # Panics
    /// If there is no descriptor left for a copy, or it is of another event scope.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        let nonblocking = self.is_nonblocking();
        for side in [Side::Read, Side::Write] {
            // If the timeout cannot be set, it is not a socket.
            let _ = self.set_kernel_timeout(side);
        }
        let (descriptor, others_rely) = match Arc::try_unwrap(self.shared) {
            Ok(shared) => (shared.source.into_descriptor(), false),
            Err(shared) => {
                let copy = shared.source.as_fd().try_clone_to_owned().expect("no descriptor is left for a copy");
                let listens = sockopt::socket_acceptconn(&shared.source);
                (copy, listens.unwrap_or(false))
            }
        };
        let _ = set_nonblocking(&descriptor, nonblocking || others_rely);
        descriptor
    }

    /// Returns whether both are handles to one socket.
    pub(crate) fn is_same(&self, other: &Socket) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    pub(crate) fn source(&self) -> &Source {
        &self.shared.source
    }

    /// Returns the number that the descriptor has in its own event scope.
    pub(crate) fn number(&self) -> RawFd {
        self.source().number()
    }

    /// Returns the descriptor.
    ///
    /// # Errors
    /// If it is of another event scope.
    #[inline]
    pub(crate) fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        self.source().fd()
    }

    pub(crate) fn timeout(&self, side: Side) -> Option<Duration> {
        match self.shared.timeouts[side as usize].load(Relaxed) {
            0 => None,
            ns => Some(Duration::from_nanos(ns)),
        }
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.shared.mode.load(Relaxed) & NONBLOCKING != 0
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        self.set_mode(NONBLOCKING, nonblocking);
    }

    fn set_mode(&self, mode: u8, is_on: bool) {
        if is_on {
            self.shared.mode.fetch_or(mode, Relaxed);
        } else {
            self.shared.mode.fetch_and(!mode, Relaxed);
        }
    }

    /// Returns whether calls wait.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.shared.mode.load(Relaxed) == 0
    }

    /// Returns the line if the socket is on it.
    pub(super) fn line(&self) -> Option<&Line> {
        let is_on_line = self.shared.mode.load(Relaxed) & ON_LINE != 0;
        is_on_line.then(|| &**self.shared.line.get_or_init(Box::default))
    }

    /// Puts the socket on its line, or takes it off.
    pub(super) fn set_on_line(&self, is_on: bool) {
        self.set_mode(ON_LINE, is_on);
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
        // Zero is for ever, so a part of the kernel's unit is rounded up.
        let round_up = |timeout: Duration| {
            Duration::from_micros(u64::try_from(timeout.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX))
        };
        Ok(sockopt::set_socket_timeout(self.fd()?, kernel_side(side), self.timeout(side).map(round_up))?)
    }

    /// Returns the deadline of an operation that begins now.
    pub(crate) fn deadline(&self, side: Side) -> Deadline {
        self.timeout(side).map_or(Deadline::NEVER, Deadline::after)
    }

    /// Makes `attempt` succeed or fail, and waits as the socket is set to. A timeout is
    /// `WouldBlock`, as with std's.
    #[inline]
    pub(crate) fn operate<T>(
        &self,
        side: Side,
        attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<Done<T>>,
    ) -> io::Result<T> {
        if !self.waits() {
            return self.operate_slow(side, attempt);
        }
        self.operate_within(side, self.deadline(side), attempt)
    }

    /// Operates on a socket that does not wait.
    #[cold]
    fn operate_slow<T>(&self, side: Side, attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<Done<T>>) -> io::Result<T> {
        match self.line() {
            Some(line) => line.note(side, self.source().operate_at_once(side, attempt)),
            None => self.try_once(attempt),
        }
    }

    /// As `operate`, but with a limit of the call's own, whatever the socket is set to. Beyond it
    /// the error is `TimedOut`.
    pub(crate) fn operate_until<T>(
        &self,
        side: Side,
        deadline: Instant,
        attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<Done<T>>,
    ) -> io::Result<T> {
        self.operate_within(side, Deadline::at(deadline), attempt).map_err(overdue)
    }

    #[inline]
    fn operate_within<T>(
        &self,
        side: Side,
        deadline: Deadline,
        mut attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<Done<T>>,
    ) -> io::Result<T> {
        match self.source().operate(side, deadline, &mut attempt) {
            // Bytes that came at the last moment may be there though no poller has said so.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.attempt_slow(attempt),
            done => done,
        }
    }

    #[cold]
    pub(super) fn attempt_slow<T>(
        &self,
        mut attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<Done<T>>,
    ) -> io::Result<T> {
        loop {
            match attempt(self.fd()?) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return Ok(done?.value),
            }
        }
    }

    /// Attempts once. A fibre that keeps trying yields to the fibres that it waits for.
    #[cold]
    fn try_once<T>(&self, attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<Done<T>>) -> io::Result<T> {
        let outcome = self.attempt_slow(attempt);
        if outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) && current_stack().is_some() {
            yield_now();
        }
        outcome
    }

    pub(crate) fn shutdown(&self, how: std::net::Shutdown) -> io::Result<()> {
        let how = match how {
            std::net::Shutdown::Read => rustix::net::Shutdown::Read,
            std::net::Shutdown::Write => rustix::net::Shutdown::Write,
            std::net::Shutdown::Both => rustix::net::Shutdown::Both,
        };
        Ok(rustix::net::shutdown(self.fd()?, how)?)
    }

    /// Waits for a connection and accepts it. Returns the peer's address as the kernel wrote it.
    pub(crate) fn accept(&self) -> io::Result<(Socket, Address)> {
        self.operate(Side::Read, accept)
    }

    pub(crate) fn accept_until(&self, deadline: Instant) -> io::Result<(Socket, Address)> {
        self.operate_until(Side::Read, deadline, accept)
    }

    /// Connects without waiting: it is an error if that takes time.
    pub(crate) fn connect_at_once(&self, address: &Address) -> io::Result<()> {
        Ok(rustix::net::connect(self.fd()?, address.as_any())?)
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
        Ok(rustix::net::bind(self.fd()?, address.as_any())?)
    }

    pub(crate) fn listen(&self, backlog: u32) -> io::Result<()> {
        Ok(rustix::net::listen(self.fd()?, i32::try_from(backlog).unwrap_or(i32::MAX))?)
    }

    pub(crate) fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        Ok(sockopt::set_ip_ttl(self.fd()?, ttl)?)
    }

    pub(crate) fn ttl(&self) -> io::Result<u32> {
        Ok(sockopt::ip_ttl(self.fd()?)?)
    }

    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        take_error(self.fd()?)
    }

    pub(crate) fn local_address(&self) -> io::Result<Address> {
        Ok(rustix::net::getsockname(self.fd()?)?.into())
    }

    pub(crate) fn peer_address(&self) -> io::Result<Address> {
        Ok(rustix::net::getpeername(self.fd()?)?.into())
    }
}

impl AsFd for Socket {
    #[track_caller]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.source().as_fd()
    }
}

pub(super) fn accept(fd: BorrowedFd<'_>) -> io::Result<Done<(Socket, Address)>> {
    match rustix::net::acceptfrom_with(fd, FLAGS) {
        Ok((descriptor, address)) => Ok(Done::some((Socket::of(descriptor), address.into()))),
        // The connection is gone already: the next.
        Err(Errno::CONNABORTED) => Err(io::ErrorKind::Interrupted.into()),
        Err(error) => Err(error.into()),
    }
}

/// Looks whether a connection that has been begun is made, or has failed.
pub(super) fn connected() -> impl FnMut(BorrowedFd<'_>) -> io::Result<Done<()>> {
    let mut begun = false;
    move |fd| {
        // The first look would see nothing: wait for the kernel.
        if !std::mem::replace(&mut begun, true) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match take_error(fd)? {
            Some(error) => Err(error),
            None if rustix::net::getpeername(fd).is_ok() => Ok(Done { value: (), shown: Shown::More }),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// The error of a call with a limit of its own, instead of `WouldBlock`.
pub(super) fn overdue(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "the time was up"),
        _ => error,
    }
}

fn take_error(fd: BorrowedFd<'_>) -> io::Result<Option<io::Error>> {
    Ok(sockopt::socket_error(fd)?.err().map(io::Error::from))
}

fn kernel_side(side: Side) -> Timeout {
    match side {
        Side::Read => Timeout::Recv,
        Side::Write => Timeout::Send,
    }
}

/// The timeout that the kernel has for a side, in nanoseconds; 0 if there is none.
fn kernel_timeout(descriptor: &OwnedFd, side: Side) -> u64 {
    let timeout = sockopt::socket_timeout(descriptor, kernel_side(side)).ok().flatten();
    timeout.map_or(0, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX))
}
