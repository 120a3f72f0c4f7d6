//! What the lab asks of the kernel and std has no word for.
#![allow(unsafe_code)]

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::Duration;

use crate::measure::procfs;

/// Lets the calling thread, and those that it starts, run on the CPUs with
/// these places among those that the process may use.
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

/// The CPUs that this process may use.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    // SAFETY: all bits zero is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours and as large as said.
    check(unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) })?;
    // SAFETY: the index is within the set.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// The process ends when the one that started it does, also after `exec`.
pub fn end_with_parent(parent: u32) -> io::Result<()> {
    // SAFETY: takes a number.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // One that had ended before cannot be heard of any more.
    if std::os::unix::process::parent_id() == parent { Ok(()) } else { Err(io::Error::other("its parent has ended")) }
}

/// Lets the process have the most descriptors that it may have, and returns their number.
pub fn raise_descriptor_limit() -> io::Result<usize> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is ours.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: as above.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    Ok(usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX))
}

/// Accepts a connection that is non-blocking, by one call; `None` if there is none.
pub fn accept(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let own = listener.as_raw_fd();
    // SAFETY: no address is asked for.
    let descriptor = unsafe { libc::accept4(own, std::ptr::null_mut(), std::ptr::null_mut(), flags) };
    if descriptor >= 0 {
        // SAFETY: the descriptor is new and nobody else's.
        return Ok(Some(unsafe { TcpStream::from_raw_fd(descriptor) }));
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        error => Err(error),
    }
}

/// From now on the calling thread runs only where no other thread wants to.
pub fn run_when_idle() -> io::Result<()> {
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is ours; the number is that of the calling thread.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const priority) })
}

/// Asks a process that this one has started to end.
pub fn interrupt(child: &std::process::Child) -> io::Result<()> {
    // SAFETY: takes numbers; the child has not been waited for, so that its
    // number is its own.
    check(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) })
}

/// Ends a process that this one has started and has not waited for, and all that it has
/// started: nginx leaves its workers behind when only its master is killed.
pub fn kill_family(child: &std::process::Child) {
    kill_all(&procfs::family_of(child.id()));
}

/// Ends all that this process has started, and they; who that was.
pub fn kill_descendants() -> Vec<u32> {
    let mut family = procfs::family_of(std::process::id());
    family.remove(0);
    kill_all(&family);
    family
}

fn kill_all(family: &[u32]) {
    for &process in family {
        // SAFETY: takes numbers. All were alive a moment ago and are descendants of this
        // process, and numbers are not reused as soon as that.
        unsafe { libc::kill(process as libc::pid_t, libc::SIGKILL) };
    }
}

/// CPU time of all threads of this process so far.
pub fn cpu_time() -> Duration {
    time_of(libc::CLOCK_PROCESS_CPUTIME_ID).expect("the clock of this process")
}

/// CPU time of all threads of a process so far, also of those that have ended.
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

/// How often the calling kernel thread has given its CPU to another.
pub fn thread_switches() -> u64 {
    // SAFETY: all bits zero is a valid structure of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is ours; the call cannot fail with these arguments.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    (usage.ru_nvcsw + usage.ru_nivcsw) as u64
}

/// The calling kernel thread's number.
pub fn thread_id() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The CPU time of the calling thread so far.
pub fn thread_cpu() -> Duration {
    time_of(libc::CLOCK_THREAD_CPUTIME_ID).expect("the clock of this thread")
}
