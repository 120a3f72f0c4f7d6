//! The calls of `transfer.rs` for tasks, awaited or polled.

use super::address::Address;
use super::raw::Byte;
use super::socket::{Socket, accept, connected};
use super::transfer::{receive, receive_bytes, receive_from, receive_unix, send, send_gathered, send_to};
use crate::io::{Done, Side};
use rustix::net::RecvFlags;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll};

impl Socket {
    async fn operate_async<T>(
        &self,
        side: Side,
        attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<Done<T>>,
    ) -> io::Result<T> {
        if self.is_nonblocking() {
            return self.attempt_slow(attempt);
        }
        self.source().operate_async(side, attempt).await
    }

    pub(super) async fn read_async(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.operate_async(Side::Read, |fd| receive_bytes(fd, buffer)).await
    }

    /// See [`read_unix`](Socket::read_unix).
    pub(super) async fn read_unix_async(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.operate_async(Side::Read, |fd| receive_unix(fd, buffer)).await
    }

    pub(super) async fn readable_async(&self) -> io::Result<()> {
        self.source().ready_async(Side::Read).await
    }

    pub(super) async fn write_async(&self, buffer: &[u8]) -> io::Result<usize> {
        self.operate_async(Side::Write, |fd| send(fd, buffer)).await
    }

    pub(super) async fn receive_async(&self, buffer: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
        self.operate_async(Side::Read, |fd| Ok(Done::some(receive(fd, buffer, flags)?))).await
    }

    pub(super) async fn receive_from_async(&self, buffer: &mut [u8]) -> io::Result<(usize, Address)> {
        self.operate_async(Side::Read, |fd| receive_from(fd, buffer, RecvFlags::empty())).await
    }

    pub(super) async fn send_to_async(&self, buffer: &[u8], address: &Address) -> io::Result<usize> {
        self.operate_async(Side::Write, |fd| Ok(Done::some(send_to(fd, buffer, address)?))).await
    }

    pub(super) async fn accept_async(&self) -> io::Result<(Socket, Address)> {
        self.operate_async(Side::Read, accept).await
    }

    pub(super) async fn connect_async(&self, address: &Address) -> io::Result<()> {
        match self.connect_at_once(address) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) => {
                self.source().operate_async(Side::Write, connected()).await
            }
            done => done,
        }
    }

    #[inline]
    pub(super) fn poll_read<B: Byte>(&self, context: &mut Context<'_>, buffer: &mut [B]) -> Poll<io::Result<usize>> {
        self.source().poll_operate(Side::Read, context, |fd| receive_bytes(fd, buffer))
    }

    /// See [`read_unix`](Socket::read_unix).
    pub(super) fn poll_read_unix<B: Byte>(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [B],
    ) -> Poll<io::Result<usize>> {
        self.source().poll_operate(Side::Read, context, |fd| receive_unix(fd, buffer))
    }

    pub(super) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.source().poll_ready(Side::Read, context)
    }

    pub(super) fn poll_write(&self, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.source().poll_operate(Side::Write, context, |fd| send(fd, buffer))
    }

    pub(super) fn poll_write_vectored(
        &self,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.source().poll_operate(Side::Write, context, |fd| send_gathered(fd, buffers))
    }
}
