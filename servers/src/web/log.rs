//! The access log: a line for each request, in the combined format that web servers share.
//!
//! Sessions add lines to a queue, and a kernel thread writes them. A session never waits for it. A
//! line that finds the queue full is *lost*, and so is a line that cannot be written. Lost lines
//! are counted. Their number appears in the log at the place where they are missing, as soon as it
//! can be written. It is also reported when the server ends.
//!
//! ```text
//!   a session                    the writer
//!   1  room: append the line     1  wait for lines, or for an order
//!   2  none: count it as lost    2  take all lines, and the number of lost ones
//!                                3  write them, then a line about those that are lost
//!                                4  if that was ordered: open the file again
//! ```
//!
//! **Rotation.** A file that is renamed is still written to until SIGHUP or SIGUSR1. Then the name
//! is opened again. Lines of requests before the signal go to the old file.
//!
//! The writer is a thread and not a fibre, because a write may wait for ever: at a pipe without a
//! reader, a stopped terminal, a file system that hangs. A runtime waits for all of its fibres
//! before it ends. A thread ends with the process.

use super::answer::Given;
use super::clock;
use crate::dates::http_date;
use crate::{memory, message};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use sinew::sync::{Condvar, Mutex, MutexGuard};
use sinew_http_protocol::Request;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

/// Bytes that may wait in the queue. The writer may hold as many again.
const MOST: usize = 1 << 20;

/// A line has fewer bytes than this besides the client's text.
const BESIDE: usize = 200;

/// When the server ends, the writer has this much time for the remaining lines.
const LAST: Duration = Duration::from_secs(1);

/// The sessions' end of the log. The writer has the same queue.
pub struct Log(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    /// Notified when the writer has something to do, and when it has ended.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Batch,
    /// Lines that the writer has taken and not yet written.
    in_hand: u64,
    /// Lines lost since the log was opened, without those in `waiting`.
    lost: u64,
    must_reopen: bool,
    is_closed: bool,
    has_ended: bool,
}

/// Lines that are written together.
#[derive(Default)]
struct Batch {
    text: Vec<u8>,
    lines: u64,
    /// Lines that found no room after these.
    lost: u64,
}

impl Log {
    /// Opens the file at its end, and starts the writer. `-` is standard output.
    ///
    /// # Errors
    /// The error of the kernel, with the file's name.
    pub fn open(path: &Path) -> io::Result<Log> {
        let mut target = Target::open(path)?;
        let queue = Arc::new(Queue::default());
        let written = Arc::clone(&queue);
        thread::Builder::new().name("log".to_owned()).spawn(move || written.write(&mut target))?;
        Ok(Log(queue))
    }

    /// Adds a line for a request that was understood.
    #[cold]
    #[inline(never)]
    pub fn request(&self, client: Option<SocketAddr>, request: &Request<'_>, given: Given) {
        let version = if request.is_1_1 { "1.1" } else { "1.0" };
        let asked = format!("{} {} HTTP/{version}", request.method_name, request.target);
        let (referer, agent) = (request.referer.value(), request.user_agent.value());
        self.0.add(client, asked.as_bytes(), given, referer.unwrap_or(b"-"), agent.unwrap_or(b"-"));
    }

    /// Adds a line for a request that was not understood.
    pub fn refusal(&self, client: Option<SocketAddr>, given: Given) {
        self.0.add(client, b"-", given, b"-", b"-");
    }

    /// Orders the writer to open the file again by its name, after the lines that are in the queue.
    pub fn reopen(&self) {
        self.0.state().must_reopen = true;
        self.0.changed.notify_all();
    }

    /// Ends the writer, and waits for it at most [`LAST`]. Reports the number of lost lines, if
    /// any.
    pub fn close(&self) {
        let mut state = self.0.state();
        state.is_closed = true;
        self.0.changed.notify_all();
        let ended = self.0.changed.wait_timeout_while(state, LAST, |state| !state.has_ended);
        let (state, _) = ended.unwrap_or_else(PoisonError::into_inner);
        let lost = state.lost + state.in_hand + state.waiting.lines + state.waiting.lost;
        drop(state);
        if lost > 0 {
            message::say(format_args!("sinew: web: {}", lost_text(lost)));
        }
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, client: Option<SocketAddr>, asked: &[u8], given: Given, referer: &[u8], agent: &[u8]) {
        // `quote` may turn one byte into four.
        let most = 4 * (asked.len() + referer.len() + agent.len()) + BESIDE;
        let mut state = self.state();
        let Batch { text, lines, lost } = &mut state.waiting;
        if text.len() + most > MOST || memory::reserve(text, most).is_err() {
            *lost += 1;
            return;
        }
        *lines += 1;
        let is_first = text.is_empty();
        // Writing to memory does not fail.
        let _ = match client {
            Some(address) => write!(text, "{}", address.ip()),
            None => write!(text, "-"),
        };
        let _ = write!(text, " - - [{}] ", moment(clock::now()));
        quote(text, asked);
        let _ = write!(text, " {} {} ", given.status.0, given.bytes);
        quote(text, referer);
        text.push(b' ');
        quote(text, agent);
        text.push(b'\n');
        drop(state);
        if is_first {
            self.changed.notify_all();
        }
    }

    /// Runs the writer until the log is closed, then writes the remaining lines.
    fn write(&self, target: &mut Target) {
        // Lines that are missing in the file, and that the file does not mention yet.
        let mut missing = 0;
        loop {
            let mut state = self.state();
            while state.waiting.lines == 0 && !state.must_reopen && !state.is_closed {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let (batch, must_reopen) = (std::mem::take(&mut state.waiting), std::mem::take(&mut state.must_reopen));
            let is_last = state.is_closed;
            (state.in_hand, state.lost) = (batch.lines, state.lost + batch.lost);
            drop(state);
            let unwritten = target.write(&batch.text);
            missing += batch.lost + unwritten;
            if missing > 0 && target.write(format!("sinew: web: {}\n", lost_text(missing)).as_bytes()) == 0 {
                missing = 0;
            }
            if must_reopen {
                target.reopen();
            }
            let mut state = self.state();
            (state.in_hand, state.lost, state.has_ended) = (0, state.lost + unwritten, is_last);
            drop(state);
            if is_last {
                return self.changed.notify_all();
            }
        }
    }
}

fn lost_text(count: u64) -> String {
    let lines = if count == 1 { "line of the log was" } else { "lines of the log were" };
    format!("{count} {lines} lost")
}

/// The file that lines are written to.
struct Target {
    /// `None` for standard output.
    path: Option<PathBuf>,
    file: File,
    /// Whether the file ends in the middle of a line.
    is_torn: bool,
    /// Whether the last write failed. Only the first failure of a row is reported.
    has_failed: bool,
}

impl Target {
    fn open(path: &Path) -> io::Result<Target> {
        let path = (path != Path::new("-")).then(|| path.to_owned());
        let file = match &path {
            Some(path) => open(path)?,
            None => File::from(io::stdout().as_fd().try_clone_to_owned()?),
        };
        Ok(Target { path, file, is_torn: false, has_failed: false })
    }

    /// Goes on in the file that has the name now. If it cannot be opened, reports that and keeps
    /// the old file.
    fn reopen(&mut self) {
        match self.path.as_deref().map(open) {
            Some(Ok(file)) => (self.file, self.is_torn) = (file, false),
            Some(Err(error)) => message::say(format_args!("sinew: web: the log is not opened again: {error}")),
            None => {}
        }
    }

    /// Writes lines, and waits as long as that takes. Returns the number of lines that cannot be
    /// written.
    fn write(&mut self, lines: &[u8]) -> u64 {
        if lines.is_empty() {
            return 0;
        }
        if self.is_torn && self.put(b"\n").0 == 1 {
            self.is_torn = false;
        }
        let (written, outcome) = self.put(lines);
        if written > 0 {
            self.is_torn = lines[written - 1] != b'\n';
        }
        if let Err(error) = &outcome
            && !self.has_failed
        {
            message::say(format_args!("sinew: web: the log cannot be written: {error}"));
        }
        self.has_failed = outcome.is_err();
        lines[written..].iter().filter(|&&byte| byte == b'\n').count() as u64
    }

    /// Writes bytes. Returns the number of bytes written, and the error if that is not all.
    fn put(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        let mut written = 0;
        while written < bytes.len() {
            match self.file.write(&bytes[written..]) {
                Ok(0) => return (written, Err(ErrorKind::WriteZero.into())),
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Our own pipe is non-blocking. Another process may have made others so.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let _ = poll(&mut [PollFd::new(&self.file, PollFlags::OUT)], None);
                }
                Err(error) => return (written, Err(error)),
            }
        }
        (written, Ok(()))
    }
}

/// Opens a file at its end. For a named pipe this does not wait for a reader: without one it fails.
fn open(path: &Path) -> io::Result<File> {
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().append(true).create(true).custom_flags(nonblocking).open(path);
    file.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Returns a time as `06/Nov/1994:08:49:37 +0000`.
fn moment(seconds: i64) -> String {
    let text = http_date(seconds);
    let text = String::from_utf8_lossy(&text);
    let (day, time) = (text[5..16].replace(' ', "/"), &text[17..25]);
    format!("{day}:{time} +0000")
}

/// Appends a client's text in quotes. The text cannot end the quotes or the line.
fn quote(into: &mut Vec<u8>, text: &[u8]) {
    into.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' | 0..0x20 | 0x7f.. => drop(write!(into, "\\x{byte:02x}")),
            byte => into.push(byte),
        }
    }
    into.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_cannot_forge_a_line() {
        let mut line = Vec::new();
        quote(&mut line, b"a\"b\\c\nd\xff e");
        assert_eq!(line, b"\"a\\x22b\\x5cc\\x0ad\\xff e\"");
        assert_eq!(moment(784_111_777), "06/Nov/1994:08:49:37 +0000");
    }
}
