//! One connection.

use super::answer::{Given, Manner, Output};
use super::clock::Calendar;
use super::desks::Desk;
use super::files::Found;
use super::input::Input;
use super::listing::{self, Page};
use super::sorry::{self, Reason};
use super::transport::Transport;
use super::{LIMITS, Server};
use crate::lobby::is_silence;
use crate::tree::FRESH;
use sinew_http_protocol::body::Discard;
use sinew_http_protocol::condition::{self, Verdict};
use sinew_http_protocol::{Body, Fields, Method, Request, Status, parse, range, target};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The client of a session.
#[derive(Clone, Copy)]
pub struct Client {
    /// Its address, if the log wants it.
    pub address: Option<SocketAddr>,
}

const ALLOW: &str = "Allow: GET, HEAD, OPTIONS\r\n";

/// The time that a client has to finish after an answer that it did not wait for. If the connection
/// were closed at once, the kernel would discard the answer.
const FAREWELL: Duration = Duration::from_secs(5);

/// The fate of a connection after an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    /// It stays open for another request.
    Stay,
    /// It is closed: both sides have sent everything.
    Close,
    /// It is closed, but the client may still be sending.
    Farewell,
}

/// Answers requests until the client leaves or breaks the rules, or the server stops. The client
/// has to send something before `deadline`.
///
/// If `may_rest` is set and the client is silent for a while between requests, the session ends but
/// the connection stays. Then this returns the time before which the client has to send something.
/// Another session may go on with the connection.
///
/// An idle connection holds this frame, so it is kept small.
pub fn serve<T: Transport>(
    server: &Server,
    transport: &mut T,
    client: Client,
    mut deadline: Instant,
    may_rest: bool,
) -> Option<Instant> {
    let first = |deadline: Instant, now: Instant| match may_rest {
        true => deadline.min(now + server.options.runtime.linger),
        false => deadline,
    };
    let mut calendar = Calendar::new();
    let mut limit = first(deadline, Instant::now());
    loop {
        // A connection may be cancelled between requests, but not within one.
        let (mut desk, count) = match transport.receive(&server.desks, limit) {
            Ok((desk, count @ 1..)) => (desk, count),
            Err(error) if limit < deadline && is_silence(&error) => return Some(deadline),
            _ => {
                sinew::cancel::shield(|| transport.close());
                return None;
            }
        };
        let outcome = sinew::cancel::shield(|| requests(server, transport, client, &mut calendar, &mut desk, count));
        match outcome {
            // The end of the second is precise enough, and does not cost a look at the clock.
            Ok(After::Stay) if !server.is_stopping() => {
                let now = calendar.end_of_second();
                deadline = now + server.options.idle_timeout;
                limit = first(deadline, now);
                continue;
            }
            Ok(after) if after == After::Farewell || transport.is_unheard() => {
                sinew::cancel::shield(|| farewell(transport, &mut desk.input));
            }
            Ok(_) => sinew::cancel::shield(|| transport.close()),
            // The client is gone or too slow, or the file has become shorter.
            Err(_) => {}
        }
        return None;
    }
}

/// Lets the client finish: discards what it sends, until it closes the connection or [`FAREWELL`]
/// is over.
#[cold]
fn farewell(transport: &mut impl Transport, buffer: &mut [u8]) {
    let deadline = Instant::now() + FAREWELL;
    if transport.finish().is_ok() {
        // A client that sends without a pause never reaches the deadline inside `read`.
        while let Ok(1..) = transport.read(buffer, deadline)
            && Instant::now() < deadline
        {}
    }
}

/// Answers the first `count` bytes on the desk. Receives more if the last request is incomplete.
#[inline(never)]
fn requests<T: Transport>(
    server: &Server,
    transport: &mut T,
    client: Client,
    calendar: &mut Calendar,
    desk: &mut Desk,
    count: usize,
) -> io::Result<After> {
    let Desk { input, output, fields } = desk;
    let mut input = Input::new(input, count);
    let given = Given { status: Status::OK, bytes: 0 };
    let mut talk = Talk { server, client, output: Output { transport, calendar, pending: output, given } };
    while !input.is_empty() {
        let after = match parse(input.bytes(), &LIMITS, fields) {
            Ok(Some(request)) if request.body == Body::Length(0) => {
                let after = talk.answer(&request)?;
                let length = request.length;
                input.consume(length);
                after
            }
            Ok(Some(request)) => {
                let head = input.bytes()[..request.length].to_vec();
                talk.answer_with_body(&head, &mut input, fields)?
            }
            Ok(None) => talk.complete(&mut input, fields)?,
            Err(status) => talk.refuse(status, input.bytes())?,
        };
        if after != After::Stay {
            talk.output.flush()?;
            return Ok(if input.is_empty() { after } else { After::Farewell });
        }
    }
    talk.output.flush()?;
    Ok(After::Stay)
}

/// The state that answering needs.
struct Talk<'a, T> {
    server: &'a Server,
    client: Client,
    output: Output<'a, T>,
}

impl<T: Transport> Talk<'_, T> {
    /// Waits for the rest of a head.
    #[cold]
    #[inline(never)]
    fn complete(&mut self, input: &mut Input<'_>, fields: &mut Fields) -> io::Result<After> {
        // The client may wait for these answers before it goes on.
        self.output.flush()?;
        let deadline = Instant::now() + self.server.options.header_timeout;
        loop {
            match input.receive(self.output.transport, deadline) {
                Ok(0) => return Ok(After::Close),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    return self.refuse(Status::REQUEST_TIMEOUT, input.bytes());
                }
                Err(error) => return Err(error),
            }
            // The caller parses the head again, and finds the error if there is one.
            if !matches!(parse(input.bytes(), &LIMITS, fields), Ok(None)) {
                return Ok(After::Stay);
            }
        }
    }

    /// Reads and discards the body of a request, then answers the request. The client may not
    /// listen before it has sent the body.
    #[cold]
    #[inline(never)]
    fn answer_with_body(&mut self, head: &[u8], input: &mut Input<'_>, fields: &mut Fields) -> io::Result<After> {
        let Ok(Some(request)) = parse(head, &LIMITS, fields) else {
            return self.refuse(Status::BAD_REQUEST, head);
        };
        input.consume(head.len());
        match self.discard(&request, input) {
            Ok(()) => self.answer(&request),
            Err(Discarded::Refused(status)) => self.refuse(status, head),
            Err(Discarded::Broken(error)) => Err(error),
        }
    }

    fn discard(&mut self, request: &Request<'_>, input: &mut Input<'_>) -> Result<(), Discarded> {
        let mut body = Discard::new(request.body, self.server.options.max_body)?;
        if request.expects_continue && input.is_empty() {
            self.output.pending.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        self.output.flush()?;
        let deadline = Instant::now() + self.server.options.send_timeout;
        loop {
            let taken = body.take(input.bytes())?;
            input.consume(taken);
            if body.is_done() {
                return Ok(());
            }
            match input.receive(self.output.transport, deadline) {
                Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::TimedOut => return Err(Status::REQUEST_TIMEOUT.into()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Answers with an error, for bytes that cannot be understood. Nothing behind them can be
    /// understood either.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, status: Status, sent: &[u8]) -> io::Result<After> {
        let manner = Manner { with_body: !sent.starts_with(b"HEAD "), ..Manner::LAST };
        let given = self.output.status(status, "", manner)?;
        if let Some(log) = &self.server.log {
            log.refusal(self.client.address, given);
        }
        Ok(After::Farewell)
    }

    #[inline]
    fn answer(&mut self, request: &Request<'_>) -> io::Result<After> {
        let mut manner = Manner::of(request, !self.server.is_stopping());
        let shows = matches!(request.method, Method::Get | Method::Head);
        let given = if self.server.options.plaintext && shows && request.target == "/plaintext" {
            self.output.plaintext(manner)
        } else {
            self.answer_slow(request, &mut manner)
        };
        if let Some(log) = &self.server.log {
            log.request(self.client.address, request, *given.as_ref().unwrap_or(&self.output.given));
        }
        given?;
        Ok(if manner.stay { After::Stay } else { After::Close })
    }

    /// Answers a request that needs the files. Clears `how.stay` if the end of the connection is
    /// the end of the answer.
    #[inline(never)]
    fn answer_slow(&mut self, request: &Request<'_>, how: &mut Manner) -> io::Result<Given> {
        let manner = *how;
        match request.method {
            Method::Get | Method::Head => {}
            Method::Options => return self.output.bare(Status::NO_CONTENT, ALLOW, manner),
            Method::Other => return self.output.status(Status::METHOD_NOT_ALLOWED, ALLOW, manner),
        }
        let place = match target::place(request.target) {
            Ok(place) => place,
            Err(status) => return self.output.status(status, "", manner),
        };
        if !self.server.options.hidden && place.is_hidden() {
            return self.sorry(Reason::NotFound, &place, manner);
        }
        match self.server.files.find(&place) {
            Found::File(entry) => {
                let form = entry.form(request.accept_encoding.value());
                match condition::judge(request, form.version()) {
                    Verdict::Answer => {}
                    Verdict::NotModified => return self.output.bare(Status::NOT_MODIFIED, &form.fields, manner),
                    Verdict::Failed => return self.output.status(Status::PRECONDITION_FAILED, "", manner),
                }
                match request.range.value() {
                    Some(wanted)
                        if request.method == Method::Get && condition::range_counts(request, form.version()) =>
                    {
                        self.output.parts(form, range::wanted(wanted, form.size()), manner)
                    }
                    _ => self.output.whole(form, manner),
                }
            }
            Found::WithoutSlash => {
                let location = listing::with_slash(&place);
                self.output.status(Status::MOVED_PERMANENTLY, &format!("Location: {location}\r\n"), manner)
            }
            Found::Directory if self.server.options.list => {
                how.stay &= request.is_1_1 || !manner.with_body;
                self.list(&place, *how, request.is_1_1)
            }
            Found::Directory => self.sorry(Reason::NotListed, &place, manner),
            Found::Forbidden => self.sorry(Reason::Forbidden, &place, manner),
            Found::Nothing => self.sorry(Reason::NotFound, &place, manner),
            Found::Unavailable => self.unavailable(manner),
        }
    }

    #[cold]
    #[inline(never)]
    fn list(&mut self, place: &target::Place<'_>, manner: Manner, in_chunks: bool) -> io::Result<Given> {
        if !manner.with_body {
            return self.output.bare(Status::OK, listing::FIELDS, manner);
        }
        let files = &self.server.files;
        let now = Instant::now();
        let first = match files.list(place, now.checked_sub(FRESH).unwrap_or(now)) {
            Ok(names) => names,
            Err(Found::Unavailable) => return self.unavailable(manner),
            // The directory was there a moment ago.
            Err(_) => return self.sorry(Reason::Forbidden, place, manner),
        };
        // The listing goes on with the same names as long as they are kept.
        let (oldest, mut first) = (first.read_at, Some(first));
        let mut page = Page::new(&place.path);
        self.output.pieces(listing::FIELDS, manner, in_chunks, |into, most| {
            match first.take().map_or_else(|| files.list(place, oldest), Ok) {
                Ok(names) => page.piece(&names, into, most),
                Err(_) => {
                    page.break_off(into);
                    true
                }
            }
        })
    }

    /// Answers with a page that says what is not here, and leads on.
    #[cold]
    #[inline(never)]
    fn sorry(&mut self, reason: Reason, place: &target::Place<'_>, manner: Manner) -> io::Result<Given> {
        self.output.page(reason.status(), sorry::FIELDS, sorry::page(reason, place).as_bytes(), manner)
    }

    fn unavailable(&mut self, manner: Manner) -> io::Result<Given> {
        self.output.status(Status::UNAVAILABLE, "Retry-After: 1\r\n", manner)
    }
}

/// The reason why a body was not read to its end.
enum Discarded {
    Refused(Status),
    Broken(io::Error),
}

impl From<Status> for Discarded {
    fn from(status: Status) -> Discarded {
        Discarded::Refused(status)
    }
}

impl From<io::Error> for Discarded {
    fn from(error: io::Error) -> Discarded {
        Discarded::Broken(error)
    }
}
