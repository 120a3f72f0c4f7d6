//! From a file to a socket.

use super::TcpStream;
use crate::fs::File;
use crate::io::descriptor::is_nonblocking;
use crate::io::{Done, Side};
use std::io::{self, ErrorKind, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;

/// The number of bytes that the kernel is asked to send at a time. It bounds how long one call
/// keeps the processor. A megabyte at a time was not measured to be faster.
const PIECE: u64 = 256 * 1024;

/// The buffer of the detour: what a pipe holds. Unmeasured beyond that.
const BUFFER: usize = 64 * 1024;

/// Sends `count` bytes of a file, from `offset` on, without a detour through a buffer of this
/// process. Returns the number of bytes, which is less if the file is shorter. Neither uses nor
/// moves the file's position.
///
/// Pages that are not in the kernel's page cache may block the processor for a moment. If that
/// is to be expected, [`io::copy`](crate::io::copy) is better: it blocks the fibre only. If
/// another owner of the socket has made it a blocking one, the bytes take the detour: the kernel
/// would block the processor.
///
/// # Errors
/// The kernel's, and those of a write to the socket. The number of bytes that were sent before
/// is not known then.
pub fn sendfile(file: &File, socket: &TcpStream, offset: u64, count: u64) -> io::Result<u64> {
    let descriptor = file.fd()?;
    if !is_nonblocking(socket.socket().fd()?)? {
        return send_copied(file, socket, offset, count);
    }
    // The kernel's offsets have a sign.
    if i64::try_from(offset).is_err() {
        return Err(ErrorKind::InvalidInput.into());
    }
    let mut place = offset;
    let mut left = count;
    while left > 0 {
        let piece = left.min(PIECE) as usize;
        let sent = socket.socket().operate(Side::Write, |fd| {
            let sent = rustix::fs::sendfile(fd, descriptor, Some(&mut place), piece)?;
            // Less than asked may be due to the file's end; if not, there is no more room.
            let is_short = sent > 0 && sent < piece && has_more(descriptor, place);
            Ok(if is_short { Done::bytes(sent, piece) } else { Done::some(sent) })
        })?;
        if sent == 0 {
            break;
        }
        left -= sent as u64;
    }
    Ok(count - left)
}

/// As [`sendfile`], through a buffer: every call says that it is not to wait.
#[cold]
fn send_copied(file: &File, mut socket: &TcpStream, offset: u64, count: u64) -> io::Result<u64> {
    let mut buffer = vec![0; BUFFER];
    let mut sent = 0;
    while sent < count {
        let piece = usize::try_from(count - sent).unwrap_or(BUFFER).min(BUFFER);
        let place = offset.checked_add(sent).ok_or(ErrorKind::InvalidInput)?;
        match file.read_at(&mut buffer[..piece], place) {
            Ok(0) => break,
            Ok(read) => {
                socket.write_all(&buffer[..read])?;
                sent += read as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// Returns whether a file goes on beyond this place.
#[cold]
fn has_more(file: BorrowedFd<'_>, place: u64) -> bool {
    rustix::fs::fstat(file).is_ok_and(|status| u64::try_from(status.st_size).is_ok_and(|size| size > place))
}
