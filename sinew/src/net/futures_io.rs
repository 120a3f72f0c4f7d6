//! The traits of the crate `futures-io` for streams.

use super::{TcpStream, UnixStream};
use futures_io::{AsyncRead, AsyncWrite};
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll};

macro_rules! traits {
    ($($Stream:ident),*) => {$(
        traits!(@of $Stream, $Stream);
        traits!(@of &$Stream, $Stream);
    )*};
    (@of $Type:ty, $Stream:ident) => {
        impl AsyncRead for $Type {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                $Stream::poll_read(&self, context, buffer)
            }
        }

        impl AsyncWrite for $Type {
            fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
                $Stream::poll_write(&self, context, buffer)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffers: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                $Stream::poll_write_vectored(&self, context, buffers)
            }

            fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            /// Tells the other end that no more bytes come, unless it is gone.
            fn poll_close(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(match self.shutdown(Shutdown::Write) {
                    Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
                    done => done,
                })
            }
        }
    };
}

traits!(TcpStream, UnixStream);
