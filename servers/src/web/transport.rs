//! A connection, plain or over TLS.

use super::desks::{Borrowed, Desks};
use crate::tree::resident;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use sinew::fs::File;
use sinew::net::{Shutdown, TcpStream};
use sinew::time;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The size of the pieces in which a file is sent. The page cache is asked about each piece before
/// it is sent. Each piece has its own send timeout.
pub const PIECE: u64 = 256 * 1024;

/// The connection of a session. No call waits longer than the send timeout for a client to take
/// bytes.
pub trait Transport {
    /// Waits for bytes, and only then borrows a desk to receive them. Returns the desk and the
    /// number of bytes. The number is 0 at the end of the connection, and if there is no memory for
    /// a desk.
    ///
    /// # Errors
    /// The errors of the connection; `TimedOut` after the deadline.
    fn receive<'d>(&mut self, desks: &'d Desks, deadline: Instant) -> io::Result<(Borrowed<'d>, usize)>;

    /// Receives bytes, and returns their number. It is 0 at the end of the connection.
    ///
    /// # Errors
    /// The errors of the connection; `TimedOut` after the deadline.
    fn read(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize>;

    /// Sends `first`, then `second`, in one call if possible.
    ///
    /// # Errors
    /// The errors of the connection; `TimedOut` if the client is too slow.
    fn write(&mut self, first: &[u8], second: &[u8]) -> io::Result<()>;

    /// Starts the send timeout again, for the next write.
    fn renew(&mut self);

    /// Sends `count` bytes of a file, at most [`PIECE`]. They are in the page cache.
    ///
    /// # Errors
    /// The errors of the connection; `TimedOut` if the client is too slow; `UnexpectedEof` if the file
    /// has become shorter.
    fn send(&mut self, file: &File, offset: u64, count: u64) -> io::Result<()>;

    /// Returns whether the client has sent bytes that nobody has received.
    fn is_unheard(&self) -> bool;

    /// Tells the client that nothing more will be sent, but still receives.
    ///
    /// # Errors
    /// The errors of the connection.
    fn finish(&mut self) -> io::Result<()>;

    /// Says goodbye to a client that sends nothing more. The connection is closed next.
    fn close(&mut self);
}

/// A connection over TCP.
pub struct Plain {
    stream: TcpStream,
    patience: Duration,
    /// The time until which a write may wait. It is counted from the last deadline, so that the
    /// clock need not be read.
    limit: Instant,
}

impl Plain {
    /// Returns a transport over this stream. The client has the time `patience` to receive
    /// something.
    pub fn new(stream: TcpStream, patience: Duration) -> Plain {
        Plain::until(stream, patience, Instant::now() + patience)
    }

    /// As [`new`](Plain::new), but the first write may wait until `limit`.
    pub fn until(stream: TcpStream, patience: Duration, limit: Instant) -> Plain {
        Plain { stream, patience, limit }
    }

    /// Sends the bytes that did not go out at once.
    #[cold]
    #[inline(never)]
    fn write_rest(&mut self, mut first: &[u8], mut second: &[u8]) -> io::Result<()> {
        self.limit = Instant::now() + self.patience;
        time::deadline(self.limit, || {
            while !first.is_empty() || !second.is_empty() {
                let sent = (&self.stream).write_vectored(&[IoSlice::new(first), IoSlice::new(second)])?;
                if sent == 0 {
                    return Err(ErrorKind::WriteZero.into());
                }
                let of_first = sent.min(first.len());
                first = &first[of_first..];
                second = &second[sent - of_first..];
            }
            Ok(())
        })
    }
}

impl Transport for Plain {
    #[inline]
    fn receive<'d>(&mut self, desks: &'d Desks, deadline: Instant) -> io::Result<(Borrowed<'d>, usize)> {
        self.limit = deadline + self.patience;
        self.stream.read_lent(deadline, || desks.take())
    }

    #[inline]
    fn read(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
        self.limit = deadline + self.patience;
        self.stream.read_deadline(buffer, deadline)
    }

    #[inline]
    fn write(&mut self, first: &[u8], second: &[u8]) -> io::Result<()> {
        if !second.is_empty() {
            return self.write_rest(first, second);
        }
        let sent = self.stream.write_deadline(first, self.limit)?;
        if sent == first.len() { Ok(()) } else { self.write_rest(&first[sent..], second) }
    }

    fn renew(&mut self) {
        self.limit = Instant::now() + self.patience;
    }

    fn send(&mut self, file: &File, offset: u64, count: u64) -> io::Result<()> {
        self.limit = Instant::now() + self.patience;
        let sent = time::deadline(self.limit, || sinew::net::sendfile(file, &self.stream, offset, count))?;
        if sent == count { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }

    fn is_unheard(&self) -> bool {
        is_unheard(&self.stream)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    #[inline]
    fn close(&mut self) {}
}

fn is_unheard(stream: &TcpStream) -> bool {
    rustix::io::ioctl_fionread(stream).is_ok_and(|count| count > 0)
}

/// A connection with TLS over TCP.
pub struct Secure {
    stream: StreamOwned<ServerConnection, TcpStream>,
    patience: Duration,
}

/// The bytes that are encrypted at a time: a record of TLS.
const RECORD: usize = 16 * 1024;

impl Secure {
    /// Returns a transport over this stream. The handshake happens at the first read.
    ///
    /// # Errors
    /// The error of rustls.
    pub fn new(stream: TcpStream, config: Arc<ServerConfig>, patience: Duration) -> io::Result<Secure> {
        let connection = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(Secure { stream: StreamOwned::new(connection, stream), patience })
    }
}

impl Transport for Secure {
    fn receive<'d>(&mut self, desks: &'d Desks, deadline: Instant) -> io::Result<(Borrowed<'d>, usize)> {
        let state = self.stream.conn.process_new_packets().map_err(io::Error::other)?;
        if state.plaintext_bytes_to_read() == 0 && !state.peer_has_closed() {
            time::deadline(deadline, || self.stream.sock.peek(&mut [0]))?;
        }
        let mut desk = desks.take();
        let count = self.read(desk.as_mut(), deadline)?;
        Ok((desk, count))
    }

    fn read(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
        match time::deadline(deadline, || self.stream.read(buffer)) {
            // The client has closed the connection without TLS's goodbye. That is safe: heads and
            // bodies have ends of their own.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
            outcome => outcome,
        }
    }

    fn write(&mut self, first: &[u8], second: &[u8]) -> io::Result<()> {
        time::timeout(self.patience, || {
            self.stream.write_all(first)?;
            self.stream.write_all(second)?;
            self.stream.flush()
        })
    }

    /// Does nothing: each write has the whole timeout.
    fn renew(&mut self) {}

    fn send(&mut self, file: &File, offset: u64, count: u64) -> io::Result<()> {
        let mut buffer = vec![0; RECORD.min(count as usize)];
        time::timeout(self.patience, || {
            let mut done = 0;
            while done < count {
                let room = buffer.len().min((count - done) as usize);
                let got = resident::read(file, &mut buffer[..room], offset + done)?;
                if got == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                self.stream.write_all(&buffer[..got])?;
                done += got as u64;
            }
            self.stream.flush()
        })
    }

    fn is_unheard(&self) -> bool {
        is_unheard(&self.stream.sock)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.stream.conn.send_close_notify();
        time::timeout(self.patience, || self.stream.flush())?;
        self.stream.sock.shutdown(Shutdown::Write)
    }

    fn close(&mut self) {
        if self.stream.conn.is_handshaking() {
            return;
        }
        self.stream.conn.send_close_notify();
        // A client that is gone misses nothing.
        let _ = time::timeout(self.patience, || self.stream.flush());
    }
}
