//! The parent's ends of a child's pipes.

use crate::base::Deadline;
use crate::io::descriptor::set_nonblocking;
use crate::io::{Done, Side, Source};
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::process::Stdio;
use std::task::{Context, Poll};

/// The end of a pipe. The other end belongs to the child, and blocks as usual.
struct Pipe {
    source: Source,
}

/// The number of bytes that a task reads at once, if it wants all: the size of a pipe.
const CHUNK: usize = 64 * 1024;

impl Pipe {
    fn new(descriptor: OwnedFd) -> io::Result<Pipe> {
        set_nonblocking(&descriptor, true)?;
        Ok(Pipe { source: Source::new(descriptor) })
    }

    // A short read does not show that the pipe is empty: a pipe may be in packet mode. So nothing is
    // concluded from the number of bytes.

    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.source.operate(Side::Read, Deadline::NEVER, |fd| Ok(Done::some(rustix::io::read(fd, &mut *buffer)?)))
    }

    fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.source.operate(Side::Read, Deadline::NEVER, |fd| Ok(Done::some(rustix::io::readv(fd, buffers)?)))
    }

    async fn read_async(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.source.operate_async(Side::Read, |fd| Ok(Done::some(rustix::io::read(fd, &mut *buffer)?))).await
    }

    async fn read_all_async(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            let length = bytes.len();
            bytes.resize(length + CHUNK, 0);
            let count = self.read_async(&mut bytes[length..]).await?;
            bytes.truncate(length + count);
            if count == 0 {
                return Ok(bytes);
            }
        }
    }

    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let attempt = |fd: BorrowedFd<'_>| Ok(Done::some(rustix::io::read(fd, &mut *buffer)?));
        self.source.poll_operate(Side::Read, context, attempt)
    }

    fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        self.source.operate(Side::Write, Deadline::NEVER, |fd| Ok(Done::some(rustix::io::write(fd, buffer)?)))
    }

    fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.source.operate(Side::Write, Deadline::NEVER, |fd| Ok(Done::some(rustix::io::writev(fd, buffers)?)))
    }

    async fn write_async(&self, buffer: &[u8]) -> io::Result<usize> {
        self.source.operate_async(Side::Write, |fd| Ok(Done::some(rustix::io::write(fd, buffer)?))).await
    }

    fn poll_write(&self, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        let attempt = |fd: BorrowedFd<'_>| Ok(Done::some(rustix::io::write(fd, buffer)?));
        self.source.poll_operate(Side::Write, context, attempt)
    }

    /// Returns the descriptor, blocking as it was.
    ///
    /// # Panics
    /// In another event scope.
    fn into_descriptor(self) -> OwnedFd {
        let descriptor = self.source.into_descriptor();
        // It was made non-blocking the same way, so this succeeds.
        let _ = set_nonblocking(&descriptor, false);
        descriptor
    }
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pipe").field(&self.source.number()).finish()
    }
}

/// The methods and traits that every end has.
macro_rules! end {
    ($Type:ident, $std:path) => {
        impl $Type {
            pub(super) fn new(pipe: $std) -> io::Result<$Type> {
                Ok($Type { pipe: Pipe::new(pipe.into())? })
            }
        }

        /// # Panics
        /// In another [`EventScope`](crate::io::EventScope).
        impl AsFd for $Type {
            #[track_caller]
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.pipe.source.as_fd()
            }
        }

        /// In another [`EventScope`](crate::io::EventScope) the number means something else.
        impl AsRawFd for $Type {
            fn as_raw_fd(&self) -> RawFd {
                self.pipe.source.number()
            }
        }

        /// The descriptor blocks, as std's do.
        ///
        /// # Panics
        /// In another [`EventScope`](crate::io::EventScope).
        impl From<$Type> for OwnedFd {
            fn from(end: $Type) -> OwnedFd {
                end.pipe.into_descriptor()
            }
        }

        /// # Panics
        /// In another [`EventScope`](crate::io::EventScope).
        impl From<$Type> for $std {
            fn from(end: $Type) -> $std {
                OwnedFd::from(end).into()
            }
        }

        /// Makes the pipe a standard stream of another child.
        ///
        /// # Panics
        /// In another [`EventScope`](crate::io::EventScope).
        impl From<$Type> for Stdio {
            fn from(end: $Type) -> Stdio {
                OwnedFd::from(end).into()
            }
        }
    };
}

/// The methods and traits of an end to read from.
macro_rules! reader {
    ($Type:ident) => {
        impl $Type {
            /// Reads bytes, for tasks. Returns their number, and 0 at the end. A future that is
            /// dropped before its end has read nothing.
            ///
            /// # Errors
            /// The kernel's.
            pub async fn read_async(&self, buffer: &mut [u8]) -> io::Result<usize> {
                self.pipe.read_async(buffer).await
            }

            /// As [`read_async`](Self::read_async), for a future that is written by hand. The last
            /// caller is woken.
            pub fn poll_read(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
                self.pipe.poll_read(context, buffer)
            }

            pub(super) async fn read_all_async(&self) -> io::Result<Vec<u8>> {
                self.pipe.read_all_async().await
            }
        }

        impl Read for &$Type {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.pipe.read(buffer)
            }

            fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                self.pipe.read_vectored(buffers)
            }
        }

        impl Read for $Type {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.pipe.read(buffer)
            }

            fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                self.pipe.read_vectored(buffers)
            }
        }
    };
}

/// The end to which a child's standard input is written. Dropping it ends the child's input.
#[derive(Debug)]
pub struct ChildStdin {
    pipe: Pipe,
}

/// The end from which a child's standard output is read.
#[derive(Debug)]
pub struct ChildStdout {
    pipe: Pipe,
}

/// The end from which a child's standard error output is read.
#[derive(Debug)]
pub struct ChildStderr {
    pipe: Pipe,
}

end!(ChildStdin, std::process::ChildStdin);
end!(ChildStdout, std::process::ChildStdout);
end!(ChildStderr, std::process::ChildStderr);
reader!(ChildStdout);
reader!(ChildStderr);

impl ChildStdin {
    /// Writes bytes, for tasks. Returns their number. A future that is dropped before its end has
    /// written nothing.
    ///
    /// # Errors
    /// The kernel's; `BrokenPipe` if the child does not read any more.
    pub async fn write_async(&self, buffer: &[u8]) -> io::Result<usize> {
        self.pipe.write_async(buffer).await
    }

    /// As [`write_async`](ChildStdin::write_async), for a future that is written by hand. The last
    /// caller is woken.
    pub fn poll_write(&self, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.pipe.poll_write(context, buffer)
    }
}

impl Write for &ChildStdin {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.pipe.write(buffer)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.pipe.write_vectored(buffers)
    }

    /// Does nothing: there is no buffer.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for ChildStdin {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.pipe.write(buffer)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.pipe.write_vectored(buffers)
    }

    /// Does nothing: there is no buffer.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
