//! The three descriptors that a process is born with.
//!
//! They are shared with other processes, and with std's handles in this one, none of
//! which expects that they are non-blocking. So they are left as they are. From a pipe or
//! a socket the kernel reads without waiting when a single call asks for that, and a
//! fibre waits for the rest like anywhere else. Terminals and regular files, and kernels
//! that cannot do this with pipes (before 6.5), are the matter of
//! [`blocking`](crate::blocking); and so are all of them in another event scope than the one
//! that used them first, whose duplicate the pollers know.
#![allow(unsafe_code)]

use super::descriptor::length;
use super::pollable::kind;
use super::{Done, Side, Source};
use crate::base::Deadline;
use crate::blocking;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// One of the three, for as long as the process lives.
struct Standard {
    /// A duplicate of the descriptor, for pollers to know it by; of the event scope that used
    /// it first.
    source: Source,
    /// The descriptor itself, which has this number in every scope.
    number: RawFd,
    is_socket: bool,
    /// Whether calls go to a kernel thread. Set for good when the kernel has refused the
    /// other way.
    blocks: AtomicBool,
}

impl Standard {
    fn new(descriptor: BorrowedFd<'_>) -> io::Result<Standard> {
        let kind = kind(descriptor)?;
        let (source, number) = (Source::new(descriptor.try_clone_to_owned()?), descriptor.as_raw_fd());
        let blocks = AtomicBool::new(kind != libc::S_IFIFO && kind != libc::S_IFSOCK);
        Ok(Standard { source, number, is_socket: kind == libc::S_IFSOCK, blocks })
    }

    /// Does what `call` does, which is told whether it may wait.
    fn operate(&self, side: Side, mut call: impl FnMut(RawFd, bool) -> io::Result<usize> + Send) -> io::Result<usize> {
        if !self.blocks.load(Relaxed) && self.source.raw().is_ok() {
            let outcome = self.source.operate(side, Deadline::NEVER, |fd| call(fd, false).map(Done::some));
            match outcome {
                Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
                    self.blocks.store(true, Relaxed);
                }
                outcome => return outcome,
            }
        }
        let descriptor = self.source.raw().unwrap_or(self.number);
        blocking(|| call(descriptor, true))
    }

    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let is_socket = self.is_socket;
        self.operate(Side::Read, move |fd, may_wait| {
            let (start, count) = (buffer.as_mut_ptr().cast(), buffer.len());
            let vector = libc::iovec { iov_base: start, iov_len: count };
            // SAFETY: the buffer is valid for writing.
            length(unsafe {
                match (may_wait, is_socket) {
                    (true, _) => libc::read(fd, start, count),
                    (false, true) => libc::recv(fd, start, count, libc::MSG_DONTWAIT),
                    (false, false) => libc::preadv2(fd, &vector, 1, -1, libc::RWF_NOWAIT),
                }
            })
        })
    }

    fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        let is_socket = self.is_socket;
        self.operate(Side::Write, move |fd, may_wait| {
            let (start, count) = (buffer.as_ptr().cast(), buffer.len());
            let vector = libc::iovec { iov_base: buffer.as_ptr().cast_mut().cast(), iov_len: count };
            // SAFETY: the buffer is valid for reading.
            length(unsafe {
                match (may_wait, is_socket) {
                    (true, _) => libc::write(fd, start, count),
                    (false, true) => libc::send(fd, start, count, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL),
                    (false, false) => libc::pwritev2(fd, &vector, 1, -1, libc::RWF_NOWAIT),
                }
            })
        })
    }
}

/// What belongs to a handle of std's, set up when it is first used.
fn standard(place: &'static OnceLock<Standard>, handle: &impl AsFd) -> io::Result<&'static Standard> {
    if let Some(standard) = place.get() {
        return Ok(standard);
    }
    let standard = Standard::new(handle.as_fd())?;
    Ok(place.get_or_init(|| standard))
}

static INPUT: OnceLock<Standard> = OnceLock::new();
static OUTPUT: OnceLock<Standard> = OnceLock::new();
static ERRORS: OnceLock<Standard> = OnceLock::new();

/// The standard input, which fibres can wait for.
///
/// It has no buffer: wrap one `std::io::BufReader` around it to read lines. What std's
/// handle has buffered is not seen here. It stays what it was when it was first used.
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

/// The standard output, which fibres can wait for.
///
/// It has no buffer. What std's handle has buffered, the part of a line that `print!`
/// has left, comes when that is flushed.
pub fn stdout() -> Stdout {
    Stdout { handle: io::stdout() }
}

/// The standard error output, which fibres can wait for. It has no buffer.
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
        standard(&INPUT, &self.handle)?.read(buffer)
    }
}

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for &Stdout {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        standard(&OUTPUT, &self.handle)?.write(buffer)
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
        standard(&ERRORS, &self.handle)?.write(buffer)
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
