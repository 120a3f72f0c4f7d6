//! The handshake, and the keys that it agrees on: Noise_IK of the Noise protocol framework.
//!
//! The crate `snow` has the protocol. This file chooses its parameters, and turns its errors into
//! sentences.

use super::keys::{LENGTH, Public, Secret};
use super::record::TAG;
use clap::ValueEnum;
use snow::params::NoiseParams;
use snow::{Builder, HandshakeState, StatelessTransportState};
use std::io::{self, ErrorKind};
use std::sync::{PoisonError, RwLock};

/// The first bytes that a client sends, before the number of the cipher.
pub const MAGIC: [u8; 8] = *b"sinewfs1";

/// The length of a client's first bytes: the magic and the cipher.
pub const HELLO: usize = MAGIC.len() + 1;

/// The length of the client's message: an ephemeral key, the encrypted static key, an empty payload.
pub const FIRST: usize = LENGTH + (LENGTH + TAG) + TAG;

/// The length of the server's message: an ephemeral key and a byte, the [`Verdict`].
pub const SECOND: usize = LENGTH + 1 + TAG;

/// The number of records that one key encrypts. The standard of TLS allows some 400 GB with one key
/// of AES-GCM. This number of the largest records is 64 GiB.
const RENEWAL: u64 = 1 << 20;

/// The ciphers that a client may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CipherName {
    /// AES-256-GCM: the fastest where the CPU has instructions for it
    Aes,
    /// ChaCha20-Poly1305: the fastest elsewhere
    Chacha,
}

impl CipherName {
    /// Returns the first bytes of a client that chooses this cipher. The handshake vouches for them.
    pub fn hello(self) -> [u8; HELLO] {
        let mut hello = [0; HELLO];
        hello[..MAGIC.len()].copy_from_slice(&MAGIC);
        hello[MAGIC.len()] = match self {
            CipherName::Aes => 1,
            CipherName::Chacha => 2,
        };
        hello
    }

    /// Returns the cipher that these first bytes choose.
    pub fn of_hello(hello: [u8; HELLO]) -> Option<CipherName> {
        [CipherName::Aes, CipherName::Chacha].into_iter().find(|cipher| cipher.hello() == hello)
    }

    fn parameters(self) -> NoiseParams {
        let name = match self {
            CipherName::Aes => "Noise_IK_25519_AESGCM_SHA256",
            CipherName::Chacha => "Noise_IK_25519_ChaChaPoly_SHA256",
        };
        name.parse().expect("a name that snow knows")
    }
}

/// The server's word at the end of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Welcome,
    /// The server does not know the client's key.
    Unknown,
}

/// Returns a new key pair.
///
/// # Errors
/// The system has no random numbers.
pub fn pair() -> io::Result<(Secret, Public)> {
    let pair = Builder::new(CipherName::Aes.parameters()).generate_keypair().map_err(broken)?;
    let key = |bytes: Vec<u8>| bytes.try_into().expect("keys have 32 bytes");
    Ok((Secret(key(pair.private)), Public(key(pair.public))))
}

/// An error that the other end cannot cause.
fn broken(error: snow::Error) -> io::Error {
    io::Error::other(format!("cryptography: {error}"))
}

fn refused(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// A handshake of a client that has sent its message.
pub struct Asked(HandshakeState);

/// Begins a client's handshake. Returns what it has to send.
///
/// # Errors
/// The system has no random numbers.
pub fn ask(cipher: CipherName, own: &Secret, server: &Public) -> io::Result<(Asked, [u8; FIRST])> {
    let hello = cipher.hello();
    let builder = Builder::new(cipher.parameters()).prologue(&hello);
    let builder = builder.and_then(|builder| builder.local_private_key(&own.0));
    let builder = builder.and_then(|builder| builder.remote_public_key(&server.0));
    let mut state = builder.and_then(Builder::build_initiator).map_err(broken)?;
    let mut message = [0; FIRST];
    state.write_message(&[], &mut message).map_err(broken)?;
    Ok((Asked(state), message))
}

impl Asked {
    /// Ends the handshake with the server's message.
    ///
    /// # Errors
    /// `InvalidData` if the message does not come from the owner of the server's key.
    pub fn end(mut self, message: &[u8; SECOND]) -> io::Result<(Verdict, Cipher)> {
        let mut payload = [0; SECOND];
        let read = self.0.read_message(message, &mut payload);
        let (Ok(1), verdict @ (0 | 1)) = (read, payload[0]) else {
            return Err(refused("the answer does not come from the owner of the server's key"));
        };
        let verdict = if verdict == 0 { Verdict::Welcome } else { Verdict::Unknown };
        Ok((verdict, Cipher::new(self.0)?))
    }
}

/// A handshake of a server that has read the client's message.
pub struct Answering {
    state: HandshakeState,
    /// The client's key. The client has proved that it owns the secret key only when it has sent a
    /// record: this message may have been sent before, by another.
    pub client: Public,
}

/// Begins a server's handshake with the client's message.
///
/// # Errors
/// `InvalidData` if the client has used another key of the server, or if the message was altered.
pub fn answer(cipher: CipherName, own: &Secret, message: &[u8; FIRST]) -> io::Result<Answering> {
    let hello = cipher.hello();
    let builder = Builder::new(cipher.parameters()).prologue(&hello);
    let builder = builder.and_then(|builder| builder.local_private_key(&own.0));
    let mut state = builder.and_then(Builder::build_responder).map_err(broken)?;
    let read = state.read_message(message, &mut [0; FIRST]);
    let client = state.get_remote_static().and_then(|key| key.try_into().ok());
    match (read, client) {
        (Ok(0), Some(client)) => Ok(Answering { state, client: Public(client) }),
        _ => Err(refused("the handshake was altered, or is meant for another server")),
    }
}

impl Answering {
    /// Ends the handshake. Returns what the server has to send.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn end(mut self, verdict: Verdict) -> io::Result<([u8; SECOND], Cipher)> {
        let mut message = [0; SECOND];
        let payload = [u8::from(verdict == Verdict::Unknown)];
        self.state.write_message(&payload, &mut message).map_err(broken)?;
        Ok((message, Cipher::new(self.state)?))
    }
}

/// The keys of one connection, one for each direction. Records are numbered in each direction, from 0.
///
/// The numbers are no part of the records. So a record that was altered, repeated, left out or moved
/// cannot be opened. Both ends renew a key after [`RENEWAL`] records. So each direction has to use its
/// numbers in order.
pub struct Cipher {
    /// Written when a key is renewed, else only read. No suspension happens under the lock. A
    /// renewal waits for at most one record of the other direction.
    state: RwLock<StatelessTransportState>,
}

impl Cipher {
    fn new(state: HandshakeState) -> io::Result<Cipher> {
        let state = state.into_stateless_transport_mode().map_err(broken)?;
        Ok(Cipher { state: RwLock::new(state) })
    }

    fn renew(&self, number: u64, renew: impl FnOnce(&mut StatelessTransportState)) {
        if number > 0 && number.is_multiple_of(RENEWAL) {
            renew(&mut self.state.write().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Encrypts the record with this number into `sealed`, which has room for [`TAG`] bytes more.
    /// Returns the length.
    ///
    /// # Errors
    /// The record is too long, or all numbers are used up.
    pub fn seal(&self, number: u64, plain: &[u8], sealed: &mut [u8]) -> io::Result<usize> {
        self.renew(number, StatelessTransportState::rekey_outgoing);
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.write_message(number, plain, sealed).map_err(broken)
    }

    /// Decrypts the record with this number into `plain`, which is as long as `sealed`. Returns the
    /// length.
    ///
    /// # Errors
    /// `InvalidData` if this is not the record that the other end has sent at this place.
    pub fn open(&self, number: u64, sealed: &[u8], plain: &mut [u8]) -> io::Result<usize> {
        self.renew(number, StatelessTransportState::rekey_incoming);
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let opened = state.read_message(number, sealed, plain);
        opened.map_err(|_| refused("a record was altered, repeated, left out or moved"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(cipher: CipherName) -> (Cipher, Cipher) {
        let ((client, public), (server, server_public)) = (pair().unwrap(), pair().unwrap());
        let (asked, first) = ask(cipher, &client, &server_public).unwrap();
        let answering = answer(cipher, &server, &first).unwrap();
        assert_eq!(answering.client, public);
        let (second, server_end) = answering.end(Verdict::Welcome).unwrap();
        let (verdict, client_end) = asked.end(&second).unwrap();
        assert_eq!(verdict, Verdict::Welcome);
        (client_end, server_end)
    }

    /// Seals a record at one end, and opens it at the other.
    fn send(from: &Cipher, to: &Cipher, number: u64) -> io::Result<Vec<u8>> {
        let (mut sealed, mut plain) = ([0; 100], [0; 100]);
        let length = from.seal(number, b"hello", &mut sealed)?;
        let length = to.open(number, &sealed[..length], &mut plain)?;
        Ok(plain[..length].to_vec())
    }

    #[test]
    fn both_ends_renew_their_keys_at_the_same_record() {
        for cipher in [CipherName::Aes, CipherName::Chacha] {
            let (client, server) = ends(cipher);
            for number in [0, 1, RENEWAL - 1] {
                assert_eq!(send(&client, &server, number).unwrap(), b"hello");
            }
            let (mut old, mut new, mut plain) = ([0; 100], [0; 100], [0; 100]);
            client.seal(RENEWAL + 1, b"hello", &mut old).unwrap();
            assert_eq!(send(&client, &server, RENEWAL).unwrap(), b"hello");
            let length = client.seal(RENEWAL + 1, b"hello", &mut new).unwrap();
            assert_ne!(old, new);
            assert!(server.open(RENEWAL + 1, &old[..length], &mut plain).is_err());
            assert!(server.open(RENEWAL + 1, &new[..length], &mut plain).is_ok());
            // The other direction has its own key.
            assert_eq!(send(&server, &client, 7).unwrap(), b"hello");
        }
    }

    #[test]
    fn a_handshake_with_another_key_fails() {
        let ((client, _), (server, public), (_, other)) = (pair().unwrap(), pair().unwrap(), pair().unwrap());
        let (_, first) = ask(CipherName::Aes, &client, &other).unwrap();
        assert!(answer(CipherName::Aes, &server, &first).is_err());
        let (asked, first) = ask(CipherName::Aes, &client, &public).unwrap();
        assert!(answer(CipherName::Chacha, &server, &first).is_err(), "the cipher is a part of it");
        let (mut second, _) = answer(CipherName::Aes, &server, &first).unwrap().end(Verdict::Unknown).unwrap();
        // Nobody can turn a refusal into a welcome.
        second[LENGTH] ^= 1;
        assert!(asked.end(&second).is_err());
    }
}
