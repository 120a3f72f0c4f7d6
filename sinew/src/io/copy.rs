//! From one end to another.
#![allow(unsafe_code)]

use super::descriptor::{is_nonblocking, length, result};
use super::{Done, Side};
use crate::fs::File;
use crate::net::TcpStream;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::RawFd;
use std::os::unix::fs::FileExt;

/// What is copied at a time: as much as a pipe holds. Unmeasured beyond that.
const BUFFER: usize = 64 * 1024;

/// Reads until the end and writes it all. Gives the number of bytes.
///
/// As `std::io::copy`, with a buffer on the heap: the stack of a fibre is small.
///
/// # Errors
/// The reader's and the writer's. `Interrupted` is tried again.
pub fn copy<R, W>(reader: &mut R, writer: &mut W) -> io::Result<u64>
where
    R: Read + ?Sized,
    W: Write + ?Sized,
{
    let mut buffer = vec![0; BUFFER];
    let mut total = 0;
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(count) => {
                writer.write_all(&buffer[..count])?;
                total += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// What the kernel is asked to send at a time: so long is a processor busy with it. A
/// megabyte at a time was not measured to be faster.
const PIECE: u64 = 256 * 1024;

/// Sends `count` bytes of a file, from `offset` on, without a detour through a buffer of
/// this process. Gives the number of bytes, which is less if the file is shorter.
/// Neither reads nor moves the file's position.
///
/// The processor may be blocked for a moment by what is not in the kernel's page cache;
/// if that is to be expected, [`copy`] does not. If somebody else who has the socket has made it
/// a blocking one, the bytes take the detour: the kernel would block the processor.
///
/// # Errors
/// The kernel's, and those of a write to the socket. How much was sent before is not
/// known then.
pub fn sendfile(file: &File, socket: &TcpStream, offset: u64, count: u64) -> io::Result<u64> {
    let descriptor = file.raw()?;
    socket.socket().raw()?;
    if !is_nonblocking(socket)? {
        return send_copied(file, socket, offset, count);
    }
    let mut place = libc::off_t::try_from(offset).map_err(|_| ErrorKind::InvalidInput)?;
    let mut left = count;
    while left > 0 {
        let piece = left.min(PIECE) as usize;
        let sent = socket.socket().operate(Side::Write, |fd| {
            // SAFETY: the place is valid for reading and writing.
            let sent = length(unsafe { libc::sendfile(fd, descriptor, &mut place, piece) })?;
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

/// Whether a file goes on beyond this place.
#[cold]
fn has_more(descriptor: RawFd, place: libc::off_t) -> bool {
    // SAFETY: all-zero is a valid status.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the status is valid for writing.
    let asked = result(unsafe { libc::fstat(descriptor, &mut status) });
    asked.is_ok() && status.st_size > place
}
