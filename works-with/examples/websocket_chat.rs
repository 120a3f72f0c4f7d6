//! A chat server for WebSockets: two fibres for each client use one tungstenite object at the same
//! time. One reads what the client says, the other writes what the others say.
//!
//! ```sh
//! cargo run --release -p sinew-works-with --example websocket_chat -- 127.0.0.1:9002
//! ```
//!
//! Then, in the consoles of two browsers:
//!
//! ```js
//! let socket = new WebSocket("ws://127.0.0.1:9002/");
//! socket.onmessage = message => console.log(message.data);
//! socket.onopen = () => socket.send("hello, everybody");
//! ```
//!
//! A `WebSocket` has one state for both directions, so it needs a lock. A fibre that held a plain
//! lock while it waits for its client would keep the other from writing. [`Duplex`] releases the
//! lock before it waits. The same works for TLS: a `Duplex` of a `rustls::StreamOwned`, or of a
//! WebSocket over one.

use sinew::net::{Duplex, TcpListener, TcpStream};
use sinew::sync::{Mutex, mpsc};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use tungstenite::{Error, HandshakeError, Message, Utf8Bytes, WebSocket};

/// Messages that wait for a slow client. It misses those beyond.
const BACKLOG: usize = 256;

pub type Socket = Duplex<WebSocket<TcpStream>>;

/// The clients that are there, by their numbers.
#[derive(Clone, Default)]
pub struct Room(Arc<Mutex<Clients>>);

#[derive(Default)]
struct Clients {
    next: u64,
    present: BTreeMap<u64, mpsc::SyncSender<Utf8Bytes>>,
}

impl Room {
    /// Lets a client in. Returns its number, and what the others will say.
    fn enter(&self) -> (u64, mpsc::Receiver<Utf8Bytes>) {
        let (sender, receiver) = mpsc::sync_channel(BACKLOG);
        let mut clients = self.0.lock().unwrap();
        clients.next += 1;
        let number = clients.next;
        clients.present.insert(number, sender);
        (number, receiver)
    }

    /// Lets the client go. Its fibre that writes ends, because nobody can send to it.
    fn leave(&self, number: u64) {
        self.0.lock().unwrap().present.remove(&number);
    }

    /// Passes what a client says to all others.
    fn say(&self, number: u64, text: &str) {
        let text = Utf8Bytes::from(format!("{number}: {text}"));
        for (_, sender) in self.0.lock().unwrap().present.iter().filter(|(other, _)| **other != number) {
            // If it is full, the client misses the message.
            let _ = sender.try_send(text.clone());
        }
    }

    /// Returns the number of clients.
    pub fn clients(&self) -> usize {
        self.0.lock().unwrap().present.len()
    }
}

/// Sends a message, while another fibre may be reading.
pub fn send(socket: &Socket, message: Message) -> Result<(), Error> {
    // The library keeps a message that it could not send at once: it gets the message only once.
    let mut message = Some(message);
    socket.write_with(|socket| {
        if let Some(message) = message.take() {
            socket.write(message)?;
        }
        socket.flush()
    })
}

/// Serves a client until it leaves.
pub fn session(stream: TcpStream, room: &Room) -> Result<(), Error> {
    stream.set_nodelay(true)?;
    let handle = stream.try_clone()?;
    let socket = tungstenite::accept(stream).map_err(|error| match error {
        HandshakeError::Failure(error) => error,
        HandshakeError::Interrupted(_) => Error::Io(io::ErrorKind::WouldBlock.into()),
    })?;
    let socket = &Duplex::new(socket, &handle);
    let (number, others) = room.enter();
    sinew::scope(|scope| {
        scope.spawn(move || {
            // The reader sees errors, too.
            while let Ok(text) = others.recv() {
                let _ = send(socket, Message::Text(text));
            }
        });
        let end = loop {
            match socket.read_with(WebSocket::read) {
                Ok(Message::Text(text)) => room.say(number, &text),
                Ok(_) => {}
                Err(Error::ConnectionClosed) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        room.leave(number);
        end
    })
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9002".to_owned());
    sinew::run(|| {
        let listener = TcpListener::bind(address)?;
        println!("listening at ws://{}/", listener.local_addr()?);
        let room = Room::default();
        for stream in listener.incoming() {
            let (stream, room) = (stream?, room.clone());
            sinew::spawn(move || {
                if let Err(error) = session(stream, &room) {
                    eprintln!("a session ended early: {error}");
                }
            });
        }
        Ok(())
    })
}
