//! The event-driven floor: a bare loop over epoll on one thread that answers every
//! request with the same bytes. Nothing that serves HTTP can do less.
//!
//! Edge-triggered: the kernel need not look again at what it has reported. An event is one
//! call to read and one to write: a read that does not fill the buffer has shown that there is
//! no more. The loop keeps a request that comes in parts and a reply that does not go out
//! whole. While neither happens that costs nothing: such connections share one buffer.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

use super::epoll::{Epoll, Events, Interest};
use super::http::{ROOM, Stay, requests};
use crate::kernel;

const LISTENER: usize = usize::MAX;

struct Connection {
    stream: TcpStream,
    number: usize,
    /// The beginning of a request.
    begun: Vec<u8>,
    /// The rest of a reply.
    unsent: Vec<u8>,
}

/// Whether a connection is still wanted.
type Wanted = bool;

/// Serves until an error.
pub fn serve(listener: TcpListener, stay: Stay) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let epoll = Epoll::new()?;
    epoll.add(&listener, LISTENER, Interest::Input)?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut events = Events::default();
    let mut buffer = [0; ROOM];
    loop {
        for number in epoll.wait(&mut events, -1)? {
            if number == LISTENER {
                accept(&listener, &epoll, &mut connections, &mut free)?;
                continue;
            }
            let connection = connections[number].as_mut().expect("a closed connection is not reported");
            if !connection.attend(&epoll, &mut buffer, stay).unwrap_or(false) {
                connections[number] = None;
                free.push(number);
            }
        }
    }
}

fn accept(
    listener: &TcpListener,
    epoll: &Epoll,
    connections: &mut Vec<Option<Connection>>,
    free: &mut Vec<usize>,
) -> io::Result<()> {
    while let Some(stream) = kernel::accept(listener)? {
        stream.set_nodelay(true)?;
        let number = free.pop().unwrap_or(connections.len());
        epoll.add(&stream, number, Interest::NewInput)?;
        if number == connections.len() {
            connections.push(None);
        }
        connections[number] = Some(Connection { stream, number, begun: Vec::new(), unsent: Vec::new() });
    }
    Ok(())
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
                self.send(epoll, stay.reply())?;
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
    fn send(&mut self, epoll: &Epoll, reply: &[u8]) -> io::Result<()> {
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(reply);
            return Ok(());
        }
        let sent = match self.stream.write(reply) {
            Ok(sent) if sent == reply.len() => return Ok(()),
            Ok(sent) => sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        self.unsent.extend_from_slice(&reply[sent..]);
        epoll.change(&self.stream, self.number, Interest::Output)
    }

    #[cold]
    fn send_rest(&mut self, epoll: &Epoll) -> io::Result<Wanted> {
        let sent = self.stream.write(&self.unsent)?;
        self.unsent.drain(..sent);
        if self.unsent.is_empty() {
            epoll.change(&self.stream, self.number, Interest::NewInput)?;
        }
        Ok(true)
    }
}
