//! Calls that have to wait for a device, by the ring of the caller's cluster. Each returns `None` if there is
//! no ring: the caller takes the pool. Nothing ends the calls early, as in the pool.

use crate::cancel::shield;
use crate::io::{EventScoped, ring_read, ring_read_owned, ring_sync, ring_sync_owned};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Reads as `pread` does, or from the file's own position.
pub(super) fn read(file: BorrowedFd<'_>, buffer: &mut [u8], offset: Option<u64>) -> Option<io::Result<usize>> {
    shield(|| ring_read(file, buffer, offset))
}

/// As [`read`], for tasks: at most `length` bytes, into a buffer that the call owns.
pub(super) async fn read_async(
    file: &Arc<EventScoped<std::fs::File>>,
    length: usize,
    offset: Option<u64>,
) -> Option<io::Result<Vec<u8>>> {
    let (read, mut bytes) = ring_read_owned(Arc::clone(file), vec![0; length], offset).await?;
    Some(read.map(|count| {
        bytes.truncate(count);
        bytes
    }))
}

/// Waits until the file's contents are on its device, and unless `data_only` its metadata.
pub(super) fn sync(file: BorrowedFd<'_>, data_only: bool) -> Option<io::Result<()>> {
    shield(|| ring_sync(file, data_only))
}

/// As [`sync`], for tasks.
pub(super) async fn sync_async(file: &Arc<EventScoped<std::fs::File>>, data_only: bool) -> Option<io::Result<()>> {
    ring_sync_owned(Arc::clone(file), data_only).await
}
