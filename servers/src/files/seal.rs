//! The cryptography of a connection, apart from its socket: the *colour* of the client.
//!
//! What is posted to one colour runs in order, one at a time. Different colours run at the same time,
//! on all processors. So one client's records are encrypted in the order of their numbers, while the
//! session reads the file and writes the records before.
//!
//! A colour is a fibre here, which takes what is posted from a channel. It ends with the colour.

use super::noise::Cipher;
use super::record;
use sinew::sync::mpsc::{self, Sender, SyncSender};
use sinew::sync::oneshot;
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// A record on its way: plain first, then encrypted.
pub struct Piece {
    /// What the record says.
    pub plain: Vec<u8>,
    /// The encrypted record with its header. Empty if it could not be encrypted.
    pub record: Vec<u8>,
    number: u64,
}

impl Piece {
    /// Returns an empty piece.
    pub fn new() -> Piece {
        Piece { plain: Vec::new(), record: Vec::new(), number: 0 }
    }
}

/// Encrypts a piece, and sends it to the session.
fn seal(mut piece: Piece, cipher: &Cipher, done: &SyncSender<Piece>) {
    if record::seal(cipher, piece.number, &piece.plain, &mut piece.record).is_err() {
        piece.record.clear();
    }
    // The session has a place for each of its pieces, or has ended.
    let _ = done.send(piece);
}

type Event = Box<dyn FnOnce() + Send>;

/// The colour of a connection.
pub struct Colour {
    events: Sender<Event>,
}

impl Colour {
    /// Returns a new colour.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn new() -> io::Result<Colour> {
        let (events, posted) = mpsc::channel::<Event>();
        sinew::FibreBuilder::new().name("colour").spawn(move || posted.iter().for_each(|event| event()))?;
        Ok(Colour { events })
    }

    fn post(&self, event: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.events.send(Box::new(event)).map_err(|_| ErrorKind::BrokenPipe.into())
    }

    /// Runs `compute` in its turn, and waits for its result.
    ///
    /// # Errors
    /// `compute` has panicked.
    pub fn run<T: Send + 'static>(&self, compute: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let (done, result) = oneshot::channel();
        // The session may have been cancelled meanwhile.
        self.post(move || drop(done.send(compute())))?;
        result.recv().map_err(|_| ErrorKind::BrokenPipe.into())
    }

    /// Posts the encryption of a piece. The piece comes back by `done`.
    ///
    /// # Errors
    /// An earlier event has panicked.
    pub fn seal(
        &self,
        mut piece: Piece,
        number: u64,
        cipher: &Arc<Cipher>,
        done: &SyncSender<Piece>,
    ) -> io::Result<()> {
        let (cipher, done) = (Arc::clone(cipher), done.clone());
        piece.number = number;
        self.post(move || seal(piece, &cipher, &done))
    }
}
