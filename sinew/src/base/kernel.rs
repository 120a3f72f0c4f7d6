//! The few things asked of the kernel directly, each behind a safe function.
#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// The CPU that this thread runs on at this moment; 0 if the kernel won't say.
pub(crate) fn current_cpu() -> usize {
    // SAFETY: no arguments, no memory.
    usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

/// Restricts this thread to `cpus`.
pub(crate) fn pin_thread(cpus: &[usize]) -> io::Result<()> {
    // SAFETY: an all-zero set is a valid, empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus {
        if cpu >= libc::CPU_SETSIZE as usize {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: `cpu` is within the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: the set is valid for its size; 0 means this thread.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sleeps while `word` holds `expected`, until woken or until `timeout` has
/// passed. May return for no reason.
#[cfg_attr(sinew_loom, allow(dead_code))]
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word and the time outlive the call.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, expected, timeout);
    }
}

/// Wakes one thread that sleeps on `word`, which need not be there any more.
#[cfg_attr(sinew_loom, allow(dead_code))]
pub(crate) fn futex_wake(word: *const AtomicU32) {
    // SAFETY: the kernel uses the address only as a key.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
}

/// Writes to stderr at once. May be called where little may: in a signal handler, in a forked
/// child.
pub(crate) fn say(parts: &[&str]) {
    for part in parts {
        // SAFETY: the bytes are valid.
        unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
    }
}

/// The kernel's number of this thread.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: no arguments, no memory.
    unsafe { libc::gettid() }
}

/// Gives this thread a descriptor table of its own, with the three standard descriptors
/// in it.
pub(crate) fn renew_descriptor_table() -> io::Result<()> {
    const UNSHARE: libc::c_uint = 1 << 1;
    // SAFETY: what is closed is a copy that nobody knows of.
    match unsafe { libc::syscall(libc::SYS_close_range, 3 as libc::c_uint, libc::c_uint::MAX, UNSHARE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether this thread has the same descriptor table as another one of this process. If
/// the kernel won't say, `false`.
pub(crate) fn share_descriptors(thread: i32) -> bool {
    const FILES: libc::c_int = 2;
    // SAFETY: no memory is involved.
    unsafe { libc::syscall(libc::SYS_kcmp, thread_id(), thread, FILES, 0, 0) == 0 }
}
