//! Requests in datagrams: `-U`.
//!
//! A datagram begins with a header of 8 bytes: the client's number for the request, the number of
//! this datagram, the number of datagrams, and two zero bytes. A request is one datagram. It is a
//! session of its own, and its answer is one datagram or more.

use super::Server;
use super::session::Session;
use super::stream::{Stream, tcp_text};
use super::traffic::Entry;
use crate::memory;
use sinew::net::UdpSocket;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

/// The length of the longest datagram.
const LONGEST: usize = 64 * 1024;

const HEADER: usize = 8;

/// The number of bytes of an answer that fit into a datagram. memcached's number.
const PAYLOAD: usize = 1400 - HEADER;

/// The length of the longest answer. Datagram numbers would allow 90 megabytes, but the whole
/// answer is in memory before its first datagram is sent.
const LONGEST_ANSWER: usize = 4 << 20;

/// A socket that receives datagrams.
pub struct Mailbox {
    socket: UdpSocket,
}

impl Mailbox {
    /// Binds a socket to an address.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(host: &str, port: u16) -> io::Result<Mailbox> {
        Ok(Mailbox { socket: UdpSocket::bind((host, port))? })
    }

    /// Returns the socket's address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Returns the socket's number and address, as memcached writes them.
    pub fn describe(&self) -> (i32, String) {
        (self.socket.as_raw_fd(), self.address().map_or(String::new(), |address| tcp_text("udp", address)))
    }

    /// Answers datagrams until this fibre is cancelled.
    pub fn serve(&self, server: &Server) {
        let mut buffer = vec![0; LONGEST];
        let entry = Entry::unlisted(self.socket.as_raw_fd(), server.clock.now());
        while !server.is_stopping() {
            match self.socket.recv_from(&mut buffer) {
                Ok((count, client)) => {
                    if let Err(error) = self.answer(server, &entry, &buffer[..count], client) {
                        server.log(1, || format!("a datagram was not answered: {error}"));
                    }
                }
                Err(_) if server.is_stopping() => return,
                Err(error) => server.log(1, || format!("cannot receive datagrams: {error}")),
            }
        }
    }

    fn answer(&self, server: &Server, entry: &Entry, datagram: &[u8], client: SocketAddr) -> io::Result<()> {
        let Some((header, request)) = datagram.split_first_chunk::<HEADER>() else { return Ok(()) };
        // memcached does not serve requests of several datagrams either.
        if header[4..6] != [0, 1] || request.is_empty() {
            return Ok(());
        }
        let exchange = Exchange::new(request);
        Session::serve(server, &exchange, entry, &mut server.introduction())?;
        let answer = exchange.answer();
        let pieces = answer.chunks(PAYLOAD);
        let total = u16::try_from(pieces.len()).map_err(|_| io::Error::from(ErrorKind::OutOfMemory))?;
        let mut packet = Vec::with_capacity(HEADER + PAYLOAD);
        for (number, piece) in pieces.enumerate() {
            packet.clear();
            packet.extend_from_slice(&header[..2]);
            packet.extend_from_slice(&(number as u16).to_be_bytes());
            packet.extend_from_slice(&total.to_be_bytes());
            packet.extend_from_slice(&[0, 0]);
            packet.extend_from_slice(piece);
            self.socket.send_to(&packet, client)?;
        }
        Ok(())
    }
}

/// A request and its answer. A session takes them for a connection.
#[derive(Clone)]
struct Exchange(Arc<Mutex<Halves>>);

struct Halves {
    request: Vec<u8>,
    /// The number of bytes of the request that have been read.
    read: usize,
    answer: Vec<u8>,
}

impl Exchange {
    fn new(request: &[u8]) -> Exchange {
        Exchange(Arc::new(Mutex::new(Halves { request: request.to_vec(), read: 0, answer: Vec::new() })))
    }

    fn halves(&self) -> MutexGuard<'_, Halves> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self) -> Vec<u8> {
        std::mem::take(&mut self.halves().answer)
    }
}

impl Stream for Exchange {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let halves = &mut *self.halves();
        let rest = &halves.request[halves.read..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        halves.read += count;
        Ok(count)
    }

    fn read_until(&self, buffer: &mut [u8], _: Instant) -> io::Result<usize> {
        self.read(buffer)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let halves = &mut *self.halves();
        if halves.answer.len() + bytes.len() > LONGEST_ANSWER {
            return Err(ErrorKind::OutOfMemory.into());
        }
        memory::reserve(&mut halves.answer, bytes.len())?;
        halves.answer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn write_until(&self, bytes: &[u8], _: Instant) -> io::Result<usize> {
        self.write(bytes)
    }

    fn poll_readable(&self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}
