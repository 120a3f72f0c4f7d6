//! The load: one thread, an event loop, many connections.

use super::server::Server;
use rustix::event::epoll;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const KEYS: usize = 100_000;
const VALUE: usize = 100;

/// Every answer to a get has this length: keys and values do.
pub const HIT: usize = "VALUE key_00000000 0 100\r\n".len() + VALUE + "\r\nEND\r\n".len();
const STORED: usize = "STORED\r\n".len();

#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub connections: usize,
    /// Whether every second one of them never asks for anything. memcached deals connections
    /// out to its threads in turn, so the rest are all on one of two.
    pub skewed: bool,
    /// Requests that are under way at a time, on each.
    pub depth: usize,
    /// So many of a hundred requests are sets.
    pub sets: u64,
    pub time: Duration,
    /// Requests for each second, whether answers have come or not. Otherwise a connection
    /// sends when it has got its answers.
    pub rate: Option<f64>,
}

/// What a load has seen.
pub struct Seen {
    pub operations: u64,
    latencies: Vec<u64>,
}

impl Seen {
    /// The latency that this part of the requests did not exceed, in nanoseconds.
    pub fn latency(mut self, part: f64) -> u64 {
        self.latencies.sort_unstable();
        self.latencies[((self.latencies.len() - 1) as f64 * part) as usize]
    }
}

struct Connection {
    stream: TcpStream,
    /// Bytes to come for each request that is under way, and when it was due.
    due: VecDeque<(usize, Instant)>,
    /// Bytes that could not be sent yet.
    unsent: Vec<u8>,
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Stores values under the first `count` keys.
pub fn fill(server: &Server, count: usize) {
    let mut stream = TcpStream::connect(server.address).expect("a connection");
    let mut requests = Vec::new();
    for number in 0..count {
        write!(requests, "set key_{number:08} 0 0 {VALUE} noreply\r\n").expect("memory");
        requests.extend_from_slice(&[b'v'; VALUE]);
        requests.extend_from_slice(b"\r\n");
        if requests.len() > 1 << 16 || number + 1 == count {
            stream.write_all(&requests).expect("to send");
            requests.clear();
        }
    }
    stream.write_all(b"mn\r\n").expect("to send");
    stream.read_exact(&mut [0; 4]).expect("the answer");
}

/// Connections that have asked for something once.
pub fn idle(server: &Server, count: usize) -> Vec<TcpStream> {
    let mut streams: Vec<TcpStream> =
        (0..count).map(|_| TcpStream::connect(server.address).expect("a connection")).collect();
    for stream in &mut streams {
        stream.write_all(b"mn\r\n").expect("to send");
        stream.read_exact(&mut [0; 4]).expect("the answer");
    }
    streams
}

impl Load {
    pub fn fill(&self, server: &Server) {
        fill(server, KEYS);
    }

    pub fn run(&self, server: &Server) -> Seen {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
        let mut connections: Vec<Connection> = (0..self.connections)
            .map(|number| {
                let stream = TcpStream::connect(server.address).expect("a connection");
                stream.set_nonblocking(true).expect("non-blocking");
                stream.set_nodelay(true).expect("no delay");
                let data = epoll::EventData::new_u64(number as u64);
                epoll::add(&poll, &stream, data, epoll::EventFlags::IN).expect("epoll");
                Connection { stream, due: VecDeque::new(), unsent: Vec::new() }
            })
            .collect();
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut seen = Seen { operations: 0, latencies: Vec::new() };
        let (begin, mut scheduled) = (Instant::now(), 0u64);
        if self.rate.is_none() {
            for connection in connections.iter_mut().step_by(1 + usize::from(self.skewed)) {
                self.send(connection, self.depth, &mut random, Instant::now());
            }
        }
        let mut events = Vec::with_capacity(1024);
        let mut answers = vec![0; 1 << 16];
        while begin.elapsed() < self.time {
            if let Some(rate) = self.rate {
                while scheduled as f64 / rate <= begin.elapsed().as_secs_f64() {
                    let due = begin + Duration::from_secs_f64(scheduled as f64 / rate);
                    let number = random.below(self.connections as u64) as usize;
                    self.send(&mut connections[number], 1, &mut random, due);
                    scheduled += 1;
                }
            }
            events.clear();
            let timeout =
                rustix::event::Timespec { tv_sec: 0, tv_nsec: if self.rate.is_some() { 0 } else { 1_000_000 } };
            epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)).expect("epoll");
            for event in &events {
                let connection = &mut connections[event.data.u64() as usize];
                let done = connection.receive(&mut answers, &mut seen, self.rate.is_some());
                if self.rate.is_none() && connection.due.is_empty() && done > 0 {
                    self.send(connection, self.depth, &mut random, Instant::now());
                }
            }
        }
        seen
    }

    fn send(&self, connection: &mut Connection, count: usize, random: &mut Random, due: Instant) {
        for _ in 0..count {
            let key = random.below(KEYS as u64);
            if random.below(100) < self.sets {
                write!(connection.unsent, "set key_{key:08} 0 0 {VALUE}\r\n").expect("memory");
                connection.unsent.extend_from_slice(&[b'v'; VALUE]);
                connection.unsent.extend_from_slice(b"\r\n");
                connection.due.push_back((STORED, due));
            } else {
                write!(connection.unsent, "get key_{key:08}\r\n").expect("memory");
                connection.due.push_back((HIT, due));
            }
        }
        match connection.stream.write(&connection.unsent) {
            Ok(count) => drop(connection.unsent.drain(..count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("to send: {error}"),
        }
    }
}

impl Connection {
    /// Takes answers that have come. How many requests are done by that.
    fn receive(&mut self, buffer: &mut [u8], seen: &mut Seen, timed: bool) -> u64 {
        let mut count = match self.stream.read(buffer) {
            Ok(0) => panic!("the server has closed a connection"),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return 0,
            Err(error) => panic!("to receive: {error}"),
        };
        let mut done = 0;
        while count > 0 {
            let (left, due) = self.due.front_mut().expect("an answer to a request");
            let taken = count.min(*left);
            (*left, count) = (*left - taken, count - taken);
            if *left == 0 {
                if timed {
                    seen.latencies.push(due.elapsed().as_nanos() as u64);
                }
                self.due.pop_front();
                done += 1;
            }
        }
        seen.operations += done;
        done
    }
}
