//! One connection of the load generator.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::{Epoll, Request};

const PATIENCE: Duration = Duration::from_secs(5);

pub struct Connection {
    stream: TcpStream,
    /// When the request was due whose reply is waited for, and how many bytes of
    /// that are missing.
    waiting: Option<(Instant, usize)>,
    /// What was due meanwhile.
    late: VecDeque<Instant>,
}

/// Sends each request once, in their order, and says how long the replies are.
pub fn learn(address: SocketAddr, requests: &[Request]) -> io::Result<Vec<usize>> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    requests.iter().map(|request| length_of_reply(&mut stream, request)).collect()
}

fn length_of_reply(stream: &mut TcpStream, request: &Request) -> io::Result<usize> {
    stream.write_all(&request.bytes)?;
    let mut reply = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection")),
            count => reply.extend_from_slice(&buffer[..count]),
        }
        if let Some(length) = (request.whole)(&reply) {
            return Ok(length);
        }
    }
}

impl Connection {
    pub fn new(address: SocketAddr, number: usize, epoll: &Epoll) -> io::Result<Connection> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        epoll.add(&stream, number)?;
        Ok(Connection { stream, waiting: None, late: VecDeque::new() })
    }

    pub fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    pub fn postpone(&mut self, due: Instant) {
        self.late.push_back(due);
    }

    pub fn postponed(&mut self) -> Option<Instant> {
        self.late.pop_front()
    }

    /// Requests are far smaller than a socket's buffer, and one is under way at a
    /// time: they are written whole.
    pub fn send(&mut self, request: &[u8], reply_bytes: usize, due: Instant) -> io::Result<()> {
        self.waiting = Some((due, reply_bytes));
        match self.stream.write(request)? {
            count if count == request.len() => Ok(()),
            _ => Err(io::Error::new(ErrorKind::WriteZero, "a request that was cut short")),
        }
    }

    /// When the request was due whose reply is complete now, if one is.
    pub fn receive(&mut self) -> io::Result<Option<Instant>> {
        let mut buffer = [0; 16 * 1024];
        loop {
            let Some((due, missing)) = self.waiting else { return Ok(None) };
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed a connection")),
                Ok(count) if count > missing => {
                    return Err(io::Error::new(ErrorKind::InvalidData, "a reply that is longer than the first one"));
                }
                Ok(count) if count == missing => {
                    self.waiting = None;
                    return Ok(Some(due));
                }
                Ok(count) => self.waiting = Some((due, missing - count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// When those were due that have no reply.
    pub fn unanswered(&self) -> impl Iterator<Item = Instant> {
        self.waiting.iter().map(|waiting| waiting.0).chain(self.late.iter().copied())
    }
}
