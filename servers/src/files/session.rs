//! One connection after its handshake: reads requests, answers each.

use super::Server;
use super::keys::Public;
use super::noise::Cipher;
use super::output::Output;
use super::record::{Input, TAG};
use super::words::{self, LONGEST_PATH, More, PIECE_HEADER, Request, Sorry};
use crate::lobby::is_silence;
use crate::serving::report;
use crate::tree::{FRESH, Kind, Names};
use rustix::fs::{Dir, fstat};
use rustix::io::Errno;
use sinew::event::Colour;
use sinew::fs::File;
use sinew::net::TcpStream;
use sinew::time;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

/// The number of bytes of a file in a record: whole pages, and nearly the size of the largest record.
/// With 60 KiB a server needs 0.50 s of CPU time for a gigabyte, with 32 KiB 0.54 s, with 16 KiB 0.73 s.
const PIECE: usize = 60 * 1024;

/// The bytes of names in a record, roughly.
const NAMES: usize = 16 * 1024;

/// The most encrypted bytes of a request.
const MOST: usize = 1 + LONGEST_PATH + TAG;

/// The client of a connection, as messages name it.
pub struct Who {
    pub address: SocketAddr,
    pub key: Public,
    /// Empty if the file of clients does not name it.
    pub name: Arc<str>,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.name {
            "" => write!(f, "{} ({})", self.address, self.key),
            name => write!(f, "{} ({name})", self.address),
        }
    }
}

/// A connection and its keys.
pub struct Talk {
    pub stream: TcpStream,
    pub who: Who,
    cipher: Arc<Cipher>,
    input: Input,
    /// The number of the next record that is sent.
    number: u64,
}

impl Talk {
    /// Returns a talk without records.
    pub fn new(stream: TcpStream, cipher: Arc<Cipher>, who: Who) -> Talk {
        Talk { stream, who, cipher, input: Input::default(), number: 0 }
    }

    /// Gives memory back that is not needed while the client is silent.
    pub fn rest(&mut self) {
        self.input.rest();
    }
}

/// Answers requests until the client leaves or breaks the rules, or the server stops. The client
/// has to send something before `deadline`.
///
/// If the client is silent for a while between requests, the session ends but the connection stays.
/// Then this returns the time before which the client has to send something. Another session may go
/// on with the connection.
pub fn serve(server: &Server, talk: &mut Talk, colour: &Colour, mut deadline: Instant) -> Option<Instant> {
    loop {
        // A connection may be cancelled between requests, but not within one.
        let limit = deadline.min(Instant::now() + server.options.runtime.linger);
        match time::deadline(limit, || talk.stream.peek(&mut [0])) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) if limit < deadline && is_silence(&error) => return Some(deadline),
            Err(error) => return end(server, talk, &error),
        }
        match sinew::cancel::shield(|| answer(server, talk, colour)) {
            Ok(true) if !server.shutdown.is_told() => deadline = Instant::now() + server.patience(),
            Ok(_) => return None,
            Err(error) => return end(server, talk, &error),
        }
    }
}

/// Reports the error that ends a connection. A client that vanishes is no trouble.
#[cold]
fn end(server: &Server, talk: &Talk, error: &io::Error) -> Option<Instant> {
    let is_gone = matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
    if !server.shutdown.is_told() {
        report(server, if is_gone { 2 } else { 1 }, || format!("{}: {error}", talk.who));
    }
    None
}

/// Receives a request, and answers it. Returns whether the connection stays.
fn answer(server: &Server, talk: &mut Talk, colour: &Colour) -> io::Result<bool> {
    let Talk { stream, who, cipher, input, number } = talk;
    let received = time::timeout(server.options.request_timeout, || input.receive(stream, cipher, MOST));
    let record = match received {
        Ok(Some(record)) => record,
        Ok(None) => return Ok(false),
        Err(error) if is_silence(&error) => {
            return Err(io::Error::new(error.kind(), "a request took too long"));
        }
        Err(error) => return Err(error),
    };
    if server.find_client(&who.key).is_none() {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "refused: the client's key was removed"));
    }
    let mut output = Output::new(stream, colour, cipher, number, server.options.send_timeout);
    let request = Request::of(record);
    let told = match request {
        Some(Request::Get(path)) => send_file(server, path, &mut output)?,
        Some(Request::List(path)) => send_names(server, path, &mut output)?,
        None => Err(Sorry::NotUnderstood),
    };
    report(server, 2, || {
        let (verb, path) = match request {
            Some(Request::Get(path)) => ("get", path),
            Some(Request::List(path)) => ("list", path),
            None => ("request", record),
        };
        let outcome = told.map_or_else(Sorry::text, |()| "sent");
        format!("{who}: {verb} \"{}\": {outcome}", path.escape_ascii())
    });
    if let Err(sorry) = told {
        let mut piece = output.piece(0)?;
        sorry.write(&mut piece.plain);
        output.send(piece)?;
    }
    output.finish()?;
    Ok(true)
}

/// Sends a file, or returns the answer instead.
///
/// # Errors
/// The errors of the connection, and of reading the file.
fn send_file(server: &Server, path: &[u8], output: &mut Output<'_>) -> io::Result<Result<(), Sorry>> {
    let place = match words::place(path, server.options.hidden) {
        Ok(place) => place,
        Err(sorry) => return Ok(Err(sorry)),
    };
    let open = || {
        let (opened, kind) = server.top.open_file(place)?;
        let size = fstat(&opened)?.st_size;
        Ok((opened, kind, size as u64))
    };
    let (file, size) = match sinew::blocking(open) {
        Ok((opened, Kind::File, size)) => (File::from(opened), size),
        Ok((_, Kind::Directory, _)) => return Ok(Err(Sorry::IsDirectory)),
        Ok((_, Kind::Other, _)) => return Ok(Err(Sorry::NotShown)),
        Err(error) => return Ok(Err(sorry(error))),
    };
    let mut offset = 0;
    loop {
        let length = (size - offset).min(PIECE as u64) as usize;
        let mut piece = output.piece(PIECE_HEADER + length)?;
        let rest = size - offset - length as u64;
        let (header, content) = piece.plain.split_at_mut(PIECE_HEADER);
        header.copy_from_slice(&words::piece_header(rest));
        match file.read_exact_at(content, offset) {
            Ok(()) => output.send(piece)?,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Err(Sorry::Changed)),
            Err(_) => return Ok(Err(Sorry::Unavailable)),
        }
        if rest == 0 {
            return Ok(Ok(()));
        }
        offset += length as u64;
    }
}

/// Sends the names in a directory, or returns the answer instead.
///
/// # Errors
/// The errors of the connection.
fn send_names(server: &Server, path: &[u8], output: &mut Output<'_>) -> io::Result<Result<(), Sorry>> {
    let place = match words::place(path, server.options.hidden) {
        Ok(place) => place,
        Err(sorry) => return Ok(Err(sorry)),
    };
    let read = || Names::read(Dir::new(server.top.open_directory(place)?)?, server.options.hidden);
    let now = Instant::now();
    let mut oldest = now.checked_sub(FRESH).unwrap_or(now);
    // The last name of the last record, and whether it is a directory. The names are not held while a
    // client is slow.
    let mut last: Option<(bool, Vec<u8>)> = None;
    loop {
        let mut piece = output.piece(0)?;
        let names = match server.listings.find(place, oldest, server.options.send_timeout, read) {
            Ok(names) => names,
            Err(_) if last.is_some() => return Ok(Err(Sorry::Changed)),
            Err(error) => return Ok(Err(sorry(error))),
        };
        oldest = names.read_at;
        words::begin_names(&mut piece.plain);
        let mut rest = names.after(last.as_ref().map(|(is_directory, name)| (*is_directory, &name[..])));
        last = None;
        for name in rest.by_ref() {
            words::write_name(&name, &mut piece.plain);
            if piece.plain.len() >= NAMES {
                last = Some((name.is_directory, name.bytes.to_vec()));
                break;
            }
        }
        let more = match &last {
            Some(_) => More::Yes,
            None if names.are_cut => More::Cut,
            None => More::No,
        };
        words::end_names(&mut piece.plain, more);
        output.send(piece)?;
        if last.is_none() {
            return Ok(Ok(()));
        }
    }
}

/// Returns the answer for an error of the kernel.
fn sorry(error: Errno) -> Sorry {
    match error {
        Errno::NOENT | Errno::NAMETOOLONG | Errno::ILSEQ | Errno::INVAL => Sorry::NotFound,
        Errno::NOTDIR => Sorry::NotDirectory,
        // A link, or a path that leads out.
        Errno::LOOP | Errno::XDEV | Errno::ACCESS | Errno::PERM | Errno::NXIO => Sorry::NotShown,
        _ => Sorry::Unavailable,
    }
}
