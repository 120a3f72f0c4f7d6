//! The traits of the crate `futures-io` for the pipes of a child.

use super::{ChildStderr, ChildStdin, ChildStdout};
use futures_io::{AsyncRead, AsyncWrite};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

macro_rules! readers {
    ($($Type:ty),*) => {$(
        impl AsyncRead for $Type {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                (*self).poll_read(context, buffer)
            }
        }
    )*};
}

readers!(ChildStdout, ChildStderr);

impl AsyncWrite for ChildStdin {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        (*self).poll_write(context, buffer)
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Does nothing: dropping the pipe closes it.
    fn poll_close(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
