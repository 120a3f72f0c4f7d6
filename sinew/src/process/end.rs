//! The end of a child as a descriptor to wait for.

use crate::base::fallback::{Facility, denied};
use crate::io::{Home, Source};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
use std::io;
use std::os::fd::OwnedFd;

/// Returns a descriptor that becomes readable when the child ends. The child has not been waited for,
/// so the number is still its own.
///
/// # Errors
/// The kernel's.
pub(super) fn watch(child: &std::process::Child) -> io::Result<Source> {
    let pid = Pid::from_child(child);
    if denied(Facility::Pidfd) {
        return watch_by_thread(pid);
    }
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(descriptor) => Ok(Source::new(descriptor)),
        // An older kernel, or a filter for system calls.
        Err(Errno::NOSYS | Errno::PERM) => watch_by_thread(pid),
        Err(error) => Err(error.into()),
    }
}

/// Starts a kernel thread that waits for the child, and then closes the other end of a pipe.
#[cold]
fn watch_by_thread(pid: Pid) -> io::Result<Source> {
    let (reader, writer) = io::pipe()?;
    Home::new(None).spawn("sinew-child".to_owned(), move || {
        // The status stays for the owner of the child. An error says that the owner has it already.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(pid), options), Err(Errno::INTR)) {}
        drop(writer);
    })?;
    Ok(Source::new(OwnedFd::from(reader)))
}
