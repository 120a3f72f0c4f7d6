//! The cryptography of a connection, apart from its socket: the *colour* of the client.
//!
//! What is posted to one colour runs in order, one at a time. Different colours run at the same time,
//! on all processors. So one client's records are encrypted in the order of their numbers, while the
//! session reads the file and writes the records before.
//!
//! A colour is a fibre here, which takes what is posted from a channel. It ends with the colour.

use super::noise::Cipher;
use super::record;
use sinew::sync::mpsc::{self, Sender};
use sinew::sync::oneshot;
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// A record on its way: plain first, then encrypted.
#[derive(Default)]
pub struct Piece {
    /// What the record says.
    pub plain: Vec<u8>,
    /// The encrypted record with its header.
    pub record: Vec<u8>,
}

/// The result of an event that was posted. It is an error if the event has panicked.
pub type Pending<T> = oneshot::Receiver<T>;

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

    fn post<T: Send + 'static>(&self, compute: impl FnOnce() -> T + Send + 'static) -> io::Result<Pending<T>> {
        let (done, pending) = oneshot::channel();
        // A session that has ended does not wait for the result.
        let event = Box::new(move || drop(done.send(compute())));
        self.events.send(event).map_err(|_| ErrorKind::BrokenPipe)?;
        Ok(pending)
    }

    /// Runs `compute` in its turn, and waits for its result.
    ///
    /// # Errors
    /// `compute` or an earlier event has panicked.
    pub fn run<T: Send + 'static>(&self, compute: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        self.post(compute)?.recv().map_err(|_| ErrorKind::BrokenPipe.into())
    }

    /// Posts the encryption of a piece, as the record with this number.
    ///
    /// # Errors
    /// An earlier event has panicked.
    pub fn seal(&self, mut piece: Piece, number: u64, cipher: &Arc<Cipher>) -> io::Result<Pending<io::Result<Piece>>> {
        let cipher = Arc::clone(cipher);
        self.post(move || {
            record::seal(&cipher, number, &piece.plain, &mut piece.record)?;
            Ok(piece)
        })
    }
}
