//! Answers: heads and bodies.

use super::clock::Calendar;
use super::files::{Content, Form};
use super::transport::{PIECE, Transport};
use crate::tree::resident;
use sinew_http_protocol::range::Wanted;
use sinew_http_protocol::{Request, Status};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::ops::Range;

/// A body up to this size is copied behind its head, and sent with other answers. Unmeasured.
const COPIED: usize = 4 * 1024;

/// Pending answers are sent when they exceed this size in bytes.
const FULL: usize = 12 * 1024;

/// The destination of a session's answers.
pub struct Output<'a, T> {
    pub transport: &'a mut T,
    pub calendar: &'a mut Calendar,
    /// Answers that have not been sent.
    pub pending: &'a mut Vec<u8>,
    /// The status of the answer that was begun last, and the bytes of its body so far.
    pub given: Given,
}

/// The manner in which a request is answered.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Whether the answer has a body. An answer to HEAD has none.
    pub with_body: bool,
    /// Whether the connection stays open.
    pub stay: bool,
    /// Whether the client has to be told that the connection stays open.
    pub say_so: bool,
}

impl Manner {
    /// The manner of a last answer: the connection is closed after it, because the beginning of the
    /// next request is not known.
    pub const LAST: Manner = Manner { with_body: true, stay: false, say_so: false };

    /// Returns the manner for this request. The connection stays open if the client wants that and
    /// `may_stay` is set.
    #[inline]
    pub fn of(request: &Request<'_>, may_stay: bool) -> Manner {
        let stay = request.keep_alive && may_stay;
        let with_body = request.method != sinew_http_protocol::Method::Head;
        Manner { with_body, stay, say_so: stay && !request.is_1_1 }
    }
}

/// The result of an answer, for the log.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    pub status: Status,
    /// Bytes of the body.
    pub bytes: u64,
}

impl<'a, T: Transport> Output<'a, T> {
    /// Returns an output behind the answers that are pending.
    #[inline]
    pub fn new(transport: &'a mut T, calendar: &'a mut Calendar, pending: &'a mut Vec<u8>) -> Output<'a, T> {
        Output { transport, calendar, pending, given: Given { status: Status::OK, bytes: 0 } }
    }

    /// Sends all pending answers.
    #[inline]
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.pending.is_empty() {
            self.transport.write(self.pending, &[])?;
            self.pending.clear();
        }
        Ok(())
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Begins a head.
    #[inline]
    fn begin(&mut self, status: Status) {
        self.given = Given { status, bytes: 0 };
        if status == Status::OK {
            self.put(b"HTTP/1.1 200 OK\r\nServer: sinew\r\nDate: ");
        } else {
            // Writing to memory does not fail.
            let (number, reason) = (status.0, status.reason());
            let _ = write!(self.pending, "HTTP/1.1 {number} {reason}\r\nServer: sinew\r\nDate: ");
        }
        let date = self.calendar.date();
        self.pending.extend_from_slice(date);
        self.put(b"\r\n");
    }

    /// Ends a head.
    #[inline]
    fn end(&mut self, manner: Manner) {
        self.put(match manner {
            Manner { stay: false, .. } => b"Connection: close\r\n\r\n",
            Manner { say_so: true, .. } => b"Connection: keep-alive\r\n\r\n",
            _ => b"\r\n",
        });
    }

    /// Answers `/plaintext`, for web benchmarks.
    #[inline]
    pub fn plaintext(&mut self, manner: Manner) -> io::Result<Given> {
        self.begin(Status::OK);
        self.put(b"Content-Type: text/plain\r\nContent-Length: 13\r\n");
        self.end(manner);
        if manner.with_body {
            self.put(b"Hello, World!");
        }
        if self.pending.len() > FULL {
            self.flush()?;
        }
        Ok(Given { status: Status::OK, bytes: if manner.with_body { 13 } else { 0 } })
    }

    /// Answers with a status and its reason as text.
    #[cold]
    pub fn status(&mut self, status: Status, fields: &str, manner: Manner) -> io::Result<Given> {
        let text = format!("{} {}\n", status.0, status.reason());
        self.page(status, &format!("Content-Type: text/plain; charset=utf-8\r\n{fields}"), text.as_bytes(), manner)
    }

    /// Answers with a page that is in memory.
    pub fn page(&mut self, status: Status, fields: &str, text: &[u8], manner: Manner) -> io::Result<Given> {
        self.begin(status);
        self.put(fields.as_bytes());
        // Writing to memory does not fail.
        let _ = write!(self.pending, "Content-Length: {}\r\n", text.len());
        self.end(manner);
        let bytes = if manner.with_body { text.len() as u64 } else { 0 };
        if manner.with_body {
            self.bytes(text)?;
        }
        Ok(Given { status, bytes })
    }

    /// Answers with a page that is made while it is sent. `next` appends a piece, up to a length of
    /// the buffer, and returns whether it was the last one. Without chunks, the end of the
    /// connection is the end of the page.
    #[cold]
    pub fn pieces(
        &mut self,
        fields: &str,
        manner: Manner,
        in_chunks: bool,
        mut next: impl FnMut(&mut Vec<u8>, usize) -> bool,
    ) -> io::Result<Given> {
        self.begin(Status::OK);
        self.put(fields.as_bytes());
        self.put(if in_chunks { b"Transfer-Encoding: chunked\r\n" } else { b"" });
        self.end(manner);
        loop {
            let start = self.pending.len();
            let is_last = next(self.pending, start + FULL);
            let length = self.pending.len() - start;
            if in_chunks && length > 0 {
                let size = format!("{length:x}\r\n");
                self.pending.splice(start..start, size.into_bytes());
                self.put(b"\r\n");
            }
            self.put(if in_chunks && is_last { b"0\r\n\r\n" } else { b"" });
            self.transport.renew();
            self.flush()?;
            self.given.bytes += length as u64;
            if is_last {
                return Ok(self.given);
            }
            // A piece takes about 50 µs to make. Sessions that list must not delay one that sends a
            // small file.
            sinew::yield_now();
        }
    }

    /// Answers with a head alone: 204, or 304 with the fields of the form.
    #[cold]
    pub fn bare(&mut self, status: Status, fields: &str, manner: Manner) -> io::Result<Given> {
        self.begin(status);
        self.put(fields.as_bytes());
        self.end(manner);
        Ok(Given { status, bytes: 0 })
    }

    /// Answers with a whole file.
    #[inline]
    pub fn whole(&mut self, form: &Form, manner: Manner) -> io::Result<Given> {
        self.begin(Status::OK);
        self.put(form.whole.as_bytes());
        self.end(manner);
        if !manner.with_body {
            return Ok(Given { status: Status::OK, bytes: 0 });
        }
        self.content(form, 0..form.size())?;
        Ok(Given { status: Status::OK, bytes: form.size() })
    }

    /// Answers with the parts of a file that are wanted.
    #[cold]
    pub fn parts(&mut self, form: &Form, wanted: Wanted, manner: Manner) -> io::Result<Given> {
        match wanted {
            Wanted::Whole => self.whole(form, manner),
            Wanted::Nothing => {
                let fields = format!("Content-Range: bytes */{}\r\n", form.size());
                self.status(Status::RANGE_NOT_SATISFIABLE, &fields, manner)
            }
            Wanted::Part(part) => {
                self.begin(Status::PARTIAL_CONTENT);
                self.put(form.fields.as_bytes());
                let length = part.end - part.start;
                let _ = write!(self.pending, "{}Content-Length: {length}\r\n", content_range(&part, form));
                self.end(manner);
                if !manner.with_body {
                    return Ok(Given { status: Status::PARTIAL_CONTENT, bytes: 0 });
                }
                self.content(form, part)?;
                Ok(Given { status: Status::PARTIAL_CONTENT, bytes: length })
            }
            Wanted::Parts(parts) => self.several(form, &parts, manner),
        }
    }

    /// Answers with several parts, as `multipart/byteranges`.
    fn several(&mut self, form: &Form, parts: &[Range<u64>], manner: Manner) -> io::Result<Given> {
        // The boundary is random each time, so that no file contains it by accident or on purpose.
        let boundary = format!("{:016x}", RandomState::new().hash_one(()));
        let (kind, others) = form.fields.split_once("\r\n").unwrap_or((&form.fields, ""));
        let head = |part| format!("\r\n--{boundary}\r\n{kind}\r\n{}\r\n", content_range(part, form));
        let last = format!("\r\n--{boundary}--\r\n");
        let length = parts.iter().map(|part| head(part).len() as u64 + part.end - part.start).sum::<u64>();
        let length = length + last.len() as u64;
        self.begin(Status::PARTIAL_CONTENT);
        let _ = write!(self.pending, "Content-Type: multipart/byteranges; boundary={boundary}\r\n");
        let _ = write!(self.pending, "{others}Content-Length: {length}\r\n");
        self.end(manner);
        if !manner.with_body {
            return Ok(Given { status: Status::PARTIAL_CONTENT, bytes: 0 });
        }
        for part in parts {
            self.put(head(part).as_bytes());
            self.content(form, part.clone())?;
        }
        self.put(last.as_bytes());
        Ok(Given { status: Status::PARTIAL_CONTENT, bytes: length })
    }

    /// Sends a part of a file behind the pending answers.
    #[inline]
    fn content(&mut self, form: &Form, part: Range<u64>) -> io::Result<()> {
        match &form.content {
            Content::Bytes(bytes) => self.bytes(&bytes[part.start as usize..part.end as usize]),
            Content::File(file) => {
                self.flush()?;
                let mut at = part.start;
                while at < part.end {
                    let count = PIECE.min(part.end - at);
                    resident::ensure(file, at, count);
                    self.transport.send(file, at, count)?;
                    self.given.bytes += count;
                    at += count;
                }
                Ok(())
            }
        }
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > COPIED {
            self.transport.write(self.pending, bytes)?;
            self.pending.clear();
            return Ok(());
        }
        self.put(bytes);
        if self.pending.len() > FULL { self.flush() } else { Ok(()) }
    }
}

fn content_range(part: &Range<u64>, form: &Form) -> String {
    format!("Content-Range: bytes {}-{}/{}\r\n", part.start, part.end - 1, form.size())
}
