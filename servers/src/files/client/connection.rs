//! A client's connection to a server.

use crate::files::keys::{Public, Secret};
use crate::files::noise::{self, Cipher, HELLO, SECOND, Verdict};
use crate::files::options::Access;
use crate::files::record::{self, Input, MOST};
use crate::files::words::{Answer, Request};
use sinew::net::TcpStream;
use sinew::time::timeout;
use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

/// A connection after its handshake.
pub struct Connection {
    pub stream: TcpStream,
    cipher: Cipher,
    pub input: Input,
    /// The number of the next record that is sent.
    number: u64,
    patience: Duration,
}

impl Connection {
    /// Connects to a server, and shakes hands with it.
    ///
    /// # Errors
    /// A key cannot be read, the server cannot be reached, does not own its key, or does not know the
    /// client's.
    pub fn open(access: &Access) -> io::Result<Connection> {
        let (own, server) = (Secret::read(&access.key)?, Public::read(&access.server)?);
        let failed = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot connect to {}: {}", access.address, words(&error)))
        };
        timeout(access.timeout, || Self::shake_hands(access, &own, &server)).map_err(failed)
    }

    fn shake_hands(access: &Access, own: &Secret, server: &Public) -> io::Result<Connection> {
        let mut stream = TcpStream::connect(access.address.as_str())?;
        stream.set_nodelay(true)?;
        let (asked, first) = noise::ask(access.cipher, own, server)?;
        let hello: [u8; HELLO] = access.cipher.hello();
        stream.write_all(&[&hello[..], &first].concat())?;
        let mut second = [0; SECOND];
        stream.read_exact(&mut second).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => io::Error::new(
                ErrorKind::PermissionDenied,
                "the server ended the handshake: perhaps --server names the key of another server",
            ),
            _ => error,
        })?;
        let (verdict, cipher) = asked.end(&second)?;
        if verdict == Verdict::Unknown {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "the server does not know this client's key"));
        }
        Ok(Connection { stream, cipher, input: Input::default(), number: 0, patience: access.timeout })
    }

    /// Sends a request.
    ///
    /// # Errors
    /// The errors of the connection.
    pub fn ask(&mut self, request: Request<'_>) -> io::Result<()> {
        let mut sealed = Vec::new();
        record::seal(&self.cipher, self.number, &request.record(), &mut sealed)?;
        self.number += 1;
        timeout(self.patience, || (&self.stream).write_all(&sealed)).map_err(|error| explain(&error))
    }

    /// Receives a record of the answer.
    ///
    /// # Errors
    /// The errors of the connection. The record is not the one that the server has sent, or there is
    /// none.
    pub fn hear(&mut self) -> io::Result<Answer<'_>> {
        let Connection { stream, cipher, input, patience, .. } = self;
        let heard = timeout(*patience, || input.receive(stream, cipher, MOST)).map_err(|error| explain(&error))?;
        let record = heard.ok_or_else(|| {
            io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection before the end of the answer")
        })?;
        Answer::of(record)
    }
}

/// Returns the error with words for a user.
pub fn explain(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("the connection failed: {}", words(error)))
}

fn words(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::TimedOut => "the server did not answer in time".to_owned(),
        _ => error.to_string(),
    }
}
