//! As much of HTTP as the servers and the generator need, the same for all.

pub const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, World!";

/// To a client that asks for nothing more.
pub const LAST_ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, World!";

pub const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

/// Room for what a client sends at once.
pub const ROOM: usize = 1024;

/// Whether connections stay after an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stay {
    Open,
    Close,
}

impl Stay {
    pub fn answer(self) -> &'static [u8] {
        match self {
            Stay::Open => ANSWER,
            Stay::Close => LAST_ANSWER,
        }
    }
}

/// How many requests there are in the bytes, and where the last of them ends. A request
/// has no body, so it ends with an empty line.
#[inline]
pub fn requests(bytes: &[u8]) -> (usize, usize) {
    // What comes is one whole request nearly always.
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
