//! `--metrics`: a door for Prometheus and others that collect what the runtime and the server count.
//!
//! It answers `GET /metrics` in HTTP/1.1, one request for each connection. A client costs little, whatever it does:
//! there are [`MOST`] connections at a time, each with [`PATIENCE`] for all of its request and answer, and a head of
//! [`LIMITS`].

use crate::message;
use crate::room::{Permit, Room};
use crate::serving::{self, Serve, listen_error};
use clap::Args;
use sinew::Scope;
use sinew::metrics::Metrics;
use sinew::net::{TcpListener, TcpStream};
use sinew_http_protocol::{Fields, Limits, Method, Request, Status, parse};
use std::fmt::{Display, Write as _};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown};
use std::time::Duration;

/// The largest number of connections at a time. Further clients wait to be accepted.
const MOST: u32 = 8;

/// The time that a connection has.
const PATIENCE: Duration = Duration::from_secs(5);

const LIMITS: Limits = Limits { head: 8 * 1024, target: 1024 };

/// The bytes that are read and discarded after an answer, so that it is not lost with a connection that the kernel
/// resets.
const DISCARDED: usize = 64 * 1024;

/// The option for metrics, the same in every server that has it.
#[derive(Args, Clone, Debug)]
pub struct MetricsOptions {
    /// Answer GET /metrics at this address, in the format of OpenMetrics, for Prometheus and others. A port alone is
    /// one of 127.0.0.1
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    pub metrics: Option<String>,
}

/// Parses an address to listen at. A port alone is a port of the loopback interface: metrics are for others only if
/// the user says so.
fn address(text: &str) -> Result<String, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(format!("{}:{port}", Ipv4Addr::LOCALHOST));
    }
    let is_complete = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok();
    match text.rsplit_once(':').is_some_and(is_complete) {
        true => Ok(text.to_owned()),
        false => Err("a port, or an address and a port".to_owned()),
    }
}

/// The door for metrics.
pub struct Window {
    listener: TcpListener,
    room: Room,
}

impl Window {
    /// Binds the address. Runs in a fibre.
    ///
    /// # Errors
    /// The error of the kernel, with the address.
    pub fn open(address: &str) -> io::Result<Window> {
        let listener = TcpListener::bind(address).map_err(|error| listen_error(&address, &error))?;
        Ok(Window { listener, room: Room::new(MOST, 1) })
    }

    /// Tells the user where the metrics are.
    pub fn announce(&self) {
        if let Ok(address) = self.listener.local_addr() {
            message::say(format_args!("metrics at http://{address}/metrics"));
        }
    }

    /// Accepts clients until the server stops.
    pub fn attend<'scope, S: Serve>(&'scope self, server: &'scope S, scope: &'scope Scope<'scope, '_>) {
        let admit = |permit: Permit, stream: TcpStream| {
            let session = move || {
                let _permit = permit;
                // Nobody is to be told of a client that leaves or is too slow.
                let _ = sinew::time::timeout(PATIENCE, || talk(server, stream));
            };
            serving::spawn(server, scope, sinew::FibreBuilder::new(), session);
        };
        serving::accept(server, self.listener.incoming(), || self.room.take(), admit);
    }
}

/// Answers one request.
fn talk<S: Serve>(server: &S, mut stream: TcpStream) -> io::Result<()> {
    let mut head = Vec::new();
    let answer = receive(&mut stream, &mut head)?;
    let answer = answer.map(|request| answer_to(server, &request)).unwrap_or_else(|status| sorry(status, true));
    stream.write_all(answer.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    io::copy(&mut stream.take(DISCARDED as u64), &mut io::sink())?;
    Ok(())
}

/// Receives the head of a request. Returns the status for one that cannot be understood.
fn receive<'b>(stream: &mut TcpStream, head: &'b mut Vec<u8>) -> io::Result<Result<Request<'b>, Status>> {
    let (mut piece, mut fields) = ([0; 1024], Fields::default());
    loop {
        match parse(head, &LIMITS, &mut fields) {
            Ok(None) => {}
            Ok(Some(_)) => break,
            Err(status) => return Ok(Err(status)),
        }
        let received = stream.read(&mut piece)?;
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&piece[..received]);
    }
    // Once more: a borrow that is returned from a loop would last for all of it.
    Ok(parse(head, &LIMITS, &mut fields).map(|request| request.expect("it was complete")))
}

fn answer_to<S: Serve>(server: &S, request: &Request<'_>) -> String {
    let with_body = request.method != Method::Head;
    let path = request.target.split('?').next().unwrap_or_default();
    if path != "/metrics" {
        return sorry(Status::NOT_FOUND, with_body);
    }
    if !matches!(request.method, Method::Get | Method::Head) {
        return answer(Status::METHOD_NOT_ALLOWED, "Allow: GET, HEAD\r\n", "text/plain", "", true);
    }
    let Some(metrics) = Metrics::current() else { return sorry(Status::INTERNAL_ERROR, with_body) };
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = metrics.write_openmetrics(&mut text);
    server.figures(&mut text);
    text.push_str("# EOF\n");
    answer(Status::OK, "Cache-Control: no-store\r\n", Metrics::OPENMETRICS_TYPE, &text, with_body)
}

fn sorry(status: Status, with_body: bool) -> String {
    let text = match status {
        Status::NOT_FOUND => "Metrics are at /metrics.\n".to_owned(),
        status => format!("{}\n", status.reason()),
    };
    answer(status, "", "text/plain", &text, with_body)
}

fn answer(status: Status, fields: &str, kind: &str, text: &str, with_body: bool) -> String {
    let mut answer = format!(
        "HTTP/1.1 {} {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{fields}Connection: close\r\n\r\n",
        status.0,
        status.reason(),
        text.len()
    );
    if with_body {
        answer.push_str(text);
    }
    answer
}

/// Writes a counter of a server. `name` is without `_total`.
pub fn counter(out: &mut String, name: &str, help: &str, value: impl Display) {
    let _ = write!(out, "# TYPE {name} counter\n# HELP {name} {help}\n{name}_total {value}\n");
}

/// Writes a number of a server that rises and falls.
pub fn gauge(out: &mut String, name: &str, help: &str, value: impl Display) {
    let _ = write!(out, "# TYPE {name} gauge\n# HELP {name} {help}\n{name} {value}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_the_loopback_interface() {
        assert_eq!(address("9100").as_deref(), Ok("127.0.0.1:9100"));
        assert_eq!(address("0").as_deref(), Ok("127.0.0.1:0"));
        assert_eq!(address("0.0.0.0:9100").as_deref(), Ok("0.0.0.0:9100"));
        assert_eq!(address("[::1]:9100").as_deref(), Ok("[::1]:9100"));
        for wrong in ["", ":9100", "localhost", "70000", "localhost:", "localhost:70000"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
