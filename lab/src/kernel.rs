//! System calls that std does not offer.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::Duration;

use crate::measure::procfs;

/// Lets the calling thread, and the threads that it starts, run only on these CPUs. `places`
/// counts among the CPUs that the process may use.
pub fn pin_to(places: std::ops::Range<usize>) -> io::Result<()> {
    let allowed = allowed_cpus()?;
    // SAFETY: all bits zero is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for place in places {
        if let Some(&cpu) = allowed.get(place % allowed.len()) {
            // SAFETY: the CPU is one that the kernel named.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
    }
    // SAFETY: the set is ours and as large as said.
    check(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) })
}

/// Returns the CPUs that this process may use.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    // SAFETY: all bits zero is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours and as large as said.
    check(unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) })?;
    // SAFETY: the index is within the set.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// Returns the kernel's number of the calling thread.
pub fn thread_number() -> usize {
    // SAFETY: takes nothing, and always succeeds.
    unsafe { libc::gettid() as usize }
}

/// Lets this process end when its parent ends, also after `exec`.
pub fn end_with_parent(parent: u32) -> io::Result<()> {
    // SAFETY: takes a number.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // The kernel does not report a parent that ended before this call.
    if std::os::unix::process::parent_id() == parent { Ok(()) } else { Err(io::Error::other("the parent has ended")) }
}

/// Raises the process's limit of descriptors as far as it may. Returns the limit.
pub fn raise_descriptor_limit() -> io::Result<usize> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is ours.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: as above.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    Ok(usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX))
}

/// Accepts a connection, as a non-blocking one, by one system call. Returns `None` if no
/// connection waits.
pub fn accept(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let own = listener.as_raw_fd();
    // SAFETY: no address is asked for.
    let descriptor = unsafe { libc::accept4(own, std::ptr::null_mut(), std::ptr::null_mut(), flags) };
    if descriptor >= 0 {
        // SAFETY: the descriptor is new, so it has no other owner.
        return Ok(Some(unsafe { TcpStream::from_raw_fd(descriptor) }));
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        error => Err(error),
    }
}

/// Tells the kernel how a file will be used: one of `libc::POSIX_FADV_*`.
pub fn advise(file: &File, advice: libc::c_int) -> io::Result<()> {
    // SAFETY: takes numbers.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Returns whether the byte at an offset of a file is in the kernel's memory.
pub fn is_in_memory(file: &File, offset: u64) -> io::Result<bool> {
    let mut byte = 0_u8;
    let room = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: the room is ours.
    let count = unsafe { libc::preadv2(file.as_raw_fd(), &raw const room, 1, offset as libc::off_t, libc::RWF_NOWAIT) };
    match count {
        0.. => Ok(true),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            error => Err(error),
        },
    }
}

/// Lets the calling thread run only on a CPU that no other thread wants.
pub fn run_when_idle() -> io::Result<()> {
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is ours; the number is that of the calling thread.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const priority) })
}

/// Asks a child of this process to end.
pub fn interrupt(child: &std::process::Child) -> io::Result<()> {
    // SAFETY: takes numbers; the child has not been waited for, so that its
    // number is its own.
    check(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) })
}

/// Kills a child that has not been waited for, and all its descendants: nginx leaves its
/// workers behind when only its master is killed.
pub fn kill_family(child: &std::process::Child) {
    kill_all(&procfs::family_of(child.id()));
}

/// Kills all descendants of this process. Returns their numbers.
pub fn kill_descendants() -> Vec<u32> {
    let mut family = procfs::family_of(std::process::id());
    family.remove(0);
    kill_all(&family);
    family
}

fn kill_all(family: &[u32]) {
    for &process in family {
        // SAFETY: takes numbers. All were descendants of this process a moment ago, and the
        // kernel does not reuse a number that soon.
        unsafe { libc::kill(process as libc::pid_t, libc::SIGKILL) };
    }
}

/// Returns the CPU time of all threads of this process so far.
pub fn cpu_time() -> Duration {
    time_of(libc::CLOCK_PROCESS_CPUTIME_ID).expect("the clock of this process")
}

/// Returns the CPU time of all threads of a process so far, also of those that have ended.
pub fn process_cpu_time(process: u32) -> Option<Duration> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the number of the clock is valid for writing.
    if unsafe { libc::clock_getcpuclockid(process as libc::pid_t, &raw mut clock) } != 0 {
        return None;
    }
    time_of(clock)
}

fn time_of(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is valid for writing.
    check(unsafe { libc::clock_gettime(clock, &raw mut time) }).ok()?;
    Some(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Returns how often the calling kernel thread has given its CPU to another.
pub fn thread_switches() -> u64 {
    // SAFETY: all bits zero is a valid structure of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is ours; the call cannot fail with these arguments.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    (usage.ru_nvcsw + usage.ru_nivcsw) as u64
}

/// Returns the number of the calling kernel thread.
pub fn thread_id() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the CPU time of the calling thread so far.
pub fn thread_cpu() -> Duration {
    time_of(libc::CLOCK_THREAD_CPUTIME_ID).expect("the clock of this thread")
}
