//! A server without a runtime: one loop around `epoll_wait`.
//!
//! Edge-triggered, for then the kernel need not look again at what it has reported. An
//! event is one call to read and one to write: a read that does not fill the buffer has
//! shown that there is no more. A request that comes in parts and an answer that does not go out whole are kept, which costs nothing while
//! neither happens: connections without anything kept share one buffer.
#![allow(unsafe_code)]

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::protocol::{ROOM, Stay, requests};
use crate::servers::announce;

pub const EVENTS: usize = 256;

pub struct Epoll(OwnedFd);

impl Epoll {
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: no memory is involved.
        match unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: the kernel gave it to us just now.
            descriptor => Ok(Epoll(unsafe { OwnedFd::from_raw_fd(descriptor) })),
        }
    }

    pub fn control(&self, operation: libc::c_int, descriptor: RawFd, events: libc::c_int) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: descriptor as u64 };
        // SAFETY: the event is valid for the call.
        match unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, descriptor, &mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub fn wait<'a>(&self, events: &'a mut [libc::epoll_event; EVENTS]) -> &'a [libc::epoll_event] {
        // SAFETY: the events are valid for writing.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), EVENTS as libc::c_int, -1) };
        &events[..usize::try_from(count).unwrap_or(0)]
    }
}

struct Connection {
    stream: TcpStream,
    /// The beginning of a request.
    begun: Vec<u8>,
    /// The rest of an answer.
    unsent: Vec<u8>,
}

/// Whether a connection is still wanted.
type Wanted = bool;

pub fn serve(stay: Stay) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    announce(listener.local_addr())?;
    let epoll = Epoll::new()?;
    epoll.control(libc::EPOLL_CTL_ADD, listener.as_raw_fd(), libc::EPOLLIN)?;
    // By descriptor.
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
    let mut buffer = [0; ROOM];
    loop {
        for event in epoll.wait(&mut events) {
            let descriptor = event.u64 as usize;
            if descriptor == listener.as_raw_fd() as usize {
                accept(&listener, &epoll, &mut connections)?;
                continue;
            }
            let connection = connections[descriptor].as_mut().expect("what is closed is not reported");
            if !connection.attend(&epoll, &mut buffer, stay).unwrap_or(false) {
                connections[descriptor] = None;
            }
        }
    }
}

fn accept(listener: &TcpListener, epoll: &Epoll, connections: &mut Vec<Option<Connection>>) -> io::Result<()> {
    loop {
        // SAFETY: no address is asked for.
        let descriptor = unsafe {
            let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            libc::accept4(listener.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags)
        };
        if descriptor < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(()) } else { Err(error) };
        }
        // SAFETY: the kernel gave it to us just now.
        let stream = unsafe { TcpStream::from_raw_fd(descriptor) };
        stream.set_nodelay(true)?;
        epoll.control(libc::EPOLL_CTL_ADD, descriptor, libc::EPOLLIN | libc::EPOLLET)?;
        let slot = descriptor as usize;
        if connections.len() <= slot {
            connections.resize_with(slot + 1, || None);
        }
        connections[slot] = Some(Connection { stream, begun: Vec::new(), unsent: Vec::new() });
    }
}

impl Connection {
    #[inline]
    fn attend(&mut self, epoll: &Epoll, buffer: &mut [u8; ROOM], stay: Stay) -> io::Result<Wanted> {
        if !self.unsent.is_empty() {
            return self.send_rest(epoll);
        }
        loop {
            let count = match self.stream.read(buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            };
            let asked = if self.begun.is_empty() {
                let (asked, end) = requests(&buffer[..count]);
                if end < count {
                    self.begun.extend_from_slice(&buffer[end..count]);
                }
                asked
            } else {
                self.begun.extend_from_slice(&buffer[..count]);
                let (asked, end) = requests(&self.begun);
                self.begun.drain(..end);
                asked
            };
            if self.begun.len() > ROOM {
                return Ok(false);
            }
            for _ in 0..asked {
                self.send(epoll, stay.answer())?;
            }
            if asked > 0 && stay == Stay::Close {
                return Ok(false);
            }
            if count < ROOM || !self.unsent.is_empty() {
                return Ok(true);
            }
        }
    }

    #[inline]
    fn send(&mut self, epoll: &Epoll, answer: &[u8]) -> io::Result<()> {
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(answer);
            return Ok(());
        }
        let sent = match self.stream.write(answer) {
            Ok(sent) if sent == answer.len() => return Ok(()),
            Ok(sent) => sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        self.unsent.extend_from_slice(&answer[sent..]);
        epoll.control(libc::EPOLL_CTL_MOD, self.stream.as_raw_fd(), libc::EPOLLOUT)
    }

    #[cold]
    fn send_rest(&mut self, epoll: &Epoll) -> io::Result<Wanted> {
        let sent = self.stream.write(&self.unsent)?;
        self.unsent.drain(..sent);
        if self.unsent.is_empty() {
            epoll.control(libc::EPOLL_CTL_MOD, self.stream.as_raw_fd(), libc::EPOLLIN | libc::EPOLLET)?;
        }
        Ok(true)
    }
}
