//! epoll, as little of it as a generator and a floor need.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const EVENTS: usize = 256;

pub struct Epoll(OwnedFd);

impl Epoll {
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: takes a number.
        let descriptor = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        Ok(Epoll(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Level-triggered, until the descriptor is closed.
    pub fn add(&self, descriptor: &impl AsRawFd, number: usize) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: number as u64 };
        let (own, other) = (self.0.as_raw_fd(), descriptor.as_raw_fd());
        // SAFETY: both descriptors are open, and the event is ours.
        match unsafe { libc::epoll_ctl(own, libc::EPOLL_CTL_ADD, other, &raw mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The numbers of those that have something to read.
    pub fn wait(&self, timeout_ms: i32) -> io::Result<impl Iterator<Item = usize> + use<>> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        // SAFETY: the events are ours and as many as said.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), EVENTS as i32, timeout_ms) };
        let count = match usize::try_from(count) {
            Ok(count) => count,
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => 0,
                error => return Err(error),
            },
        };
        Ok(events.into_iter().take(count).map(|event| event.u64 as usize))
    }
}
