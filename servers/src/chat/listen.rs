//! Accepts clients, answers what they ask over HTTP, and begins sessions.

use super::Server;
use super::line::Line;
use super::page::{self, After};
use super::reader::Reader;
use super::session::{Outlet, Session};
use crate::memory;
use crate::room::Permit;
use crate::serving::{report, spawn};
use sinew::net::TcpStream;
use sinew::time::{deadline, timeout};
use sinew::{FibreBuilder, Scope};
use sinew_http_protocol::{Fields, Limits, Status, parse};
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// The limits of a head.
const LIMITS: Limits = Limits { head: 8 * 1024, target: 2 * 1024 };

/// The time that a client has to close the connection after an error.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves a new client in a fibre of its own.
pub fn admit<'scope>(server: &'scope Server, scope: &'scope Scope<'scope, '_>, permit: Permit, stream: TcpStream) {
    if memory::room_for_connection().is_err() {
        return report(server, 1, || "no memory for a connection".to_owned());
    }
    spawn(server, scope, FibreBuilder::new(), move || {
        // A client that has gone, or asks for nothing, is no trouble.
        if let Ok(Some(received)) = requests(server, &stream)
            && let Some(reader) = Reader::begin(server, session(server, permit, stream, received))
        {
            reader.go_on(server);
        }
    });
}

fn session(server: &Server, permit: Permit, stream: TcpStream, received: Vec<u8>) -> Outlet {
    let house = server.house();
    let number = server.numbers.fetch_add(1, Relaxed);
    let line = Arc::new(Line::new(stream, received));
    let session = sinew::actor::spawn(Session {
        number,
        line: Arc::clone(&line),
        directory: house.directory.clone(),
        store: house.store.clone(),
        ping: server.options.ping,
        patience: server.options.send_timeout,
        _permit: permit,
        is_flushing: false,
        unanswered: 0,
        is_over: false,
    });
    Outlet { number, line, session }
}

/// Answers requests until one of them asks for the WebSocket. Returns what the client has sent after that; `None` if
/// the connection has ended.
#[inline(never)]
fn requests(server: &Server, stream: &TcpStream) -> io::Result<Option<Vec<u8>>> {
    let (mut input, mut fields) = (Vec::new(), Fields::default());
    let mut limit = Instant::now() + server.options.header_timeout;
    loop {
        let (answer, length) = match parse(&input, &LIMITS, &mut fields) {
            Ok(Some(request)) => (page::answer(&server.options, &input[..request.length], &request), request.length),
            Ok(None) => {
                let received = deadline(limit, || receive(stream, &mut input));
                match received {
                    Ok(0) => return Ok(None),
                    Ok(_) => continue,
                    Err(error) if error.kind() == ErrorKind::TimedOut && !input.is_empty() => {
                        (page::status(Status::REQUEST_TIMEOUT, "", true, false), input.len())
                    }
                    Err(error) => return Err(error),
                }
            }
            Err(status) => (page::status(status, "", true, false), input.len()),
        };
        let mut output = stream;
        sinew::cancel::shield(|| timeout(server.options.send_timeout, || output.write_all(&answer.bytes)))?;
        input.drain(..length);
        match answer.after {
            After::Stay => limit = Instant::now() + server.options.header_timeout,
            After::Socket => return Ok(Some(input)),
            After::Close => {
                sinew::cancel::shield(|| farewell(stream));
                return Ok(None);
            }
        }
    }
}

/// Receives some bytes, and returns their number.
fn receive(mut stream: &TcpStream, input: &mut Vec<u8>) -> io::Result<usize> {
    let mut buffer = [0; 2048];
    let count = stream.read(&mut buffer)?;
    input.extend_from_slice(&buffer[..count]);
    Ok(count)
}

/// Lets the client finish: if the connection were closed at once, the kernel would discard the answer when the client
/// is still sending.
#[cold]
fn farewell(mut stream: &TcpStream) {
    let limit = Instant::now() + FAREWELL;
    let mut buffer = [0; 1024];
    if stream.shutdown(Shutdown::Write).is_ok() {
        // A client that sends without a pause never reaches the limit inside of `read`.
        while let Ok(1..) = deadline(limit, || stream.read(&mut buffer))
            && Instant::now() < limit
        {}
    }
}
