//! One connection of the load generator.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use super::epoll::{Epoll, Interest};
use super::{PATIENCE, closed_by_server};

struct UnderWay {
    due: Instant,
    /// The bytes that the reply still lacks.
    missing: usize,
    /// Whether the time of the request counts.
    counts: bool,
}

pub struct Connection {
    stream: TcpStream,
    /// Whether anything was sent on it.
    pub is_used: bool,
    under_way: VecDeque<UnderWay>,
    /// The requests that wait until nothing is under way: when each was due.
    late: VecDeque<Instant>,
}

impl Connection {
    pub fn new(address: SocketAddr, number: usize, epoll: &Epoll) -> io::Result<Connection> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        epoll.add(&stream, number, Interest::Input)?;
        Ok(Connection { stream, is_used: false, under_way: VecDeque::new(), late: VecDeque::new() })
    }

    pub fn is_waiting(&self) -> bool {
        !self.under_way.is_empty()
    }

    pub fn postpone(&mut self, due: Instant) {
        self.late.push_back(due);
    }

    pub fn postponed(&mut self) -> Option<Instant> {
        self.late.pop_front()
    }

    /// Notes a request that [`Connection::send`] is about to send.
    pub fn expect(&mut self, reply_bytes: usize, due: Instant, counts: bool) {
        self.under_way.push_back(UnderWay { due, missing: reply_bytes, counts });
    }

    /// Sends requests. They are far smaller than a socket's buffer, and nothing else is
    /// under way: they are written whole.
    pub fn send(&mut self, requests: &[u8]) -> io::Result<()> {
        self.is_used = true;
        match self.stream.write(requests)? {
            count if count == requests.len() => Ok(()),
            _ => Err(io::Error::new(ErrorKind::WriteZero, "a request was cut short")),
        }
    }

    /// Takes the bytes that have come. Returns the number of replies that are complete. Calls
    /// `done` for each whose time counts, with the moment when its request was due.
    pub fn receive(&mut self, buffer: &mut [u8], mut done: impl FnMut(Instant)) -> io::Result<u64> {
        let mut replies = 0;
        while self.is_waiting() {
            let mut count = match self.stream.read(buffer) {
                Ok(0) => return Err(closed_by_server()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            while count > 0 {
                let Some(first) = self.under_way.front_mut() else {
                    return Err(io::Error::new(ErrorKind::InvalidData, "a reply is longer than the first one"));
                };
                let taken = count.min(first.missing);
                (first.missing, count) = (first.missing - taken, count - taken);
                if first.missing == 0 {
                    if first.counts {
                        done(first.due);
                    }
                    replies += 1;
                    self.under_way.pop_front();
                }
            }
        }
        Ok(replies)
    }

    /// Returns when each request without a reply was due, if its time counts.
    pub fn unanswered(&self) -> impl Iterator<Item = Instant> {
        let under_way = self.under_way.iter().filter(|request| request.counts).map(|request| request.due);
        under_way.chain(self.late.iter().copied())
    }
}
