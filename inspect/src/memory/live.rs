//! The memory of a process that lives: this one, or another.
#![allow(unsafe_code)]

use super::{Memory, Place, Unreadable};
use crate::error::Error;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process;

/// The number of places that the kernel takes in one call (`UIO_MAXIOV`).
const MOST_PLACES: usize = 1024;

/// The number of bytes that one call reads at most. The kernel takes fewer than 2^31.
const MOST_BYTES: usize = 1 << 30;

/// A process whose memory is read while it runs. Reading does not stop it.
pub struct LiveProcess {
    pid: u32,
    /// Read where the kernel refuses `process_vm_readv`, as some sandboxes make it do.
    file: Option<File>,
}

impl LiveProcess {
    /// Opens the calling process.
    ///
    /// # Errors
    /// The kernel refuses both ways of reading, which only a sandbox does.
    pub fn own() -> Result<LiveProcess, Error> {
        LiveProcess::open(process::id())
    }

    /// Opens a process.
    ///
    /// # Errors
    /// There is no such process, or the caller may not read it.
    pub fn open(pid: u32) -> Result<LiveProcess, Error> {
        let mut opened = LiveProcess { pid, file: None };
        let maps = format!("/proc/{pid}/maps");
        let text = fs::read_to_string(&maps).map_err(|error| refused(pid, &error))?;
        // A kernel thread, and a process that has ended, have no memory.
        let first = text.split('-').next().and_then(|start| u64::from_str_radix(start, 16).ok());
        let first = first.ok_or_else(|| Error::Denied(format!("process {pid} has no memory: it has ended")))?;
        let mut byte = [0; 16];
        match opened.read_once(&[Place { address: first, length: byte.len() }], &mut byte) {
            Ok(_) => Ok(opened),
            Err(error) => {
                let file = File::open(format!("/proc/{pid}/mem")).ok();
                match file.filter(|file| file.read_at(&mut byte, first).is_ok()) {
                    Some(file) => {
                        opened.file = Some(file);
                        Ok(opened)
                    }
                    None => Err(refused(pid, &error)),
                }
            }
        }
    }

    /// Returns the number of the process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Reads places until one cannot be read. Returns the number of bytes read.
    fn read_once(&self, places: &[Place], into: &mut [u8]) -> io::Result<usize> {
        let remote: Vec<libc::iovec> = places
            .iter()
            .map(|place| libc::iovec { iov_base: place.address as *mut libc::c_void, iov_len: place.length })
            .collect();
        let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        // SAFETY: the kernel writes at most `into.len()` bytes into `into`, and only reads the places,
        // whose addresses it checks.
        let read = unsafe {
            libc::process_vm_readv(
                self.pid as libc::pid_t,
                &local,
                1,
                remote.as_ptr(),
                remote.len() as libc::c_ulong,
                0,
            )
        };
        if read < 0 { Err(io::Error::last_os_error()) } else { Ok(read as usize) }
    }
}

impl Memory for LiveProcess {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Unreadable> {
        if let Some(file) = &self.file {
            return file.read_exact_at(into, address).map_err(|_| Unreadable);
        }
        let mut done = 0;
        while done < into.len() {
            let length = (into.len() - done).min(MOST_BYTES);
            let place = Place { address: address.checked_add(done as u64).ok_or(Unreadable)?, length };
            match self.read_once(&[place], &mut into[done..done + length]) {
                Ok(0) | Err(_) => return Err(Unreadable),
                Ok(read) => done += read,
            }
        }
        Ok(())
    }

    fn read_many(&self, places: &[Place], into: &mut [u8], failed: &mut dyn FnMut(usize)) {
        let mut next = 0;
        let mut at = 0;
        while next < places.len() {
            let mut length = 0;
            let fits = |place: &&Place| {
                length += place.length;
                length <= MOST_BYTES
            };
            let count = places[next..].iter().take(MOST_PLACES).take_while(fits).count().max(1);
            let some = &places[next..next + count];
            let length: usize = some.iter().map(|place| place.length).sum();
            let read = match &self.file {
                // One at a time.
                Some(file) => {
                    let first = &mut into[at..at + places[next].length];
                    file.read_exact_at(first, places[next].address).map_or(0, |()| first.len())
                }
                None => self.read_once(some, &mut into[at..at + length]).unwrap_or(0),
            };
            // The places that are whole; the one behind them is the one that failed.
            let mut whole = 0;
            let mut bytes = 0;
            while whole < count && bytes + places[next + whole].length <= read {
                bytes += places[next + whole].length;
                whole += 1;
            }
            next += whole;
            at += bytes;
            let is_one_at_a_time = self.file.is_some() && whole > 0;
            if whole < count && !is_one_at_a_time {
                failed(next);
                at += places[next].length;
                next += 1;
            }
        }
    }

    fn is_live(&self) -> bool {
        true
    }
}

/// Says what a caller needs who was refused.
fn refused(pid: u32, error: &io::Error) -> Error {
    let Ok(about) = fs::metadata(format!("/proc/{pid}")) else { return Error::NoSuchProcess(pid) };
    match error.raw_os_error() {
        Some(libc::ESRCH) => return Error::NoSuchProcess(pid),
        Some(libc::EPERM | libc::EACCES) => {}
        _ => return Error::Denied(format!("process {pid} cannot be read: {error}")),
    }
    // SAFETY: the call has no arguments and cannot fail.
    let user = unsafe { libc::geteuid() };
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
    Error::Denied(advice(pid, user, about.uid(), scope.as_deref().map(str::trim)))
}

/// Says who may read a process of the user `owner`. `user` asks. `scope` is the contents of
/// `/proc/sys/kernel/yama/ptrace_scope`.
fn advice(pid: u32, user: u32, owner: u32, scope: Option<&str>) -> String {
    let root = "run this as root, or with CAP_SYS_PTRACE";
    if user != owner && user != 0 {
        return format!("process {pid} belongs to user {owner}, and you are user {user}: {root}");
    }
    match scope {
        Some("1") => format!(
            "process {pid} may be read by its parent only (/proc/sys/kernel/yama/ptrace_scope is 1): {root}, \
             start the process from this one, let it call prctl(PR_SET_PTRACER), or set ptrace_scope to 0"
        ),
        Some("2") => format!(
            "process {pid} may be read with CAP_SYS_PTRACE only (/proc/sys/kernel/yama/ptrace_scope is 2): \
             run this as root, or set ptrace_scope to 0"
        ),
        Some("3") => format!(
            "no process may be read by another (/proc/sys/kernel/yama/ptrace_scope is 3, until the machine \
             starts again): let process {pid} dump itself, or read a core file of it"
        ),
        _ => format!(
            "process {pid} may not be read: it is not dumpable (a set-user-ID program, or one with capabilities), \
             or this container has no CAP_SYS_PTRACE; {root}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Batch;

    #[test]
    fn a_bad_address_is_an_error_and_the_places_around_it_are_read() {
        let own = LiveProcess::own().unwrap();
        let words: Vec<u64> = (0..3000).collect();
        let address = words.as_ptr() as u64;
        let mut batch = Batch::new();
        for number in 0..3000 {
            batch.add(if number % 1000 == 1 { 8 } else { address + 8 * number }, 8);
        }
        batch.read(&own);
        for number in 0..3000 {
            let expected = if number % 1000 == 1 { None } else { Some(number as u64) };
            assert_eq!(batch.word(number), expected, "place {number}");
        }
        assert_eq!(own.read(8, &mut [0; 4]), Err(Unreadable));
        assert_eq!(own.read(u64::MAX - 2, &mut [0; 4]), Err(Unreadable));
    }

    #[test]
    fn the_file_of_a_process_serves_where_the_call_is_refused() {
        let mut own = LiveProcess::own().unwrap();
        own.file = Some(File::open("/proc/self/mem").unwrap());
        let words: Vec<u64> = (0..2000).collect();
        let mut batch = Batch::new();
        batch.add(words.as_ptr() as u64, 16_000);
        batch.add(8, 8);
        batch.add(words.as_ptr() as u64 + 80, 8);
        batch.read(&own);
        assert_eq!(batch.get(0).map(<[u8]>::len), Some(16_000));
        assert_eq!((batch.word(1), batch.word(2)), (None, Some(10)));
    }

    #[test]
    fn a_refusal_says_what_is_missing() {
        assert!(advice(7, 1000, 0, Some("1")).contains("belongs to user 0, and you are user 1000"));
        assert!(advice(7, 1000, 1000, Some("1")).contains("ptrace_scope is 1"));
        assert!(advice(7, 1000, 1000, Some("1")).contains("PR_SET_PTRACER"));
        assert!(advice(7, 0, 0, Some("2")).contains("CAP_SYS_PTRACE"));
        assert!(advice(7, 0, 0, Some("3")).contains("core file"));
        assert!(advice(7, 0, 0, None).contains("CAP_SYS_PTRACE"));
    }

    #[test]
    fn a_process_that_is_not_there_is_named() {
        assert!(matches!(LiveProcess::open(u32::MAX / 4), Err(Error::NoSuchProcess(_))));
    }
}
