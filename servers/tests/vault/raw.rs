//! A second client, made of the crate `snow` and of what the server's `README.md` says.

use super::site::PATIENCE;
use snow::{Builder, StatelessTransportState};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

/// The length of a client's first bytes.
pub const HELLO: usize = 9;
/// The length of the client's message of the handshake.
pub const FIRST: usize = 96;
/// The length of the server's message of the handshake.
pub const SECOND: usize = 49;
/// The bytes by which encryption makes a record longer.
pub const TAG: usize = 16;

/// A connection to a server.
pub struct Raw {
    pub stream: TcpStream,
    state: StatelessTransportState,
    /// The number of the next record in each direction.
    pub sent: u64,
    pub heard: u64,
}

/// Reads the digits of the key in a file.
fn key(file: &Path) -> Vec<u8> {
    let text = std::fs::read_to_string(file).expect("a key");
    let digits = text.split_whitespace().next().and_then(|word| word.rsplit('-').next()).expect("digits");
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits")).collect()
}

impl Raw {
    /// Connects, and shakes hands.
    pub fn connect(address: SocketAddr, own: &Path, server: &Path) -> Raw {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a write timeout");
        let (own, server) = (key(own), key(server));
        let hello = *b"sinewfs1\x02";
        let builder = Builder::new("Noise_IK_25519_ChaChaPoly_SHA256".parse().expect("parameters"));
        let builder = builder.prologue(&hello).and_then(|builder| builder.local_private_key(&own));
        let builder = builder.and_then(|builder| builder.remote_public_key(&server));
        let mut state = builder.and_then(Builder::build_initiator).expect("a handshake");
        let mut first = [0; FIRST];
        assert_eq!(state.write_message(&[], &mut first), Ok(FIRST));
        stream.write_all(&[&hello[..], &first].concat()).expect("send");
        let mut second = [0; SECOND];
        stream.read_exact(&mut second).expect("the server's message");
        let mut verdict = [0; SECOND];
        assert_eq!((state.read_message(&second, &mut verdict), verdict[0]), (Ok(1), 0));
        let state = state.into_stateless_transport_mode().expect("keys");
        Raw { stream, state, sent: 0, heard: 0 }
    }

    /// Returns the next record, encrypted, with its length before it.
    pub fn seal(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut sealed = vec![0; 2 + plain.len() + TAG];
        sealed[..2].copy_from_slice(&((plain.len() + TAG) as u16).to_be_bytes());
        self.state.write_message(self.sent, plain, &mut sealed[2..]).expect("encrypt");
        self.sent += 1;
        sealed
    }

    pub fn say(&mut self, plain: &[u8]) {
        let sealed = self.seal(plain);
        self.stream.write_all(&sealed).expect("send");
    }

    /// Receives a record.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn hear(&mut self) -> io::Result<Vec<u8>> {
        let mut header = [0; 2];
        self.stream.read_exact(&mut header)?;
        let mut sealed = vec![0; u16::from_be_bytes(header).into()];
        self.stream.read_exact(&mut sealed)?;
        let mut plain = vec![0; sealed.len()];
        let length = self.state.read_message(self.heard, &sealed, &mut plain).expect("the next record");
        self.heard += 1;
        plain.truncate(length);
        Ok(plain)
    }

    /// Sends a request, and returns the first record of the answer.
    pub fn ask(&mut self, request: &[u8]) -> Vec<u8> {
        self.say(request);
        self.hear().expect("an answer")
    }
}
