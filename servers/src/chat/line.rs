//! The connection of a client, which its session writes to and its reader reads from.

use super::protocol::LARGEST;
use sinew::net::{Duplex, TcpStream};
use std::io::{self, Read};
use std::net::Shutdown;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tungstenite::{Error, Message, Utf8Bytes, WebSocket};

/// The bytes that are read at once. Most messages are shorter. The buffer stays while the client is silent.
const READ: usize = 512;

/// The bytes that are collected before they are sent, if there is more to send at once.
const WRITE: usize = 4096;

/// The time that a client has to close the connection after the last word. If the server closed it at once, the kernel
/// would discard what the client has not read, when the client has sent something more.
const FAREWELL: Duration = Duration::from_secs(2);

/// Why the server ends a connection: the code and the reason of the close frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub code: u16,
    pub reason: &'static str,
}

macro_rules! verdicts {
    ($($name:ident $code:literal $reason:literal)*) => {
        impl Verdict {
            $(pub const $name: Verdict = Verdict { code: $code, reason: $reason };)*
        }
    };
}

verdicts! {
    GOODBYE 1001 "the server ends"
    BROKEN 1002 "this is not the WebSocket protocol"
    BINARY 1003 "binary messages are not understood"
    NOT_TEXT 1007 "this is not UTF-8"
    SLOW 1008 "you read too slowly"
    FLOOD 1008 "you write too fast"
    NAMELESS 1008 "you have not taken a name"
    SILENT 1008 "you do not answer to pings"
    TOO_LARGE 1009 "this message is too large"
    NO_MEMORY 1013 "the server has no memory left"
}

/// A WebSocket, and what the fibres that use it tell each other.
pub struct Line {
    pub socket: Duplex<WebSocket<TcpStream>>,
    stream: TcpStream,
    /// Set by the reader for each message, cleared by the session for each ping.
    is_heard: AtomicBool,
    /// Set once, by anybody; the session carries it out.
    verdict: OnceLock<Verdict>,
}

impl Line {
    /// Makes a line of a connection whose handshake is done. The client has sent `received` after that.
    pub fn new(stream: TcpStream, received: Vec<u8>) -> Line {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ)
            .write_buffer_size(WRITE)
            .max_message_size(Some(LARGEST))
            .max_frame_size(Some(LARGEST));
        let socket = WebSocket::from_partially_read(stream.clone(), received, Role::Server, Some(config));
        let socket = Duplex::new(socket, &stream);
        Line { socket, stream, is_heard: AtomicBool::new(true), verdict: OnceLock::new() }
    }

    /// Notes that the client is there.
    pub fn hear(&self) {
        self.is_heard.store(true, Relaxed);
    }

    /// Returns whether the client was heard since the last call.
    pub fn was_heard(&self) -> bool {
        self.is_heard.swap(false, Relaxed)
    }

    /// Decides that the connection ends. The first verdict counts.
    pub fn condemn(&self, verdict: Verdict) {
        // Another one came first.
        let _ = self.verdict.set(verdict);
    }

    /// Returns why the connection has to end, if it has to.
    pub fn verdict(&self) -> Option<Verdict> {
        self.verdict.get().copied()
    }

    /// Sends a message, or keeps it until [`flush`](Line::flush).
    ///
    /// # Errors
    /// Those of the connection; `TimedOut`.
    pub fn write(&self, message: Message, patience: Duration) -> Result<(), Error> {
        // The WebSocket keeps what it could not send at once: it gets the message only once.
        let mut message = Some(message);
        self.socket.write_with_timeout(patience, |socket| match message.take() {
            Some(message) => socket.write(message),
            None => socket.flush(),
        })
    }

    /// Sends everything that was kept.
    ///
    /// # Errors
    /// As [`write`](Line::write).
    pub fn flush(&self, patience: Duration) -> Result<(), Error> {
        self.socket.write_with_timeout(patience, WebSocket::flush)
    }

    /// Says the last word, and lets the client close the connection. Then closes it.
    pub fn hang_up(&self, verdict: Verdict, patience: Duration) {
        let reason = Utf8Bytes::from_static(verdict.reason);
        let mut frame = Some(CloseFrame { code: verdict.code.into(), reason });
        let said = self.socket.write_with_timeout(patience, |socket| match frame.take() {
            Some(frame) => socket.close(Some(frame)),
            None => socket.flush(),
        });
        if said.is_ok() && self.stream.shutdown(Shutdown::Write).is_ok() {
            let deadline = Instant::now() + FAREWELL;
            let mut discarded = [0; 1024];
            let mut read = || self.socket.read_with_deadline(deadline, |socket| socket.get_mut().read(&mut discarded));
            // A client that sends without a pause never reaches the deadline inside of `read`.
            while let Ok(1..) = read()
                && Instant::now() < deadline
            {}
        }
        self.shut();
    }

    /// Ends the connection at once. The reader notices it.
    pub fn shut(&self) {
        // It may have ended already.
        let _: io::Result<()> = self.stream.shutdown(Shutdown::Both);
    }
}
