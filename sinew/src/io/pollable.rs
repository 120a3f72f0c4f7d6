//! Descriptors that are not Sinew's own.

use super::descriptor::{is_nonblocking, kind, set_nonblocking};
use super::{Done, Side, Source};
use crate::base::Deadline;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::FileType;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};

/// Any descriptor that the kernel can report on: a pipe, an eventfd, a timerfd, the socket of a C
/// library. Fibres that use it wait without blocking their processor. A kernel thread that runs no
/// fibre may use it as well.
///
/// ```
/// use sinew::io::Pollable;
/// use std::io::{Read, Write};
/// sinew::run(|| {
///     let (reader, writer) = std::io::pipe().unwrap();
///     let (mut reader, mut writer) = (Pollable::new(reader).unwrap(), Pollable::new(writer).unwrap());
///     let greeter = sinew::spawn(move || writer.write_all(b"hello"));
///     let mut greeting = String::new();
///     reader.read_to_string(&mut greeting).unwrap();
///     assert_eq!(greeting, "hello");
///     greeter.join().unwrap().unwrap();
/// });
/// ```
pub struct Pollable<T> {
    // Before the value: it is dropped first.
    registered: Registered,
    value: T,
}

/// A second descriptor for the same thing. Pollers know this one: the value keeps its own, and may
/// be anything that lends one.
struct Registered {
    /// `None` only while this is being dropped.
    source: Option<Source>,
    was_nonblocking: bool,
}

impl Registered {
    #[inline]
    fn source(&self) -> &Source {
        self.source.as_ref().expect("it is there until this is dropped")
    }
}

impl Drop for Registered {
    /// As the value's descriptor lives on, the kernel would go on reporting.
    fn drop(&mut self) {
        if let Some(source) = self.source.take() {
            source.close();
        }
    }
}

impl<T: AsFd> Pollable<T> {
    /// Makes the descriptor non-blocking. So are all its duplicates, here and in other processes.
    ///
    /// # Errors
    /// `InvalidInput` for regular files and directories, on which the kernel does not
    /// report: see [`fs::File`](crate::fs::File). Others are the kernel's.
    pub fn new(value: T) -> io::Result<Pollable<T>> {
        if !may_be_polled(value.as_fd())? {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "regular files and directories cannot be polled"));
        }
        let descriptor = value.as_fd().try_clone_to_owned()?;
        let was_nonblocking = is_nonblocking(&descriptor)?;
        if !was_nonblocking {
            set_nonblocking(&descriptor, true)?;
        }
        let source = Some(Source::new(descriptor));
        Ok(Pollable { registered: Registered { source, was_nonblocking }, value })
    }

    /// Returns the value. Reads and writes through it may fail with `WouldBlock`.
    pub fn get_ref(&self) -> &T {
        &self.value
    }

    /// Returns the value, blocking if it was. A `Pollable` that is dropped leaves the descriptor
    /// non-blocking, and so does this in another [`EventScope`](super::EventScope).
    pub fn into_inner(self) -> T {
        let Pollable { registered, value } = self;
        if !registered.was_nonblocking && registered.source().fd().is_ok() {
            // It was made non-blocking the same way, so this succeeds.
            let _ = set_nonblocking(registered.source(), false);
        }
        value
    }

    fn operate<R>(
        &self,
        side: Side,
        deadline: Deadline,
        mut attempt: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        // It is not known what a result says of the side, so nothing is concluded from it.
        let outcome = self.registered.source().operate(side, deadline, |_| attempt(&self.value).map(Done::some));
        // Only the deadline gives this error.
        outcome.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "the time was up"),
            _ => error,
        })
    }

    fn ready(&self, side: Side, deadline: Deadline) -> io::Result<()> {
        self.operate(side, deadline, |value| if is_ready(value.as_fd(), side)? { Ok(()) } else { Err(would_block()) })
    }

    /// Waits until it is worth trying to read: bytes have come, or the end, or an error.
    ///
    /// # Errors
    /// The kernel's, and [`Cancelled`](crate::cancel::Cancelled).
    pub fn readable(&self) -> io::Result<()> {
        self.ready(Side::Read, Deadline::NEVER)
    }

    /// As [`readable`](Pollable::readable), for tasks.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn readable_async(&self) -> io::Result<()> {
        self.ready_async(Side::Read).await
    }

    /// As [`writable`](Pollable::writable), for tasks.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn writable_async(&self) -> io::Result<()> {
        self.ready_async(Side::Write).await
    }

    /// As [`read_with`](Pollable::read_with), for tasks. Dropped before its end, it has read
    /// nothing.
    ///
    /// # Errors
    /// Those of `attempt`.
    pub async fn read_with_async<R>(&self, mut attempt: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        let source = self.registered.source();
        source.operate_async(Side::Read, |_| attempt(&self.value).map(Done::some)).await
    }

    /// As [`write_with`](Pollable::write_with), for tasks. Dropped before its end, it has
    /// written nothing.
    ///
    /// # Errors
    /// Those of `attempt`.
    pub async fn write_with_async<R>(&self, mut attempt: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        let source = self.registered.source();
        source.operate_async(Side::Write, |_| attempt(&self.value).map(Done::some)).await
    }

    async fn ready_async(&self, side: Side) -> io::Result<()> {
        let source = self.registered.source();
        let is_ready = |_: BorrowedFd<'_>| {
            if is_ready(self.value.as_fd(), side)? { Ok(Done::some(())) } else { Err(would_block()) }
        };
        source.operate_async(side, is_ready).await
    }

    /// As [`readable`](Pollable::readable), but waits no longer than `timeout`.
    ///
    /// # Errors
    /// `TimedOut` as well.
    pub fn readable_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.ready(Side::Read, Deadline::after(timeout))
    }

    /// As [`readable`](Pollable::readable), but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// `TimedOut` as well.
    pub fn readable_deadline(&self, deadline: Instant) -> io::Result<()> {
        self.ready(Side::Read, Deadline::at(deadline))
    }

    /// Waits until it is worth trying to write: there is room, or an error.
    ///
    /// # Errors
    /// The kernel's, and [`Cancelled`](crate::cancel::Cancelled).
    pub fn writable(&self) -> io::Result<()> {
        self.ready(Side::Write, Deadline::NEVER)
    }

    /// As [`writable`](Pollable::writable), but waits no longer than `timeout`.
    ///
    /// # Errors
    /// `TimedOut` as well.
    pub fn writable_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.ready(Side::Write, Deadline::after(timeout))
    }

    /// As [`writable`](Pollable::writable), but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// `TimedOut` as well.
    pub fn writable_deadline(&self, deadline: Instant) -> io::Result<()> {
        self.ready(Side::Write, Deadline::at(deadline))
    }

    /// Calls `attempt`, which reads. Each time it fails with `WouldBlock`, waits until there is
    /// something to read and calls it again. After `Interrupted` it is called again at once.
    ///
    /// # Errors
    /// Those of `attempt`, and [`Cancelled`](crate::cancel::Cancelled).
    pub fn read_with<R>(&self, attempt: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.operate(Side::Read, Deadline::NEVER, attempt)
    }

    /// As [`read_with`](Pollable::read_with), but waits no longer than `timeout`.
    ///
    /// # Errors
    /// `TimedOut` as well.
    pub fn read_with_timeout<R>(&self, timeout: Duration, attempt: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.operate(Side::Read, Deadline::after(timeout), attempt)
    }

    /// As [`read_with`](Pollable::read_with), but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// `TimedOut` as well.
    pub fn read_with_deadline<R>(&self, deadline: Instant, attempt: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.operate(Side::Read, Deadline::at(deadline), attempt)
    }

    /// Calls `attempt`, which writes. Each time it fails with `WouldBlock`, waits until there is
    /// room and calls it again. After `Interrupted` it is called again at once.
    ///
    /// # Errors
    /// Those of `attempt`, and [`Cancelled`](crate::cancel::Cancelled).
    pub fn write_with<R>(&self, attempt: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.operate(Side::Write, Deadline::NEVER, attempt)
    }

    /// As [`write_with`](Pollable::write_with), but waits no longer than `timeout`.
    ///
    /// # Errors
    /// `TimedOut` as well.
    pub fn write_with_timeout<R>(&self, timeout: Duration, attempt: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.operate(Side::Write, Deadline::after(timeout), attempt)
    }

    /// As [`write_with`](Pollable::write_with), but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// `TimedOut` as well.
    pub fn write_with_deadline<R>(&self, deadline: Instant, attempt: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.operate(Side::Write, Deadline::at(deadline), attempt)
    }
}

impl<T: AsFd> Read for &Pollable<T>
where
    for<'a> &'a T: Read,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_with(|mut value| value.read(buffer))
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.read_with(|mut value| value.read_vectored(buffers))
    }
}

impl<T: AsFd> Write for &Pollable<T>
where
    for<'a> &'a T: Write,
{
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.write_with(|mut value| value.write(buffer))
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_with(|mut value| value.write_vectored(buffers))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_with(|mut value| value.flush())
    }
}

impl<T: AsFd> Read for Pollable<T>
where
    for<'a> &'a T: Read,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(buffers)
    }
}

impl<T: AsFd> Write for Pollable<T>
where
    for<'a> &'a T: Write,
{
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self).write(buffer)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}

/// # Panics
/// In another [`EventScope`](super::EventScope).
impl<T: AsFd> AsFd for Pollable<T> {
    #[track_caller]
    fn as_fd(&self) -> BorrowedFd<'_> {
        // The value need not know of event scopes.
        self.registered.source().as_fd();
        self.value.as_fd()
    }
}

/// # Panics
/// In another [`EventScope`](super::EventScope).
impl<T: AsFd> AsRawFd for Pollable<T> {
    #[track_caller]
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl<T: fmt::Debug> fmt::Debug for Pollable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pollable").field(&self.value).finish()
    }
}

fn would_block() -> io::Error {
    io::ErrorKind::WouldBlock.into()
}

/// Returns whether a poller takes it. Files and directories are always ready, and refused.
fn may_be_polled(descriptor: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(!matches!(kind(descriptor)?, FileType::RegularFile | FileType::Directory))
}

/// Asks the kernel at this moment.
pub(super) fn is_ready(descriptor: BorrowedFd<'_>, side: Side) -> io::Result<bool> {
    let events = if side == Side::Read { PollFlags::IN | PollFlags::RDHUP } else { PollFlags::OUT };
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    Ok(rustix::event::poll(&mut [PollFd::from_borrowed_fd(descriptor, events)], Some(&at_once))? > 0)
}
