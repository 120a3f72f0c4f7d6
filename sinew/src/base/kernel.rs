//! Calls of the kernel, each behind a safe function. rustix makes them where it can.
#![allow(unsafe_code)]

use rustix::event::epoll;
use rustix::thread::futex;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Returns the CPU that this thread runs on at this moment.
pub(crate) fn current_cpu() -> usize {
    // Not rustix's: libc asks the vDSO, which is no call of the kernel.
    // SAFETY: no arguments, no memory.
    usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

/// Restricts this thread to `cpus`.
pub(crate) fn pin_thread(cpus: &[usize]) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    for &cpu in cpus {
        if cpu >= rustix::thread::CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(cpu);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Sleeps while `word` holds `expected`, until woken or until `timeout` has passed. May return
/// for no reason.
#[cfg_attr(sinew_loom, allow(dead_code))]
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    let timeout = timeout.map(|timeout| futex::Timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(futex::Secs::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    // Interrupted, too late, another value: the caller looks again in any case.
    let _ = futex::wait(word, futex::Flags::PRIVATE, expected, timeout.as_ref());
}

/// Wakes one thread that sleeps on `word`, which need not be there any more: so it is not a
/// reference, which rustix asks for.
#[cfg_attr(sinew_loom, allow(dead_code))]
pub(crate) fn futex_wake(word: *const AtomicU32) {
    // SAFETY: the kernel uses the address only as a key.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
}

/// Writes to stderr at once. May be called in a signal handler and in a forked child.
pub(crate) fn say(parts: &[&str]) {
    for part in parts {
        // Nobody is left to be told if that cannot be written.
        let _ = rustix::io::write(rustix::stdio::stderr(), part.as_bytes());
    }
}

/// Makes the C library call `in_child` in each child that this process forks. The other threads of the
/// process do not exist there, so `in_child` must not take a lock or allocate. The call fails only
/// without memory. Then children do not call the function.
pub(crate) fn call_in_forked_children(in_child: extern "C" fn()) {
    // SAFETY: the function is safe and exists for the whole run. The threads that a child lacks can
    // make it wait, but not misuse memory.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// Returns the CPU time that the calling thread has used.
pub(crate) fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is valid for writing.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    debug_assert_eq!(result, 0, "the clock is there since Linux 2.6.12");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the kernel's number of this thread.
pub(crate) fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_pid()
}

/// The time that a thread of this process has spent since it began. The rest of its life it has waited in
/// the kernel for something else than a CPU.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) running: Duration,
    /// Waiting for a CPU. A wait that has not ended is not in it.
    pub(crate) queued: Duration,
}

/// Returns how a thread of this process has spent its time. `None` if the kernel does not tell.
pub(crate) fn time_spent(thread: i32) -> Option<Spent> {
    let times = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    let mut ns = times.split(' ').map_while(|field| field.parse().ok().map(Duration::from_nanos));
    Some(Spent { running: ns.next()?, queued: ns.next()? })
}

/// Returns the CPU time that a thread of this process has used, to the nanosecond. `None` if there is no
/// such thread.
pub(crate) fn cpu_time_of(thread: i32) -> Option<Duration> {
    // The kernel's number for the clock of a thread: see `CPUCLOCK_PERTHREAD_MASK` there.
    const OF_THREAD: i32 = 4 | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is valid for writing.
    let result = unsafe { libc::clock_gettime((!thread << 3) | OF_THREAD, &mut time) };
    (result == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Where a thread waits that is in the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) instruction: usize,
    pub(crate) stack: usize,
}

/// Returns where a thread of this process waits in the kernel. `None` if it runs, if it waits for a CPU, or
/// if the kernel does not tell.
pub(crate) fn waiting(thread: i32) -> Option<Waiting> {
    let line = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).ok()?;
    // The last two fields. A thread that runs has only the word "running".
    let mut fields = line.split_ascii_whitespace().rev();
    let mut address = || usize::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
    let (instruction, stack) = (address()?, address()?);
    Some(Waiting { instruction, stack })
}

/// Sends a signal to a thread of this process.
pub(crate) fn interrupt(thread: i32, signal: i32) -> bool {
    // SAFETY: no memory is involved.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) == 0 }
}

/// Gives this thread a descriptor table of its own, with the three standard descriptors in it.
pub(crate) fn renew_descriptor_table() -> io::Result<()> {
    const UNSHARE: libc::c_uint = 1 << 1;
    // SAFETY: what is closed is a copy that nobody knows of.
    match unsafe { libc::syscall(libc::SYS_close_range, 3 as libc::c_uint, libc::c_uint::MAX, UNSHARE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns whether this thread has the same descriptor table as another one of this process;
/// `false` if the kernel does not say.
pub(crate) fn share_descriptors(thread: i32) -> bool {
    const FILES: libc::c_int = 2;
    // SAFETY: no memory is involved.
    unsafe { libc::syscall(libc::SYS_kcmp, thread_id(), thread, FILES, 0, 0) == 0 }
}

/// Waits for events of `epoll`, for `timeout` at most, with a resolution of nanoseconds.
///
/// # Errors
/// The kernel's: it can do this since Linux 5.11.
pub(crate) fn epoll_wait_exactly<'a>(
    epoll: BorrowedFd<'_>,
    room: &'a mut [MaybeUninit<epoll::Event>],
    timeout: Duration,
) -> io::Result<&'a [epoll::Event]> {
    let time = libc::timespec { tv_sec: timeout.as_secs() as libc::time_t, tv_nsec: timeout.subsec_nanos().into() };
    // SAFETY: the room is valid for writing, the time for reading. An event of rustix's is one of
    // the kernel's.
    let count = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            room.as_mut_ptr(),
            room.len(),
            &raw const time,
            std::ptr::null::<libc::sigset_t>(),
            0usize,
        )
    };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    let filled = &room[..count];
    // SAFETY: the kernel has filled these events.
    Ok(unsafe { std::slice::from_raw_parts(filled.as_ptr().cast(), count) })
}
