//! Answers over plain HTTP: the page to chat with, and the way to the WebSocket.

use super::Options;
use sinew_http_protocol::{Body, Method, Request, Status, upgrade};
use tungstenite::handshake::derive_accept_key;

/// The path of the WebSocket.
const SOCKET: &str = "/ws";

/// Nothing but the page's own files is loaded or run, and no other page may embed it.
const POLICY: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; \
                      connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'\r\nX-Content-Type-Options: nosniff\r\n\
                      Referrer-Policy: no-referrer\r\nCache-Control: no-cache\r\n";

/// The files of the page: path, type, content.
const FILES: [(&str, &str, &str); 3] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/script.js", "text/javascript; charset=utf-8", include_str!("page/script.js")),
];

/// An answer to a request.
pub struct Answer {
    pub bytes: Vec<u8>,
    pub after: After,
}

/// The step that follows an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Another request.
    Stay,
    /// Nothing: the connection is closed.
    Close,
    /// The connection is a WebSocket now.
    Socket,
}

/// Answers a request whose head is `head`.
pub fn answer(options: &Options, head: &[u8], request: &Request<'_>) -> Answer {
    let path = request.target.split('?').next().unwrap_or_default();
    let stay = request.keep_alive && request.body == Body::Length(0);
    let with_body = request.method != Method::Head;
    if request.body != Body::Length(0) {
        return status(Status::CONTENT_TOO_LARGE, "", with_body, false);
    }
    let file = FILES.iter().find(|(name, _, _)| *name == path);
    let is_read = matches!(request.method, Method::Get | Method::Head);
    match file {
        _ if file.is_none() && path != SOCKET => status(Status::NOT_FOUND, "", with_body, stay),
        _ if !is_read => status(Status::METHOD_NOT_ALLOWED, "Allow: GET, HEAD\r\n", with_body, stay),
        Some((_, kind, content)) => text(Status::OK, POLICY, kind, content, with_body, stay),
        None => socket(options, head, request),
    }
}

fn socket(options: &Options, head: &[u8], request: &Request<'_>) -> Answer {
    let upgrade = match upgrade::websocket(head) {
        Ok(upgrade) if request.method == Method::Get && request.is_1_1 => upgrade,
        Ok(_) => return status(Status::BAD_REQUEST, "", true, false),
        Err(refused) => return status(refused, "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n", true, false),
    };
    let is_named = || options.origin.iter().any(|origin| Some(origin.as_bytes()) == upgrade.origin);
    if !upgrade.is_same_origin() && !is_named() {
        return status(Status::FORBIDDEN, "", true, false);
    }
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\r\n",
        derive_accept_key(upgrade.key)
    );
    Answer { bytes: head.into_bytes(), after: After::Socket }
}

/// Answers with a status, and its name as text.
pub fn status(status: Status, fields: &str, with_body: bool, stay: bool) -> Answer {
    let content = format!("{} {}\n", status.0, status.reason());
    text(status, fields, "text/plain; charset=utf-8", &content, with_body, stay)
}

fn text(status: Status, fields: &str, kind: &str, content: &str, with_body: bool, stay: bool) -> Answer {
    let connection = if stay { "keep-alive" } else { "close" };
    let mut bytes = format!(
        "HTTP/1.1 {} {}\r\n{fields}Content-Type: {kind}\r\nContent-Length: {}\r\nConnection: {connection}\r\n\r\n",
        status.0,
        status.reason(),
        content.len()
    );
    if with_body {
        bytes += content;
    }
    Answer { bytes: bytes.into_bytes(), after: if stay { After::Stay } else { After::Close } }
}
