//! The two directions of a stream, as values of their own.

use super::{TcpStream, UnixStream};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::task::{Context, Poll};
use std::time::Instant;
use std::{error, fmt, mem};

/// The half of a stream that reads: see [`TcpStream::split`].
#[derive(Clone, Copy, Debug)]
pub struct ReadHalf<'a, S> {
    stream: &'a S,
}

/// The half of a stream that writes: see [`TcpStream::split`].
#[derive(Clone, Copy, Debug)]
pub struct WriteHalf<'a, S> {
    stream: &'a S,
}

/// The half of a stream that reads, as a value that may go to another fibre: see
/// [`TcpStream::into_split`].
#[derive(Debug)]
pub struct OwnedReadHalf<S> {
    stream: S,
}

/// The half of a stream that writes, as a value that may go to another fibre: see
/// [`TcpStream::into_split`].
///
/// Its drop tells the other end that no more bytes come, as
/// [`shutdown`](OwnedWriteHalf::shutdown) does. [`forget`](OwnedWriteHalf::forget) drops it without
/// that.
#[derive(Debug)]
pub struct OwnedWriteHalf<S: sealed::Stream> {
    stream: S,
    shuts_down: bool,
}

/// The error of halves that are not of the same stream. It gives them back.
#[derive(Debug)]
pub struct ReuniteError<S: sealed::Stream>(pub OwnedReadHalf<S>, pub OwnedWriteHalf<S>);

impl<S: sealed::Stream> fmt::Display for ReuniteError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the halves are not of the same stream")
    }
}

impl<S: sealed::Stream> error::Error for ReuniteError<S> {}

mod sealed {
    /// A stream that can be split.
    pub trait Stream: Clone + std::fmt::Debug {
        fn is_same(&self, other: &Self) -> bool;
        fn stop_sending(&self) -> std::io::Result<()>;
    }
}

impl<S: sealed::Stream> OwnedReadHalf<S> {
    /// Returns the stream, if `other` is its other half.
    ///
    /// # Errors
    /// The halves, if they are not of the same stream.
    pub fn reunite(self, mut other: OwnedWriteHalf<S>) -> Result<S, ReuniteError<S>> {
        if !self.stream.is_same(&other.stream) {
            return Err(ReuniteError(self, other));
        }
        other.shuts_down = false;
        Ok(self.stream)
    }
}

impl<S: sealed::Stream> OwnedWriteHalf<S> {
    /// Returns the stream, if `other` is its other half.
    ///
    /// # Errors
    /// The halves, if they are not of the same stream.
    pub fn reunite(self, other: OwnedReadHalf<S>) -> Result<S, ReuniteError<S>> {
        other.reunite(self)
    }

    /// Drops the half, but lets the other end go on waiting for bytes.
    pub fn forget(mut self) {
        self.shuts_down = false;
    }

    /// Tells the other end that no more bytes come.
    ///
    /// # Errors
    /// The kernel's.
    pub fn shutdown(&self) -> io::Result<()> {
        self.stream.stop_sending()
    }
}

impl<S: sealed::Stream> WriteHalf<'_, S> {
    /// Tells the other end that no more bytes come.
    ///
    /// # Errors
    /// The kernel's.
    pub fn shutdown(&self) -> io::Result<()> {
        self.stream.stop_sending()
    }
}

impl<S: sealed::Stream> Drop for OwnedWriteHalf<S> {
    fn drop(&mut self) {
        if mem::take(&mut self.shuts_down) {
            // If it fails, the connection is gone.
            let _ = self.stream.stop_sending();
        }
    }
}

/// Everything that a stream of this type and its halves have.
macro_rules! halves {
    ($Stream:ident) => {
        impl $Stream {
            /// Returns two halves: one reads, the other writes. Both borrow the stream, so that
            /// two fibres of a [scope](crate::scope) can use it at the same time.
            ///
            /// The drop of a half does nothing. Two handles to the stream do the same, but may
            /// both read and write: see [`try_clone`](Self::try_clone). For a session object over
            /// the stream, see [`Duplex`](super::Duplex).
            ///
            /// ```
            /// use sinew::net::UnixStream;
            /// use std::io::{Read, Write};
            /// sinew::run(|| {
            ///     let (here, there) = UnixStream::pair()?;
            ///     let ((mut reader, _), (_, mut writer)) = (here.split(), there.split());
            ///     sinew::scope(|scope| {
            ///         scope.spawn(move || writer.write_all(b"hello"));
            ///         let mut greeting = [0; 5];
            ///         reader.read_exact(&mut greeting)?;
            ///         assert_eq!(&greeting, b"hello");
            ///         std::io::Result::Ok(())
            ///     })
            /// })
            /// # .unwrap();
            /// ```
            pub fn split(&self) -> (ReadHalf<'_, $Stream>, WriteHalf<'_, $Stream>) {
                (ReadHalf { stream: self }, WriteHalf { stream: self })
            }

            /// As [`split`](Self::split), into halves that may go to fibres that outlive the
            /// caller. The drop of the half that writes tells the other end that no more bytes
            /// come; the half that reads may go on.
            ///
            /// ```
            /// use sinew::net::UnixStream;
            /// use std::io::{Read, Write};
            /// sinew::run(|| {
            ///     let (here, there) = UnixStream::pair()?;
            ///     let (mut reader, _writer) = here.into_split();
            ///     sinew::spawn(move || {
            ///         let (_reader, mut writer) = there.into_split();
            ///         writer.write_all(b"hello")
            ///         // The drop of the writer is the end of the stream.
            ///     });
            ///     let mut greeting = String::new();
            ///     reader.read_to_string(&mut greeting)?;
            ///     assert_eq!(greeting, "hello");
            ///     std::io::Result::Ok(())
            /// })
            /// # .unwrap();
            /// ```
            pub fn into_split(self) -> (OwnedReadHalf<$Stream>, OwnedWriteHalf<$Stream>) {
                (OwnedReadHalf { stream: self.clone() }, OwnedWriteHalf { stream: self, shuts_down: true })
            }
        }

        impl sealed::Stream for $Stream {
            fn is_same(&self, other: &$Stream) -> bool {
                self.socket().is_same(other.socket())
            }

            fn stop_sending(&self) -> io::Result<()> {
                self.shutdown(Shutdown::Write)
            }
        }

        halves!(@read $Stream, ReadHalf<'_, $Stream>);
        halves!(@read $Stream, OwnedReadHalf<$Stream>);
        halves!(@write $Stream, WriteHalf<'_, $Stream>);
        halves!(@write $Stream, OwnedWriteHalf<$Stream>);
    };
    (@read $Stream:ident, $Half:ty) => {
        /// The stream, for its addresses and timeouts.
        impl AsRef<$Stream> for $Half {
            fn as_ref(&self) -> &$Stream {
                &self.stream
            }
        }

        impl Read for $Half {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                Read::read(&mut AsRef::<$Stream>::as_ref(self), buffer)
            }

            fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                Read::read_vectored(&mut AsRef::<$Stream>::as_ref(self), buffers)
            }
        }

        impl $Half {
            /// As [`read`](Read::read), but waits until `deadline`, whatever the timeout.
            ///
            /// # Errors
            /// The kernel's; `TimedOut` beyond the deadline.
            pub fn read_deadline(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
                self.stream.read_deadline(buffer, deadline)
            }

            /// As [`read`](Read::read), for tasks. Dropped before its end, it has read nothing.
            ///
            /// # Errors
            /// The kernel's.
            pub async fn read_async(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.stream.read_async(buffer).await
            }

            /// As [`read_exact`](Read::read_exact), for tasks. Dropped before its end, it may
            /// have read some.
            ///
            /// # Errors
            /// As `read_exact`.
            pub async fn read_exact_async(&mut self, buffer: &mut [u8]) -> io::Result<()> {
                self.stream.read_exact_async(buffer).await
            }

            /// Reads if that takes no waiting: see
            #[doc = concat!("[`", stringify!($Stream), "::poll_read`].")]
            ///
            /// # Errors
            /// The kernel's.
            pub fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
                self.stream.poll_read(context, buffer)
            }
        }
    };
    (@write $Stream:ident, $Half:ty) => {
        /// The stream, for its addresses and timeouts.
        impl AsRef<$Stream> for $Half {
            fn as_ref(&self) -> &$Stream {
                &self.stream
            }
        }

        impl Write for $Half {
            fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
                Write::write(&mut AsRef::<$Stream>::as_ref(self), buffer)
            }

            fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
                Write::write_vectored(&mut AsRef::<$Stream>::as_ref(self), buffers)
            }

            fn flush(&mut self) -> io::Result<()> {
                Write::flush(&mut AsRef::<$Stream>::as_ref(self))
            }
        }

        impl $Half {
            /// As [`write`](Write::write), but waits until `deadline`, whatever the timeout.
            ///
            /// # Errors
            /// The kernel's; `TimedOut` beyond the deadline.
            pub fn write_deadline(&mut self, buffer: &[u8], deadline: Instant) -> io::Result<usize> {
                self.stream.write_deadline(buffer, deadline)
            }

            /// As [`write`](Write::write), for tasks. Dropped before its end, it has written
            /// nothing.
            ///
            /// # Errors
            /// The kernel's.
            pub async fn write_async(&mut self, buffer: &[u8]) -> io::Result<usize> {
                self.stream.write_async(buffer).await
            }

            /// As [`write_all`](Write::write_all), for tasks. Dropped before its end, it may have
            /// written some.
            ///
            /// # Errors
            /// As `write_all`.
            pub async fn write_all_async(&mut self, buffer: &[u8]) -> io::Result<()> {
                self.stream.write_all_async(buffer).await
            }

            /// Writes if that takes no waiting: see
            #[doc = concat!("[`", stringify!($Stream), "::poll_write`].")]
            ///
            /// # Errors
            /// The kernel's.
            pub fn poll_write(&mut self, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
                self.stream.poll_write(context, buffer)
            }
        }
    };
}

halves!(TcpStream);
halves!(UnixStream);
