//! The HTTP that the lab's own servers and its load generator need, the same for all of them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::{Traffic, closed_by_server, connect};

/// The path of the fixed reply of `sinew web` and nginx. The lab's own servers send it for every
/// path.
pub const PLAINTEXT: &str = "/plaintext";

/// Room for the requests that a client sends at once.
pub const ROOM: usize = 1024;

const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, world!";
const LAST_REPLY: &[u8] =
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, world!";

/// Whether a connection stays after a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stay {
    Open,
    Close,
}

impl Stay {
    /// Returns the reply of the lab's own servers.
    pub fn reply(self) -> &'static [u8] {
        match self {
            Stay::Open => REPLY,
            Stay::Close => LAST_REPLY,
        }
    }

    pub fn request(self, path: &str) -> Vec<u8> {
        let close = if self == Stay::Close { "Connection: close\r\n" } else { "" };
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{close}\r\n").into_bytes()
    }
}

/// Returns the number of requests in the bytes, and where the last of them ends. A request
/// has no body, so it ends with an empty line.
#[inline]
pub fn requests(bytes: &[u8]) -> (usize, usize) {
    // Nearly always the bytes are one whole request.
    if bytes.ends_with(b"\r\n\r\n") && !bytes[..bytes.len() - 4].windows(4).any(|end| end == b"\r\n\r\n") {
        return (1, bytes.len());
    }
    let (mut count, mut end, mut at) = (0, 0, 0);
    while at + 4 <= bytes.len() {
        if &bytes[at..at + 4] == b"\r\n\r\n" {
            count += 1;
            end = at + 4;
            at = end;
        } else {
            at += 1;
        }
    }
    (count, end)
}

/// Returns the length of the reply that the bytes begin with, if its head is whole. A chunked
/// reply has to be whole itself.
fn length_of_reply(bytes: &[u8]) -> Option<usize> {
    let end = 4 + bytes.windows(4).position(|end| end == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    match head.lines().find_map(|line| line.strip_prefix("content-length:")) {
        Some(length) => Some(end + length.trim().parse::<usize>().ok()?),
        None => {
            const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";
            let at = bytes.windows(LAST_CHUNK.len()).position(|end| end == LAST_CHUNK)?;
            Some(at + LAST_CHUNK.len())
        }
    }
}

/// Asks once and reads the reply. Returns its length.
pub fn ask(stream: &mut TcpStream, request: &[u8]) -> io::Result<usize> {
    stream.write_all(request)?;
    let (mut reply, mut length) = (Vec::new(), None);
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Err(closed_by_server()),
            count => reply.extend_from_slice(&buffer[..count]),
        }
        length = length.or_else(|| length_of_reply(&reply));
        match length {
            Some(_) if !reply.starts_with(b"HTTP/1.1 200") => {
                let line = String::from_utf8_lossy(&reply).lines().next().unwrap_or_default().to_owned();
                return Err(io::Error::new(ErrorKind::InvalidData, format!("the server replies: {line}")));
            }
            Some(length) if reply.len() >= length => return Ok(length),
            _ => {}
        }
    }
}

/// Returns traffic that repeats one request. Asks once to learn the length of the reply.
pub fn traffic(address: SocketAddr, request: Vec<u8>) -> io::Result<Traffic> {
    let length = ask(&mut connect(address)?, &request)?;
    Ok(Box::new(move |_, bytes| {
        bytes.extend_from_slice(&request);
        length
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_has_the_length_that_its_head_says() {
        assert_eq!(length_of_reply(REPLY), Some(REPLY.len()));
        assert_eq!(length_of_reply(&REPLY[..REPLY.len() - 1]), Some(REPLY.len()));
        assert_eq!(length_of_reply(&REPLY[..20]), None);
    }

    #[test]
    fn a_chunked_reply_ends_with_an_empty_chunk() {
        let reply = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
        assert_eq!(length_of_reply(reply), Some(reply.len()));
        assert_eq!(length_of_reply(&reply[..reply.len() - 1]), None);
    }

    #[test]
    fn requests_end_with_empty_lines() {
        let request = Stay::Open.request("/");
        assert_eq!(requests(&request), (1, request.len()));
        assert_eq!(requests(&request[..request.len() - 1]), (0, 0));
        let mut several = request.repeat(3);
        several.extend_from_slice(b"GET");
        assert_eq!(requests(&several), (3, several.len() - 3));
    }
}
