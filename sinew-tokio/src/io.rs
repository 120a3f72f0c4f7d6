//! Sinew's streams with Tokio's traits.
#![allow(unsafe_code)]

use sinew::net::{TcpStream, UnixStream};
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream of [`sinew::net`] for libraries that take any stream with Tokio's traits. Its bytes pass
/// neither through the helper runtime nor through a buffer.
///
/// ```
/// use sinew::net::UnixStream;
/// use sinew_tokio::SinewIo;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// sinew::run(|| {
///     let (here, there) = UnixStream::pair().unwrap();
///     let writer = sinew::task::spawn(async move { SinewIo::new(there).write_all(b"hello").await });
///     let mut text = String::new();
///     sinew::block_on(SinewIo::new(here).read_to_string(&mut text)).unwrap();
///     assert_eq!(text, "hello");
///     writer.join().unwrap().unwrap();
/// });
/// ```
#[derive(Debug)]
pub struct SinewIo<S> {
    stream: S,
}

impl<S> SinewIo<S> {
    /// Wraps a stream for Tokio's traits.
    pub const fn new(stream: S) -> SinewIo<S> {
        SinewIo { stream }
    }

    /// Returns a reference to the stream.
    pub const fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Returns the stream.
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
        impl AsyncRead for SinewIo<$Stream> {
            #[inline]
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                // SAFETY: `poll_read_uninit` only writes bytes to the buffer, and makes none
                // uninitialised.
                let room = unsafe { buffer.unfilled_mut() };
                let count = ready!(self.stream.poll_read_uninit(context, room))?;
                // SAFETY: `poll_read_uninit` has written `count` bytes.
                unsafe { buffer.assume_init(count) };
                buffer.advance(count);
                Poll::Ready(Ok(()))
            }
        }

        impl AsyncWrite for SinewIo<$Stream> {
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

            /// Does nothing: no bytes wait between the caller and the kernel.
            #[inline]
            fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            /// Tells the other end that no more bytes come. It is no error if that end is gone.
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
