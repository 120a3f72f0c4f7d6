//! Streams as hyper reads and writes them.
#![allow(unsafe_code)]

use hyper::rt::{Read, ReadBufCursor, Write};
use sinew::net::{TcpStream, UnixStream};
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A stream of [`sinew::net`] that hyper reads and writes: straight from the socket into
/// hyper's buffers and back, without copies.
#[derive(Clone, Debug)]
pub struct SinewIo<S> {
    stream: S,
}

impl<S> SinewIo<S> {
    /// Lends hyper this stream.
    pub const fn new(stream: S) -> SinewIo<S> {
        SinewIo { stream }
    }

    /// The stream.
    pub const fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The stream.
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S> From<S> for SinewIo<S> {
    fn from(stream: S) -> SinewIo<S> {
        SinewIo::new(stream)
    }
}

macro_rules! traits {
    ($($Stream:ty),*) => {$(
        impl Read for SinewIo<$Stream> {
            #[inline]
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                mut cursor: ReadBufCursor<'_>,
            ) -> Poll<io::Result<()>> {
                // SAFETY: bytes are written to it, and nothing there is made uninitialised.
                let room = unsafe { cursor.as_mut() };
                let count = ready!(self.stream.poll_read_uninit(context, room))?;
                // SAFETY: that many have been written, as `poll_read_uninit` says.
                unsafe { cursor.advance(count) };
                Poll::Ready(Ok(()))
            }
        }

        impl Write for SinewIo<$Stream> {
            #[inline]
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.stream.poll_write(context, buffer)
            }

            #[inline]
            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffers: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.stream.poll_write_vectored(context, buffers)
            }

            #[inline]
            fn is_write_vectored(&self) -> bool {
                true
            }

            /// There is nothing between hyper and the kernel to be flushed.
            #[inline]
            fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            /// Says to the other end that no more comes, unless that is gone.
            fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(match self.stream.shutdown(Shutdown::Write) {
                    Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
                    done => done,
                })
            }
        }
    )*};
}

traits!(TcpStream, UnixStream);
