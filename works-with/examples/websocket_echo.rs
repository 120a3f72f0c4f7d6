//! An echo server for WebSockets: unchanged tungstenite on Sinew's sockets, with one plain blocking
//! function for each session.
//!
//! ```sh
//! cargo run --release -p sinew-works-with --example websocket_echo -- 127.0.0.1:9001
//! ```
//!
//! Then, in the console of a browser:
//!
//! ```js
//! let socket = new WebSocket("ws://127.0.0.1:9001/");
//! socket.onmessage = message => console.log(message.data);
//! socket.onopen = () => socket.send("hello");
//! ```
//!
//! A session uses 24 KiB of its stack in a debug build and 12 KiB in a release build. A fibre has
//! 256 KiB.

use sinew::net::{TcpListener, TcpStream};
use std::io;
use std::time::Duration;
use tungstenite::{Error, HandshakeError};

/// The session of a client that is silent for longer ends.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends every message back until the client closes.
pub fn session(stream: TcpStream) -> Result<(), Error> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut socket = tungstenite::accept(stream).map_err(|error| match error {
        HandshakeError::Failure(error) => error,
        HandshakeError::Interrupted(_) => Error::Io(io::ErrorKind::WouldBlock.into()),
    })?;
    loop {
        match socket.read() {
            Ok(message) if message.is_text() || message.is_binary() => socket.send(message)?,
            // The library answers control messages itself.
            Ok(_) => {}
            Err(Error::ConnectionClosed) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9001".to_owned());
    sinew::run(|| {
        let listener = TcpListener::bind(address)?;
        println!("listening at ws://{}/", listener.local_addr()?);
        for stream in listener.incoming() {
            let stream = stream?;
            sinew::spawn(move || {
                if let Err(error) = session(stream) {
                    eprintln!("a session ended early: {error}");
                }
            });
        }
        Ok(())
    })
}
