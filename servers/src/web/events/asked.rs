//! A request that does not borrow its head, so that it can go from event to event.

use sinew_http_protocol::head::Field;
use sinew_http_protocol::{Body, Method, Request};

/// A request whose texts are places in its head.
#[derive(Clone, Copy)]
pub struct Asked {
    pub method: Method,
    pub body: Body,
    pub expects_continue: bool,
    /// The length of the head in bytes.
    pub length: usize,
    is_1_1: bool,
    keep_alive: bool,
    method_name: Part,
    target: Part,
    /// In the order of [`Asked::of`].
    fields: [Value; 9],
}

/// A part of a head. Heads are shorter than 64 KiB.
#[derive(Clone, Copy, Default)]
struct Part {
    begin: u16,
    end: u16,
}

#[derive(Clone, Copy)]
enum Value {
    Absent,
    Once(Part),
    Repeated,
}

const _: () = assert!(crate::web::LIMITS.head <= u16::MAX as usize);

impl Part {
    /// Returns the place of `text`, which lies in `head`.
    #[inline]
    fn of(text: &[u8], head: &[u8]) -> Part {
        let begin = text.as_ptr().addr() - head.as_ptr().addr();
        Part { begin: begin as u16, end: (begin + text.len()) as u16 }
    }

    #[inline]
    fn within(self, head: &[u8]) -> &[u8] {
        &head[self.begin.into()..self.end.into()]
    }

    #[inline]
    fn text(self, head: &[u8]) -> &str {
        str::from_utf8(self.within(head)).unwrap_or_default()
    }
}

impl Asked {
    /// No request.
    pub const NOTHING: Asked = Asked {
        method: Method::Other,
        body: Body::Length(0),
        expects_continue: false,
        length: 0,
        is_1_1: true,
        keep_alive: false,
        method_name: Part { begin: 0, end: 0 },
        target: Part { begin: 0, end: 0 },
        fields: [Value::Absent; 9],
    };

    /// Returns a request that was parsed from the beginning of `head`.
    #[inline]
    pub fn of(request: &Request<'_>, head: &[u8]) -> Asked {
        let value = |field| match field {
            Field::Absent => Value::Absent,
            Field::Once(text) => Value::Once(Part::of(text, head)),
            Field::Repeated => Value::Repeated,
        };
        Asked {
            method: request.method,
            body: request.body,
            expects_continue: request.expects_continue,
            length: request.length,
            is_1_1: request.is_1_1,
            keep_alive: request.keep_alive,
            method_name: Part::of(request.method_name.as_bytes(), head),
            target: Part::of(request.target.as_bytes(), head),
            fields: [
                value(request.if_match),
                value(request.if_none_match),
                value(request.if_modified_since),
                value(request.if_unmodified_since),
                value(request.if_range),
                value(request.range),
                value(request.accept_encoding),
                value(request.referer),
                value(request.user_agent),
            ],
        }
    }

    /// Returns the target.
    #[inline]
    pub fn target<'b>(&self, head: &'b [u8]) -> &'b str {
        self.target.text(head)
    }

    /// Returns the request again. `head` has the same bytes as before, perhaps at another place.
    #[inline]
    pub fn request<'b>(&self, head: &'b [u8]) -> Request<'b> {
        let [
            if_match,
            if_none_match,
            if_modified_since,
            if_unmodified_since,
            if_range,
            range,
            accept_encoding,
            referer,
            user_agent,
        ] = self.fields.map(|value| match value {
            Value::Absent => Field::Absent,
            Value::Once(part) => Field::Once(part.within(head)),
            Value::Repeated => Field::Repeated,
        });
        Request {
            method: self.method,
            method_name: self.method_name.text(head),
            target: self.target.text(head),
            is_1_1: self.is_1_1,
            keep_alive: self.keep_alive,
            body: self.body,
            expects_continue: self.expects_continue,
            if_match,
            if_none_match,
            if_modified_since,
            if_unmodified_since,
            if_range,
            range,
            accept_encoding,
            referer,
            user_agent,
            length: self.length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sinew_http_protocol::{Fields, parse};

    #[test]
    fn a_request_comes_back_as_it_was() {
        let text = b"GET /a?b HTTP/1.1\r\nHost: h\r\nIf-Match: \"1\"\r\nIf-None-Match: \"2\"\r\nIf-Range: \"3\"\r\n\
            If-Modified-Since: 4\r\nIf-Unmodified-Since: 5\r\nRange: bytes=6-\r\nAccept-Encoding: br\r\n\
            Referer: 8\r\nUser-Agent: 9\r\nUser-Agent: 10\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\nmore";
        let request = parse(text, &crate::web::LIMITS, &mut Fields::default()).unwrap().unwrap();
        let asked = Asked::of(&request, text);
        let moved = text[..request.length].to_vec();
        assert_eq!(format!("{:?}", asked.request(&moved)), format!("{request:?}"));
        assert_eq!(asked.target(&moved), "/a?b");
    }
}
