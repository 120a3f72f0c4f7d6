//! Bare loops on one thread that answer every request with the same bytes: the event-driven
//! floor. Nothing that serves HTTP can do less.
//!
//! epoll tells all of them who is ready, edge-triggered: the kernel need not look again at what
//! it has reported. A read that does not fill the buffer has shown that there is no more.
//!
//! | loop | receives | sends |
//! | --- | --- | --- |
//! | `bare/epoll` | one call each | one call each |
//! | `bare/ring` | one call each | those of a turn by io_uring, as one batch |
//! | `bare/ring/both` | those of a turn by io_uring, as one batch | the same |
//!
//! A turn is what follows one wait. The loops keep a request that comes in parts and a reply that
//! does not go out whole. While neither happens that costs nothing.

mod by_epoll;
mod by_ring;

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

use super::epoll::{Epoll, Events, Interest};
use super::http::{ROOM, Stay, requests};
use crate::kernel;

use by_epoll::ByEpoll;
use by_ring::{ByRing, Receives};

/// The names of the peers that are such loops.
pub const NAMES: [&str; 3] = ["bare/epoll", "bare/ring", "bare/ring/both"];

const LISTENER: usize = usize::MAX;

/// A bare loop.
pub trait Bare {
    /// Waits until something is ready, and answers the requests that have come.
    fn turn(&mut self) -> io::Result<()>;

    fn clients(&mut self) -> &mut Clients;
}

/// Returns the names of the loops that the kernel permits.
#[cfg(test)]
pub fn permitted() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().filter(|name| *name == "bare/epoll" || super::ring::is_permitted())
}

/// Returns the loop that a peer names.
pub fn of(peer: &str, stay: Stay) -> io::Result<Box<dyn Bare>> {
    let clients = Clients::new(stay)?;
    Ok(match peer {
        "bare/epoll" => Box::new(ByEpoll::new(clients)),
        "bare/ring" => Box::new(ByRing::new(clients, Receives::InPlace)?),
        "bare/ring/both" => Box::new(ByRing::new(clients, Receives::ByRing)?),
        _ => return Err(io::Error::other(format!("no bare loop: {peer}"))),
    })
}

/// Serves until an error.
pub fn serve(peer: &str, listener: TcpListener, stay: Stay) -> io::Result<()> {
    let mut bare = of(peer, stay)?;
    bare.clients().listen(listener)?;
    loop {
        bare.turn()?;
    }
}

/// The clients of a loop.
pub struct Clients {
    listener: Option<TcpListener>,
    connections: Vec<Option<Connection>>,
    /// Numbers without a connection.
    free: Vec<usize>,
    desk: Desk,
}

/// The part that is the same for all connections.
struct Desk {
    epoll: Epoll,
    stay: Stay,
    /// Replies that were sent, at least in part.
    replies: u64,
}

impl Clients {
    fn new(stay: Stay) -> io::Result<Clients> {
        let desk = Desk { epoll: Epoll::new()?, stay, replies: 0 };
        Ok(Clients { listener: None, connections: Vec::new(), free: Vec::new(), desk })
    }

    fn listen(&mut self, listener: TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        self.desk.epoll.add(&listener, LISTENER, Interest::Input)?;
        self.listener = Some(listener);
        Ok(())
    }

    /// Returns the number of replies that were sent so far.
    pub fn replies(&self) -> u64 {
        self.desk.replies
    }

    /// Serves a connection.
    pub fn add(&mut self, stream: TcpStream) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        self.attach(stream)
    }

    /// Serves a connection that does not block.
    fn attach(&mut self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let number = self.free.pop().unwrap_or(self.connections.len());
        self.desk.epoll.add(&stream, number, Interest::NewInput)?;
        if number == self.connections.len() {
            self.connections.push(None);
        }
        self.connections[number] = Some(Connection { stream, number, begun: Vec::new(), unsent: Vec::new() });
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        while let Some(listener) = &self.listener
            && let Some(stream) = kernel::accept(listener)?
        {
            self.attach(stream)?;
        }
        Ok(())
    }

    fn wait<'a>(&self, events: &'a mut Events) -> io::Result<impl Iterator<Item = usize> + use<'a>> {
        self.desk.epoll.wait(events, -1)
    }

    /// Returns a connection, and what is the same for all.
    #[inline]
    fn get(&mut self, number: usize) -> (&mut Connection, &mut Desk) {
        let connection = self.connections[number].as_mut().expect("a closed connection is not reported");
        (connection, &mut self.desk)
    }

    /// Closes a connection, unless it is wanted. An error is the end of one connection only.
    #[inline]
    fn settle(&mut self, number: usize, wanted: io::Result<Wanted>) {
        if !wanted.unwrap_or(false) {
            self.connections[number] = None;
            self.free.push(number);
        }
    }
}

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

impl Connection {
    /// Reads and answers until there is no more.
    #[inline]
    fn attend(&mut self, buffer: &mut [u8; ROOM], desk: &mut Desk) -> io::Result<Wanted> {
        if !self.unsent.is_empty() {
            return self.send_rest(desk);
        }
        loop {
            let Some(count) = self.read(buffer)? else { return Ok(true) };
            let Some(asked) = self.asked(&buffer[..count]) else { return Ok(false) };
            if !self.answer(asked, desk)? {
                return Ok(false);
            }
            if count < ROOM || !self.unsent.is_empty() {
                return Ok(true);
            }
        }
    }

    /// Returns the number of bytes, 0 at the end, or `None` if none have come.
    #[inline]
    fn read(&mut self, buffer: &mut [u8; ROOM]) -> io::Result<Option<usize>> {
        match self.stream.read(buffer) {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the number of requests that end with these bytes. Returns `None` at the end, and
    /// for a request that is too long.
    #[inline]
    fn asked(&mut self, bytes: &[u8]) -> Option<usize> {
        let asked = if self.begun.is_empty() {
            let (asked, end) = requests(bytes);
            if end < bytes.len() {
                self.begun.extend_from_slice(&bytes[end..]);
            }
            asked
        } else {
            self.begun.extend_from_slice(bytes);
            let (asked, end) = requests(&self.begun);
            self.begun.drain(..end);
            asked
        };
        (!bytes.is_empty() && self.begun.len() <= ROOM).then_some(asked)
    }

    /// Sends replies, one call each.
    #[inline]
    fn answer(&mut self, asked: usize, desk: &mut Desk) -> io::Result<Wanted> {
        for _ in 0..asked {
            desk.replies += 1;
            self.send(desk)?;
        }
        Ok(asked == 0 || desk.stay == Stay::Open)
    }

    #[inline]
    fn send(&mut self, desk: &Desk) -> io::Result<()> {
        let reply = desk.stay.reply();
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(reply);
            return Ok(());
        }
        let sent = self.stream.write(reply);
        self.has_sent(sent, desk)
    }

    /// Keeps the part of a reply that was not sent.
    #[inline]
    fn has_sent(&mut self, sent: io::Result<usize>, desk: &Desk) -> io::Result<()> {
        let reply = desk.stay.reply();
        let sent = match sent {
            Ok(sent) if sent == reply.len() => return Ok(()),
            Ok(sent) => sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        self.unsent.extend_from_slice(&reply[sent..]);
        desk.epoll.change(&self.stream, self.number, Interest::Output)
    }

    #[cold]
    fn send_rest(&mut self, desk: &Desk) -> io::Result<Wanted> {
        let sent = self.stream.write(&self.unsent)?;
        self.unsent.drain(..sent);
        if self.unsent.is_empty() {
            desk.epoll.change(&self.stream, self.number, Interest::NewInput)?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{connect, http};

    #[test]
    fn a_reply_that_did_not_go_out_whole_goes_on_when_there_is_room() {
        for (name, sent) in permitted().zip([Ok(10), Err(io::ErrorKind::WouldBlock.into()), Ok(1)]) {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let mut client = connect(listener.local_addr().expect("an address")).expect("a connection");
            let mut bare = of(name, Stay::Open).expect("a loop");
            bare.clients().add(listener.accept().expect("a connection").0).expect("to serve it");
            let rest = &Stay::Open.reply()[*sent.as_ref().unwrap_or(&0)..];
            let (connection, desk) = bare.clients().get(0);
            connection.has_sent(sent, desk).expect("to wait for room");
            bare.turn().expect("a turn");
            let mut heard = vec![0; rest.len()];
            client.read_exact(&mut heard).expect("the rest");
            assert_eq!(heard, rest, "{name}");
            // The connection is served as before.
            client.write_all(&Stay::Open.request("/")).expect("to send");
            bare.turn().expect("a turn");
            assert_eq!(http::ask(&mut client, b"").expect("a reply"), Stay::Open.reply().len(), "{name}");
        }
    }
}
