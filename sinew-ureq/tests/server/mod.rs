//! A small HTTP server on Sinew's sockets.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use sinew::net::TcpListener;
use sinew::{FibreBuilder, Runtime, Scope, ScopedJoinHandle};
use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// The stack of a fibre that uses ureq in a debug build.
const STACK: usize = 256 * 1024;

/// Spawns a fibre with that stack.
pub fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    f: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    FibreBuilder::new().stack_size(STACK).spawn_scoped(scope, f).unwrap()
}

/// Runs `f` in such a fibre.
pub fn run(rt: &Runtime, f: impl FnOnce() + Send) {
    rt.run(|| sinew::scope(|scope| drop(spawn(scope, f))));
}

pub struct Request {
    pub path: String,
    pub body: Vec<u8>,
}

/// Runs `client` with the URL of a server that answers with what `respond` returns. The server's
/// fibres end when the client has closed its connections.
pub fn serve(respond: impl Fn(Request) -> Vec<u8> + Sync, client: impl FnOnce(&str)) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (respond, is_over) = (&respond, &AtomicBool::new(false));
    sinew::scope(|scope| {
        scope.spawn(move || {
            sinew::scope(|sessions| {
                for stream in listener.incoming() {
                    let mut stream = stream.unwrap();
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    sessions.spawn(move || {
                        while let Some(request) = read(&mut stream) {
                            answer(&mut stream, &respond(request));
                        }
                    });
                }
            });
        });
        client(&format!("http://{address}"));
        is_over.store(true, Ordering::Relaxed);
        // The last connection, which ends the loop.
        sinew::net::TcpStream::connect(address).unwrap();
    });
}

/// Runs `client` with the URL of a server that accepts, and neither reads nor answers.
pub fn silent(client: impl FnOnce(&str)) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    client(&format!("http://{}/", listener.local_addr().unwrap()));
}

/// Reads a request, or returns `None` at the end of the connection. No client sends its next request
/// before it has the answer.
pub fn read(stream: &mut (impl Read + Write)) -> Option<Request> {
    const END: &[u8] = b"\r\n\r\n";
    let (mut received, mut chunk) = (Vec::new(), [0; 4096]);
    let head = loop {
        match stream.read(&mut chunk) {
            Ok(0) => return None,
            Ok(count) => received.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
            Err(error) => panic!("a request cannot be read: {error}"),
        }
        if let Some(end) = received.windows(END.len()).position(|bytes| bytes == END) {
            break end + END.len();
        }
    };
    let mut body = received.split_off(head);
    let head = String::from_utf8(received).unwrap();
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let begun = body.len();
    body.resize(length.map_or(0, |(_, length)| length.parse().unwrap()), 0);
    stream.read_exact(&mut body[begun..]).unwrap();
    Some(Request { path: head.split(' ').nth(1).unwrap().to_owned(), body })
}

pub fn answer(stream: &mut impl Write, body: &[u8]) {
    let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
    answer.extend_from_slice(body);
    stream.write_all(&answer).unwrap();
}
