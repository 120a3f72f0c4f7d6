//! The actor that counts, and keeps the log.

use sinew::actor::{Actor, Address, Context, Failure, Full, Handle, Mailbox, Restart};
use sinew::fs::{File, OpenOptions};
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tungstenite::Utf8Bytes;

/// The notes that may wait for a slow disk. Further ones are lost. Unmeasured.
const QUEUE: usize = 65_536;

/// The bytes of the log that are collected while more notes wait.
const PIECE: usize = 64 * 1024;

/// Something has happened.
pub enum Note {
    Arrived,
    Gone,
    RoomMade,
    RoomFreed,
    /// A room has accepted a message, and told it to this number of members.
    Said {
        told: usize,
        /// The message, if it is to be logged.
        text: Option<Utf8Bytes>,
    },
    Direct,
    Slow,
    Refused,
}

/// How much has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub sessions: u64,
    pub all_sessions: u64,
    pub rooms: u64,
    pub said: u64,
    pub told: u64,
    pub direct: u64,
    pub slow: u64,
    pub refused: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { sessions, all_sessions, rooms, said, told, direct, slow, refused } = self;
        write!(
            f,
            "{sessions} sessions of {all_sessions}, {rooms} rooms, {said} messages to rooms, {told} deliveries of them, \
             {direct} direct messages, {refused} refused requests, {slow} slow sessions dropped"
        )
    }
}

/// Asks for the counts. What was noted before is in them, and in the log.
pub struct Report;

/// Opens the log again.
pub struct Reopen;

/// Writes what was collected.
struct Flush;

pub struct Store {
    counts: Counts,
    path: Option<PathBuf>,
    /// `None` for standard output, and if there is no log.
    file: Option<File>,
    collected: Vec<u8>,
    is_flushing: bool,
}

/// Spawns the store. A disk that fails does not end it.
pub fn spawn(path: Option<PathBuf>) -> Address<Store> {
    sinew::actor::supervised(Restart::limit(10, Duration::from_secs(60)), move || Store {
        counts: Counts::default(),
        path: path.clone(),
        file: None,
        collected: Vec::new(),
        is_flushing: false,
    })
}

/// Opens a log.
///
/// # Errors
/// The kernel's, with the path.
pub fn open(path: &Path) -> io::Result<Option<File>> {
    if path == Path::new("-") {
        return Ok(None);
    }
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map(Some).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

impl Store {
    fn reopen(&mut self) {
        let Some(path) = &self.path else { return };
        match open(path) {
            Ok(file) => self.file = file,
            Err(error) => crate::message::say(format_args!("sinew: chat: the log stays as it was: {error}")),
        }
    }

    fn flush(&mut self) {
        let written = match &mut self.file {
            _ if self.collected.is_empty() => Ok(()),
            Some(file) => file.write_all(&self.collected),
            None => sinew::blocking(|| crate::message::print(&self.collected)),
        };
        self.collected.clear();
        if let Err(error) = written {
            crate::message::say(format_args!("sinew: chat: cannot write the log: {error}"));
        }
    }
}

impl Actor for Store {
    const MAILBOX: Mailbox = Mailbox::bounded(QUEUE, Full::Refuse);

    fn started(&mut self, _: &mut Context<'_, Self>) -> Result<(), Failure> {
        self.reopen();
        Ok(())
    }
}

impl Handle<Note> for Store {
    type Reply = ();

    fn handle(&mut self, note: Note, cx: &mut Context<'_, Self>) {
        let counts = &mut self.counts;
        match note {
            Note::Arrived => {
                counts.sessions += 1;
                counts.all_sessions += 1;
            }
            Note::Gone => counts.sessions = counts.sessions.saturating_sub(1),
            Note::RoomMade => counts.rooms += 1,
            Note::RoomFreed => counts.rooms = counts.rooms.saturating_sub(1),
            Note::Direct => counts.direct += 1,
            Note::Slow => counts.slow += 1,
            Note::Refused => counts.refused += 1,
            Note::Said { told, text } => {
                counts.said += 1;
                counts.told += told as u64;
                if let Some(text) = text {
                    self.collected.extend_from_slice(text.as_bytes());
                    self.collected.push(b'\n');
                }
            }
        }
        if self.collected.len() >= PIECE {
            self.flush();
        } else if !self.collected.is_empty() && !self.is_flushing {
            self.is_flushing = true;
            cx.tell_self(Flush);
        }
    }
}

impl Handle<Flush> for Store {
    type Reply = ();

    fn handle(&mut self, _: Flush, _: &mut Context<'_, Self>) {
        self.is_flushing = false;
        self.flush();
    }
}

impl Handle<Report> for Store {
    type Reply = Counts;

    fn handle(&mut self, _: Report, _: &mut Context<'_, Self>) -> Counts {
        self.flush();
        self.counts
    }
}

impl Handle<Reopen> for Store {
    type Reply = ();

    fn handle(&mut self, _: Reopen, _: &mut Context<'_, Self>) {
        self.flush();
        self.reopen();
    }
}
