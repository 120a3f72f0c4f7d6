//! The traits of the crate `futures-io` for streams.

use super::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, TcpStream, UnixStream, WriteHalf};
use futures_io::{AsyncRead, AsyncWrite};
use std::borrow::Borrow;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll};

macro_rules! traits {
    ($($Stream:ident),*) => {$(
        traits!(@of $Stream, $Stream);
        traits!(@of &$Stream, $Stream);
        traits!(@read ReadHalf<'_, $Stream>, $Stream, AsRef::<$Stream>::as_ref);
        traits!(@read OwnedReadHalf<$Stream>, $Stream, AsRef::<$Stream>::as_ref);
        traits!(@write WriteHalf<'_, $Stream>, $Stream, AsRef::<$Stream>::as_ref);
        traits!(@write OwnedWriteHalf<$Stream>, $Stream, AsRef::<$Stream>::as_ref);
    )*};
    (@of $Type:ty, $Stream:ident) => {
        traits!(@read $Type, $Stream, Borrow::<$Stream>::borrow);
        traits!(@write $Type, $Stream, Borrow::<$Stream>::borrow);
    };
    (@read $Type:ty, $Stream:ident, $as_stream:path) => {
        impl AsyncRead for $Type {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                $Stream::poll_read($as_stream(&*self), context, buffer)
            }
        }
    };
    (@write $Type:ty, $Stream:ident, $as_stream:path) => {
        impl AsyncWrite for $Type {
            fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
                $Stream::poll_write($as_stream(&*self), context, buffer)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffers: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                $Stream::poll_write_vectored($as_stream(&*self), context, buffers)
            }

            fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            /// Tells the other end that no more bytes come, unless it is gone.
            fn poll_close(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(match $Stream::shutdown($as_stream(&*self), Shutdown::Write) {
                    Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
                    done => done,
                })
            }
        }
    };
}

traits!(TcpStream, UnixStream);
