//! A load generator for request-and-reply protocols over TCP.
//!
//! One thread, many connections. *Closed-loop*: a connection sends its next request when it
//! has the reply, which finds out how much a server can do. *Open-loop*: requests are due at
//! random moments of a given rate, whatever the server does. A request that is due while its
//! connection still waits is sent late, and its time counts from when it was due. So the figures
//! have the clients that a stall keeps waiting. (A generator that waits for replies before it
//! asks again leaves them out.)
//!
//! The closed loop is the same on every machine. [`wrk`] and [`memcaslap`] are generators by
//! others, beside it if they are installed: so the lab's own can be checked.

pub mod bare;
mod connection;
mod epoll;
pub mod flood;
pub mod http;
pub mod memcached;
pub mod memcaslap;
pub mod monoio;
pub mod ring;
pub mod server;
pub mod sites;
pub mod slow;
#[cfg(test)]
mod tests;
pub mod tokio_uring;
pub mod wrk;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::measure::latency::Latency;
use crate::measure::random::Random;

use connection::Connection;
use epoll::{Epoll, Events};

/// Appends a request to the bytes and returns the length of its reply.
pub type Traffic = Box<dyn FnMut(&mut Random, &mut Vec<u8>) -> usize>;

/// How connections are used.
#[derive(Clone, Copy)]
pub struct Shape {
    pub connections: usize,
    /// Requests that are under way at a time on each connection of a closed loop.
    pub depth: usize,
    /// Whether every second connection never asks for anything.
    pub is_skewed: bool,
    /// Whether each request of a closed loop has a connection of its own.
    pub renews: bool,
}

impl Shape {
    /// One request at a time on connections that stay.
    pub fn plain(connections: usize) -> Shape {
        Shape { connections, depth: 1, is_skewed: false, renews: false }
    }
}

/// The longest wait for the last replies. That of tests does not depend on how busy the machine
/// is.
const GRACE: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 1 });

/// The longest wait for a connection or a reply.
const PATIENCE: Duration = Duration::from_secs(20);

/// Connects to a server. Writes are sent at once, and a read that waits too long is an error.
pub fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// The error of a client whose connection the server has closed.
fn closed_by_server() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed a connection")
}

/// The most bytes that one call reads.
const BUFFER: usize = 64 * 1024;

pub struct Load {
    address: SocketAddr,
    shape: Shape,
    epoll: Epoll,
    connections: Vec<Connection>,
    traffic: Traffic,
    /// Whether the time of a request counts, in an open loop.
    counts: fn(&[u8]) -> bool,
    /// Requests on their way to a connection.
    requests: Vec<u8>,
    buffer: Box<[u8]>,
    random: Random,
}

/// The result of a closed loop.
pub struct Rate {
    pub per_second: f64,
    /// Replies that came at all.
    pub all: u64,
}

/// The result of an open loop.
pub struct Served {
    pub times: Latency,
    /// Requests without a reply in the end.
    pub lost: usize,
}

impl Load {
    pub fn connect(address: SocketAddr, shape: Shape, traffic: Traffic) -> io::Result<Load> {
        let epoll = Epoll::new()?;
        let connections = (0..shape.connections).map(|number| Connection::new(address, number, &epoll));
        let connections = connections.collect::<io::Result<_>>()?;
        let (requests, buffer) = (Vec::new(), vec![0; BUFFER].into_boxed_slice());
        let random = Random::of(1);
        Ok(Load { address, shape, epoll, connections, traffic, counts: |_| true, requests, buffer, random })
    }

    /// Lets an open loop leave out the times of other requests than these.
    pub fn count_only(&mut self, counts: fn(&[u8]) -> bool) {
        self.counts = counts;
    }

    /// Sends `count` requests on a connection on which nothing is under way.
    fn send(&mut self, at: usize, count: usize, due: Instant) -> io::Result<()> {
        self.requests.clear();
        for _ in 0..count {
            let begin = self.requests.len();
            let reply_bytes = (self.traffic)(&mut self.random, &mut self.requests);
            let counts = (self.counts)(&self.requests[begin..]);
            self.connections[at].expect(reply_bytes, due, counts);
        }
        self.connections[at].send(&self.requests)
    }

    /// Asks in a closed loop.
    fn ask(&mut self, at: usize, due: Instant) -> io::Result<()> {
        if self.shape.renews && self.connections[at].is_used {
            self.connections[at] = Connection::new(self.address, at, &self.epoll)?;
        }
        self.send(at, self.shape.depth, due)
    }

    /// Runs a closed loop: every connection always waits for replies.
    pub fn closed(&mut self, length: Duration) -> io::Result<Rate> {
        let begun = Instant::now();
        let mut waiting = 0;
        for at in (0..self.connections.len()).step_by(1 + usize::from(self.shape.is_skewed)) {
            self.ask(at, begun)?;
            waiting += 1;
        }
        let (mut in_time, mut all) = (0, 0);
        let mut elapsed = begun.elapsed();
        let mut events = Events::default();
        while waiting > 0 && begun.elapsed() < length + GRACE {
            for at in self.epoll.wait(&mut events, 10)? {
                let replies = self.connections[at].receive(&mut self.buffer, |_| {})?;
                if replies == 0 {
                    continue;
                }
                let now = begun.elapsed();
                // The last replies come too late for the rate, and cost no less.
                all += replies;
                if now < length {
                    in_time += replies;
                    elapsed = now;
                }
                match self.connections[at].is_waiting() {
                    true => {}
                    false if now < length => self.ask(at, begun)?,
                    false => waiting -= 1,
                }
            }
        }
        // A server may be too slow to send any reply in time.
        let (counted, elapsed) = if in_time > 0 { (in_time, elapsed) } else { (all, begun.elapsed()) };
        Ok(Rate { per_second: counted as f64 / elapsed.as_secs_f64(), all })
    }

    /// Runs an open loop with `rate` requests per second.
    pub fn open(&mut self, length: Duration, rate: f64) -> io::Result<Served> {
        let begun = Instant::now();
        let mut times = Latency::default();
        let mut events = Events::default();
        let mut due = begun;
        let mut turn = 0;
        let mut outstanding = 0;
        loop {
            let now = Instant::now();
            if now > begun + length + GRACE || (outstanding == 0 && due > begun + length) {
                break;
            }
            while due <= now && due <= begun + length {
                outstanding += 1;
                turn = (turn + 1) % self.connections.len();
                if self.connections[turn].is_waiting() {
                    self.connections[turn].postpone(due);
                } else {
                    self.send(turn, 1, due)?;
                }
                due += Duration::from_secs_f64(-(1.0 - self.random.fraction()).ln() / rate);
            }
            // The generator has a CPU of its own, where there are any left: it does not sleep, to
            // be on time.
            for at in self.epoll.wait(&mut events, 0)? {
                let note = |was_due: Instant| times.note(was_due.elapsed());
                if self.connections[at].receive(&mut self.buffer, note)? == 0 {
                    continue;
                }
                outstanding -= 1;
                if let Some(next) = self.connections[at].postponed() {
                    self.send(at, 1, next)?;
                }
            }
        }
        for overdue in self.connections.iter().flat_map(Connection::unanswered) {
            times.note(overdue.elapsed());
        }
        Ok(Served { times, lost: outstanding })
    }
}
