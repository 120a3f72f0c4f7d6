//! A server for tests, and a client that is a fibre with a plain socket.

// Each test binary uses its own part of this.
#![allow(dead_code)]

#[path = "../../../sinew/tests/fixture/mod.rs"]
pub mod fixture;

use bytes::Bytes;
use fixture::{Scheduling, Setup, wherever};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use sinew::Runtime;
use sinew::net::{TcpListener, TcpStream};
use sinew::task::{self, JoinHandle};
use sinew_hyper::{SinewIo, SinewTimer};
use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;

pub type Body = BoxBody<Bytes, hyper::Error>;

/// Runs `body` on 1, 2 and 4 processors. Fails if anything is left when it returns.
#[track_caller]
pub fn on_all_sizes(body: impl Fn(&Runtime, Setup)) {
    wherever(|setup| setup.scheduling == Scheduling::Fair && setup.migrating, body);
}

pub fn whole(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).map_err(|never| match never {}).boxed()
}

/// Answers `GET` with its path, and `POST` with the posted bytes as they come.
pub async fn echo(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(match *request.method() {
        Method::GET => whole(format!("you asked for {}", request.uri().path())),
        Method::POST => request.into_body().boxed(),
        _ => Empty::new().map_err(|never| match never {}).boxed(),
    }))
}

/// Serves this number of connections, accepted one after the other, each by a task. Returns the
/// address, and a handle to the results of all connections.
pub fn serve(connections: usize, builder: http1::Builder) -> (SocketAddr, JoinHandle<Vec<hyper::Result<()>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = task::spawn(async move {
        let mut open = Vec::new();
        for _ in 0..connections {
            let (stream, _) = listener.accept_async().await.unwrap();
            stream.set_nodelay(true).unwrap();
            open.push(task::spawn(builder.serve_connection(SinewIo::new(stream), service_fn(echo))));
        }
        let mut ends = Vec::new();
        for connection in open {
            ends.push(connection.await.unwrap());
        }
        ends
    });
    (address, server)
}

/// Returns a server's settings with our timer.
pub fn settings() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(SinewTimer::new());
    builder
}

/// A client's connection, read by a fibre.
pub struct Client {
    reader: BufReader<TcpStream>,
}

/// An answer of the server.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub closes: bool,
    pub body: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { reader: BufReader::new(stream) }
    }

    pub fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    pub fn send(&self, text: impl AsRef<[u8]>) {
        self.stream().write_all(text.as_ref()).unwrap();
    }

    pub fn ask(&self, path: &str) {
        self.send(request(path));
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Reads the head of an answer, and its body by the rule that the head names.
    pub fn read(&mut self) -> Answer {
        let status = self.line().split(' ').nth(1).expect("a status line").parse().unwrap();
        let (mut length, mut chunked, mut closes) = (0, false, false);
        loop {
            let line = self.line().to_ascii_lowercase();
            match line.split_once(": ") {
                Some(("content-length", value)) => length = value.parse().unwrap(),
                Some(("transfer-encoding", value)) => chunked = value == "chunked",
                Some(("connection", value)) => closes = value == "close",
                Some(_) => {}
                None => break,
            }
        }
        let mut body = Vec::new();
        if chunked {
            while self.chunk(&mut body) > 0 {}
        } else {
            body.resize(length, 0);
            self.reader.read_exact(&mut body).unwrap();
        }
        Answer { status, closes, body }
    }

    fn chunk(&mut self, body: &mut Vec<u8>) -> usize {
        let size = usize::from_str_radix(&self.line(), 16).unwrap();
        let begin = body.len();
        body.resize(begin + size, 0);
        self.reader.read_exact(&mut body[begin..]).unwrap();
        assert_eq!(self.line(), "", "a chunk ends with its line");
        size
    }

    /// Waits for bytes or the end. Returns whether the server has closed its end.
    pub fn is_at_end(&mut self) -> bool {
        self.reader.fill_buf().map_or(true, <[u8]>::is_empty)
    }
}

pub fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: here\r\n\r\n")
}

/// Returns the answer of [`echo`] to a `GET` of this path.
pub fn answer(path: &str) -> Answer {
    Answer { status: 200, closes: false, body: format!("you asked for {path}").into_bytes() }
}
