//! The access log: a line for each request, in the combined format that web servers share.
//!
//! Sessions add to a buffer; one fibre writes it, on the pool for calls that block. Nothing
//! is lost while the server runs and has memory: when the buffer is full, sessions wait for the
//! writer.

use super::answer::Given;
use super::clock;
use crate::{memory, message};
use sinew::sync::{Condvar, Mutex, MutexGuard};
use sinew_http_protocol::{Request, date};
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::PoisonError;

/// Bytes that may wait to be written.
const MOST: usize = 1 << 20;

/// More than a line has besides what clients say.
const BESIDE: usize = 200;

/// Where lines go.
pub struct Log {
    lines: Mutex<Lines>,
    /// Told when there is something to write, and when it was taken.
    changed: Condvar,
    file: File,
}

#[derive(Default)]
struct Lines {
    waiting: Vec<u8>,
    is_closed: bool,
}

impl Log {
    /// To the end of this file; `-` is standard output.
    ///
    /// # Errors
    /// The kernel's, with the name.
    pub fn open(path: &Path) -> io::Result<Log> {
        let file = if path == Path::new("-") {
            use std::os::fd::AsFd;
            io::stdout().as_fd().try_clone_to_owned().map(File::from)
        } else {
            File::options().append(true).create(true).open(path)
        };
        let file = file.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        Ok(Log { lines: Mutex::default(), changed: Condvar::new(), file })
    }

    /// A request that was understood.
    #[cold]
    #[inline(never)]
    pub fn request(&self, client: Option<SocketAddr>, request: &Request<'_>, given: Given) {
        let version = if request.is_1_1 { "1.1" } else { "1.0" };
        let asked = format!("{} {} HTTP/{version}", request.method_name, request.target);
        let (referer, agent) = (request.referer.value(), request.user_agent.value());
        self.add(client, asked.as_bytes(), given, referer.unwrap_or(b"-"), agent.unwrap_or(b"-"));
    }

    /// One that was not.
    pub fn refusal(&self, client: Option<SocketAddr>, given: Given) {
        self.add(client, b"-", given, b"-", b"-");
    }

    fn add(&self, client: Option<SocketAddr>, asked: &[u8], given: Given, referer: &[u8], agent: &[u8]) {
        let mut lines = self.lines();
        while lines.waiting.len() > MOST && !lines.is_closed {
            lines = self.changed.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
        let was_empty = lines.waiting.is_empty();
        let into = &mut lines.waiting;
        // Each byte may take four. A server without memory has no log of it.
        if memory::reserve(into, 4 * (asked.len() + referer.len() + agent.len()) + BESIDE).is_err() {
            return;
        }
        // Writing to memory does not fail.
        let _ = match client {
            Some(address) => write!(into, "{}", address.ip()),
            None => write!(into, "-"),
        };
        let _ = write!(into, " - - [{}] ", moment(clock::now()));
        quote(into, asked);
        let _ = write!(into, " {} {} ", given.status.0, given.bytes);
        quote(into, referer);
        into.push(b' ');
        quote(into, agent);
        into.push(b'\n');
        drop(lines);
        if was_empty {
            self.changed.notify_all();
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes until the log is closed, and then what is left.
    pub fn write(&self) {
        loop {
            let mut lines = self.lines();
            while lines.waiting.is_empty() && !lines.is_closed {
                lines = self.changed.wait(lines).unwrap_or_else(PoisonError::into_inner);
            }
            let text = std::mem::take(&mut lines.waiting);
            drop(lines);
            if text.is_empty() {
                return;
            }
            self.changed.notify_all();
            if let Err(error) = sinew::blocking(|| (&self.file).write_all(&text)) {
                message::say(format_args!("sinew: web: the log cannot be written: {error}"));
            }
        }
    }

    /// Lets the writer end.
    pub fn close(&self) {
        self.lines().is_closed = true;
        self.changed.notify_all();
    }
}

/// `06/Nov/1994:08:49:37 +0000`.
fn moment(seconds: i64) -> String {
    let text = date::format(seconds);
    let text = String::from_utf8_lossy(&text);
    let (day, time) = (text[5..16].replace(' ', "/"), &text[17..25]);
    format!("{day}:{time} +0000")
}

/// What a client sent cannot end the quotes, or the line.
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
    fn a_line_cannot_be_forged() {
        let mut line = Vec::new();
        quote(&mut line, b"a\"b\\c\nd\xff e");
        assert_eq!(line, b"\"a\\x22b\\x5cc\\x0ad\\xff e\"");
        assert_eq!(moment(784_111_777), "06/Nov/1994:08:49:37 +0000");
    }
}
