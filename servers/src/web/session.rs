//! One connection.

use super::answer::Output;
use super::desks::Desk;
use super::input::Input;
use super::talk::{After, Client, Talk};
use super::transport::Transport;
use super::{LIMITS, Server};
use crate::lobby::is_silence;
use sinew_http_protocol::body::Discard;
use sinew_http_protocol::{Body, Fields, Request, Status, parse};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// The time that a client has to finish after an answer that it did not wait for. If the connection
/// were closed at once, the kernel would discard the answer.
pub const FAREWELL: Duration = Duration::from_secs(5);

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
        let outcome = sinew::cancel::shield(|| requests(server, transport, client, &mut desk, count));
        match outcome {
            // The end of the second is precise enough, and does not cost a look at the clock.
            Ok(After::Stay) if !server.is_stopping() => {
                let now = desk.calendar.end_of_second();
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
    desk: &mut Desk,
    count: usize,
) -> io::Result<After> {
    let Desk { input, output, fields, calendar } = desk;
    let mut input = Input::new(input, count);
    let mut talk = Talk { server, client, output: Output::new(transport, calendar, output) };
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
