//! A chat server, the built binary, and clients that talk to it.

// Each test binary uses its own part of this.
#![allow(dead_code)]
#![allow(unused_imports)]

#[path = "../process/mod.rs"]
mod process;

pub use process::{PATIENCE, Process, Random, discard, prepare, receive};

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;
use tungstenite::protocol::CloseFrame;
use tungstenite::{Error, Message, WebSocket};

/// A running server. It is killed when this value is dropped.
pub struct Parlour {
    pub address: SocketAddr,
    process: Process,
}

impl Parlour {
    pub fn open(options: &[&str]) -> Parlour {
        let (parlour, output) = Parlour::open_with_output(options);
        discard(output);
        parlour
    }

    /// Starts a server. Standard output is the caller's.
    pub fn open_with_output(options: &[&str]) -> (Parlour, impl BufRead + use<>) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
        command.args(["chat", "--listen", "127.0.0.1:0"]).args(options).stdout(Stdio::piped());
        let mut process = Process::start(command.stderr(Stdio::piped())).expect("the binary of this package");
        let mut output = BufReader::new(process.output());
        let mut line = String::new();
        output.read_line(&mut line).expect("the first line");
        let address = line.trim().strip_prefix("chat at http://").and_then(|address| address.parse().ok());
        let address = address.unwrap_or_else(|| panic!("the server says: {line}"));
        (Parlour { address, process }, output)
    }

    /// Opens a connection without a handshake.
    pub fn stream(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        prepare(&stream);
        stream
    }

    /// Sends a request by HTTP, and returns the whole answer.
    pub fn ask(&self, request: &str) -> String {
        let mut stream = self.stream();
        stream.write_all(request.as_bytes()).expect("send");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        String::from_utf8(answer).expect("text")
    }

    /// Connects without taking a name.
    pub fn connect(&self) -> Client {
        Client::over(self.stream(), self.address)
    }

    /// Connects, takes a name and enters a room.
    pub fn enter(&self, name: &str, room: &str) -> Client {
        let mut client = self.named(name);
        client.enter(room);
        client
    }

    /// Connects and takes a name.
    pub fn named(&self, name: &str) -> Client {
        let mut client = self.connect();
        client.say(json!({ "type": "name", "name": name }));
        assert_eq!(client.hear()["type"], "welcome");
        client
    }

    /// Waits until a name is free, and takes it.
    pub fn named_at_last(&self, name: &str) -> Client {
        let begin = Instant::now();
        loop {
            let mut client = self.connect();
            client.say(json!({ "type": "name", "name": name }));
            match client.hear()["type"].as_str() {
                Some("welcome") => return client,
                _ => assert!(begin.elapsed() < PATIENCE, "{name} is never free"),
            }
        }
    }

    /// Returns the line in which the server says what has happened so far.
    pub fn counts(&mut self) -> String {
        self.process.signal("-USR1");
        let mut errors = BufReader::with_capacity(1, self.process.errors());
        let mut line = String::new();
        // A debug build also says if it is held up.
        while !line.starts_with("sinew: chat: ") {
            line.clear();
            assert_ne!(errors.read_line(&mut line).expect("the counts"), 0, "the server has ended");
        }
        self.process.return_errors(errors.into_inner());
        line
    }

    /// Waits for the end of the server, and returns its exit status.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let status = self.process.wait_for_end();
        (status, self.process.messages())
    }
}

impl Deref for Parlour {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

/// A client of a chat.
pub struct Client {
    pub socket: WebSocket<TcpStream>,
}

impl Client {
    pub fn over(stream: TcpStream, address: SocketAddr) -> Client {
        let (socket, _) = tungstenite::client(format!("ws://{address}/ws"), stream).expect("a handshake");
        Client { socket }
    }

    pub fn stream(&mut self) -> &mut TcpStream {
        self.socket.get_mut()
    }

    pub fn say(&mut self, request: Value) {
        self.socket.send(Message::text(request.to_string())).expect("send");
    }

    pub fn say_in(&mut self, room: &str, text: &str) {
        self.say(json!({ "type": "say", "room": room, "text": text }));
    }

    /// Enters a room. Returns what the server says of it, and its last messages.
    pub fn enter(&mut self, room: &str) -> (Value, Vec<Value>) {
        self.say(json!({ "type": "join", "room": room }));
        let entered = self.hear();
        assert_eq!(entered["type"], "entered", "{entered}");
        let count = entered["history"].as_u64().expect("a number");
        let history = (0..count).map(|_| self.hear()).collect();
        (entered, history)
    }

    /// Receives the next message of the server.
    pub fn hear(&mut self) -> Value {
        let begin = Instant::now();
        loop {
            // Pings may come without an end.
            assert!(begin.elapsed() < PATIENCE, "no message but pings");
            match self.socket.read() {
                Ok(Message::Text(text)) => return serde_json::from_str(&text).expect("JSON"),
                Ok(Message::Ping(_) | Message::Pong(_)) => {}
                // A call with a time limit is not restarted when the kernel has stopped the process for a while.
                Err(Error::Io(error)) if error.kind() == ErrorKind::Interrupted => {}
                other => panic!("the server sends {other:?}"),
            }
        }
    }

    /// Receives messages until one of this type comes, and returns it.
    pub fn hear_a(&mut self, kind: &str) -> Value {
        loop {
            let heard = self.hear();
            if heard["type"] == kind {
                return heard;
            }
        }
    }

    /// Receives messages until the connection ends. Returns them, and the close frame.
    pub fn hear_the_rest(&mut self) -> (Vec<Value>, Option<CloseFrame>) {
        let (mut heard, mut close) = (Vec::new(), None);
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => heard.push(serde_json::from_str(&text).expect("JSON")),
                Ok(Message::Close(frame)) => close = frame,
                Ok(_) => {}
                Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => {
                    panic!("the connection does not end, after {heard:?}")
                }
                Err(Error::Io(error)) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return (heard, close),
            }
        }
    }

    /// Expects that the server ends the connection with this code. Returns the reason.
    #[track_caller]
    pub fn expect_close(&mut self, code: u16) -> String {
        let (heard, close) = self.hear_the_rest();
        let close = close.unwrap_or_else(|| panic!("no close frame, after {heard:?}"));
        assert_eq!(u16::from(close.code), code, "{close:?}");
        close.reason.to_string()
    }

    /// Expects an error with this code.
    #[track_caller]
    pub fn expect_error(&mut self, code: &str) {
        let heard = self.hear();
        assert_eq!((&heard["type"], &heard["code"]), (&json!("error"), &json!(code)), "{heard}");
    }
}
