//! Answers: their heads, and what follows them.

use super::clock::Calendar;
use super::files::{Content, Form, resident};
use super::transport::{PIECE, Transport};
use sinew_http_protocol::range::Wanted;
use sinew_http_protocol::{Request, Status};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::ops::Range;

/// A body up to this size is copied behind its head, and sent with other answers.
/// Unmeasured.
const COPIED: usize = 4 * 1024;

/// What is gathered is sent when there is so much of it.
const FULL: usize = 12 * 1024;

/// Where the answers of a session go.
pub struct Output<'a, T> {
    pub transport: &'a mut T,
    pub calendar: &'a mut Calendar,
    /// Answers that have not been sent.
    pub pending: &'a mut Vec<u8>,
    /// What has been given of the answer that was begun last.
    pub given: Given,
}

/// How an answer is to be given.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Whether it has a body: not if it answers HEAD.
    pub with_body: bool,
    /// Whether the connection stays.
    pub stay: bool,
    /// Whether the client has to be told that it stays.
    pub say_so: bool,
}

impl Manner {
    /// After which the connection is closed, because where the next request begins is not
    /// known.
    pub const LAST: Manner = Manner { with_body: true, stay: false, say_so: false };

    /// How to answer this request on a connection that stays if it may.
    #[inline]
    pub fn of(request: &Request<'_>, may_stay: bool) -> Manner {
        let stay = request.keep_alive && may_stay;
        let with_body = request.method != sinew_http_protocol::Method::Head;
        Manner { with_body, stay, say_so: stay && !request.is_1_1 }
    }
}

/// What an answer came to, for the log.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    pub status: Status,
    /// Bytes of the body.
    pub bytes: u64,
}

impl<T: Transport> Output<'_, T> {
    /// Sends what is pending.
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

    /// The beginning of a head.
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

    /// The end of a head.
    #[inline]
    fn end(&mut self, manner: Manner) {
        self.put(match manner {
            Manner { stay: false, .. } => b"Connection: close\r\n\r\n",
            Manner { say_so: true, .. } => b"Connection: keep-alive\r\n\r\n",
            _ => b"\r\n",
        });
    }

    /// The answer that web benchmarks ask for.
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

    /// A status, and some words of explanation.
    #[cold]
    pub fn status(&mut self, status: Status, fields: &str, manner: Manner) -> io::Result<Given> {
        let text = format!("{} {}\n", status.0, status.reason());
        self.page(status, &format!("Content-Type: text/plain; charset=utf-8\r\n{fields}"), text.as_bytes(), manner)
    }

    /// A page that was made for this answer.
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

    /// A page that is made while it is sent. `next` appends a piece, until there are so many
    /// bytes, and tells whether it was the last one. Without chunks the end of the connection is
    /// the end of the page.
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
            // To make a piece takes some 50 µs. Many who list must not be in the way of one who
            // wants a small file.
            sinew::yield_now();
        }
    }

    /// A head to which nothing belongs: 204, and 304 with what would be said of the form.
    #[cold]
    pub fn bare(&mut self, status: Status, fields: &str, manner: Manner) -> io::Result<Given> {
        self.begin(status);
        self.put(fields.as_bytes());
        self.end(manner);
        Ok(Given { status, bytes: 0 })
    }

    /// All of a file.
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

    /// What is wanted of a file.
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

    /// Several parts, as `multipart/byteranges`.
    fn several(&mut self, form: &Form, parts: &[Range<u64>], manner: Manner) -> io::Result<Given> {
        // Not to be found in the file by accident, nor on purpose: it is another one each time.
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

    /// A part of a file, behind what is pending.
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
