//! Sends files from the page cache only, so that no processor waits for a disk.
//!
//! `sendfile` and `read` block their kernel thread if the bytes are not in the page cache. So the
//! kernel is asked first (`cachestat`, Linux 6.5). Bytes that are not there are read on the pool
//! for blocking calls, and then taken to be there. The kernel does not answer if it is older, or if
//! the file is neither ours nor writable for us. Then all pieces are read on the pool first.
#![allow(unsafe_code)]

use rustix::fs::Advice;
use rustix::io::Errno;
use sinew::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// The call has the same number on all architectures, as all newer calls have.
const SYS_CACHESTAT: libc::c_long = 451;

/// A range of a file, as `cachestat` takes it.
#[repr(C)]
struct Span {
    offset: u64,
    length: u64,
}

/// The answer of `cachestat`, in pages.
#[repr(C)]
#[derive(Default)]
struct Pages {
    cached: u64,
    dirty: u64,
    written_back: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Ensures that this part of the file can be sent without waiting for a disk. It stays so as long
/// as the kernel does not need the memory for something else.
pub fn ensure(file: &File, offset: u64, count: u64) {
    if !is_cached(file.as_fd(), offset, count).unwrap_or(false) {
        ensure_slow(file, offset, count);
    }
}

#[cold]
fn ensure_slow(file: &File, offset: u64, count: u64) {
    sinew::blocking(|| {
        // A read error shows again when the part is sent.
        let _ = rustix::fs::fadvise(file, offset, NonZeroU64::new(count), Advice::WillNeed);
        let mut buffer = [0; 16 * 1024];
        let (mut at, end) = (offset, offset + count);
        while at < end {
            let room = buffer.len().min((end - at) as usize);
            match rustix::io::pread(file, &mut buffer[..room], at) {
                Ok(0) | Err(_) => return,
                Ok(read) => at += read as u64,
            }
        }
    });
}

/// Returns whether all pages of this part are in the page cache.
fn is_cached(file: BorrowedFd<'_>, offset: u64, count: u64) -> io::Result<bool> {
    let span = Span { offset, length: count };
    let mut pages = Pages::default();
    // SAFETY: the span is valid for reading and the pages for writing, in the kernel's layout.
    let outcome = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const span, &raw mut pages, 0) };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    let size = rustix::param::page_size() as u64;
    Ok(pages.cached == (offset + count).div_ceil(size) - offset / size)
}

/// Reads bytes on the processor, after [`ensure`]. Returns their number.
///
/// # Errors
/// The error of the kernel.
pub fn read(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match rustix::io::pread(file, &mut *buffer, offset) {
            Err(Errno::INTR) => {}
            outcome => return Ok(outcome?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_not_in_the_page_cache_is_read_into_it() {
        let path = std::env::temp_dir().join(format!("sinew-web-resident-{}", std::process::id()));
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        file.sync_all().unwrap();
        let part = (4096, 500_000);
        let Ok(before) = is_cached(file.as_fd(), part.0, part.1) else {
            eprintln!("skipped: the kernel has no cachestat");
            return std::fs::remove_file(path).unwrap();
        };
        assert!(before, "it was written just now");
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        if is_cached(file.as_fd(), part.0, part.1).unwrap() {
            eprintln!("skipped: temporary files are kept in memory");
            return std::fs::remove_file(path).unwrap();
        }
        let file = File::from(file);
        sinew::run(|| ensure(&file, part.0, part.1));
        assert!(is_cached(file.as_fd(), part.0, part.1).unwrap());
        std::fs::remove_file(path).unwrap();
    }
}
