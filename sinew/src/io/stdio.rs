//! The three descriptors that a process is born with.
//!
//! They are shared with other processes, and with std's handles in this one. Nobody expects there
//! that they are non-blocking, so they are left as they are. With a pipe or a socket a single call
//! can ask the kernel not to wait, and the fibre waits as it does for any descriptor. All other
//! calls go to the pool of [`blocking`](crate::blocking()): terminals and regular files, pipes on
//! kernels before 6.5, and every descriptor in another event scope than the one that used it
//! first, because the pollers know that one's duplicate.
//!
//! In a task a call that would have to wait panics. A call that goes to the pool elsewhere is made
//! in place there, as std's handles do it.

use super::blocking;
use super::descriptor::kind;
use super::{Done, Side, Source};
use crate::base::Deadline;
use crate::processor;
use rustix::fs::FileType;
use rustix::io::{Errno, ReadWriteFlags};
use rustix::net::{RecvFlags, SendFlags};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// One of the three descriptors, for as long as the process lives.
struct Standard {
    /// A duplicate of the descriptor, which pollers know. It belongs to the event scope that used
    /// the descriptor first.
    source: Source,
    /// The descriptor itself, which is the same one in every event scope.
    descriptor: BorrowedFd<'static>,
    is_socket: bool,
    /// Whether calls go to the pool. Set for good when the kernel has refused a call that does not
    /// wait.
    blocks: AtomicBool,
}

/// The place in the file is the descriptor's own.
const HERE: u64 = u64::MAX;

impl Standard {
    fn new(descriptor: BorrowedFd<'static>) -> io::Result<Standard> {
        let kind = kind(descriptor)?;
        let source = Source::new(descriptor.try_clone_to_owned()?);
        let is_socket = kind == FileType::Socket;
        let blocks = AtomicBool::new(kind != FileType::Fifo && !is_socket);
        Ok(Standard { source, descriptor, is_socket, blocks })
    }

    /// Makes `call`, which is told whether it may wait.
    fn operate(
        &self,
        side: Side,
        mut call: impl FnMut(BorrowedFd<'_>, bool) -> rustix::io::Result<usize> + Send,
    ) -> io::Result<usize> {
        if !self.blocks.load(Relaxed) && self.source.fd().is_ok() {
            let outcome = self.source.operate(side, Deadline::NEVER, |fd| Ok(Done::some(call(fd, false)?)));
            match outcome.as_ref().map_err(Errno::from_io_error) {
                Err(Some(Errno::OPNOTSUPP | Errno::NOSYS)) => self.blocks.store(true, Relaxed),
                _ => return outcome,
            }
        }
        let descriptor = self.source.fd().unwrap_or(self.descriptor);
        if processor::runs_a_task() {
            return Ok(call(descriptor, true)?);
        }
        Ok(blocking(|| call(descriptor, true))?)
    }

    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.operate(Side::Read, |fd, may_wait| match (may_wait, self.is_socket) {
            (true, _) => rustix::io::read(fd, &mut *buffer),
            (false, true) => rustix::net::recv(fd, &mut *buffer, RecvFlags::DONTWAIT).map(|(count, _)| count),
            (false, false) => rustix::io::preadv2(fd, &mut [IoSliceMut::new(buffer)], HERE, ReadWriteFlags::NOWAIT),
        })
    }

    fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        self.operate(Side::Write, |fd, may_wait| match (may_wait, self.is_socket) {
            (true, _) => rustix::io::write(fd, buffer),
            (false, true) => rustix::net::send(fd, buffer, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
            (false, false) => rustix::io::pwritev2(fd, &[IoSlice::new(buffer)], HERE, ReadWriteFlags::NOWAIT),
        })
    }
}

/// Returns the descriptor's part here, which is set up when it is first used.
fn standard(place: &'static OnceLock<Standard>, descriptor: BorrowedFd<'static>) -> io::Result<&'static Standard> {
    if let Some(standard) = place.get() {
        return Ok(standard);
    }
    let standard = Standard::new(descriptor)?;
    Ok(place.get_or_init(|| standard))
}

static INPUT: OnceLock<Standard> = OnceLock::new();
static OUTPUT: OnceLock<Standard> = OnceLock::new();
static ERRORS: OnceLock<Standard> = OnceLock::new();

/// Returns the standard input, which fibres can wait for.
///
/// It has no buffer: wrap one `std::io::BufReader` around it to read lines. Bytes in the buffer of
/// std's handle are not seen here. Whether it is a pipe, a file or a terminal is asked once.
///
/// ```no_run
/// use std::io::BufRead;
/// sinew::run(|| {
///     for line in std::io::BufReader::new(sinew::io::stdin()).lines() {
///         println!("{}", line.unwrap());
///     }
/// });
/// ```
pub fn stdin() -> Stdin {
    Stdin { handle: io::stdin() }
}

/// Returns the standard output, which fibres can wait for.
///
/// It has no buffer. Bytes in the buffer of std's handle, such as the part of a line that `print!`
/// has left, come when that is flushed.
pub fn stdout() -> Stdout {
    Stdout { handle: io::stdout() }
}

/// Returns the standard error output, which fibres can wait for. It has no buffer.
pub fn stderr() -> Stderr {
    Stderr { handle: io::stderr() }
}

/// See [`stdin`].
#[derive(Debug)]
pub struct Stdin {
    handle: io::Stdin,
}

/// See [`stdout`].
#[derive(Debug)]
pub struct Stdout {
    handle: io::Stdout,
}

/// See [`stderr`].
#[derive(Debug)]
pub struct Stderr {
    handle: io::Stderr,
}

impl Read for &Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        standard(&INPUT, rustix::stdio::stdin())?.read(buffer)
    }
}

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for &Stdout {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        standard(&OUTPUT, rustix::stdio::stdout())?.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Stdout {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self).write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for &Stderr {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        standard(&ERRORS, rustix::stdio::stderr())?.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Stderr {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self).write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stdin {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl AsFd for Stdout {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl AsFd for Stderr {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}
