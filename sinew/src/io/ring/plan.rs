//! What the kernel is to do, as an entry of the submission queue.

use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::{Fd, FsyncFlags};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// The offset that stands for the file's own position.
const OWN_POSITION: u64 = u64::MAX;

/// The largest number of bytes that the kernel moves in one call.
const MOST_BYTES: usize = 0x7fff_f000;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Read,
    Write,
    Receive,
    Send,
    SyncAll,
    SyncData,
    Readable,
    Writable,
    Nothing,
}

/// One operation, with addresses instead of borrowed buffers. Only a submission follows them, and that is
/// `unsafe`.
pub(crate) struct Plan {
    what: What,
    fd: RawFd,
    address: *mut u8,
    length: u32,
    offset: u64,
}

impl Plan {
    /// Plans to read into `buffer`, at `offset` or at the file's own position.
    pub(crate) fn into(what: What, fd: BorrowedFd<'_>, buffer: &mut [u8], offset: Option<u64>) -> Plan {
        Plan::of(what, Some(fd), buffer.as_mut_ptr(), buffer.len(), offset)
    }

    /// Plans to write `bytes`, at `offset` or at the file's own position.
    pub(crate) fn from(what: What, fd: BorrowedFd<'_>, bytes: &[u8], offset: Option<u64>) -> Plan {
        Plan::of(what, Some(fd), bytes.as_ptr().cast_mut(), bytes.len(), offset)
    }

    /// Plans an operation without a buffer.
    pub(crate) fn bare(what: What, fd: Option<BorrowedFd<'_>>) -> Plan {
        Plan::of(what, fd, std::ptr::null_mut(), 0, None)
    }

    fn of(what: What, fd: Option<BorrowedFd<'_>>, address: *mut u8, length: usize, offset: Option<u64>) -> Plan {
        let fd = fd.map_or(-1, |fd| fd.as_raw_fd());
        let length = length.min(MOST_BYTES) as u32;
        Plan { what, fd, address, length, offset: offset.unwrap_or(OWN_POSITION) }
    }

    pub(crate) fn entry(&self) -> Entry {
        let fd = Fd(self.fd);
        match self.what {
            What::Read => opcode::Read::new(fd, self.address, self.length).offset(self.offset).build(),
            What::Write => opcode::Write::new(fd, self.address, self.length).offset(self.offset).build(),
            What::Receive => opcode::Recv::new(fd, self.address, self.length).build(),
            What::Send => opcode::Send::new(fd, self.address, self.length).flags(libc::MSG_NOSIGNAL).build(),
            What::SyncAll => opcode::Fsync::new(fd).build(),
            What::SyncData => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
            What::Readable => opcode::PollAdd::new(fd, libc::POLLIN as u32).build(),
            What::Writable => opcode::PollAdd::new(fd, libc::POLLOUT as u32).build(),
            What::Nothing => opcode::Nop::new().build(),
        }
    }

    /// Says whether the kernel gives up the operations that are linked behind one with this result.
    pub(crate) fn breaks_link(&self, result: i32) -> bool {
        let is_whole = u32::try_from(result).is_ok_and(|count| count == self.length);
        result < 0 || (matches!(self.what, What::Read | What::Write) && !is_whole)
    }
}
