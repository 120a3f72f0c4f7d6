//! A load generator for request-and-reply protocols over TCP.
//!
//! One thread, many connections, one request at a time on each. *Closed-loop*: a
//! connection sends its next request when it has the reply, which finds out how
//! much a server can do. *Open-loop*: requests are due at random moments of a given
//! rate, whatever the server does. One that is due while its connection still
//! waits is sent late, and its time counts from when it was due: who is kept
//! waiting by a stall is in the figures, as it would be in the world. (A generator
//! that waits for replies before it asks again leaves those out.)

mod connection;
mod epoll;
pub mod floor;
pub mod server;
pub mod wrk;

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::measure::latency::Latency;
use crate::measure::random::Random;

use connection::Connection;
pub use epoll::Epoll;

/// What is sent.
pub struct Request {
    pub bytes: Vec<u8>,
    /// Whether these bytes are a whole reply, and if so how many are.
    pub whole: fn(&[u8]) -> Option<usize>,
}

/// How long stragglers are waited for.
const GRACE: Duration = Duration::from_secs(1);

pub struct Load {
    epoll: Epoll,
    connections: Vec<Connection>,
    /// Each is sent as often as any other.
    requests: Vec<Request>,
    /// How long the reply to each is: it has the same length whenever it is sent, which is
    /// learnt from the first time.
    reply_bytes: Vec<usize>,
    random: Random,
}

/// What a closed-loop run found.
pub struct Rate {
    pub per_second: f64,
    /// Replies that came at all.
    pub all: u64,
}

/// What an open-loop run found.
pub struct Served {
    pub times: Latency,
    /// Requests without a reply in the end.
    pub lost: usize,
}

impl Load {
    pub fn connect(address: SocketAddr, connections: usize, requests: Vec<Request>) -> io::Result<Load> {
        let reply_bytes = connection::learn(address, &requests)?;
        let epoll = Epoll::new()?;
        let connections = (0..connections).map(|number| Connection::new(address, number, &epoll));
        let connections = connections.collect::<io::Result<_>>()?;
        Ok(Load { epoll, connections, requests, reply_bytes, random: Random::of(1) })
    }

    fn send(&mut self, at: usize, due: Instant) -> io::Result<()> {
        let kind = self.random.below(self.requests.len());
        self.connections[at].send(&self.requests[kind].bytes, self.reply_bytes[kind], due)
    }

    /// With every connection always waiting for a reply.
    pub fn closed(&mut self, length: Duration) -> io::Result<Rate> {
        let begun = Instant::now();
        for at in 0..self.connections.len() {
            self.send(at, begun)?;
        }
        let mut replies = 0_u64;
        let mut waiting = self.connections.len();
        let mut elapsed = begun.elapsed();
        while waiting > 0 && begun.elapsed() < length + GRACE {
            for at in self.epoll.wait(10)? {
                if self.connections[at].receive()?.is_none() {
                    continue;
                }
                let now = begun.elapsed();
                if now < length {
                    replies += 1;
                    elapsed = now;
                    self.send(at, begun)?;
                } else {
                    waiting -= 1;
                }
            }
        }
        // The last ones of each connection came too late for the rate, and cost no less.
        let all = replies + (self.connections.len() - waiting) as u64;
        // But for a server that was too slow to send any in time.
        let (counted, elapsed) = if replies > 0 { (replies, elapsed) } else { (all, begun.elapsed()) };
        Ok(Rate { per_second: counted as f64 / elapsed.as_secs_f64(), all })
    }

    /// Requests at `rate` per second.
    pub fn open(&mut self, length: Duration, rate: f64) -> io::Result<Served> {
        let begun = Instant::now();
        let mut times = Latency::default();
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
                    self.send(turn, due)?;
                }
                due += Duration::from_secs_f64(-(1.0 - self.random.fraction()).ln() / rate);
            }
            // The generator has a CPU of its own, where there are any left: it does not sleep, to
            // be on time.
            for at in self.epoll.wait(0)? {
                let Some(was_due) = self.connections[at].receive()? else { continue };
                outstanding -= 1;
                times.note(was_due.elapsed());
                if let Some(next) = self.connections[at].postponed() {
                    self.send(at, next)?;
                }
            }
        }
        for overdue in self.connections.iter().flat_map(Connection::unanswered) {
            times.note(overdue.elapsed());
        }
        Ok(Served { times, lost: outstanding })
    }
}
