//! A man in the middle, who sees the messages between a client and a server, and forwards what he
//! likes.

use super::raw::{FIRST, HELLO, SECOND};
use super::site::PATIENCE;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    ToServer,
    ToClient,
}

/// A function that decides what becomes of a message. It gets the way, the number and the bytes of
/// the message. Number 0 is the handshake; records follow, each with its length before it. Returns the
/// bytes to send instead, or `None` to end the connection.
type Change = dyn Fn(Way, usize, Vec<u8>) -> Option<Vec<u8>> + Send + Sync;

/// The man in the middle. He accepts clients as long as the test runs.
pub struct Tamper {
    pub address: SocketAddr,
}

impl Tamper {
    pub fn new(
        server: SocketAddr,
        change: impl Fn(Way, usize, Vec<u8>) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Tamper {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
        let address = listener.local_addr().expect("its address");
        let change: Arc<Change> = Arc::new(change);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(server)) else { return };
                for stream in [&client, &server] {
                    stream.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
                    stream.set_nodelay(true).expect("TCP_NODELAY");
                }
                let clones = (client.try_clone().expect("a clone"), server.try_clone().expect("a clone"));
                let (there, back) = (Arc::clone(&change), Arc::clone(&change));
                thread::spawn(move || forward(Way::ToServer, HELLO + FIRST, clones.0, clones.1, &*there));
                thread::spawn(move || forward(Way::ToClient, SECOND, server, client, &*back));
            }
        });
        Tamper { address }
    }
}

/// Forwards messages until one end closes the connection, or the change ends it.
fn forward(way: Way, handshake: usize, mut from: TcpStream, mut to: TcpStream, change: &Change) {
    for number in 0.. {
        let message = if number == 0 { exactly(&mut from, handshake) } else { record(&mut from) };
        let Some(bytes) = message.ok().and_then(|message| change(way, number, message)) else { break };
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    // Both ends notice: nothing more can come from here.
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}

fn exactly(stream: &mut TcpStream, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).map(|()| bytes)
}

fn record(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let header = exactly(stream, 2)?;
    let length = u16::from_be_bytes([header[0], header[1]]);
    Ok([header, exactly(stream, length.into())?].concat())
}
