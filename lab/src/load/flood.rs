//! Clients that pipeline one request without end, as fast as the server takes it. They give way
//! to every other thread of this machine. They are not measured: they disturb the client that
//! is.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use super::closed_by_server;
use super::epoll::{Epoll, Events, Interest};
use crate::kernel;

/// Bytes of requests that a client has ready to send.
const REQUESTS: usize = 64 * 1024;
const REPLIES: usize = 256 * 1024;

pub struct Flood {
    shared: Arc<Shared>,
    clients: JoinHandle<io::Result<()>>,
}

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    /// Replies that have come.
    replies: AtomicU64,
}

impl Flood {
    /// Starts the clients, all in one thread. Every reply has the byte `end` in it, once.
    pub fn begin(address: SocketAddr, clients: usize, request: &str, end: u8) -> Flood {
        let shared = Arc::new(Shared::default());
        let requests = request.repeat(REQUESTS / request.len()).into_bytes();
        let own = shared.clone();
        let clients = thread::spawn(move || pour(address, clients, &requests, end, &own));
        Flood { shared, clients }
    }

    pub fn replies(&self) -> u64 {
        self.shared.replies.load(Relaxed)
    }

    /// Returns whether the clients have met an error.
    pub fn has_ended(&self) -> bool {
        self.clients.is_finished()
    }

    /// Ends the clients.
    ///
    /// # Errors
    /// The clients met this error.
    pub fn end(self) -> io::Result<()> {
        self.shared.over.store(true, Relaxed);
        self.clients.join().expect("the clients do not panic")
    }
}

fn pour(address: SocketAddr, clients: usize, requests: &[u8], end: u8, shared: &Shared) -> io::Result<()> {
    // A low priority is not enough: the measured client would wait for the kernel's next tick.
    kernel::run_when_idle()?;
    let epoll = Epoll::new()?;
    let mut streams = Vec::new();
    for number in 0..clients {
        let stream = TcpStream::connect(address)?;
        stream.set_nonblocking(true)?;
        epoll.add(&stream, number, Interest::Both)?;
        streams.push((stream, 0));
    }
    let mut heard = vec![0; REPLIES];
    let mut events = Events::default();
    while !shared.over.load(Relaxed) {
        for number in epoll.wait(&mut events, 10)? {
            let (stream, sent) = &mut streams[number];
            *sent = (*sent + unless_blocked(stream.write(&requests[*sent..]))?) % requests.len();
            let count = match stream.read(&mut heard) {
                Ok(0) => return Err(closed_by_server()),
                read => unless_blocked(read)?,
            };
            let replies = heard[..count].iter().filter(|&&byte| byte == end).count();
            shared.replies.fetch_add(replies as u64, Relaxed);
        }
    }
    Ok(())
}

fn unless_blocked(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        other => other,
    }
}
