//! The ten handlers, in the order in which a connection meets them.
//!
//! ```text
//!   epoll --> accept --> read --> parse --> look up --> write --> (parse | read | close)
//!         \-----------> read        |          |                      close --> decrement
//!                                   v          v
//!                              bad request   not found
//! ```
//!
//! The times are guesses, unmeasured. The runtime replaces them by what it measures.

use super::asked::Asked;
use super::connection::{Connection, Heard, Next, Received, Stage, Work};
use super::door::{self, Door};
use super::watch::{self, Round};
use crate::web::LIMITS;
use crate::web::files::Found;
use crate::web::input::Span;
use crate::web::session::FAREWELL;
use crate::web::talk::{After, Sight};
use crate::web::transport::Transport;
use sinew::event::Handler;
use sinew_http_protocol::body::Discard;
use sinew_http_protocol::{Body, Status, parse};
use std::io;
use std::sync::Arc;

/// Asks the kernel which connections and listeners are ready.
pub static EPOLL: Handler<Box<Round>> = Handler::new("epoll", watch::poll).takes_us(20);
/// Accepts connections at a listener.
pub static ACCEPT: Handler<Door> = Handler::new("accept", door::accept).takes_us(20);
/// Receives bytes.
pub static READ: Handler<Heard> = Handler::new("read request", read).takes_us(2);
/// Finds the end of a head.
pub static PARSE: Handler<Box<Work>> = Handler::new("parse request", parse_request).takes_us(1);
/// Looks for the file, in the cache first.
pub static LOOK_UP: Handler<Box<Work>> = Handler::new("look up in cache", look_up).takes_us(1);
/// Answers with what was found.
pub static WRITE: Handler<(Box<Work>, Sight)> = Handler::new("write response", write).takes_us(5);
/// Answers that nothing was found.
pub static NOT_FOUND: Handler<Box<Work>> = Handler::new("not found", not_found).takes_us(10);
/// Answers that a request cannot be understood.
pub static BAD_REQUEST: Handler<(Box<Work>, Status)> = Handler::new("bad request", bad_request).takes_us(10);
/// Ends a connection.
pub static CLOSE: Handler<Arc<Connection>> = Handler::new("close", close).takes_us(1);
/// Counts a connection as ended.
pub static DECREMENT: Handler<Arc<Connection>> = Handler::new("decrement clients", door::decrement).takes_us(5);

fn read(heard: Heard) {
    let mut work = match heard.connection.begin(heard.why) {
        Next::Receive(work) => work,
        Next::Overdue(work) => return refuse(work, Status::REQUEST_TIMEOUT),
        Next::Close => return heard.connection.close(),
        Next::Nothing => return,
    };
    match work.receive(heard.why) {
        Received::Bytes => match &work.stage {
            Stage::Head => {
                let _ = PARSE.post(&heard.connection.colour, work);
            }
            Stage::Body(_) => discard(work),
            Stage::Farewell => part(work),
        },
        Received::Nothing => wait(work),
        // A client that does not send the rest gets no answer.
        Received::End => work.close(),
    }
}

/// Waits for more bytes, in the stage that the work is in.
fn wait(work: Box<Work>) {
    let options = &work.connection.world.server.options;
    let patience = match work.stage {
        Stage::Head if work.input.is_empty() => return work.rest(),
        Stage::Head => options.header_timeout,
        Stage::Body(_) => options.send_timeout,
        Stage::Farewell => FAREWELL,
    };
    work.wait(patience);
}

fn parse_request(mut work: Box<Work>) {
    let connection = Arc::clone(&work.connection);
    let parsed = work.talk(|_, parts| {
        let request = parse(parts.head, &LIMITS, parts.fields)?;
        Ok(request.map(|request| Asked::of(&request, parts.head)))
    });
    match parsed {
        Ok(Some(asked)) => {
            (work.asked, work.deadline) = (asked, None);
            match asked.body {
                Body::Length(0) => drop(LOOK_UP.post(&connection.colour, work)),
                _ => begin_body(work),
            }
        }
        // The client may wait for the answers before it goes on.
        Ok(None) => match work.talk(|talk, _| talk.output.flush()) {
            Ok(()) => wait(work),
            Err(_) => work.close(),
        },
        Err(status) => refuse(work, status),
    }
}

/// Begins to discard the body of a request, which is answered then. The client may not listen before
/// it has sent the body.
#[cold]
fn begin_body(mut work: Box<Work>) {
    work.keep_head();
    let asked = work.asked;
    let limit = work.connection.world.server.options.max_body;
    work.stage = match Discard::new(asked.body, limit) {
        Ok(body) => Stage::Body(body),
        Err(status) => return refuse(work, status),
    };
    let expects_continue = asked.expects_continue && work.input.is_empty();
    let sent = work.talk(|talk, _| {
        let text: &[u8] = if expects_continue { b"HTTP/1.1 100 Continue\r\n\r\n" } else { b"" };
        talk.output.pending.extend_from_slice(text);
        talk.output.flush()
    });
    match sent {
        Ok(()) => discard(work),
        Err(_) => work.close(),
    }
}

/// Discards the received part of a body.
#[cold]
fn discard(mut work: Box<Work>) {
    let Work { stage: Stage::Body(body), input, desk, .. } = &mut *work else { return work.close() };
    match body.take(input.of(&desk.input)) {
        Ok(taken) => input.consume(taken),
        Err(status) => return refuse(work, status),
    }
    if !body.is_done() {
        return wait(work);
    }
    (work.stage, work.deadline) = (Stage::Head, None);
    let connection = Arc::clone(&work.connection);
    let _ = LOOK_UP.post(&connection.colour, work);
}

fn look_up(work: Box<Work>) {
    let connection = Arc::clone(&work.connection);
    let _ = match connection.world.server.look(work.asked.method, work.asked.target(work.head())) {
        Sight::Found(Found::Nothing) => NOT_FOUND.post(&connection.colour, work).is_ok(),
        sight => WRITE.post(&connection.colour, (work, sight)).is_ok(),
    };
}

fn write((mut work, sight): (Box<Work>, Sight)) {
    let asked = work.asked;
    let answered = work.talk(|talk, parts| talk.answer_seen(&asked.request(parts.head), sight));
    conclude(work, answered);
}

fn not_found(work: Box<Work>) {
    write((work, Sight::Found(Found::Nothing)));
}

fn bad_request((mut work, status): (Box<Work>, Status)) {
    let answered = work.talk(|talk, parts| talk.refuse(status, parts.head));
    conclude(work, answered);
}

#[cold]
fn refuse(work: Box<Work>, status: Status) {
    let connection = Arc::clone(&work.connection);
    let _ = BAD_REQUEST.post(&connection.colour, (work, status));
}

/// Goes on after an answer.
fn conclude(mut work: Box<Work>, answered: io::Result<After>) {
    // The client is gone or too slow, or the file has become shorter.
    let Ok(after) = answered else { return work.close() };
    work.forget_head();
    if after == After::Stay && !work.input.is_empty() {
        let connection = Arc::clone(&work.connection);
        return drop(PARSE.post(&connection.colour, work));
    }
    if work.talk(|talk, _| talk.output.flush()).is_err() {
        return work.close();
    }
    match after {
        After::Stay if !work.connection.world.server.is_stopping() => work.rest(),
        After::Farewell => say_farewell(work),
        _ if !work.input.is_empty() || work.transport.is_unheard() => say_farewell(work),
        _ => work.close(),
    }
}

/// Lets the client finish: discards what it sends, until it closes the connection or its time is over.
/// If the connection were closed at once, the kernel would discard the answer.
#[cold]
fn say_farewell(mut work: Box<Work>) {
    if work.transport.finish().is_err() {
        return work.close();
    }
    (work.stage, work.deadline) = (Stage::Farewell, None);
    part(work);
}

#[cold]
fn part(mut work: Box<Work>) {
    work.input = Span::default();
    wait(work);
}

fn close(connection: Arc<Connection>) {
    if connection.end() {
        let colour = &connection.world.counting;
        let _ = DECREMENT.post(colour, Arc::clone(&connection));
    }
}
