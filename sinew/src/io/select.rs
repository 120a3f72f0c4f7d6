//! Waiting in a [`Select`](crate::sync::Select) until a descriptor is ready.

use super::pollable::{Pollable, is_ready};
use super::{Done, Side, Source};
use crate::sync::{SelectReader, SelectWriter};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

impl Source {
    /// Waits until the kernel says that a call on this side would not wait, for a task. Unlike
    /// [`ready_async`](Source::ready_async), this asks the kernel: it costs a call, and is not
    /// ready without a reason.
    pub(crate) async fn truly_ready_async(&self, side: Side) -> io::Result<()> {
        let ask = |fd: BorrowedFd<'_>| {
            if is_ready(fd, side)? { Ok(Done::some(())) } else { Err(io::ErrorKind::WouldBlock.into()) }
        };
        self.operate_async(side, ask).await
    }
}

impl<T: AsFd> SelectReader for Pollable<T> {
    async fn ready_to_read_async(&self) -> io::Result<()> {
        self.readable_async().await
    }
}

impl<T: AsFd> SelectWriter for Pollable<T> {
    async fn ready_to_write_async(&self) -> io::Result<()> {
        self.writable_async().await
    }
}
