//! The parts of epoll that the load generator and the bare loops use.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The most events of one wait.
pub const EVENTS: usize = 256;

pub struct Epoll(OwnedFd);

/// The events of a descriptor that are reported.
#[derive(Clone, Copy)]
pub enum Interest {
    /// Input, in each wait until it is read.
    Input,
    /// Input, once when it comes.
    NewInput,
    /// Room for output.
    Output,
    /// Input and room for output.
    Both,
}

impl Interest {
    fn flags(self) -> u32 {
        let flags = match self {
            Interest::Input => libc::EPOLLIN,
            Interest::NewInput => libc::EPOLLIN | libc::EPOLLET,
            Interest::Output => libc::EPOLLOUT,
            Interest::Both => libc::EPOLLIN | libc::EPOLLOUT,
        };
        flags as u32
    }
}

/// Room for the events of one wait.
pub struct Events([libc::epoll_event; EVENTS]);

impl Default for Events {
    fn default() -> Events {
        Events([libc::epoll_event { events: 0, u64: 0 }; EVENTS])
    }
}

impl Events {
    /// Returns the number of the descriptor that the last wait reported at this place.
    pub fn number(&self, place: usize) -> usize {
        self.0[place].u64 as usize
    }
}

impl Epoll {
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: takes a number.
        let descriptor = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, so it has no other owner.
        Ok(Epoll(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Reports the descriptor by its number until it is closed.
    pub fn add(&self, descriptor: &impl AsRawFd, number: usize, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, descriptor, number, interest)
    }

    /// Changes what is reported of a descriptor.
    pub fn change(&self, descriptor: &impl AsRawFd, number: usize, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, descriptor, number, interest)
    }

    fn control(&self, how: i32, descriptor: &impl AsRawFd, number: usize, interest: Interest) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest.flags(), u64: number as u64 };
        let (own, other) = (self.0.as_raw_fd(), descriptor.as_raw_fd());
        // SAFETY: both descriptors are open, and the event is ours.
        match unsafe { libc::epoll_ctl(own, how, other, &raw mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns the numbers of the descriptors that have something to report.
    pub fn wait<'a>(
        &self,
        events: &'a mut Events,
        timeout_ms: i32,
    ) -> io::Result<impl Iterator<Item = usize> + use<'a>> {
        let room = events.0.as_mut_ptr();
        // SAFETY: the room is ours and has that length.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), room, EVENTS as i32, timeout_ms) };
        let count = match usize::try_from(count) {
            Ok(count) => count,
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => 0,
                error => return Err(error),
            },
        };
        Ok(events.0[..count].iter().map(|event| event.u64 as usize))
    }
}
