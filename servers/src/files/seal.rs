//! The cryptography of a connection, apart from its socket: events of the client's *colour*.
//!
//! Events of one colour run in order, one at a time. Different colours run at the same time,
//! on all processors. So one client's records are encrypted in the order of their numbers, while the
//! session reads the file and writes the records before.

use super::noise::Cipher;
use super::record;
use sinew::event::{Colour, Handler};
use sinew::sync::oneshot;
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A record on its way: plain first, then encrypted.
#[derive(Default)]
pub struct Piece {
    /// The content of the record.
    pub plain: Vec<u8>,
    /// The encrypted record with its header.
    pub record: Vec<u8>,
}

/// A piece that is to be encrypted as the record with this number.
struct Order {
    piece: Piece,
    number: u64,
    cipher: Arc<Cipher>,
    done: oneshot::Sender<io::Result<Piece>>,
}

/// A full piece takes 20 µs with AES on a core that has instructions for it.
static SEAL: Handler<Order> = Handler::new("seal", encrypt).takes_us(20);

fn encrypt(Order { mut piece, number, cipher, done }: Order) {
    let sealed = record::seal(&cipher, number, &piece.plain, &mut piece.record).map(|()| piece);
    // A session that has ended does not wait for the result.
    drop(done.send(sealed));
}

/// Runs `compute` in its turn, and waits for its result.
///
/// # Errors
/// `compute` has panicked, or the runtime ends.
pub fn run<T: Send>(colour: &Colour, compute: impl FnOnce() -> T + Send) -> io::Result<T> {
    // A panic would end the other sessions too.
    let result = colour.run(|| catch_unwind(AssertUnwindSafe(compute))).map_err(|_| ErrorKind::BrokenPipe)?;
    result.map_err(|_| io::Error::other("the cryptography has panicked"))
}

/// The result of an encryption that was posted. It is an error if the encryption has panicked.
pub type Pending = oneshot::Receiver<io::Result<Piece>>;

/// Posts the encryption of a piece, as the record with this number.
///
/// # Errors
/// The runtime ends.
pub fn post(colour: &Colour, piece: Piece, number: u64, cipher: &Arc<Cipher>) -> io::Result<Pending> {
    let (done, pending) = oneshot::channel();
    let order = Order { piece, number, cipher: Arc::clone(cipher), done };
    SEAL.post(colour, order).map_err(|_| ErrorKind::BrokenPipe)?;
    Ok(pending)
}
