//! Requests that ask for a WebSocket.

use crate::head::MOST_FIELDS;
use crate::status::Status;
use httparse::EMPTY_HEADER;

/// The version of the protocol, the only one that is in use.
const VERSION: &[u8] = b"13";

/// The length of a key: 16 bytes in Base64.
const KEY: usize = 24;

/// The fields of a request that asks for a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upgrade<'b> {
    /// `Host`.
    pub host: &'b [u8],
    /// `Origin`: the page that asks. Clients that are no browsers leave it out.
    pub origin: Option<&'b [u8]>,
    /// `Sec-WebSocket-Key`.
    pub key: &'b [u8],
}

/// Reads what a head says about a WebSocket. `head` is one that [`parse`](crate::parse) has accepted.
///
/// # Errors
/// Returns the status of the answer: `UPGRADE_REQUIRED` if the request does not ask for a WebSocket of version 13,
/// `BAD_REQUEST` if it asks in a wrong way.
pub fn websocket(head: &[u8]) -> Result<Upgrade<'_>, Status> {
    let mut fields = [EMPTY_HEADER; MOST_FIELDS];
    let mut raw = httparse::Request::new(&mut fields);
    if !raw.parse(head).is_ok_and(|parsed| parsed.is_complete()) {
        return Err(Status::BAD_REQUEST);
    }
    let one = |name: &str| {
        let mut found = raw.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        match (found.next(), found.next()) {
            (field, None) => Ok(field.map(|field| field.value)),
            (_, Some(_)) => Err(Status::BAD_REQUEST),
        }
    };
    let has = |name: &str, token: &[u8]| {
        let named = raw.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        let mut tokens = named.flat_map(|field| field.value.split(|&byte| byte == b','));
        tokens.any(|found| found.trim_ascii().eq_ignore_ascii_case(token))
    };
    let is_asked = has("connection", b"upgrade") && has("upgrade", b"websocket");
    if !is_asked || one("sec-websocket-version")? != Some(VERSION) {
        return Err(Status::UPGRADE_REQUIRED);
    }
    match (one("host")?, one("sec-websocket-key")?) {
        (Some(host), Some(key)) if is_key(key) => Ok(Upgrade { host, origin: one("origin")?, key }),
        _ => Err(Status::BAD_REQUEST),
    }
}

fn is_key(key: &[u8]) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'+' || *byte == b'/';
    key.len() == KEY && key.ends_with(b"==") && key[..KEY - 2].iter().all(is_digit)
}

impl Upgrade<'_> {
    /// Returns whether the page that asks comes from the host that it asks. A request without `Origin` does not come
    /// from a page.
    pub fn is_same_origin(&self) -> bool {
        let Some(origin) = self.origin else { return true };
        let host = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
        host.is_some_and(|host| host.eq_ignore_ascii_case(self.host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "GET /ws HTTP/1.1\r\nHost: here:80\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n\
                        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

    #[test]
    fn a_request_for_a_websocket_is_understood() {
        let upgrade = websocket(GOOD.as_bytes()).unwrap();
        assert_eq!((upgrade.host, upgrade.origin), (&b"here:80"[..], None));
        assert_eq!(upgrade.key, b"dGhlIHNhbXBsZSBub25jZQ==");
    }

    #[test]
    fn other_requests_are_refused() {
        let with = |from: &str, to: &str| websocket(GOOD.replace(from, to).as_bytes()).map(drop);
        let required = Err(Status::UPGRADE_REQUIRED);
        assert_eq!(with("Upgrade: WebSocket", "Upgrade: h2c"), required);
        assert_eq!(with(", Upgrade", ""), required);
        assert_eq!(with("Version: 13", "Version: 8"), required);
        let bad = Err(Status::BAD_REQUEST);
        assert_eq!(with("dGhl", "dGh"), bad);
        assert_eq!(with("dGhl", "dG l"), bad);
        assert_eq!(with("Host: here:80\r\n", ""), bad);
        assert_eq!(
            with("Sec-WebSocket-Key: ", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Key: "),
            bad
        );
        assert_eq!(websocket(b"").map(drop), bad);
    }

    #[test]
    fn a_page_of_another_host_has_another_origin() {
        let from = |origin: &str| {
            let text = GOOD.replace("Upgrade: W", &format!("Origin: {origin}\r\nUpgrade: W"));
            websocket(text.as_bytes()).unwrap().is_same_origin()
        };
        assert!(from("http://here:80") && from("https://HERE:80"));
        assert!(!from("http://here") && !from("http://there:80") && !from("null") && !from("ftp://here:80"));
    }
}
